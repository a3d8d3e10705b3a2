"""Runs the checks: all of them for people, the quick ones beside each trial."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pyroute2.netlink.exceptions import NetlinkError

from labkit.audit.check import Audit, Place, audit_of
from labkit.audit.cpu_checks import CPU_CHECKS
from labkit.audit.device_checks import DEVICE_CHECKS, OFFLOADS, PAUSES
from labkit.audit.machine_checks import MACHINE_CHECKS
from labkit.errors import LabError, WorkloadError
from labkit.factors import Scalar
from labkit.linux.environment import has_device, online_cpus
from labkit.linux.ethtool import Ethtool
from labkit.linux.links import Links

CHECKS: Final = (*CPU_CHECKS, *MACHINE_CHECKS, *DEVICE_CHECKS)

ReadSettings = Callable[[str], Mapping[str, Scalar | Exception]]


def device_settings(device: str) -> dict[str, Scalar | Exception]:
    """What checks judge of `device`, read without privilege; an error stands for what was refused."""
    found: dict[str, Scalar | Exception] = {}

    def keep(names: Iterable[str], read: Callable[[], Mapping[str, Scalar]]) -> None:
        try:
            told = read()
            found.update({name: told.get(name) for name in names})
        except (LabError, OSError, NetlinkError) as refused:
            absent = isinstance(refused, LabError) and refused.errno == errno.EOPNOTSUPP
            why = LabError(f"{device} does not tell it", errno=errno.EOPNOTSUPP) if absent else refused
            found.update(dict.fromkeys(names, why))

    with closing(Links()) as links:
        index = links.index(device)
        keep(("qdisc",), lambda: {"qdisc": links.qdisc(device).kind})
    try:
        with closing(Ethtool()) as ethtool:
            keep(OFFLOADS, lambda: ethtool.features(index))
            keep(PAUSES, lambda: ethtool.pause(index))
    except LabError as absent:
        found.update(dict.fromkeys((*OFFLOADS, *PAUSES), absent))
    return found


def audit(
    device: str | None = None,
    *,
    cpu: int | None = None,
    settings: ReadSettings = device_settings,
    root: Path = Path("/"),
) -> Audit:
    """Judge everything known to move packet rates on this machine.

    Parameters
    ----------
    device : str or None
        Interface that sends; None leaves its checks out.
    cpu : int or None
        CPU that sends; None looks at all.
    settings : callable
        Reads the device's settings by their names; what it leaves out, or gives an error for, is unknown.
    root : Path
        Folder that holds proc and sys.

    Raises
    ------
    WorkloadError
        There is no such device or CPU.
    """
    place = _place(device, cpu, settings, root)
    return audit_of(check.finding(place) for check in CHECKS if device is not None or not check.of_device)


def audit_summary(*, cpu: int | None = None, root: Path = Path("/")) -> dict[str, Any]:
    """Verdict on the machine and the names of its checks that are not ok, quick enough for every trial.

    Left out are the device's checks and the costly ones. With many CPUs name `cpu`: each one read takes time.
    """
    place = Place(root=root, cpu=cpu, device=None, settings={}, settings_missing="")
    found = audit_of(check.finding(place) for check in CHECKS if not (check.of_device or check.costly))
    names = {verdict: found.names(verdict) for verdict in ("bad", "look", "unknown")}
    return {"verdict": found.verdict, **names}


def _place(device: str | None, cpu: int | None, settings: ReadSettings, root: Path) -> Place:
    """Place that exists as far as can be told, with what is known of the device's settings."""
    if device is not None and not has_device(root, device):
        raise WorkloadError(f"{device}: no such interface here; ip link lists them")
    if cpu is not None:
        _check_cpu(cpu, root)
    known: Mapping[str, Scalar | Exception] = {}
    missing = "the driver does not report it"
    try:
        known = {} if device is None else settings(device)
    except (LabError, OSError, NetlinkError) as error:
        missing = str(error)
    return Place(root=root, cpu=cpu, device=device, settings=known, settings_missing=missing)


def _check_cpu(cpu: int, root: Path) -> None:
    try:
        online = online_cpus(root)
    except (OSError, ValueError):
        return  # each check says so itself
    if cpu not in online:
        raise WorkloadError(
            f"CPU {cpu} is not running here; these are: {', '.join(map(str, sorted(online)))}"
        )
