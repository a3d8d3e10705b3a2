"""Engines by name."""

from __future__ import annotations

from labkit.engines.base import Engine
from labkit.engines.gso import Gso
from labkit.engines.send import Send
from labkit.engines.sendmmsg import Sendmmsg
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
    engines: tuple[Engine, ...] = (Send(), Sendmmsg(), TxRing(), Gso(), XdpLive())
    for engine in engines:
        if engine.name == name:
            return engine
    known = ", ".join(engine.name for engine in engines)
    raise WorkloadError(f"no engine is called {name!r}; there are: {known}")
