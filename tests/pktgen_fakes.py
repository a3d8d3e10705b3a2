"""pktgen as a fake of its files: what two kernels answer, clamp and refuse, with or without an errno.

Written after the answers that Linux 6.1 and 6.12 gave (tests/unit/inputs/pktgen_*) and net/core/pktgen.c;
test_pktgen_text.py holds it against them.
"""

from __future__ import annotations

import contextlib
import errno
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from labkit.errors import RigBusyError

FLAGS_6_1 = (
    "IPSRC_RND, IPDST_RND, UDPSRC_RND, UDPDST_RND, MACSRC_RND, MACDST_RND, TXSIZE_RND, IPV6, MPLS_RND, "
    "VID_RND, SVID_RND, FLOW_SEQ, QUEUE_MAP_RND, QUEUE_MAP_CPU, UDPCSUM, NO_TIMESTAMP, IPSEC, NODE_ALLOC"
)
NAMES = (
    "IPV6 IPSRC_RND IPDST_RND TXSIZE_RND UDPSRC_RND UDPDST_RND UDPCSUM NO_TIMESTAMP MPLS_RND QUEUE_MAP_RND "
    "QUEUE_MAP_CPU FLOW_SEQ IPSEC MACSRC_RND MACDST_RND VID_RND SVID_RND NODE"
).split()
SHORTEST = 42
ENOTSUPP = 524
"""What both kernels say; later ones say EOPNOTSUPP."""
NUMBERS = dict.fromkeys(
    "count frags delay udp_src_min udp_src_max udp_dst_min udp_dst_max src_mac_count dst_mac_count flows "
    "flowlen spi debug".split(),
    10,
) | {"queue_map_min": 5, "queue_map_max": 5, "skb_priority": 9}
"""Plain numbers, and how many digits of each are read."""


class RefusedError(Exception):
    """A write that the kernel answers by an errno."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass
class Interface:
    """A device below pktgen."""

    up: bool = True
    carrier: bool = True
    ethernet: bool = True
    shares_buffers: bool = True
    queues: int = 1
    loses_carrier_after: int | None = None
    overshoots: bool = False


@dataclass
class FakeDevice:
    """One of pktgen's devices."""

    name: str
    kernel: str
    interface: Interface
    values: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    result: str = "Idle"
    sofar: int = 0
    errors: int = 0
    started_us: int = 0
    stopped_us: int = 0
    running: bool = False

    def number(self, name: str, default: int = 0) -> int:
        return int(self.values.get(name, default))

    def text(self) -> str:
        v, n = self.values, self.number
        lines = [
            f"Params: count {n('count', 1000)}  min_pkt_size: {n('min_pkt_size')}  "
            f"max_pkt_size: {n('max_pkt_size')}",
            *([f"     imix_weights: {v['imix_weights']} "] if "imix_weights" in v else []),
            f"     frags: {n('frags')}  delay: {n('delay')}  clone_skb: {n('clone_skb')}  "
            f"ifname: {self.name}",
            f"     flows: {n('flows')} flowlen: {n('flowlen')}",
            f"     queue_map_min: {n('queue_map_min')}  queue_map_max: {n('queue_map_max')}",
            f"     dst_min: {v.get('dst_min', '')}  dst_max: {v.get('dst_max', '')}",
            f"     src_min: {v.get('src_min', '')}  src_max: {v.get('src_max', '')}",
            f"     src_mac: {v.get('src_mac', '02:00:00:00:00:01')} "
            f"dst_mac: {v.get('dst_mac', '00:00:00:00:00:00')}",
            f"     udp_src_min: {n('udp_src_min', 9)}  udp_src_max: {n('udp_src_max', 9)}  "
            f"udp_dst_min: {n('udp_dst_min', 9)}  udp_dst_max: {n('udp_dst_max', 9)}",
            f"     src_mac_count: {n('src_mac_count')}  dst_mac_count: {n('dst_mac_count')}",
            *([f"     vlan_id: {v['vlan_id']}  vlan_p: 0  vlan_cfi: 0"] if "vlan_id" in v else []),
            *([f"     svlan_id: {v['svlan_id']}  vlan_p: 0  vlan_cfi: 0"] if "svlan_id" in v else []),
            *([f"     burst: {v['burst']}"] if n("burst", 1) > 1 else []),
            f"     Flags: {''.join(f'{flag}  ' for flag in sorted(self.flags))}",
            "Current:",
            f"     pkts-sofar: {self.sofar}  errors: {self.errors}",
            f"     started: {self.started_us}us  stopped: {self.stopped_us}us idle: 7us",
            f"     seq_num: {self.sofar + 1}  cur_dst_mac_offset: 0  cur_src_mac_offset: 0",
            "     cur_saddr: 0.0.0.0  cur_daddr: 0.0.0.0",
            "     cur_udp_dst: 0  cur_udp_src: 0",
            "     cur_queue_map: 0",
            "     flows: 0",
            f"Result: {self.result}",
        ]
        return "\n".join(lines) + "\n"

    def command(self, text: str) -> int | None:
        """Answer as pktgen_if_write does; bytes taken where these are not all."""
        name, _, rest = re.split(r"([\s=]+)", f"{text} ", maxsplit=1)
        value = rest.strip()
        if name in NUMBERS:
            self.told(name, str(leading(value, NUMBERS[name])))
            return None
        method = getattr(self, f"do_{name}", None)
        if method is None:
            self.result = f'No such parameter "{name}"'
            raise RefusedError(errno.EINVAL)
        taken: int | None = method(value)
        return taken

    def told(self, name: str, value: str) -> None:
        self.values[name] = value
        self.result = f"OK: {name}={value}"

    def do_pkt_size(self, value: str) -> None:
        size = str(max(leading(value, 10), SHORTEST))
        self.values |= {"min_pkt_size": size, "max_pkt_size": size}
        self.result = f"OK: pkt_size={size}"

    def do_min_pkt_size(self, value: str) -> None:
        self.told("min_pkt_size", str(max(leading(value, 10), SHORTEST)))

    def do_imix_weights(self, value: str) -> None:
        pairs = value.split(" ")
        if self.number("clone_skb"):
            raise RefusedError(errno.EINVAL)
        if len(pairs) > 20:
            raise RefusedError(errno.E2BIG)
        told = [pair.split(",") for pair in pairs]
        self.values["imix_weights"] = " ".join(f"{max(int(s), SHORTEST)},{w}" for s, w in told)

    def do_clone_skb(self, value: str) -> None:
        number = leading(value, 10)
        if number and (self.mode == "netif_receive" or not self.interface.shares_buffers):
            raise RefusedError(ENOTSUPP)
        if number and ("imix_weights" in self.values or self.unshared):
            raise RefusedError(errno.EINVAL)
        self.told("clone_skb", str(number))

    def do_burst(self, value: str) -> None:
        number = max(1, leading(value, 10))
        if number > 1 and (
            self.mode == "queue_xmit" or (self.mode == "start_xmit" and not self.interface.shares_buffers)
        ):
            raise RefusedError(ENOTSUPP)
        if number > 1 and self.unshared:
            raise RefusedError(errno.EINVAL)
        self.told("burst", str(number))

    def do_ratep(self, value: str) -> int | None:
        number = leading(value, 10)
        if not number:
            return len(value)
        self.values["delay"] = str(10**9 // number)
        self.result = f"OK: rate={number}"
        return None

    def do_rate(self, value: str) -> int | None:
        return self.do_ratep(value)

    def do_xmit_mode(self, value: str) -> None:
        if value not in ("start_xmit", "netif_receive", "queue_xmit"):
            self.result = f"xmit_mode -:{value}:- unknown\nAvailable modes: start_xmit, netif_receive\n"
            return
        if value == "netif_receive" and self.number("clone_skb"):
            raise RefusedError(ENOTSUPP)
        self.told("xmit_mode", value)

    def do_flag(self, value: str) -> None:
        name, off = value.removeprefix("!"), value.startswith("!")
        known = [*NAMES, *(["SHARED"] if self.kernel == "6.12" else [])]
        if name not in (*known, "FLOW_RND") or value == "IPV6":
            listed = ", ".join(known) if self.kernel == "6.12" else f"{FLAGS_6_1}\n"
            self.result = f"Flag -:{value}:- unknown\nAvailable flags, (prepend ! to un-set flag):\n{listed}"
            return
        if value == "!SHARED" and (self.number("clone_skb") or self.number("burst", 1) > 1):
            raise RefusedError(errno.EINVAL)
        (self.flags.discard if off else self.flags.add)(name)
        bits = sum(1 << known.index(flag) for flag in self.flags if flag in known)
        self.result = f"OK: flags=0x{bits:x}"

    def do_dst(self, value: str) -> None:
        self.told("dst_min", value)

    def do_dst_min(self, value: str) -> None:
        self.told("dst_min", value)

    def do_dst_max(self, value: str) -> None:
        self.told("dst_max", value)

    def do_src_min(self, value: str) -> None:
        self.told("src_min", value)

    def do_src_max(self, value: str) -> None:
        self.told("src_max", value)

    def do_dst_mac(self, value: str) -> None:
        self._mac("dst", value)

    def do_src_mac(self, value: str) -> None:
        self._mac("src", value)

    def _mac(self, end: str, value: str) -> None:
        if not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", value):
            raise RefusedError(errno.EINVAL)
        self.values[f"{end}_mac"] = value
        self.result = f"OK: {end}mac {value}"

    def do_vlan_id(self, value: str) -> None:
        if leading(value, 4) > 4095:
            self._untag()
            return
        self.told("vlan_id", str(leading(value, 4)))

    def do_svlan_id(self, value: str) -> None:
        if leading(value, 4) > 4095 or "vlan_id" not in self.values:
            self._untag()
            return
        self.told("svlan_id", str(leading(value, 4)))

    def _untag(self) -> None:
        for name in ("vlan_id", "svlan_id"):
            self.values.pop(name, None)

    def do_vlan_p(self, value: str) -> None:
        if "vlan_id" in self.values:
            self.result = f"OK: vlan_p={leading(value, 1)}"
        else:
            self.result = "ERROR: vlan_p must be 0-7"

    def do_vlan_cfi(self, value: str) -> None:
        if "vlan_id" in self.values:
            self.result = f"OK: vlan_cfi={leading(value, 1)}"
        else:
            self.result = "ERROR: vlan_cfi must be 0-1"

    def do_tos(self, value: str) -> None:
        found = re.match("[0-9a-fA-F]{0,2}", value)
        digits = found[0] if found else ""
        self.result = f"OK: tos=0x{digits}" if len(digits) == 2 else "ERROR: tos must be 00-ff"

    def do_node(self, value: str) -> None:
        node = leading(value, 10)
        self.result = f"OK: node={node}" if node == 0 else "ERROR: node not possible"

    def do_clear_counters(self, value: str) -> None:
        del value
        self.result = "OK: Clearing counters.\n"

    @property
    def mode(self) -> str:
        return self.values.get("xmit_mode", "start_xmit")

    @property
    def unshared(self) -> bool:
        return self.kernel == "6.12" and "SHARED" not in self.flags

    def start(self) -> None:
        for name in ("queue_map_min", "queue_map_max"):
            if self.number(name) >= self.interface.queues:
                self.values[name] = str(self.interface.queues - 1)
        self.sofar = self.errors = 0
        self.started_us, self.running, self.result = now_us(), True, "Starting"
        if not (self.interface.up and self.interface.carrier):
            self.stop()
        elif self.interface.loses_carrier_after is not None:
            self.sofar = self.interface.loses_carrier_after
            self.stop()
        elif self.number("count", 1000):
            burst = self.number("burst", 1)
            self.sofar = self.number("count", 1000) + (burst - 1 if self.interface.overshoots else 0)
            self.stop()

    def stop(self) -> None:
        """What pktgen_stop_device and show_results leave behind."""
        self.running = False
        self.stopped_us = max(now_us(), self.started_us + 100)
        if self.mode == "netif_receive":
            self.errors = self.sofar
        elapsed = self.stopped_us - self.started_us
        pps = self.sofar * 10**6 // elapsed
        size = self.number("min_pkt_size")  # what was asked, whatever left
        frags = 0 if self.sofar else -1
        self.result = (
            f"OK: {elapsed}(c{elapsed - 7}+d7) usec, {self.sofar} "
            f"({size}byte,{frags}frags)\n"
            f"  {pps}pps {pps * size * 8 // 10**6}Mb/sec ({pps * size * 8}bps) errors: {self.errors}"
        )


class FakePktgen:
    """pktgen's folder.

    Parameters
    ----------
    kernel : str
        Whose answers: ``6.1`` or ``6.12``.
    cpus : sequence of int
        CPUs that have a thread.
    **interfaces : Interface
        What can be added.
    """

    def __init__(self, kernel: str = "6.1", cpus: tuple[int, ...] = (0, 1), **interfaces: Interface) -> None:
        self.kernel = kernel
        self.interfaces = interfaces or {"eth0": Interface()}
        self.threads: dict[int, list[FakeDevice]] = {cpu: [] for cpu in cpus}
        self.results = dict.fromkeys(cpus, "NA")
        self.written: list[tuple[str, str]] = []
        self.going: list[FakeDevice] = []
        self.looks_until_gone = 2
        self.never_starts = False
        self.after_start: list[str] = []
        self._changed = threading.Condition()
        self._lock = threading.Lock()

    @property
    def devices(self) -> dict[str, FakeDevice]:
        """All that have a file."""
        found = [device for devices in self.threads.values() for device in devices]
        return {device.name: device for device in [*found, *self.going]}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise RigBusyError("pktgen: another laboratory sends")
        try:
            yield
        finally:
            self._lock.release()

    def names(self) -> list[str]:
        found = ["pgctrl", *(f"kpktgend_{cpu}" for cpu in self.threads), *self.devices]
        if self.going:
            self.looks_until_gone -= 1
            if self.looks_until_gone <= 0:
                self.going, self.looks_until_gone = [], 2
        return sorted(found)

    def read(self, name: str) -> str:
        if name == "pgctrl":
            return "Packet Generator for packet performance testing. Version: 2.75\n"
        if name.startswith("kpktgend_"):
            cpu = int(name.removeprefix("kpktgend_"))
            running = "".join(f"{each.name} " for each in self.threads[cpu] if each.running)
            stopped = "".join(f"{each.name} " for each in self.threads[cpu] if not each.running)
            return f"Running: {running}\nStopped: {stopped}\nResult: {self.results[cpu]}\n"
        if name not in self.devices:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        if self.devices[name] in self.going:
            raise AssertionError(f"{name} was read as it went, which a kernel does not survive")
        device = self.devices[name]
        if device.running:
            device.sofar += 100
            device.stopped_us = now_us()
        return device.text()

    def write(self, name: str, text: bytes) -> int:
        line = text.decode()
        if not line.endswith("\n"):
            raise AssertionError(f"{line!r} without a newline: the kernel cuts its last character off")
        self.written.append((name, line.rstrip("\n")))
        try:
            taken = self._do(name, line.rstrip("\n"))
        except RefusedError as refused:
            raise OSError(refused.number, "refused", name) from refused
        return len(text) if taken is None else taken

    def _do(self, name: str, line: str) -> int | None:
        if name == "pgctrl":
            return self._control(line)
        if name.startswith("kpktgend_"):
            cpu = int(name.removeprefix("kpktgend_"))
            if cpu not in self.threads:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
            return self._thread(cpu, line)
        if name not in self.devices:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        if self.devices[name] in self.going:
            raise AssertionError(f"{name} was written to as it went")
        return self.devices[name].command(line)

    def _thread(self, cpu: int, line: str) -> None:
        word, _, name = line.partition(" ")
        if word == "rem_device_all":
            self.going += self.threads[cpu]
            self.threads[cpu] = []
            self.results[cpu] = "OK: rem_device_all"
            return
        self.results[cpu] = f"ERROR: can not add device {name}"
        interface = self.interfaces.get(name.partition("@")[0])
        if any(device.name == name for devices in self.threads.values() for device in devices):
            raise RefusedError(errno.EBUSY)
        if self.going:
            raise AssertionError("a device was added while others were going")
        if interface is None:
            raise RefusedError(errno.ENODEV)
        if not interface.ethernet:
            raise RefusedError(errno.EINVAL)
        if not interface.up:
            raise RefusedError(errno.ENETDOWN)
        device = FakeDevice(name, self.kernel, interface)
        device.flags |= {"SHARED"} if self.kernel == "6.12" else set()
        self.threads[cpu].append(device)
        self.results[cpu] = f"OK: add_device={name}"

    def _control(self, word: str) -> None:
        if word not in ("start", "stop"):
            raise RefusedError(errno.EINVAL)
        with self._changed:
            (self._start if word == "start" else self._stop)()

    def _stop(self) -> None:
        for device in self.devices.values():
            if device.running:
                device.stop()
        self._changed.notify_all()

    def _start(self) -> None:
        if self.never_starts:
            self._changed.wait(60)
            return
        for device in self.devices.values():
            device.start()
        for act in self.after_start:
            getattr(self, act)()
        while any(device.running for device in self.devices.values()):
            if not self._changed.wait(60):
                raise AssertionError("nobody stopped the run")

    def lose_the_interface(self) -> None:
        """Take all devices away, as the removal of their interface does."""
        self.threads = {cpu: [] for cpu in self.threads}

    def stop_of_somebody_else(self) -> None:
        """End the run as another process would that writes `stop`."""
        for device in self.devices.values():
            device.sofar = 4711
            device.stop()


def leading(text: str, digits: int) -> int:
    """The number at the start of `text`, as num_arg reads it; 0 where there is none."""
    found = re.match(rf"\d{{0,{digits}}}", text)
    return int(found[0]) if found and found[0] else 0


def now_us() -> int:
    """CLOCK_MONOTONIC in microseconds."""
    return time.monotonic_ns() // 1000
