"""How the fitted constants of the profiles were found: least squares over the loop, to be done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from labkit.experiment.published_cases import Case, cases
from labkit.simnic.fit import least_squares
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Constant, Profile

Choice = Callable[[Case], bool]
OneOf = tuple[str | None, str]


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Some constants and the published points that decide them.

    Attributes
    ----------
    name : str
        What is fitted.
    constants : tuple of (str or None, str)
        Profile and constant; None is every profile of the points.
    steps : tuple of float
        Differences for the derivatives, also what two fits may differ by without meaning it.
    chosen : callable
        Which cases decide.
    """

    name: str
    constants: tuple[OneOf, ...]
    steps: tuple[float, ...]
    chosen: Choice


def _ring_unlimited(case: Case) -> bool:
    """Points of the ring and coalescing tables that the ring does not limit: every other one needs a fit."""
    if case.file != "ixgbe_ring_coalesce" or case.unit != "pps":
        return False
    ring, usecs = case.settings["tx_ring"], case.settings["rx_usecs"]
    return not ((ring == 512 and usecs == 1) or (ring == 256 and usecs in {1, 40, 50}))


def _followup_and_one(case: Case) -> bool:
    one = case.table == "v1-patch2" and case.settings["tx_ring"] == 1024
    return _ring_unlimited(case) and (case.table == "v1-followup" or one)


def _row(**setting: str | int) -> Choice:
    return lambda case: all(case.setting.get(name) == value for name, value in setting.items())


def _image(number: int) -> Choice:
    return lambda case: case.table == f"image {number}" and case.unit == "Mbit/s"


_RING: Final[tuple[OneOf, ...]] = (
    ("ixgbe", "packet_ns"),
    ("ixgbe@baseline", "packet_ns"),
    (None, "interrupt_ns"),
    (None, "cache_miss_ns"),
)
_RING_STEPS: Final = (1.0, 1.0, 40.0, 4.0)

FITS: Final[Mapping[str, Fit]] = {
    fit.name: fit
    for fit in (
        Fit(name="ring", constants=_RING, steps=_RING_STEPS, chosen=_ring_unlimited),
        Fit(name="ring, one baseline point", constants=_RING, steps=_RING_STEPS, chosen=_followup_and_one),
        Fit(
            name="background",
            constants=((None, "background_irqs_per_s"),),
            steps=(100.0,),
            chosen=lambda case: case.unit == "irqs/s",
        ),
        Fit(
            name="burst",
            constants=((None, "packet_ns"), (None, "lock_ns"), (None, "clean_ns")),
            steps=(0.5, 2.0, 2.0),
            chosen=lambda case: case.table == "38b2cf2982dc",
        ),
        Fit(
            name="trafgen",
            constants=((None, "socket_ns"),),
            steps=(2.0,),
            chosen=_row(path="qdisc bypass", variant="baseline"),
        ),
        Fit(
            name="trafgen qdisc",
            constants=((None, "qdisc_ns"),),
            steps=(2.0,),
            chosen=_row(path="qdisc path", variant="baseline"),
        ),
        Fit(
            name="flush call",
            constants=((None, "flush_ns"),),
            steps=(1.0,),
            chosen=_row(path="qdisc bypass", variant="ndo_xmit_flush per packet without mmiowb"),
        ),
        Fit(
            name="flush call with mmiowb",
            constants=((None, "flush_ns"),),
            steps=(1.0,),
            chosen=_row(path="qdisc bypass", variant="ndo_xmit_flush per packet with mmiowb"),
        ),
        Fit(
            name="doorbell",
            constants=((None, "doorbell_ns"),),
            steps=(2.0,),
            chosen=_row(path="qdisc bypass", variant="flush threshold 8"),
        ),
        Fit(
            name="pktgen of the flush runs",
            constants=((None, "packet_ns"),),
            steps=(1.0,),
            chosen=lambda case: case.setting.get("arm") == "baseline",
        ),
        Fit(
            name="several CPUs",
            constants=((None, "socket_ns"), (None, "qdisc_ns")),
            steps=(3.0, 3.0),
            chosen=lambda case: case.table == "d346a3fae3ff",
        ),
        Fit(
            name="receive path",
            constants=((None, "inject_ns"),),
            steps=(0.5,),
            chosen=lambda case: case.file == "pktgen_netif_receive" and case.setting["burst"] != "0",
        ),
        Fit(
            name="gianfar image 1",
            constants=((None, "segment_ns"), (None, "interrupt_ns")),
            steps=(200.0, 200.0),
            chosen=_image(1),
        ),
        Fit(
            name="gianfar image 2",
            constants=((None, "segment_ns"),),
            steps=(200.0,),
            chosen=_image(2),
        ),
    )
}
"""Every fit by its name."""


def fit(which: Fit, profiles: Mapping[str, Profile], *, rounds: int = 6) -> dict[OneOf, float]:
    """Constants of `which` with the smallest squared relative errors, from those of `profiles` on.

    Rows that ask the loop the same are one point, their mean: nine runs of one setting weigh no more than
    three of another.
    """
    points = _means([case for case in cases() if which.chosen(case)])

    def errors(values: Sequence[float]) -> list[float]:
        found = []
        for case, published in points:
            machine = changed(profiles[case.profile], _own(which, case.profile, values))
            lab = case.figure(machine, simulate(machine, case.settings, case.sender, case.run))
            found.append(lab / published - 1)
        return found

    start = [_value(profiles, points[0][0].profile, *constant) for constant in which.constants]
    values = least_squares(errors, start, steps=which.steps, rounds=rounds)
    return dict(zip(which.constants, values, strict=True))


def changed(profile: Profile, values: Mapping[str, float]) -> Profile:
    """`profile` with other numbers for some constants."""
    constants = {
        name: Constant(value=max(0.0, value), kind="fitted", source="being fitted")
        for name, value in values.items()
    }
    return msgspec.structs.replace(profile, constants=msgspec.structs.replace(profile.constants, **constants))


def _means(chosen: Sequence[Case]) -> list[tuple[Case, float]]:
    groups: dict[str, list[Case]] = {}
    for case in chosen:
        # tcp_limit_output_bytes never bites where the CPU limits
        settings = {name: value for name, value in case.settings.items() if not name.startswith("tcp_")}
        groups.setdefault(f"{case.profile} {settings} {case.sender}", []).append(case)
    return [(same[0], sum(case.published for case in same) / len(same)) for same in groups.values()]


def _own(which: Fit, profile: str, values: Sequence[float]) -> dict[str, float]:
    return {
        name: value
        for (owner, name), value in zip(which.constants, values, strict=True)
        if owner in {None, profile}
    }


def _value(profiles: Mapping[str, Profile], first: str, owner: str | None, name: str) -> float:
    return profiles[owner or first].value(name)
