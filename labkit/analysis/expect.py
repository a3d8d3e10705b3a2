"""What a change should bring, by the costs of its operations and the event loop, beside what it brought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from labkit.analysis.operations import OPERATIONS, changed_by, completed, costs, nanoseconds
from labkit.analysis.ring import SETTLED
from labkit.analysis.turns import frame_cost_ns, limit_of_answer
from labkit.errors import WorkloadError, listed
from labkit.factors import SETTING_NAMES, XMIT_MODES, Scalar, Settings
from labkit.simnic.loop import RECEIVED, simulate
from labkit.simnic.profile import Constant, Profile
from labkit.simnic.run import Share
from labkit.simnic.sender import Sender, terms
from labkit.simnic.settings import accepted

AS_EXPECTED_NS: Final = 1.0
"""Measured and expected differ by no more; ab_ndo_xmit_flush_conclusions.csv: 1.0 ns from boot to boot."""
AS_EXPECTED_SHARE: Final = 0.008
"""Also, of the whole time; one setting in two tables of ixgbe_ring_coalesce.csv differs by 0.79 %."""
SMALLEST_PART_NS: Final = 0.005

SENDER_CHANGES: Final[Mapping[str, type]] = {
    "batch": int,
    "clone_skb": int,
    "xmit_mode": str,
    "qdisc_bypass": bool,
    "frame_bytes": int,
}
"""What of the sender may change, and its kind."""
MOST_OPERATIONS: Final = 1e9
"""More, or less, of one operation a packet than this is a slip."""
LEAST: Final = {"batch": 1, "clone_skb": 0, "frame_bytes": 14}


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """A change's expected effect.

    Attributes
    ----------
    change : dict
        As asked for.
    where : str
        The machine and its settings before.
    before_ns, after_ns : float or None
        Time a packet by the event loop; None on a machine that has no profile.
    expected_ns : float
        Difference that is expected; below 0 is faster.
    operations_ns : float
        What the changed operations alone sum up to.
    parts : tuple of Share
        The difference by cause, each with its source; they add up to `expected_ns`.
    limited_before, limited_after : str or None
        What limits the loop; None on a machine that has no profile.
    measured_ns : float or None
        Difference that was measured, where it was given.
    """

    change: dict[str, Scalar]
    where: str
    before_ns: float | None
    after_ns: float | None
    expected_ns: float
    operations_ns: float
    parts: tuple[Share, ...]
    limited_before: str | None
    limited_after: str | None
    measured_ns: float | None

    @property
    def verdict(self) -> str:
        """One line: expected, seen, and what follows."""
        told = f"{self.expected_ns:+.1f} ns a packet expected"
        if abs(self.operations_ns - self.expected_ns) > AS_EXPECTED_NS:
            told += f" ({self.operations_ns:+.1f} by operations alone)"
        moved = self.limited_before != self.limited_after
        limit = f"; the limit moves from {self.limited_before} to {self.limited_after}" if moved else ""
        if self.measured_ns is None:
            return told + limit
        told += f", {self.measured_ns:+.1f} seen"
        near_ns = max(AS_EXPECTED_NS, AS_EXPECTED_SHARE * (self.before_ns or 0.0))
        if abs(self.measured_ns - self.expected_ns) <= near_ns:
            return f"{told}: as expected{limit}"
        less = abs(self.measured_ns) < abs(self.expected_ns) or self.measured_ns * self.expected_ns < 0
        return told + (": another limit" if less else ": more than these operations account for") + limit

    def text(self) -> str:
        """The verdict and its parts, a line each."""
        change = ", ".join(f"{name} {value}" for name, value in self.change.items())
        lines = [f"{change} on {self.where}: {self.verdict}"]
        if self.before_ns is not None and self.after_ns is not None:
            lines.append(f"  {self.before_ns:.1f} -> {self.after_ns:.1f} ns a packet by the event loop")
        return "\n".join(
            lines + [f"  {part.ns_per_packet:+8.2f}  {part.name} [{part.source}]" for part in self.parts]
        )

    def __repr__(self) -> str:
        return self.text()


def expect(
    change: Mapping[str, Scalar],
    *,
    profile: Profile | None,
    where: str,
    settings: Settings,
    sender: Sender,
    microcosts: Mapping[str, float] | None = None,
    measured_ns: float | None = None,
) -> Expectation:
    """What `change` should bring, in nanoseconds a packet.

    Parameters
    ----------
    change : mapping of str to scalar
        Operations that each packet has more or less (``{"lock": -2}``), new settings
        (``{"tx_ring": 1024}``), and what the sender does otherwise (``{"batch": 2}``, ``{"clone_skb": 0}``).
    profile : Profile or None
        The simulated machine; without one only operations count, at the cost of `microcosts`.
    where : str
        Its name, for people.
    settings : mapping of str to scalar
        In force before.
    sender : Sender
        What is sent before.
    microcosts : mapping of str to float or None
        Nanoseconds of single operations, measured on this machine; they go before all others.
    measured_ns : float or None
        Difference that was measured.

    Raises
    ------
    WorkloadError
        A name that is no operation, setting or property of a sender, or one without a known cost here.
    CapabilityMissingError, SettingRefusedError
        The machine lacks what is asked, or its driver refuses it.
    """
    if measured_ns is not None:
        nanoseconds("measured_ns", measured_ns)
    known = costs(profile, microcosts)
    shares = _operation_shares(change, known, where)
    told: dict[str, Any] = {"change": dict(change), "where": where, "measured_ns": measured_ns}
    if profile is None:
        return _without_profile(told, shares, where)
    more_ns = sum(share.ns_per_packet for share in shares)
    new_sender = msgspec.structs.replace(sender, **_sender_change(change))
    new_settings = {name: value for name, value in change.items() if name in SETTING_NAMES}
    old = _Side(completed(profile, sender), accepted(profile, settings), sender)
    machine = completed(profile, new_sender)
    new = _Side(
        changed_by(machine, new_sender, more_ns) if more_ns else machine,
        accepted(profile, {**settings, **new_settings}),
        new_sender,
    )
    return Expectation(
        **told,
        before_ns=old.total_ns,
        after_ns=new.total_ns,
        expected_ns=new.total_ns - old.total_ns,
        operations_ns=new.cost_ns - old.cost_ns,
        parts=(*shares, *_differences(old, new, more_ns)),
        limited_before=old.limit,
        limited_after=new.limit,
    )


class _Side:
    """The event loop's answer before or after the change."""

    def __init__(self, profile: Profile, settings: Settings, sender: Sender) -> None:
        answer = simulate(profile, settings, sender, SETTLED)
        self.shares = {share.name: share for share in answer.budget}
        self.total_ns = sum(share.ns_per_packet for share in answer.budget)
        receives = sender.engine == "receive"
        self.cost_ns = profile.value("receive_ns") if receives else frame_cost_ns(profile, sender)
        self.first = RECEIVED if receives else terms(profile, sender)[0].name
        self.limit = limit_of_answer(profile, settings, sender, answer)


def _differences(old: _Side, new: _Side, more_ns: float) -> tuple[Share, ...]:
    """Parts of the budget that changed, the operations themselves apart."""
    parts = []
    for name in dict.fromkeys([*old.shares, *new.shares]):
        now, then = new.shares.get(name), old.shares.get(name)
        moved = (now.ns_per_packet if now else 0.0) - (then.ns_per_packet if then else 0.0)
        moved -= more_ns if name == new.first else 0.0
        source = (now or then or Share(name=name, ns_per_packet=0.0, source="")).source
        if abs(moved) > SMALLEST_PART_NS:
            parts.append(Share(name=name, ns_per_packet=moved, source=source))
    return tuple(parts)


def _without_profile(told: dict[str, Any], shares: tuple[Share, ...], where: str) -> Expectation:
    """The operations' sum alone."""
    if len(shares) < len(told["change"]):
        raise WorkloadError(
            f"change {listed(list(told['change']))}: {where} has no profile, so only operations can be "
            "summed up, with its microcosts; take a simulated rig such as 'sim:ixgbe' for the rest"
        )
    total = sum(share.ns_per_packet for share in shares)
    told |= dict.fromkeys(("before_ns", "after_ns", "limited_before", "limited_after"))
    return Expectation(**told, expected_ns=total, operations_ns=total, parts=shares)


def _operation_shares(
    change: Mapping[str, Scalar], known: Mapping[str, Constant], where: str
) -> tuple[Share, ...]:
    shares = []
    for name, value in change.items():
        if name in known:
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not abs(value) <= MOST_OPERATIONS
            ):
                raise WorkloadError(f"change {name} {value!r}: give how many more a packet, as -2")
            cost = known[name]
            source = f"{cost.kind}: {cost.source}"
            shares.append(Share(name=f"{value:+g} {name}", ns_per_packet=value * cost.value, source=source))
        elif name in OPERATIONS:
            raise WorkloadError(
                f"change {name}: nobody measured what it costs on {where}; "
                f"give microcosts={{'{name}': NANOSECONDS}}"
            )
        elif name not in SETTING_NAMES and name not in SENDER_CHANGES:
            names = listed([*OPERATIONS, *SENDER_CHANGES])
            raise WorkloadError(f"change {name}: unknown; known: {names}, and settings as tx_ring")
    return tuple(shares)


def _sender_change(change: Mapping[str, Scalar]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind in SENDER_CHANGES.items():
        if name not in change:
            continue
        value = change[name]
        if type(value) is not kind:
            raise WorkloadError(f"change {name} {value!r}: give a value of kind {kind.__name__}")
        if isinstance(value, int) and not isinstance(value, bool) and value < LEAST[name]:
            raise WorkloadError(f"change {name} {value}: give {LEAST[name]} or more")
        found[name] = value
    if found.get("xmit_mode", XMIT_MODES[0]) not in XMIT_MODES:
        raise WorkloadError(f"change xmit_mode {found['xmit_mode']}: known: {listed(XMIT_MODES)}")
    return found
