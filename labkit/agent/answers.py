"""What an agent's answer is worth to who asked: the message that was due, or the error that it names."""

from __future__ import annotations

from typing import Final, TypeVar

import labkit.errors
from labkit.agent.protocol import Apply, Failed, Message, OpenDevice, OpenGuest, Restore, RestoreAll, Run
from labkit.agent.sampling import PROFILING_S
from labkit.errors import AgentLostError, LabError

M = TypeVar("M", bound=Message)
TURNING_S: Final = 60.0
"""Longest that settings take: some reset the link, which is awaited both forth and back (nic/apply.py)."""


def beside_of(request: Run) -> float:
    """What other programs take beside the run itself at the most, in seconds of who waits for them."""
    return PROFILING_S if request.profile else 0.0


def longest_of(request: Message) -> float:
    """Seconds that who asks may wait for `request`; one that turns settings waits for drivers and links."""
    return TURNING_S if isinstance(request, Apply | Restore | RestoreAll | OpenDevice | OpenGuest) else 0.0


def expected(answer: Message, kind: type[M]) -> M:
    """Return `answer` when it is a `kind`; raise what it tells when it is a failure."""
    if isinstance(answer, Failed):
        raise _error(answer)
    if not isinstance(answer, kind):
        raise LabError(
            f"agent answered {type(answer).__name__} where {kind.__name__} was due; run `make setup`"
        )
    return answer


def _error(failed: Failed) -> LabError:
    """The error of that name with the kernel's words; an unknown name is a plain LabError."""
    kind = getattr(labkit.errors, failed.kind, LabError)
    if not (isinstance(kind, type) and issubclass(kind, LabError)) or kind is AgentLostError:
        kind = LabError
    return kind(failed.message, errno=failed.errno, kernel_text=failed.kernel_text)
