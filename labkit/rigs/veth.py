"""A veth pair in private network namespaces: real packets, no root, nothing of the host touched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Final, Self

from labkit.agent.client import AgentClient
from labkit.agent.launch import start_agent
from labkit.agent.protocol import Run
from labkit.engines.base import EngineConfig
from labkit.engines.base import check as check_request
from labkit.engines.choose import choose
from labkit.errors import LabError, SettingRefusedError, WorkloadError
from labkit.linux.links import QDISC_KINDS
from labkit.linux.machine import machine_facts
from labkit.records import Frames, RigInfo, Sample, Scalar, Settings, Traffic, Trial, Workload, typed
from labkit.rigs import catalog
from labkit.rigs.assemble import Asked, trial_of
from labkit.rigs.base import Applied, check_length
from labkit.rigs.peer_counter import PeerRule, peer_rule
from labkit.traffic.limits import check_frames
from labkit.units import NS_PER_S, seconds_to_ns

SAMPLE_EVERY_NS = NS_PER_S // 8
ANY_IFINDEX: Final = 1
"""Stands in a request until the agent, who owns the namespace, puts the sink's own number there."""
WHOLE_NUMBERS: Final = {
    "mtu": (68, 65535),
    "txqueuelen": (0, 1_000_000),
    "qdisc_limit": (1, 2**31 - 1),
    "qdisc_rate_bps": (8, 2**35 - 8),
    "napi_defer_hard_irqs": (0, 2**31 - 1),
    "gro_flush_timeout_ns": (0, 2**63 - 1),
}
"""Settings that are whole numbers, with the range the kernel takes."""


class VethRig:
    """Two private network namespaces joined by a veth pair, owned by an agent process.

    Parameters
    ----------
    mtu : int or None
        Largest payload of both ends, in bytes; None leaves the kernel's 1500.
    qdisc : str or None
        Root qdisc of the sending device: ``noqueue``, ``pfifo``, ``bfifo`` or ``tbf``; None leaves the
        kernel's ``noqueue``.
    qdisc_limit : int or None
        Its limit: packets (pfifo) or bytes (bfifo, tbf).
    qdisc_rate_bps : int or None
        Rate of ``tbf`` in bits per second.
    peer_carrier : bool
        False takes the receiving end down: what does each engine say then?
    sink : str
        Where frames end unless the workload says otherwise: ``stack`` (the peer's IP stack drops them) or
        ``ifb`` (a device that counts and drops; no peer).

    Raises
    ------
    CapabilityMissingError
        User namespaces or veth are not to be had here; the message names the sysctl or module.
    """

    def __init__(
        self,
        *,
        mtu: int | None = None,
        qdisc: str | None = None,
        qdisc_limit: int | None = None,
        qdisc_rate_bps: int | None = None,
        peer_carrier: bool = True,
        sink: str = "stack",
    ) -> None:
        given = {"mtu": mtu, "qdisc": qdisc, "qdisc_limit": qdisc_limit, "qdisc_rate_bps": qdisc_rate_bps}
        self._asked = _checked({name: value for name, value in given.items() if value is not None})
        catalog.check_sink(catalog.VETH, sink)
        self._sink = sink
        self._machine = machine_facts()
        self._client = AgentClient(start_agent())
        try:
            opened = self._client.open(
                self._asked,
                force_user_namespace=os.environ.get("LABKIT_USERNS") == "1",
                peer_carrier=peer_carrier,
            )
        except BaseException:
            self._client.close()
            raise
        self._privilege = opened.privilege
        self._accepted = opened.settings
        self._flow: Traffic | None = None
        self._frames: Frames | None = None
        self._rule: PeerRule | None = None

    @property
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""
        return catalog.VETH

    def check(self, workload: Workload) -> None:
        """Raise what is known to be wrong before anything is sent.

        Raises
        ------
        WorkloadError
            An unknown engine or sink, a batch the engine does not take, a frame over the MTU or too short.
        CapabilityMissingError
            An engine or sink that this rig does not have.
        LabError
            The link has no carrier.
        """
        catalog.check_engine(catalog.VETH, workload.engine)
        catalog.check_sink(catalog.VETH, workload.sink)
        engine, frames = choose(workload.engine), self._table(workload)
        config = self._config(workload, duration_ns=1, count=None)
        check_request(engine.name, engine.max_batch, frames, config)
        looked = self._client.look(workload.sink or self._sink)
        check_frames(frames, looked.link.mtu)
        if not looked.link.carrier:
            raise LabError(
                f"{looked.link.name}: no carrier, the peer is down; bring it up (peer_carrier=True, "
                f"--peer-carrier), or see what an engine does without (check=False, --unchecked)"
            )

    @contextlib.contextmanager
    def applied(self, settings: Settings) -> Iterator[Applied]:
        """Turn `settings`, read them back, and put the old ones back at the end.

        ``asked`` holds what was asked for; ``accepted`` is everything in force as the kernel reads it back.
        """
        asked = _checked(settings)
        before = self._asked, self._accepted, self._client.level
        try:
            if asked:
                self._accepted = self._client.apply(asked)
            self._asked = {**self._asked, **asked}
            yield Applied(asked=self._asked, accepted=self._accepted, effective=self._accepted)
        finally:
            # by level, not by count: an interrupt may come before, within or behind apply, and here as well
            self._asked, self._accepted, self._client.level = before
            if asked:
                self._client.restore()

    def run(
        self,
        workload: Workload,
        *,
        duration_s: float = 1.0,
        count: int | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        check: bool = True,
    ) -> Trial:
        """Send once for `duration_s` seconds or `count` frames, whichever ends first, and count.

        Raises
        ------
        WorkloadError
            What makes no sense whatever the kernel would say, with ``check=False`` too.
        """
        check_length(duration_s, count)
        if check:
            self.check(workload)
        catalog.check_engine(catalog.VETH, workload.engine)
        catalog.check_sink(catalog.VETH, workload.sink)
        sink, engine = workload.sink or self._sink, choose(workload.engine)
        config = self._config(workload, duration_ns=seconds_to_ns(duration_s), count=count)
        frames = self._table(workload)
        check_request(engine.name, engine.max_batch, frames, config)
        self._client.load(frames)
        rule = self._peer_rule(frames, sink)
        measured, samples = self._client.run(
            Run(
                engine=engine.name,
                sink=sink,
                config=config,
                sample_every_ns=SAMPLE_EVERY_NS,
                peer_counters=list(rule.counters),
            ),
            longest_s=duration_s,
            on_sample=on_sample,
        )
        asked = Asked(
            rig=catalog.VETH.name,
            engine=engine.name,
            sink=sink,
            frame_bytes=frames.longest_bytes,
            batch=config.batch,
            duration_s=duration_s,
            rate_pps=workload.rate_pps,
            qdisc_bypass=workload.qdisc_bypass,
            settings_asked=dict(self._asked),
            settings_accepted=dict(self._accepted),
            privilege=self._privilege,
            environment={**self._machine, "flow": workload.flow.describe()},
        )
        return trial_of(asked, measured, rule, samples)

    def stop(self) -> None:
        """End the run in progress; callable from another thread."""
        self._client.stop()

    def close(self) -> None:
        """End the agent, and its namespaces with it; harmless twice."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _config(self, workload: Workload, *, duration_ns: int, count: int | None) -> EngineConfig:
        default_batch = choose(workload.engine).default_batch
        return EngineConfig(
            ifindex=ANY_IFINDEX,
            batch=default_batch if workload.batch is None else workload.batch,
            count=count,
            duration_ns=duration_ns,
            rate_pps=workload.rate_pps,
            cpu=workload.cpu,
            qdisc_bypass=workload.qdisc_bypass,
        )

    def _table(self, workload: Workload) -> Frames:
        """The workload's frames, built once for all runs of the same flow."""
        if self._frames is None or workload.flow is not self._flow:
            self._flow, self._frames, self._rule = workload.flow, workload.flow.table(), None
        return self._frames

    def _peer_rule(self, frames: Frames, sink: str) -> PeerRule:
        if sink == "ifb":
            return PeerRule(counters=(), note="ifb counts and drops every frame; it has no peer")
        if self._rule is None:
            looked = self._client.look(sink)
            mac = looked.peer.mac if looked.peer is not None else ""
            self._rule = peer_rule(frames, mac, frozenset(looked.peer_counters))
        return self._rule


def _checked(settings: Settings) -> dict[str, Scalar]:
    """`settings` without names that nobody knows, settings a veth never has, and values out of range."""
    return {name: _value(name, value) for name, value in settings.items()}


def _value(name: str, asked: Scalar) -> Scalar:
    catalog.check_setting(catalog.VETH, name)
    value = typed(name, asked)
    if name == "qdisc":
        if value not in QDISC_KINDS:
            raise WorkloadError(f"veth: unknown qdisc {value!r}; known: {', '.join(QDISC_KINDS)}")
    elif name in WHOLE_NUMBERS and isinstance(value, int):
        low, high = WHOLE_NUMBERS[name]
        if not low <= value <= high:
            raise SettingRefusedError(f"veth: {name} {value} is outside {low}..{high}")
    return value
