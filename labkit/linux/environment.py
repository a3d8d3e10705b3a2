"""What the machine is set to that moves packet rates; readers over a root folder that holds proc and sys.

Each raises OSError where a file is missing or unreadable and ValueError where it does not tell; both say why
a value is unknown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

CPUS: Final = "sys/devices/system/cpu"
DEVICES: Final = "sys/class/net"
ALL_PROTOCOLS: Final = 0x0003
"""ETH_P_ALL: the only protocol whose sockets see sent frames (`dev_queue_xmit_nit`, net/core/dev.c)."""


class SleepState(msgspec.Struct, frozen=True, kw_only=True):
    """Deepest idle state that is enabled on some CPU, the time to leave it, and who drives it."""

    name: str
    exit_usecs: int
    driver: str


def text(path: Path) -> str:
    """Content of a file without the blanks around it."""
    return path.read_text().strip()


def cpu_set(listed: str) -> frozenset[int]:
    """CPUs of a list such as ``0,2-3``; the kernel writes ``(null)`` or nothing for none."""
    found: set[int] = set()
    for part in filter(None, listed.strip().replace("(null)", "").split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def online_cpus(root: Path) -> frozenset[int]:
    """CPUs that run."""
    return cpu_set(text(root / CPUS / "online"))


def governors(root: Path, cpus: frozenset[int]) -> frozenset[tuple[str, str]]:
    """Each (governor, frequency driver) of `cpus`."""
    folders = [root / CPUS / f"cpu{cpu}" / "cpufreq" for cpu in sorted(cpus)]
    return frozenset(
        (text(folder / "scaling_governor"), text(folder / "scaling_driver")) for folder in folders
    )


def turbo(root: Path) -> bool:
    """Whether CPUs may run above their nominal frequency."""
    intel, others = root / CPUS / "intel_pstate/no_turbo", root / CPUS / "cpufreq/boost"
    return text(intel) == "0" if intel.exists() else text(others) == "1"


def deepest_sleep(root: Path, cpus: frozenset[int]) -> SleepState:
    """Enabled idle state that takes longest to leave."""
    driver = text(root / CPUS / "cpuidle/current_driver")
    states = [
        state
        for cpu in sorted(cpus)
        for state in (root / CPUS / f"cpu{cpu}" / "cpuidle").glob("state*")
        if text(state / "disable") == "0"
    ]
    if not states:
        raise ValueError(f"{CPUS}/cpu*/cpuidle: no idle state is told (cpuidle driver {driver})")
    exit_usecs, name = max((int(text(state / "latency")), text(state / "name")) for state in states)
    return SleepState(name=name, exit_usecs=exit_usecs, driver=driver)


def smt_active(root: Path) -> bool:
    """Whether two hardware threads share a core."""
    return text(root / CPUS / "smt/active") == "1"


def core_cpus(root: Path, cpu: int) -> frozenset[int]:
    """CPUs that are threads of the same core as `cpu`, itself among them."""
    return cpu_set(text(root / CPUS / f"cpu{cpu}/topology/thread_siblings_list"))


def isolated_cpus(root: Path) -> str:
    """CPUs that the scheduler leaves alone (isolcpus), as a list; empty for none."""
    return text(root / CPUS / "isolated").replace("(null)", "")


def tickless_cpus(root: Path) -> str:
    """CPUs that may run without a timer tick (nohz_full), as a list; empty for none or no such kernel."""
    told = root / CPUS / "nohz_full"
    told.parent.stat()
    return text(told).replace("(null)", "") if told.exists() else ""


def running_programs(root: Path) -> frozenset[str]:
    """Names of the running programs, cut to 15 characters (TASK_COMM_LEN)."""
    names = set()
    for told in (root / "proc").glob("[0-9]*/comm"):
        try:
            names.add(text(told))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    if not names:
        raise ValueError("proc: no process is told")
    return frozenset(names)


def mitigations(root: Path) -> tuple[str, ...]:
    """Names of the CPU vulnerabilities that the kernel works around."""
    folder = root / CPUS / "vulnerabilities"
    return tuple(sorted(told.name for told in folder.iterdir() if "Mitigation" in text(told)))


def netfilter_tables(root: Path) -> tuple[str, ...]:
    """Tables of iptables in this namespace; ``nf_tables`` where that module is in use on the machine."""
    found = []
    for name in ("ip", "ip6", "arp"):
        told = root / f"proc/net/{name}_tables_names"
        if told.exists():
            found += [f"{name}:{table}" for table in text(told).split()]
    for line in text(root / "proc/modules").splitlines():
        module, _, users, *_ = line.split()
        if module == "nf_tables" and int(users) > 0:
            found.append(module)
    return tuple(found)


def tracked_connections(root: Path) -> int | None:
    """Connections in the table of conntrack; None where the kernel has it not loaded."""
    told = root / "proc/sys/net/netfilter/nf_conntrack_count"
    (root / "proc/sys/net").stat()
    return int(text(told)) if told.exists() else None


def packet_taps(root: Path, device: str | None) -> int:
    """Packet sockets that get a copy of every frame, of `device` or, when None, of any."""
    wanted = None if device is None else {0, int(text(root / DEVICES / device / "ifindex"))}
    taps = 0
    for line in text(root / "proc/net/packet").splitlines()[1:]:
        _, _, _, protocol, index, running, *_ = line.split()
        hooked = int(protocol, 16) == ALL_PROTOCOLS and running == "1"
        taps += hooked and (wanted is None or int(index) in wanted)
    return taps


def load(root: Path) -> tuple[float, int]:
    """Load average of one minute, and threads that want to run now besides the reading one."""
    average, _, _, threads, *_ = text(root / "proc/loadavg").split()
    return float(average), max(int(threads.partition("/")[0]) - 1, 0)


def stolen_share(root: Path) -> float:
    """Share of the CPUs' time since boot that the hypervisor gave to others."""
    told = re.search(r"^cpu (.*)$", text(root / "proc/stat"), re.MULTILINE)
    # guest time, behind the first eight, is part of user time
    ticks = [int(each) for each in told[1].split()[:8]] if told else []
    if len(ticks) < 8 or not sum(ticks):
        raise ValueError("proc/stat: no steal time is told")
    return ticks[7] / sum(ticks)


def clock_source(root: Path) -> str:
    """Clock that the kernel reads the time from."""
    return text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def virtual_machine(root: Path) -> bool:
    """Whether a hypervisor runs this kernel."""
    if (root / "sys/hypervisor/type").exists():
        return True
    flags = re.search(r"^flags\s*:(.*)$", text(root / "proc/cpuinfo"), re.MULTILINE)
    if flags is None:
        raise ValueError("proc/cpuinfo: this architecture does not tell")
    return "hypervisor" in flags[1].split()


def has_device(root: Path, device: str) -> bool:
    """Whether there is such an interface in the namespace of this sysfs."""
    return "/" not in device and (root / DEVICES / device / "ifindex").exists()


def device_node(root: Path, device: str) -> int | None:
    """NUMA node of the device's slot; None where there is only one, or the device has no slot."""
    told = root / DEVICES / device / "device/numa_node"
    (root / DEVICES / device).stat()
    node = int(text(told)) if told.exists() else -1
    return None if node < 0 else node


def cpu_nodes(root: Path, cpus: frozenset[int]) -> frozenset[int]:
    """NUMA nodes of `cpus`."""
    found = [
        int(node.name.removeprefix("node"))
        for cpu in cpus
        for node in (root / CPUS / f"cpu{cpu}").glob("node[0-9]*")
    ]
    return frozenset(found)


def byte_limits(root: Path, device: str) -> tuple[int, int] | None:
    """Largest limit and smallest limit_max of BQL over the device's queues, in bytes; None without BQL."""
    queues = root / DEVICES / device / "queues"
    queues.stat()
    folders = sorted(queues.glob("tx-*/byte_queue_limits"))
    if not folders:
        return None
    limits = [int(text(folder / "limit")) for folder in folders]
    return max(limits), min(int(text(folder / "limit_max")) for folder in folders)
