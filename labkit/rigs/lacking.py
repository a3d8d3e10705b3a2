"""Why a kind of rig lacks what others have, in words, and which rig is the one to take. Pure data."""

from __future__ import annotations

from typing import Final

NO_BQL: Final = (
    "veth has no byte queue limits: its driver calls none of netdev_tx_sent_queue and its like, so that no "
    "queue of it has a byte_queue_limits folder to turn; take rig 'vm:e1000e', or 'sim:gianfar'"
)
NO_FAR_END: Final = (
    "a stream needs somebody to read it at the other end, which an interface of this machine does not give, "
    "and an address on it, which labkit would have to take from you; take rig 'veth'"
)
WHY: Final = {
    ("veth", "setting 'bql_limit_min'"): NO_BQL,
    ("veth", "setting 'bql_limit_max'"): NO_BQL,
    ("nic", "engine 'tcp'"): NO_FAR_END,
}
"""By the first part of a rig's name, and what it lacks."""


def why_not(rig: str, what: str) -> str | None:
    """Why rig `rig` has no `what`, where there is more to say than that."""
    return WHY.get((rig.partition(":")[0], what))
