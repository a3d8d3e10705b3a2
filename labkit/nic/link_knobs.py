"""Settings that a link has over rtnetlink: MTU, queue length, queueing discipline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from labkit.errors import SettingRefusedError
from labkit.factors import Scalar
from labkit.linux.interfaces import Interface
from labkit.linux.links import QDISC_KINDS, Links, Qdisc
from labkit.nic.knob import CompoundKnob, Knob, whole_number

End: TypeAlias = tuple[Links, Interface]
"""A namespace's links and one among them."""
UNSET = "-"


class MtuKnob:
    """Largest payload in bytes of every end of a wire; the first is the one that is read.

    Parameters
    ----------
    ends : sequence of End
        Kept and read at each use: an end that joins later is written as well.
    resets_link : bool
        Whether the driver takes the link down for it.
    """

    name = "mtu"

    def __init__(self, ends: Sequence[End], *, resets_link: bool = False) -> None:
        self._ends = ends
        self.resets_link = resets_link

    def read(self) -> Scalar:
        """MTU of the first end."""
        links, end = self._ends[0]
        return links.facts(end.name).mtu

    def write(self, value: Scalar) -> None:
        """Set the MTU of every end."""
        for links, end in self._ends:
            name = end.name
            links.set_mtu(name, whole_number(name, self.name, value))


class TxqueuelenKnob:
    """Queue length in packets that a qdisc added later takes as its limit."""

    name = "txqueuelen"
    resets_link = False

    def __init__(self, ends: Sequence[End]) -> None:
        self._ends = ends

    def read(self) -> Scalar:
        """Queue length of the first end."""
        links, end = self._ends[0]
        return links.facts(end.name).txqueuelen

    def write(self, value: Scalar) -> None:
        """Set the queue length of every end."""
        for links, end in self._ends:
            name = end.name
            links.set_txqueuelen(name, whole_number(name, self.name, value))


class QdiscKnob(CompoundKnob):
    """Root queueing discipline: kind, limit and rate as one text (``tbf 3000 1000000``, ``pfifo 100 -``).

    The kernel's own default, which comes back when ours is removed, is its kind alone: ``fq_codel``.
    """

    name = "qdisc"
    resets_link = False
    parts = ("qdisc", "qdisc_limit", "qdisc_rate_bps")

    def __init__(self, ends: Sequence[End]) -> None:
        self._ends = ends

    def read(self) -> Scalar:
        """Qdisc of the first end."""
        links, end = self._ends[0]
        name = end.name
        found = links.qdisc(name)
        if links.qdisc_is_default(name):
            return found.kind
        return _text(found)

    def write(self, value: Scalar) -> None:
        """Put a fresh qdisc on every end, or give the kernel's default back."""
        target, known = self.split(value), str(value).split()[0] in QDISC_KINDS
        for links, end in self._ends:
            if known:
                links.set_qdisc(end.name, _qdisc_of(target))
            else:
                links.remove_qdisc(end.name)

    def split(self, whole: Scalar) -> dict[str, Scalar]:
        """Kind, limit in the kind's own unit, rate in bits per second."""
        kind, limit, rate_bps = (*str(whole).split(), UNSET, UNSET)[:3]
        numbers = [None if word == UNSET else int(word) for word in (limit, rate_bps)]
        return dict(zip(self.parts, (kind, *numbers), strict=True))

    def joined(self, whole: Scalar, asked: Mapping[str, Scalar]) -> Scalar:
        """Where `asked` leads: a qdisc of another kind takes its own default limit."""
        before, where = self.split(whole), self._ends[0][1].name
        if " " in str(whole) and before["qdisc"] not in QDISC_KINDS:
            raise SettingRefusedError(
                f"{where}: somebody chose qdisc {before['qdisc']}, whose options labkit could not put back; "
                f"remove it first (tc qdisc del dev {where} root)"
            )
        fresh = {"qdisc_limit": None, "qdisc_rate_bps": None} if "qdisc" in asked else {}
        target = {**before, **fresh, **asked}
        _check(where, target)
        return _text(_qdisc_of(target))


def link_knobs(links: Links, interface: Interface, *, mtu_resets_link: bool = False) -> dict[str, Knob]:
    """Every knob of one link, in the order in which they are written."""
    return knobs_of_ends([(links, interface)], [(links, interface)], mtu_resets_link=mtu_resets_link)


def knobs_of_ends(
    senders: Sequence[End], ends: Sequence[End], *, mtu_resets_link: bool = False
) -> dict[str, Knob]:
    """Knobs of several devices that change together: queues at the senders, the MTU at all ends.

    The queue length comes before the qdisc, which takes it for its limit.
    """
    knobs = (MtuKnob(ends, resets_link=mtu_resets_link), TxqueuelenKnob(senders), QdiscKnob(senders))
    return {knob.name: knob for knob in knobs}


def _text(qdisc: Qdisc) -> str:
    numbers = (UNSET if value is None else str(value) for value in (qdisc.limit, qdisc.rate_bps))
    return " ".join((qdisc.kind, *numbers))


def _qdisc_of(target: Mapping[str, Scalar]) -> Qdisc:
    limit, rate_bps = target["qdisc_limit"], target["qdisc_rate_bps"]
    return Qdisc(
        kind=str(target["qdisc"]),
        limit=None if limit is None else whole_number("qdisc", "qdisc_limit", limit),
        rate_bps=None if rate_bps is None else whole_number("qdisc", "qdisc_rate_bps", rate_bps),
    )


def _check(where: str, target: Mapping[str, Scalar]) -> None:
    """Refuse parts that do not go together."""
    kind, limit, rate_bps = target["qdisc"], target["qdisc_limit"], target["qdisc_rate_bps"]
    if kind not in QDISC_KINDS:
        known = ", ".join(QDISC_KINDS)
        raise SettingRefusedError(f"{where}: qdisc {kind} cannot be made here; known: {known}")
    if kind == "noqueue" and limit is not None:
        raise SettingRefusedError(
            f"{where}: noqueue keeps no packet, so it has no limit; choose pfifo or bfifo"
        )
    if kind != "tbf" and rate_bps is not None:
        raise SettingRefusedError(f"{where}: qdisc {kind} has no rate; tbf has one")
    if kind == "tbf" and (limit is None or rate_bps is None):
        raise SettingRefusedError(
            f"{where}: qdisc tbf needs qdisc_limit (bytes) and qdisc_rate_bps (bits per second)"
        )
