"""How each other program is called: the only place that knows their command lines. Pure."""

from __future__ import annotations

import sys
from typing import Final

from labkit.records import Frames

SENDP: Final = """
import sys
from scapy.sendrecv import sendp
from scapy.utils import rdpcap
import scapy.layers.l2

interface, capture, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
frames = list(rdpcap(capture))
if not count:
    sendp(frames, iface=interface, loop=1, verbose=0)
rounds, rest = divmod(count, len(frames))
if rounds:
    sendp(frames, iface=interface, count=rounds, verbose=0)
if rest:
    sendp(frames[:rest], iface=interface, verbose=0)
"""
"""What the child of `sendp` runs: the frames of a capture, over and over or `count` in all."""

MIN_REPLAYED: Final = 1024
"""Frames of a capture that tcpreplay goes through without a pause: it looks after the file's end each time,
which costs 120 ns a frame with one frame a file (measured, 60-byte frames on veth)."""

IPERF3_PORT: Final = 5201
FOREVER_S: Final = 86_400
"""iperf3 has no endless run; the agent ends it long before."""


def trafgen(program: str, interface: str, config: str, cpu: int, count: int | None) -> list[str]:
    """Its fastest sensible options: its default way (a mapped ring, TPACKET_V2, no qdisc) on one CPU.

    --ring-size and --qdisc-path were tried and change nothing here beyond noise; --gap 0 sends nothing. It
    pins its n-th process to CPU n, so there is one for each CPU up to ours, and the packets name ours alone
    (`trafgen_config`): the others end at once. The sockets' limits and the interrupts stay as they are.
    """
    quiet = ["--no-sock-mem", "--notouch-irq", "--no-cpu-stats"]
    number = [] if count is None else ["--num", str(count)]
    return [program, "--dev", interface, "--conf", config, "--cpus", str(cpu + 1), *quiet, *number]


def trafgen_config(frames: Frames, cpu: int) -> str:
    """Every frame as constant bytes, sent by the process of `cpu`."""
    bodies = (", ".join(f"{byte:#04x}" for byte in frames.frame(index)) for index in range(len(frames)))
    return "".join(f"cpu({cpu}): {{ {body} }}\n" for body in bodies)


def tcpreplay(program: str, interface: str, capture: str, count: int | None) -> list[str]:
    """From memory, as fast as it can, over and over."""
    limit = [] if count is None else [f"--limit={count}"]
    return [program, f"--intf1={interface}", "--preload-pcap", "--topspeed", "--loop=0", *limit, capture]


def replayed(frames: Frames) -> list[bytes]:
    """The frames as often as it takes to be `MIN_REPLAYED`."""
    once = [frames.frame(index) for index in range(len(frames))]
    return once * -(-MIN_REPLAYED // len(once))


def sendp(interface: str, capture: str, count: int | None) -> list[str]:
    """Scapy in an interpreter of its own."""
    return [sys.executable, "-I", "-c", SENDP, interface, capture, str(count or 0)]


def bare(program: str, ifindex: int, cpu: int, batch: int, frame: bytes) -> list[str]:
    """A bare loop; it ends by itself after a day, long after the agent has ended it."""
    return [program, *map(str, (ifindex, cpu, batch, FOREVER_S * 1000, len(frame))), frame.hex()]


def iperf3_server(program: str, address: str) -> list[str]:
    """The receiving iperf3, for one client."""
    return [program, "--server", "--one-off", "--bind", address, "--port", str(IPERF3_PORT)]


def iperf3_stream(program: str, address: str, message_bytes: int) -> list[str]:
    """The sending iperf3: TCP, writes of `message_bytes`."""
    to = ["--client", address, "--port", str(IPERF3_PORT)]
    return [program, *to, "--length", str(message_bytes), "--time", str(FOREVER_S)]


def iperf3_client(program: str, address: str, payload_bytes: int) -> list[str]:
    """The sending iperf3: UDP, no pacing."""
    to = ["--client", address, "--port", str(IPERF3_PORT), "--udp"]
    return [program, *to, "--bitrate", "0", "--length", str(payload_bytes), "--time", str(FOREVER_S)]
