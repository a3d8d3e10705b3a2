"""What a check is, and what it finds. A check is data and two functions: read a value, judge it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from labkit.factors import Scalar
from labkit.linux.environment import online_cpus

Verdict: TypeAlias = Literal["ok", "unknown", "look", "bad"]
VERDICTS: Final[tuple[Verdict, ...]] = ("ok", "unknown", "look", "bad")
"""From best to worst."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where checks look.

    Attributes
    ----------
    root : Path
        Folder that holds proc and sys.
    cpu : int or None
        CPU that sends; None for all that run.
    device : str or None
        Interface that sends; None leaves the device's checks out.
    settings : mapping
        Settings of the device as far as they were read; an error says why one was not.
    settings_missing : str
        Why the others were not.
    """

    root: Path
    cpu: int | None
    device: str | None
    settings: Mapping[str, Scalar | Exception]
    settings_missing: str

    def cpus(self) -> frozenset[int]:
        """CPUs that are looked at; raises as the readers of `labkit.linux.environment` do."""
        return online_cpus(self.root) if self.cpu is None else frozenset({self.cpu})

    def setting(self, name: str) -> Scalar:
        """Setting of the device; a ValueError where it was not read or the driver does not report it."""
        value = self.settings.get(name)
        if value is None or isinstance(value, Exception):
            raise ValueError(f"{name}: {self.settings_missing if value is None else value}")
        return value


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found.

    Attributes
    ----------
    name : str
        The check's name.
    value : Scalar
        What was read; None when that is not known.
    verdict : str
        ``ok``, ``look`` (may move the rate), ``bad`` (does move it) or ``unknown``.
    why_unknown : str or None
        Why there is no value.
    why : str
        How it moves packets per second.
    advice : str
        How to change it.
    """

    name: str
    value: Scalar
    verdict: Verdict
    why_unknown: str | None
    why: str
    advice: str


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check of the environment.

    Attributes
    ----------
    name, why, advice : str
        As in `Finding`.
    read : callable
        Reads the value at a place; an OSError or ValueError says why it is not available.
    judge : callable
        Verdict on a value.
    show : callable
        Value as a scalar, for people and JSON.
    of_device : bool
        Whether it needs a device.
    costly : bool
        Whether it takes too long to come along with every trial.
    """

    name: str
    why: str
    advice: str
    read: Callable[[Place], Any]
    judge: Callable[[Any], Verdict]
    show: Callable[[Any], Scalar] = lambda value: value
    of_device: bool = False
    costly: bool = False

    def finding(self, place: Place) -> Finding:
        """Read and judge; what cannot be read is unknown, with the reason."""
        value: Scalar = None
        verdict: Verdict = "unknown"
        why_unknown = None
        try:
            found = self.read(place)
            value, verdict = self.show(found), self.judge(found)
        except OSError as error:
            why_unknown = f"{error.filename}: {error.strerror}"
        except ValueError as error:
            why_unknown = str(error)
        return Finding(
            name=self.name,
            value=value,
            verdict=verdict,
            why_unknown=why_unknown,
            why=self.why,
            advice=self.advice,
        )


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, the worst verdict among them, and how many there are of each."""

    verdict: Verdict
    counts: dict[Verdict, int]
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def names(self, verdict: Verdict) -> list[str]:
        """Checks that ended with `verdict`."""
        return [finding.name for finding in self.findings if finding.verdict == verdict]


def audit_of(findings: Iterable[Finding]) -> Audit:
    """Verdict over all of `findings`."""
    kept = tuple(findings)
    counts = {verdict: sum(each.verdict == verdict for each in kept) for verdict in VERDICTS}
    worst = max((each.verdict for each in kept), key=VERDICTS.index, default=VERDICTS[0])
    return Audit(verdict=worst, counts=counts, findings=kept)
