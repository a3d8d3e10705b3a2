"""Engines by name."""

from __future__ import annotations

from labkit.engines.af_xdp import AfXdp
from labkit.engines.base import Engine
from labkit.engines.gso import Gso
from labkit.engines.iperf3 import FarEnd, Iperf3
from labkit.engines.iperf3_tcp import Iperf3Tcp
from labkit.engines.peers import BARE_BATCHES, BareLoop, Peer, Sendp, Tcpreplay, Trafgen
from labkit.engines.pktgen import PktgenEngine
from labkit.engines.send import Send
from labkit.engines.sendmmsg import Sendmmsg
from labkit.engines.tcp import Tcp
from labkit.engines.tx_ring import TxRing
from labkit.engines.xdp_live import XdpLive
from labkit.errors import WorkloadError


def choose(name: str) -> Engine:
    """Give the engine called `name`.

    Raises
    ------
    WorkloadError
        No engine has this name; the message lists those that have one.
    """
    engines: tuple[Engine, ...] = (
        Send(),
        Sendmmsg(),
        TxRing(),
        Gso(),
        AfXdp(),
        XdpLive(),
        PktgenEngine(),
        Tcp(),
        *peers(),
    )
    for engine in engines:
        if engine.name == name:
            return engine
    known = ", ".join(engine.name for engine in engines)
    raise WorkloadError(f"no engine is called {name!r}; there are: {known}")


def peers() -> tuple[Peer, ...]:
    """Engines that are other programs."""
    bare = (BareLoop(mechanism, batch) for mechanism, batch in BARE_BATCHES.items())
    return (Trafgen(), Tcpreplay(), Iperf3(), Iperf3Tcp(), Sendp(), *bare)


def placed(engine: Engine, far: FarEnd | None) -> Engine:
    """`engine`, which is told of the end where frames arrive if it has to talk to somebody there."""
    return engine.placed(far) if isinstance(engine, Iperf3 | Tcp) else engine
