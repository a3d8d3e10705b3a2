"""Options that several commands share, and what they say as values, rigs and traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from labkit.errors import WorkloadError
from labkit.records import Traffic
from labkit.rigs.base import Rig

Command = TypeVar("Command", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, all else on stderr.")


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator of several options, in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


traffic: Callable[[Command], Command] = together(
    click.option("--frame-bytes", type=int, help="Frame length without FCS.  [default: 60]"),
    click.option("--flows", type=int, help="Distinct UDP flows.  [default: 64]"),
    click.option("--imix", is_flag=True, help="IP packets of 40, 576 and 1500 bytes, exactly 7:4:1."),
    click.option(
        "--pktgen-header", is_flag=True, help="pktgen's header with a sequence number in each frame."
    ),
)

capture: Callable[[Command], Command] = click.option(
    "--pcap",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Send the Ethernet frames of a classic pcap file instead.",
)

sending: Callable[[Command], Command] = together(
    click.option(
        "--batch", type=int, help="Frames per system call; 1 to 1024 of most engines; pktgen: a doorbell."
    ),
    click.option(
        "--rate", "rate_pps", type=float, metavar="PPS", help="Asked rate; as fast as possible if absent."
    ),
    click.option("--qdisc-bypass", is_flag=True, help="Skip the queueing discipline."),
    click.option("--cpu", type=int, help="CPU of the sender."),
    click.option("--cpus", type=int, help="CPUs that send, each with a thread and a queue of its own."),
    click.option(
        "--stamp", is_flag=True, help="Number and time each frame: pktgen's header in its UDP payload."
    ),
    click.option(
        "--realtime-priority", type=int, metavar="1-99", help="SCHED_FIFO for the sender; needs CAP_SYS_NICE."
    ),
    click.option(
        "--ring-frames", type=int, help="tx_ring, af_xdp: frames that the ring holds, a power of two."
    ),
    click.option("--clone-skb", type=int, help="pktgen: how often a packet buffer is sent again."),
    click.option("--xmit-mode", metavar="NAME", help="pktgen: start_xmit, queue_xmit or netif_receive."),
    click.option("--delay-ns", type=int, help="pktgen: nanoseconds between two frames."),
    click.option(
        "--pktgen", metavar="COMMANDS", help="pktgen: more of its own, as in 'flag UDPSRC_RND; vlan_id 5'."
    ),
    click.option("--message-bytes", type=int, help="tcp: bytes of one write.  [default: 16384]"),
    click.option(
        "--sink",
        metavar="NAME",
        help="Where frames end: stack or ifb; wire or port on nic:; received by rx_ring, socket or xdp_drop.",
    ),
    click.option("--sink-cpu", type=int, help="CPU of a sink that receives."),
    click.option("--sink-sockets", type=int, help="Its sockets, each with a thread (PACKET_FANOUT)."),
    click.option("--sink-block-bytes", type=int, help="rx_ring: bytes of a block of its ring."),
    click.option(
        "--sink-retire-ms", type=int, help="rx_ring: time after which a block that is not full is read."
    ),
)

state: Callable[[Command], Command] = click.option(
    "--state",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    hidden=True,
    help="Folder of journal and locks instead of the system's; what is left there, only it can restore.",
)

rig_parameters: Callable[[Command], Command] = together(
    click.option("--mtu", type=int, help="MTU of the rig."),
    click.option("--qdisc", metavar="NAME", help="Queueing discipline: noqueue, pfifo, bfifo or tbf."),
    click.option("--qdisc-limit", type=int, help="Its limit: packets (pfifo) or bytes (bfifo, tbf)."),
    click.option("--qdisc-rate-bps", type=int, help="Rate of tbf in bits per second."),
    click.option("--peer", metavar="MODE", help="veth's receiving end: backlog, napi or napi-threaded."),
    click.option("--peer-carrier/--no-peer-carrier", default=None, help="Carrier at the peer."),
    click.option(
        "--port",
        metavar="IFNAME",
        help="nic: the second interface, where frames arrive; NAMESPACE/IFNAME in one of `ip netns`.",
    ),
    click.option("--i-know", metavar="NAME", help="nic: its name again, though something depends on it."),
    click.option("--guest-cpus", type=int, help="vm: CPUs of the guest.  [default: 1]"),
    click.option("--kvm", is_flag=True, default=None, help="vm: the host's CPU, where that comes up."),
    click.option("--fault", "faults", multiple=True, metavar="NAME=VALUE", help="sim: see lk.Faults."),
    click.option(
        "--hypothesis",
        "hypotheses",
        multiple=True,
        metavar="NAME",
        help="sim: an explanation that is taken to be true; an unknown name lists them.",
    ),
    click.option("--random-arrivals", is_flag=True, default=None, help="sim: engine receive, at random."),
    click.option("--sim-seed", type=int, help="sim: seed of everything random.  [default: 1]"),
    state,
)

TRAFFIC = ("frame_bytes", "flows", "imix", "pktgen_header")
RIG_PARAMETERS = (
    *("mtu", "qdisc", "qdisc_limit", "qdisc_rate_bps", "peer", "peer_carrier"),
    *("port", "i_know", "state", "guest_cpus", "kvm"),
)
SENDING = (
    *("batch", "rate_pps", "qdisc_bypass", "cpu", "sink"),
    *("cpus", "stamp", "realtime_priority", "ring_frames", "clone_skb", "xmit_mode", "delay_ns"),
    *("pktgen", "message_bytes"),
    *("sink_cpu", "sink_sockets", "sink_block_bytes", "sink_retire_ms"),
)


def examples(*lines: str) -> str:
    """End of a command's help, its lines kept as they are (click's mark for that is a backspace)."""
    return "\b\n" + "\n  ".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """``NAME=VALUE`` texts as a dict; a WorkloadError shows the form."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise WorkloadError(f"{what} {text!r} is not NAME=VALUE")
        if name.strip() in found:
            raise WorkloadError(f"{what} {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that are None: the library has its own defaults."""
    return {name: value for name, value in options.items() if value is not None}


def parameters_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The rig's own parameters among `options`, those that were given."""
    faults = pairs(options["faults"], "--fault") or None
    own = {name: options[name] for name in RIG_PARAMETERS}
    simulated = {
        "faults": faults,
        "hypotheses": options["hypotheses"] or None,
        "random_arrivals": options["random_arrivals"],
        "seed": options["sim_seed"],
    }
    return given({**own, **simulated})


def open_rig(name: str, options: Mapping[str, Any]) -> Rig:
    """Rig `name` with its parameters among `options`. What opening it put back goes to stderr."""
    from labkit.rigs.choose import rig

    opened = rig(name, **parameters_of(options))
    for note in getattr(opened, "notes", ()):
        click.echo(f"labkit: {note}", err=True)
    return opened


def flow_of(options: Mapping[str, Any], **more: Any) -> Traffic:
    """Traffic as the options of `traffic` and `capture` among `options` ask for it, and `more` besides."""
    own = {name: options[name] for name in TRAFFIC}
    asked = {name: value for name, value in given({**own, **more}).items() if value is not False}
    imix, pcap = asked.pop("imix", False), options.get("pcap")
    if pcap is not None:
        others = [f"--{name.replace('_', '-')}" for name in [*asked, *(["imix"] if imix else [])]]
        if others:
            raise WorkloadError(f"--pcap sends a file's frames as they are; leave out {', '.join(others)}")
        from labkit.traffic.captures import pcap_flow

        return pcap_flow(pcap)
    if imix:
        from labkit.traffic.mixes import imix_flow

        return imix_flow(**asked)
    from labkit.traffic.flows import udp_flow

    return udp_flow(**asked)
