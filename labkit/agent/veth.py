"""The agent's side of the veth rig: two private network namespaces, a veth pair, and their counters."""

from __future__ import annotations

import contextlib
import errno
import functools
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from labkit._native import Progress
from labkit.agent.host import SETTLES_WITHIN_NS
from labkit.agent.peer_mode import PeerKnob
from labkit.agent.protocol import Opened, Run
from labkit.agent.queue_limits import ByteLimits, byte_limits, sysfs_here
from labkit.agent.readings import Reading
from labkit.agent.sinks import Place, Sink, receiving
from labkit.drivers.virtual import VETH as VETH_FACTS
from labkit.engines.iperf3 import FarEnd
from labkit.errors import CapabilityMissingError, LabError, WorkloadError, errno_name
from labkit.factors import RECEIVING_SINKS, Scalar
from labkit.linux import namespaces
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import NamedInterface
from labkit.linux.link_stats import LinkStats
from labkit.linux.links import LinkFacts, Links, QdiscCounts, switch_ipv6_off, veth_queue_counts
from labkit.linux.machine import softnet_dropped
from labkit.nic.apply import SettingsHost
from labkit.nic.ethtool_knobs import KnobOfEnds, ethtool_knobs
from labkit.nic.guard import change_list
from labkit.nic.journal import MemoryJournal
from labkit.nic.knob import Knob
from labkit.nic.link_knobs import End, knobs_of_ends
from labkit.nic.put_back import notes_of
from labkit.nic.queue_knobs import queue_knobs
from labkit.nic.sysctl_knobs import sysctl_knobs
from labkit.records import Frames, Privilege

SENDER, PEER, IFB = "veth0", "veth1", "ifb0"
# locally administered; the default flow goes to 02:00:00:00:00:02, which is none of these
SENDER_MAC, PEER_MAC, IFB_MAC = "02:6c:6b:00:00:00", "02:6c:6b:00:00:01", "02:6c:6b:00:00:02"
DEVICE_OF_SINK = {"stack": SENDER, "ifb": IFB, **dict.fromkeys(RECEIVING_SINKS, SENDER)}
# an ifb device counts what is sent to it as received, and drops it: that is what it is for
COUNTER_OF_DEVICE = {SENDER: "tx_packets", IFB: "rx_packets"}
CARRIER_WITHIN_S, CARRIER_STEP_S = 2.0, 0.001
SENDER_CHANNELS = ("rx_channels", "tx_channels")
SUPER_PACKETS = "tx_udp_segmentation"
"""Off, a super-packet of UDP segments leaves as its frames; on, these devices take it whole."""
TCP_LIMIT = "tcp_limit_output_bytes"
"""Of the sending namespace: the socket reads it there (net/ipv4/tcp_output.c, tcp_small_queue_check)."""
PEER_NAPI = ("napi_defer_hard_irqs", "gro_flush_timeout_ns")
PEER_FILES = ("threaded", *PEER_NAPI)
"""Settings of the receiving end, where a veth's NAPI runs."""
READS = 10
"""Most reads of a moment; a queue that is faster than that has no moment."""


class VethHost:
    """Owns the namespaces of one veth rig; they end with the process.

    Parameters
    ----------
    force_user_namespace : bool
        Use a user namespace even where the kernel would do without.
    """

    private = True
    settles_within_ns = SETTLES_WITHIN_NS
    keeps_time = True

    def __init__(self, *, force_user_namespace: bool) -> None:
        user_namespace = namespaces.enter_private_network(force_user_namespace=force_user_namespace)
        self.privilege: Privilege = "userns" if user_namespace else "root"
        self._peer_network = namespaces.new_network()
        with namespaces.inside(self._peer_network):
            self._peer_links, self._peer_stats, self._peer_ethtool = Links(), LinkStats(), Ethtool()
        self._links, self._stats, self._ethtool = Links(), LinkStats(), Ethtool()
        self._peer_sysfs, self._absent = self._find_sysfs()
        self._sysfs = sysfs_here()
        self._senders: list[End] = []
        self._ends: list[End] = []
        self._super_packets = KnobOfEnds(name=SUPER_PACKETS, knobs=[])
        self._knobs: dict[str, Knob] = knobs_of_ends(self._senders, self._ends)
        # nothing outlives this process, so memory is journal enough
        self._settings = SettingsHost(
            SENDER,
            self._knobs,
            MemoryJournal(),
            lambda: self._links.facts(SENDER).carrier,
            absent=self._absent,
        )
        self._indices: dict[str, int] = {}

    def build(self, *, peer_carrier: bool) -> None:
        """Make the pair, IPv6 off in both namespaces, and bring it up.

        Raises
        ------
        CapabilityMissingError
            The kernel has no veth, or gives a user namespace no power over its own network.
        """
        switch_ipv6_off()
        with namespaces.inside(self._peer_network):
            switch_ipv6_off()
        try:
            self._links.add_veth(SENDER, SENDER_MAC, PEER, PEER_MAC, self._peer_network)
        except LabError as refused:
            if refused.errno == errno.EPERM and self.privilege == "userns":
                what = "making a veth pair (RTM_NEWLINK)"
                raise namespaces.step_refused(what, refused.errno) from refused
            raise _no_module("veth", refused) from refused
        self._indices = {SENDER: self._links.index(SENDER), PEER: self._peer_links.index(PEER)}
        here, there = (NamedInterface(name, ifindex) for name, ifindex in self._indices.items())
        self._senders.append((self._links, here))
        self._ends.extend([(self._links, here), (self._peer_links, there)])
        sender = ethtool_knobs(self._ethtool, here, VETH_FACTS)
        peer = ethtool_knobs(self._peer_ethtool, there, VETH_FACTS)
        self._knobs.update({name: sender[name] for name in SENDER_CHANNELS if name in sender})
        if SUPER_PACKETS in sender:
            self._knobs[SUPER_PACKETS] = self._super_packets
            self._super_packets.knobs.append(sender[SUPER_PACKETS])
            self._super_packets.write(False)  # noqa: FBT003 - the value
        files = {} if self._peer_sysfs is None else queue_knobs(there, sys=self._peer_sysfs)
        self._knobs["peer"] = PeerKnob(
            gro=peer["gro"],
            threaded=files.get("threaded"),
            tso=sender["tso"],
            why_not_threaded=self._absent.get("threaded", "this kernel has none"),
        )
        self._knobs.update({name: files[name] for name in PEER_NAPI if name in files})
        self._knobs.update({name: knob for name, knob in sysctl_knobs().items() if name == TCP_LIMIT})
        self._links.set_up(SENDER, up=True)
        self._peer_links.set_up(PEER, up=peer_carrier)
        self._wait_operational(yes=peer_carrier)

    def look(self, sink: str) -> Opened:
        """State of the links that `sink` uses; an ifb device is made at its first use."""
        device = self._device(sink)
        return Opened(
            privilege=self.privilege,
            link=self._links.facts(device),
            peer=self._peer_links.facts(PEER) if device == SENDER else None,
            peer_counters=sorted(self._peer_stats.read(self._indices[PEER])) if device == SENDER else [],
            settings=self._settings.current(),
            driver="veth",
            interrupts=None,
            notes=[f"veth rig: no {', '.join(self._absent)}: {why}" for why in set(self._absent.values())],
        )

    def link(self, sink: str) -> LinkFacts:
        """State of the sending link alone."""
        return self._links.facts(self._device(sink))

    def counter(self, sink: str) -> tuple[str, str, str | None]:
        """Device and counter that say what left, and the device that says what arrived, if any."""
        device = self._device(sink)
        return device, COUNTER_OF_DEVICE[device], PEER if device == SENDER else None

    def preview(self, settings: Mapping[str, Scalar]) -> str:
        """What applying `settings` would do; a veth's link stays up."""
        self._settings.check(settings)
        return change_list(settings, self._settings.current(), {})

    def ifindex(self, sink: str) -> int:
        """Interface index that an engine sends on."""
        return self._indices[self._device(sink)]

    def far(self, sink: str) -> FarEnd | None:
        """The receiving end; an ifb device has none."""
        return FarEnd(self._peer_network, self._indices[PEER]) if self._device(sink) == SENDER else None

    def read(self, sink: str) -> Reading:
        """Raw counters now, of one moment: while a queue drains, read until nothing left it meanwhile."""
        device = self._device(sink)
        for _ in range(READS):
            qdisc = self._links.qdisc_counts(device)
            reading = self._read(device, qdisc)
            if not qdisc.queued or self._links.qdisc_counts(device) == qdisc:
                break
        return reading

    def _read(self, device: str, qdisc: QdiscCounts) -> Reading:
        peer: dict[str, int] = {}
        queues: dict[str, int] = {}
        if device == SENDER:
            with namespaces.inside(self._peer_network):
                queues = veth_queue_counts(PEER)
            peer = self._peer_stats.read(self._indices[PEER])
        return Reading(
            device=self._stats.read(self._indices[device]),
            peer=peer,
            peer_queue_dropped=queues.get("drops"),
            peer_napi_packets=queues.get("xdp_packets"),
            qdisc_dropped=qdisc.dropped,
            qdisc_queued=qdisc.queued,
            qdisc_requeued=qdisc.requeued,
            softnet_dropped=softnet_dropped(),
        )

    def empty_queue(self, sink: str) -> bool:
        """Throw away what an earlier run left in the qdisc; whether there was anything."""
        device = self._device(sink)
        queued = self._links.qdisc_counts(device).queued
        if queued:
            self._links.set_qdisc(device, self._links.qdisc(device))
        return queued > 0

    def read_links(self, sink: str) -> tuple[dict[str, int], dict[str, int]]:
        """Device and peer link counters alone: what a live sample can afford."""
        device = self._device(sink)
        peer = self._peer_stats.read(self._indices[PEER]) if device == SENDER else {}
        return self._stats.read(self._indices[device]), peer

    def byte_limits(self, sink: str) -> ByteLimits | None:
        """Byte queue limits of the sending device: a veth has none, an ifb device a directory."""
        return None if self._sysfs is None else byte_limits(self._device(sink), self._sysfs)

    def receiver(
        self, request: Run, frames: Frames, sender: Progress, sender_cpus: Sequence[int]
    ) -> AbstractContextManager[Sink | None]:
        """The sink of `request`, receiving at the peer within the block; None for one that only counts."""
        if request.sink not in RECEIVING_SINKS:
            return contextlib.nullcontext()
        place = Place(
            ifindex=self._indices[PEER],
            inside=functools.partial(namespaces.inside, self._peer_network),
            promiscuous=False,
        )
        return receiving(request, frames, sender, sender_cpus, place)

    def apply(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Turn `settings` on every device of the rig and read back everything; see `SettingsHost`."""
        return self._settings.apply(settings)

    def restore(self, level: int) -> list[str]:
        """Put back what every `apply` beyond the first `level` changed; nothing to do is nothing done."""
        return notes_of(self._settings.restore(level))

    def forget_originals(self) -> None:
        """Make what is in force now the state that `restore` leads back to."""
        self._settings.forget_originals()

    def close(self) -> None:
        """Close the sockets; the namespaces end with the process."""
        netlink = (self._links, self._stats, self._ethtool)
        for closable in (*netlink, self._peer_links, self._peer_stats, self._peer_ethtool):
            closable.close()

    def _find_sysfs(self) -> tuple[Path | None, dict[str, str]]:
        """The peer's sysfs; without one, the settings that the rig then lacks, with the reason."""
        try:
            return namespaces.sysfs_of(self._peer_network), {}
        except OSError as refused:
            kernel = f"{errno_name(refused.errno or 0)}: {refused.strerror}"
            why = f"mounting a sysfs of the receiving end is refused [{kernel}], as in a container"
            return None, dict.fromkeys(PEER_FILES, f"{why}; all else works without it")

    def _wait_operational(self, *, yes: bool) -> None:
        """Wait until the kernel has acted on the carrier: before, frames are lost without a count."""
        deadline = time.monotonic() + CARRIER_WITHIN_S
        while self._links.facts(SENDER).operational is not yes:
            if time.monotonic() > deadline:
                state = "come up" if yes else "go down"
                raise LabError(f"{SENDER} did not {state} within {CARRIER_WITHIN_S:g} s; open the rig again")
            time.sleep(CARRIER_STEP_S)

    def _device(self, sink: str) -> str:
        device = DEVICE_OF_SINK.get(sink)
        if device is None:
            raise WorkloadError(f"veth: no sink {sink!r}; known: {', '.join(sorted(DEVICE_OF_SINK))}")
        if device == IFB and IFB not in self._indices:
            try:
                self._links.add_ifb(IFB, IFB_MAC)
            except LabError as refused:
                raise _no_module("ifb", refused) from refused
            self._links.set_mtu(IFB, self._links.facts(SENDER).mtu)
            self._links.set_up(IFB, up=True)
            # its defaults are pfifo_fast and 32 packets; both sinks shall differ in the sink alone
            self._links.set_txqueuelen(IFB, self._links.facts(SENDER).txqueuelen)
            self._links.set_qdisc(IFB, self._links.qdisc(SENDER))
            self._indices[IFB] = self._links.index(IFB)
            ifb = NamedInterface(IFB, self._indices[IFB])
            if self._super_packets.knobs:
                whole = self._super_packets.read()
                self._super_packets.knobs.append(ethtool_knobs(self._ethtool, ifb, None)[SUPER_PACKETS])
                self._super_packets.write(whole)
            for ends in (self._senders, self._ends):
                ends.append((self._links, ifb))
        return device


def _no_module(kind: str, refused: LabError) -> CapabilityMissingError:
    return CapabilityMissingError(
        f"veth rig: this kernel makes no {kind} device; try `sudo modprobe {kind}`, or rig 'sim:ixgbe'",
        errno=refused.errno,
        kernel_text=refused.kernel_text,
    )
