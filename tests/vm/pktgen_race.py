"""Devices of pktgen's added, removed and written to by several processes at once, in a guest's kernel.

Run by a guest's Python as root; prints what each process met, and whether labkit's own run works behind it.
The kernel wants one controller at a time, and survives others only as long as nobody reads the file of a
device that is just going, or sets its burst: between the two lines of pktgen_remove_device (Linux 6.1) that
let the interface go and take the file away, pktgen_if_show and pktgen_if_write follow a null pointer to it.
labkit does neither: it looks for the file's name alone until it is gone. So do these racers.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path("/proc/net/pktgen")
COMMANDS = ("count 100", "pkt_size 60", "flag UDPSRC_RND", "imix_weights 60,7 576,4", "delay 5", "vlan_id 5")


def main(interface: str, seconds: str) -> None:
    """Race for so long, then send."""
    # here, for racers do without: an emulated CPU takes seconds for it
    from labkit._native import Progress, StopFlag
    from labkit.engines.base import EngineConfig
    from labkit.engines.pktgen import PktgenEngine
    from labkit.linux.kernel_log import KernelLog
    from labkit.traffic.flows import udp_flow

    bring_up(interface)
    log = KernelLog()
    log.warnings()
    cpus = sorted(int(path.name[9:]) for path in ROOT.glob("kpktgend_*"))
    racers = [
        subprocess.Popen(
            [sys.executable, "-I", __file__, interface, seconds, str(cpu), kind], stdout=subprocess.PIPE
        )
        for cpu in cpus
        for kind in KINDS
    ]
    met: Counter[str] = Counter()
    for racer in racers:
        met.update(json.loads(racer.communicate(timeout=float(seconds) + 60)[0]))
    (ROOT / "pgctrl").write_text("reset\n")
    config = EngineConfig(ifindex=socket.if_nametoindex(interface), batch=1, count=2000, cpu=cpus[0])
    report = PktgenEngine().run(udp_flow().table(), config, StopFlag(), Progress())
    told = [line for line in log.warnings() or [] if "pktgen" not in line]
    sys.stdout.write(json.dumps({"met": met, "sent": report.sent, "kernel_log": told}))


def bring_up(interface: str) -> None:
    """Give it a link; the other card has to have one as well, or the hub keeps every frame."""
    folder = Path("/sys/class/net")
    for name in ("eth0", "eth1"):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    deadline = time.monotonic() + 30
    while (folder / interface / "carrier").read_text().strip() != "1" and time.monotonic() < deadline:
        time.sleep(0.05)


def race(interface: str, seconds: str, cpu: str, kind: str) -> None:
    """One of the racers: the same act over and over."""
    met: Counter[str] = Counter()
    deadline = time.monotonic() + float(seconds)
    turn = 0
    while time.monotonic() < deadline:
        try:
            KINDS[kind](interface, int(cpu), turn)
            met[f"{kind} done"] += 1
        except OSError as refused:
            met[f"{kind}: {os.strerror(refused.errno or 0)}"] += 1
        turn += 1
    sys.stdout.write(json.dumps(met))


def adding(interface: str, cpu: int, turn: int) -> None:
    """Add a device that another thread may have as well."""
    (ROOT / f"kpktgend_{cpu}").write_text(f"add_device {interface}@race{turn % 3}\n")


def removing(interface: str, cpu: int, turn: int) -> None:
    """Mark all devices of a thread to be removed."""
    del interface, turn
    (ROOT / f"kpktgend_{cpu}").write_text("rem_device_all\n")


def writing(interface: str, cpu: int, turn: int) -> None:
    """Write to a device that may be going."""
    del cpu
    (ROOT / f"{interface}@race{turn % 3}").write_text(f"{COMMANDS[turn % len(COMMANDS)]}\n")


KINDS: Mapping[str, Callable[[str, int, int], None]] = {
    "add": adding,
    "remove": removing,
    "write": writing,
}

if __name__ == "__main__":
    (race if len(sys.argv) > 3 else main)(*sys.argv[1:])
