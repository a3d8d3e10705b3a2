"""The kernel's packet generator as an engine: frames as commands, a device and a kernel thread a worker."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from labkit._native import Progress, StopFlag
from labkit.engines.base import EngineConfig, EngineReport, check
from labkit.engines.pktgen_asked import NETIF_RECEIVE, START_XMIT, commands_of, settings_of
from labkit.engines.pktgen_flow import differences, flow_commands, header_changes, is_mix, least_bytes
from labkit.engines.pktgen_run import OURS, Course, Device, Ended, devices_on
from labkit.engines.pktgen_told import DeviceTold, PktgenTold
from labkit.errors import LabError, WorkloadError
from labkit.linux.machine import kept_off
from labkit.linux.pktgen import THREAD, Files, Pktgen, ProcFiles
from labkit.linux.processes import Times, named, times_of
from labkit.linux.queues import tx_queues
from labkit.records import Frames
from labkit.units import NS_PER_S, NS_PER_US

MAX_BURST: Final = 1024
OF_THE_START: Final = ("queue_map_min", "queue_map_max")
"""What the kernel changes only as the device starts, with a warning in its log."""
SIZES: Final = ("imix_weights", "min_pkt_size")
"""Commands after which frames have several lengths."""

Accepted = list[tuple[str, str]]


class PktgenEngine:
    """Sends by the kernel's own threads, one on each worker's CPU; all workers run together.

    Parameters
    ----------
    files : callable
        Gives pktgen's folder.
    name_of : callable
        Name of the interface of a number.
    queues_of : callable
        How many queues an interface sends by; None where nothing tells.
    """

    name = "pktgen"
    default_batch = 1
    max_batch = MAX_BURST

    def __init__(
        self,
        files: Callable[[], Files] = ProcFiles,
        name_of: Callable[[int], str] = socket.if_indextoname,
        queues_of: Callable[[str], int | None] = tx_queues,
    ) -> None:
        self._files, self._name_of, self._queues_of = files, name_of, queues_of

    def usual_batch(self, frames: Frames) -> int:  # noqa: ARG002 - frames matter to gso alone
        """Burst when the workload names none."""
        return self.default_batch

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what is wrong with a request whatever the kernel would say."""
        check(self.name, self.max_batch, frames, config)
        settings_of(frames, config)
        flow_commands(frames)

    def run(self, frames: Frames, config: EngineConfig, stop: StopFlag, progress: Progress) -> EngineReport:
        """Send as `labkit.engines.base.Engine.run` says, from one thread."""
        return self.run_all(frames, [config], stop, [progress])[0]

    def run_all(
        self,
        frames: Frames,
        configs: Sequence[EngineConfig],
        stop: StopFlag,
        progresses: Sequence[Progress],
    ) -> list[EngineReport]:
        """Send from the threads of all workers' CPUs, and report what each did.

        Raises
        ------
        WorkloadError
            A request that makes no sense, or frames that pktgen does not build.
        CapabilityMissingError
            No module, not root, no thread for a CPU, or a device that cannot do what was asked.
        SettingRefusedError
            The kernel refused a command, with its words.
        RigBusyError
            Somebody else uses pktgen.
        LabError
            A device could not be added, did not start, or did not end.
        """
        for config in configs:
            self.check(frames, config)
        senders = [each for each, config in enumerate(configs) if config.count != 0]
        if not senders:
            return [_nothing(time.monotonic_ns(), configs[0]) for _ in configs]
        sent = self._sent(frames, configs, senders, stop, progresses)
        start_ns = min(report.start_ns for report in sent.values())
        return [sent.get(each) or _nothing(start_ns, config) for each, config in enumerate(configs)]

    def _sent(
        self,
        frames: Frames,
        configs: Sequence[EngineConfig],
        senders: Sequence[int],
        stop: StopFlag,
        progresses: Sequence[Progress],
    ) -> dict[int, EngineReport]:
        """Reports of the workers that have something to send."""
        cpus = [_cpu(configs[each]) for each in senders]
        devices = [self._device(configs[each], cpu) for each, cpu in zip(senders, cpus, strict=True)]
        files = self._files()
        with files.held(), kept_off(cpus):
            pktgen = Pktgen(files)
            with devices_on(pktgen, devices):
                runs = [
                    _Run(pktgen, device, frames, self._on_its_queue(configs[each], device))
                    for each, device in zip(senders, devices, strict=True)
                ]
                before = [_times(cpu) for cpu in cpus]
                ended = Course(
                    pktgen,
                    devices,
                    min((config.duration_ns for config in configs if config.duration_ns), default=None),
                    stop,
                    [progresses[each] for each in senders],
                    errors_count=runs[0].settings.xmit_mode != NETIF_RECEIVE,
                ).run()
                return {
                    each: run.report(end, busiest(first, _times(cpu)))
                    for each, run, cpu, first, end in zip(senders, runs, cpus, before, ended, strict=True)
                }

    def _device(self, config: EngineConfig, cpu: int) -> Device:
        try:
            interface = self._name_of(config.ifindex)
        except OSError as gone:
            raise LabError(
                f"pktgen: there is no interface number {config.ifindex} any more", errno=gone.errno
            ) from gone
        return Device(f"{interface}{OURS}{config.queue}", cpu, config.count)

    def _on_its_queue(self, config: EngineConfig, device: Device) -> EngineConfig:
        """With a queue that there is: of more workers than queues, several share one.

        The kernel would put all that are too many on the last queue, and warn of each in its log.
        """
        queues = self._queues_of(device.interface)
        return config if queues is None else msgspec.structs.replace(config, queue=config.queue % queues)


class _Run:
    """One device, set as its worker is asked."""

    def __init__(self, pktgen: Pktgen, device: Device, frames: Frames, config: EngineConfig) -> None:
        self.settings = settings_of(frames, config)
        self._device, self._frames, self._config = device, frames, config
        self._commands = commands_of(frames, config, self.settings)
        self._accepted: Accepted = []
        for asked in self._commands:
            accepted = pktgen.ask(device.name, asked)
            if accepted is not None:
                self._accepted.append((asked.line, accepted))

    def report(self, ended: Ended, times: Times | None) -> EngineReport:
        """What the device did, and what its thread took for it; without a word of that, its active time."""
        result, start_ns = ended.result, ended.text.started_us * NS_PER_US
        injects = self.settings.xmit_mode == NETIF_RECEIVE
        return EngineReport(
            sent=result.packets,
            refused=0 if injects else result.errors,
            refused_by_errno={},
            super_packets=None,
            partial_returns=0,
            calls=0,
            start_ns=start_ns,
            end_ns=start_ns + result.elapsed_ns,
            # it never sleeps while it sends
            cpu_ns=result.active_us * NS_PER_US if times is None else times.cpu_ns,
            waited_ns=None if times is None else times.waited_ns,
            involuntary_switches=0 if times is None else times.involuntary_switches,
            qdisc_bypass=self.settings.xmit_mode == START_XMIT,
            fatal_errno=None,
            ended_by=ended.ended_by,
            pktgen=PktgenTold(
                xmit_mode=self.settings.xmit_mode,
                clone_skb=self.settings.clone_skb,
                burst=self.settings.burst,
                commands=[asked.line for asked in self._commands],
                frames_differ=self._differences(),
                one_size=self._one_size(),
                devices=[self._told(ended)],
            ),
        )

    def _told(self, ended: Ended) -> DeviceTold:
        count, result = self._device.count, ended.result
        return DeviceTold(
            name=self._device.name,
            cpu=self._device.cpu,
            accepted=[*self._accepted, *self._changed_at_start(ended), *self._other_rate(ended)],
            size_bytes=self._size_bytes(ended),
            pps=result.pps,
            idle_ns=result.idle_us * NS_PER_US,
            errors=result.errors,
            beyond_count=0 if count is None else max(0, result.packets - count),
            early=_why_early(result.packets, count) if ended.early else None,
        )

    def _changed_at_start(self, ended: Ended) -> Accepted:
        last = {asked.command.name: asked for asked in self._commands}
        found = [
            (last[name].line, ended.text.params[name])
            for name in OF_THE_START
            if ended.text.params.get(name, last[name].value) != str(int(last[name].value))
        ]
        asked_bytes = self._frames.longest_bytes
        if self._one_size() and self._size_bytes(ended) > asked_bytes:
            found.append((f"frame_bytes {asked_bytes}", str(self._size_bytes(ended))))
        return found

    def _size_bytes(self, ended: Ended) -> int:
        """Length of the last frame: the result has the one that was asked, which headers may exceed."""
        return max(ended.result.size_bytes, least_bytes(self._commands))

    def _one_size(self) -> bool:
        asked = {asked.command.name for asked in self._commands}
        return not is_mix(self._frames) and asked.isdisjoint(SIZES)

    def _other_rate(self, ended: Ended) -> Accepted:
        """A rate whose gap is no whole number of nanoseconds."""
        asked_pps, gap_ns = self._config.rate_pps, int(ended.text.params["delay"])
        burst = self.settings.burst
        if asked_pps is None or not gap_ns or burst * NS_PER_S / gap_ns == asked_pps:
            return []
        what = "a frame" if burst == 1 else f"{burst} frames"
        return [(f"rate_pps {asked_pps:.10g}", f"{burst * NS_PER_S / gap_ns:.10g}, {what} each {gap_ns} ns")]

    def _differences(self) -> list[str]:
        found = differences(self._frames)
        together = max(1, self.settings.clone_skb) * self.settings.burst
        if together > 1 and header_changes(self._commands):
            found.append(f"what varies changes once in {together} frames, those of one buffer")
        return found


def _cpu(config: EngineConfig) -> int:
    if config.cpu is None:
        raise WorkloadError("pktgen: no CPU is named; its threads are one a CPU")
    return config.cpu


def _why_early(packets: int, count: int | None) -> str:
    of = f"{packets} frames" if count is None else f"{packets} of {count} frames"
    why = (
        "the link has no carrier or is down"
        if packets == 0
        else "the link lost its carrier or went down, or somebody stopped it"
    )
    return f"pktgen ended by itself after {of}: {why}"


def _times(cpu: int) -> dict[int, Times]:
    """Times of the threads of this CPU: each network namespace has one of the same name."""
    return times_of(named(f"{THREAD}{cpu}"))


def busiest(before: dict[int, Times], after: dict[int, Times]) -> Times | None:
    """What the thread took that took most, which is the one that sent; None where none is seen."""
    moved = [
        Times(*(getattr(after[pid], name) - getattr(first, name) for name in Times.__struct_fields__))
        for pid, first in before.items()
        if pid in after
    ]
    return max(moved, key=lambda times: times.cpu_ns, default=None)


def _nothing(start_ns: int, config: EngineConfig) -> EngineReport:
    """A worker that was asked for no frame: to pktgen a count of 0 is no end."""
    return EngineReport(
        sent=0,
        refused=0,
        refused_by_errno={},
        super_packets=None,
        partial_returns=0,
        calls=0,
        start_ns=start_ns,
        end_ns=start_ns,
        cpu_ns=0,
        involuntary_switches=0,
        qdisc_bypass=config.pktgen.xmit_mode in (None, START_XMIT),
        fatal_errno=None,
        ended_by="count",
    )
