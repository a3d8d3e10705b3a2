"""What the event loop counted, as the raw readings that a device's agent would have made of the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from labkit.agent.protocol import Measured
from labkit.agent.queue_limits import ByteLimits
from labkit.agent.readings import Reading
from labkit.counters.interrupts import InterruptLine, Interrupts, counts_by_name, queue_interrupts
from labkit.drivers.facts import DriverFacts
from labkit.drivers.interrupt_names import ALL
from labkit.engines.base import EndedBy, EngineReport
from labkit.rigs.peer_counter import PeerRule
from labkit.rigs.simulated_device import DEVICE
from labkit.rigs.simulated_faults import Faults
from labkit.simnic.run import Simulated
from labkit.simnic.sender import Sender
from labkit.units import FCS_BYTES, NS_PER_S, line_rate_pps

LINK_COUNTERS: Final = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "tx_dropped", "rx_missed_errors")
STATISTICS: Final = {
    "tx_packets": "tx_packets",
    "tx_packets_nic": "tx_packets",
    "tx_bytes": "tx_bytes",
    "tx_bytes_nic": "tx_bytes_nic",
    "tx_dropped": "tx_dropped",
    "rx_dropped": "rx_dropped",
    "missed": "rx_missed_errors",
    "push_back": "restarts",
}
"""Count of the run that each meaning of a driver's statistics (`DriverFacts.counters`) tells."""

VECTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "gfar-enet": ("{device}_g{queue}_tx", "{device}_g{queue}_rx")
}
"""How drivers call a queue's interrupts, the sender's first; all others have one of both sides."""
SHARED_VECTOR: Final = ("{device}-TxRx-{queue}",)

STATISTIC_BITS, LINK_BITS = 32, 64
EARLIER: Final = 1000
"""What a counter that starts again has counted besides the run's own."""
FAR_END: Final = "the far end"


def counter_names(driver: DriverFacts) -> list[str]:
    """Counters of a simulated card: the link's, and its driver's statistics."""
    return list(dict.fromkeys([*LINK_COUNTERS, *(name for name, _ in _statistics(driver, {}))]))


def measurement(
    answer: Simulated,
    sender: Sender,
    driver: DriverFacts,
    faults: Faults,
    *,
    link_bits_per_s: float,
    ended_by: EndedBy,
    cpu: int,
    byte_limits: list[ByteLimits],
) -> tuple[Measured, PeerRule]:
    """The run's readings as a device's agent would report them, and what counts at the other end.

    Every counter starts at 0 unless a fault is to show.
    """
    counts = _counts(answer, sender)
    late = max(counts["queued"], _beyond_wire(answer, sender, counts["tx_packets"], link_bits_per_s))
    raised = _interrupts(answer, driver)
    link = {name: counts[name] for name in LINK_COUNTERS}
    statistics = dict(_statistics(driver, counts))
    first = {name: _before(name, moved, LINK_BITS, faults) for name, moved in link.items()}
    first_own = {name: _before(name, moved, STATISTIC_BITS, faults) for name, moved in statistics.items()}
    before = _reading(first, first_own, dict.fromkeys(raised, 0))
    after = _reading(
        {name: _after(name, first[name], moved, LINK_BITS, faults) for name, moved in link.items()},
        {
            name: _after(name, first_own[name], moved, STATISTIC_BITS, faults)
            for name, moved in statistics.items()
        },
        raised,
    )
    place, rule = _place(sender), PeerRule(counters=(), note="nothing counts behind the simulated wire")
    if sender.engine == "receive":
        rule = PeerRule(counters=("rx_packets",), note=None)
        before, after = (
            _at_receiver(reading, offered) for reading, offered in ((before, 0), (after, counts["offered"]))
        )
    elif sender.injects:
        rule = PeerRule(counters=(), note="the frames go up this machine's own receive path")
        before, after = (
            msgspec.structs.replace(reading, device={"processed": frames})
            for reading, frames in ((before, 0), (after, answer.sent))
        )
    measured = Measured(
        workers=[],
        report=_report(answer, sender, counts, ended_by),
        device=place[0],
        device_counter=place[1],
        peer_device=DEVICE if sender.engine == "receive" else None,
        before=before,
        at_end=_at_end(after, place[1], late),
        after=after,
        settled=True,
        carrier=not answer.carrier_lost,
        cpu=cpu,
        cpus_kept_awake=True,
        runqueue_wait_ns=0,
        steal_ns=0,
        kernel_warnings=[],
        byte_limits=byte_limits,
    )
    return measured, rule


def busy_ns(answer: Simulated, sender: Sender) -> int:
    """CPU time of all senders, their interrupts included; pktgen waits awake, others sleep."""
    asleep = ["idle_ps", "window_wait_ps"]
    if sender.engine != "pktgen":
        asleep += ["pacing_wait_ps", *(["ring_wait_ps"] if sender.through_qdisc else [])]
    spent = (lane["elapsed_ps"] - sum(lane[wait] for wait in asleep) for lane in answer.per_cpu)
    return round(sum(spent) / 1000)


def _counts(answer: Simulated, sender: Sender) -> dict[str, int]:
    """Totals of the run by labkit's own names."""
    sent = 0 if sender.injects or sender.engine == "receive" else answer.sent
    received = answer.received
    on_wire = sent * (sender.frame_bytes + FCS_BYTES)
    cleaned = sum(lane.get("cleaned", 0) for lane in answer.per_cpu)
    in_rings = round(answer.zones.waiting + answer.zones.uncleaned + answer.zones.free) * len(answer.per_cpu)
    return {
        "tx_packets": sent,
        "tx_bytes": sent * sender.frame_bytes,
        "tx_bytes_nic": on_wire,
        "tx_dropped": 0,
        "rx_packets": received,
        "rx_bytes": received * sender.frame_bytes,
        "rx_dropped": 0,
        "rx_missed_errors": answer.missed,
        "restarts": sum(lane.get("restarts", 0) for lane in answer.per_cpu),
        "offered": received + answer.missed,
        # what neither left nor fits a ring still waits in the qdisc as the sender ends
        "queued": max(0, sent - cleaned - in_rings) if sender.through_qdisc else 0,
    }


def _beyond_wire(answer: Simulated, sender: Sender, sent: int, link_bits_per_s: float) -> int:
    """Frames that such a wire cannot have carried before the sender ended: they left the ring later."""
    if not sent:
        return 0
    return max(
        0, sent - int(answer.elapsed_ns / NS_PER_S * line_rate_pps(sender.frame_bytes, link_bits_per_s))
    )


def _place(sender: Sender) -> tuple[str, str]:
    """Device and counter that say what was sent."""
    if sender.engine == "receive":
        return FAR_END, "tx_packets"
    return ("softnet", "processed") if sender.injects else (DEVICE, "tx_packets")


def _report(answer: Simulated, sender: Sender, counts: Mapping[str, int], ended_by: EndedBy) -> EngineReport:
    return EngineReport(
        sent=counts["offered"] if sender.engine == "receive" else answer.sent,
        refused=answer.refused,
        # packet_direct_xmit finds the queue stopped and says NETDEV_TX_BUSY, which net_xmit_errno turns
        refused_by_errno={"ENOBUFS": answer.refused} if answer.refused else {},
        super_packets=None,
        partial_returns=0,
        calls=sum(lane.get("calls", 0) for lane in answer.per_cpu),
        start_ns=0,
        end_ns=round(answer.elapsed_ns),
        cpu_ns=busy_ns(answer, sender),
        involuntary_switches=0,
        qdisc_bypass=not sender.through_qdisc,
        fatal_errno=None,
        ended_by=ended_by,
    )


def _statistics(driver: DriverFacts, counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """A driver's statistics under its own names; where several names make one meaning, the first has all."""
    found: dict[str, int] = {}
    for meaning, names in driver.counters.items():
        for place, name in enumerate(names):
            own = name.replace("{q}", "0")
            moved = counts.get(STATISTICS.get(meaning, ""), 0)
            found.setdefault(own, moved if place == 0 else 0)
    return list(found.items())


def _interrupts(answer: Simulated, driver: DriverFacts) -> dict[str, int]:
    """Interrupts of each queue, told from their names as on any machine."""
    names = VECTORS.get(driver.name, SHARED_VECTOR)
    lines: list[InterruptLine] = []
    for queue, both in enumerate(zip(answer.tx_interrupts, answer.rx_interrupts, strict=True)):
        raised = both if len(names) > 1 else (sum(both),)
        for name, count in zip(names, raised, strict=True):
            lines.append(_line(len(lines), name.format(device=DEVICE, queue=queue), count))
    file = Interrupts(cpus=(0,), lines=tuple(lines))
    queues = queue_interrupts(file, device=DEVICE, patterns=driver.interrupt_names or ALL) if lines else ()
    return counts_by_name(queues)


def _line(label: int, name: str, count: int) -> InterruptLine:
    return InterruptLine(label=str(label), counts=(count,), chip="PCI-MSI", names=(name,), description=None)


def _before(name: str, moved: int, bits: int, faults: Faults) -> int:
    if name in faults.wrap:
        return (1 << bits) - 1 - moved // 2
    return moved + EARLIER if name in faults.reset else 0


def _after(name: str, before: int, moved: int, bits: int, faults: Faults) -> int:
    if name in faults.reset and name not in faults.wrap:
        return moved // 2
    return (before + moved) % (1 << bits)


def _reading(link: dict[str, int], statistics: Mapping[str, int], interrupts: dict[str, int]) -> Reading:
    return Reading(
        device=link,
        peer={},
        peer_queue_dropped=None,
        qdisc_dropped=0,
        qdisc_queued=0,
        softnet_dropped=None,
        statistics=list(statistics.items()),
        interrupts=interrupts,
    )


def _at_receiver(reading: Reading, offered: int) -> Reading:
    """The same card as the place where frames of the far end arrive."""
    return msgspec.structs.replace(
        reading,
        device={"tx_packets": offered, "tx_dropped": 0},
        peer=reading.device,
        peer_queue_dropped=reading.device["rx_missed_errors"],
    )


def _at_end(after: Reading, counter: str, queued: int) -> dict[str, int]:
    return {**after.device, counter: max(0, after.device[counter] - queued)}
