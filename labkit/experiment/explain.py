"""Explanations and expectations of a rig by its name: finds the profile, calls the analysis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.analysis import expect as expectations
from labkit.analysis import explain as explanations
from labkit.analysis import ring
from labkit.analysis.expect import Expectation
from labkit.analysis.explain import Explanation, sender_of
from labkit.analysis.operations import completed
from labkit.analysis.turns import law_pps, limit_of_answer
from labkit.errors import WorkloadError
from labkit.factors import Scalar, Settings
from labkit.paths import data_dir
from labkit.records import WHAT_IF, Trial, caveat_of, named
from labkit.rigs.profiles import load_profile
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.sender import Sender
from labkit.simnic.settings import accepted

SIM_PREFIX: Final = "sim:"


class LoopAndLaw(msgspec.Struct, frozen=True, kw_only=True):
    """Both answers about one setting.

    Attributes
    ----------
    loop_pps : float or None
        The event loop's packets per second; None when it sent nothing.
    law_pps : float or None
        The closed law's; None where it covers nothing.
    limited_by : str or None
        What limits the loop.
    """

    loop_pps: float | None
    law_pps: float | None
    limited_by: str | None


def explain(trial: Trial, *, measured_ns: float | None = None, folder: Path | None = None) -> Explanation:
    """Explain `trial`: what limits, where that changes, where a packet's time went.

    Parameters
    ----------
    trial : Trial
        Of any rig; one of ``sim:`` is explained by its profile, any other one by its counters alone.
    measured_ns : float or None
        Nanoseconds a packet as measured or published at the same setting: the budget then explains that time.
    folder : Path or None
        Where the profiles are; None is the checkout's ``data/profiles``.
    """
    return explanations.explain(trial, profile=profile_of(trial.rig, folder), measured_ns=measured_ns)


def expect(
    change: Mapping[str, Scalar],
    at: str | Trial = "sim:ixgbe",
    *,
    settings: Settings | None = None,
    measured_ns: float | None = None,
    microcosts: Mapping[str, float] | None = None,
    folder: Path | None = None,
    **sender: Any,
) -> Expectation:
    """What `change` should bring in nanoseconds a packet, beside what it brought.

    Parameters
    ----------
    change : mapping of str to scalar
        Operations that each packet has more or less (``{"lock": -2}``), new settings
        (``{"tx_ring": 1024}``), and what the sender does otherwise (``{"batch": 2}``, ``{"clone_skb": 0}``).
    at : str or Trial
        A simulated rig, or a trial, whose rig, settings and sender hold before the change.
    settings : mapping of str to scalar or None
        In force before, on top of the trial's or the driver's defaults.
    measured_ns : float or None
        Difference that was measured; below 0 is faster.
    microcosts : mapping of str to float or None
        Nanoseconds of single operations as this machine itself measured them.
    folder : Path or None
        Where the profiles are; None is the checkout's.
    **sender
        What is sent before, on top of the trial's or of pktgen (`labkit.simnic.sender.Sender`).

    Raises
    ------
    WorkloadError
        An unknown name or value; or a rig without a profile, and more than operations of known cost changes.
    CapabilityMissingError, SettingRefusedError
        The machine lacks what is asked, or its driver refuses it.
    """
    trial = at if isinstance(at, Trial) else None
    where = trial.rig if trial else str(at)
    in_force = {**(trial.settings_accepted if trial else {}), **(settings or {})}
    profile = profile_of(where, folder)
    assumed = WHAT_IF if profile and profile.what_if else None
    caveat = caveat_of(trial.environment) if trial else assumed
    told = " ".join(f"{name}={value}" for name, value in in_force.items() if value is not None)
    return expectations.expect(
        change,
        profile=profile,
        where=f"{named(where, caveat or assumed)} {told}".rstrip(),
        settings=in_force,
        sender=_sender(sender_of(trial) if trial else Sender(engine="pktgen"), sender),
        microcosts=microcosts,
        measured_ns=measured_ns,
    )


def loop_and_law(
    rig: str = "sim:ixgbe",
    settings: Settings | None = None,
    *,
    folder: Path | None = None,
    **sender: Any,
) -> LoopAndLaw:
    """Packets per second by the event loop and by the closed law, at one setting of a simulated rig.

    Parameters
    ----------
    rig : str
        A simulated rig.
    settings : mapping of str to scalar or None
        Asked for, on top of the driver's defaults.
    folder : Path or None
        Where the profiles are; None is the checkout's.
    **sender
        What is sent, pktgen unless told (`labkit.simnic.sender.Sender`).

    Raises
    ------
    WorkloadError, CapabilityMissingError, SettingRefusedError
        As `expect` says.
    """
    sent = _sender(Sender(engine="pktgen"), sender)
    machine, in_force = _machine(rig, settings, sent, folder)
    answer = simulate(machine, in_force, sent, ring.SETTLED)
    law = law_pps(machine, in_force, sent)
    return LoopAndLaw(
        loop_pps=answer.pps,
        law_pps=None if law is None else law[0][law[1]],
        limited_by=limit_of_answer(machine, in_force, sent, answer),
    )


def bytes_ahead(
    rig: str = "sim:ixgbe",
    settings: Settings | None = None,
    *,
    frame_bytes: int = 1514,
    folder: Path | None = None,
) -> ring.Ahead:
    """What a new packet finds before it on a simulated rig, without and with byte queue limits.

    Raises
    ------
    WorkloadError, CapabilityMissingError, SettingRefusedError
        As `expect` says.
    """
    through = Sender(engine="pktgen", frame_bytes=frame_bytes, xmit_mode="queue_xmit")
    machine, in_force = _machine(rig, settings, through, folder)
    return ring.bytes_ahead(machine, in_force, frame_bytes)


def profile_of(rig: str, folder: Path | None = None) -> Profile | None:
    """Profile of a simulated rig; None of any other one."""
    if not rig.startswith(SIM_PREFIX):
        return None
    return load_profile(data_dir() / "profiles" if folder is None else folder, rig.removeprefix(SIM_PREFIX))


def _machine(
    rig: str, settings: Settings | None, sender: Sender, folder: Path | None
) -> tuple[Profile, dict[str, Scalar]]:
    profile = profile_of(rig, folder)
    if profile is None:
        raise WorkloadError(f"rig '{rig}' is not simulated; take one such as 'sim:ixgbe'")
    return completed(profile, sender), accepted(profile, settings or {})


def _sender(base: Sender, fields: Mapping[str, Any]) -> Sender:
    known = base.__struct_fields__
    for name in fields:
        if name not in known:
            raise WorkloadError(f"sender: unknown {name}; known: {', '.join(known)}")
    return msgspec.structs.replace(base, **fields)
