"""The guard: an interface that something depends on is left alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from labkit.errors import SettingRefusedError
from labkit.factors import Scalar, Settings

if TYPE_CHECKING:  # that module brings netlink with it
    from labkit.linux.management import ManagementFacts


def check_interface(facts: ManagementFacts, *, i_know: str | None = None) -> None:
    """Let pass an interface that nothing depends on, or whose name the caller repeats exactly.

    Raises
    ------
    SettingRefusedError
        Something depends on it, or that cannot be found out, and `i_know` is not its name.
    """
    name = facts.interface
    if i_know == name or not (facts.dependents or facts.unknown):
        return
    reasons = [f"{each.what} [{each.where}]" for each in facts.dependents]
    reasons += [f"unknown: {reason}" for reason in facts.unknown]
    other = f" (--i-know {i_know} is another name)" if i_know is not None else ""
    listed = "".join(f"\n  - {reason}" for reason in reasons)
    raise SettingRefusedError(
        f"{name}: not touched, for a change may cut off what depends on it{other}:{listed}\n"
        f"Take another interface, or, if you can do without these, say --i-know {name}"
    )


def change_list(asked: Settings, current: Settings, resets: Mapping[str, float | None]) -> str:
    """What applying `asked` will do, one line a setting, and how long the link is away in all.

    Parameters
    ----------
    asked, current : mapping
        Settings wanted, and in force; one that is not in `current` or None there is not reported.
    resets : mapping
        Settings whose change takes the link down and up, each with the seconds of that at most, or None when
        they are not known.
    """
    changed = {name: value for name, value in asked.items() if name not in current or current[name] != value}
    width = max(map(len, changed), default=0)
    lines = [
        f"  {name:<{width}}  {_text(current.get(name))} -> {_text(value)}{_reset(name, resets)}"
        for name, value in changed.items()
    ]
    kept = [name for name in asked if name not in changed]
    lines += [f"  already so: {', '.join(kept)}"] if kept else []
    return "\n".join([*lines, _outage(changed, resets)])


def _reset(name: str, resets: Mapping[str, float | None]) -> str:
    if name not in resets:
        return ""
    seconds = resets[name]
    return "  (link down and up" + (")" if seconds is None else f", at most {seconds:g} s)")


def _outage(changed: Settings, resets: Mapping[str, float | None]) -> str:
    """Last line: how often and how long the link is away."""
    if not changed:
        return "Nothing changes."
    times = [resets[name] for name in changed if name in resets]
    if not times:
        return "The link stays up."
    known = [seconds for seconds in times if seconds is not None]
    how_long = f"at most {sum(known):g} s in all" if len(known) == len(times) else "for an unknown time"
    return f"The link goes down and up {len(times)} time{'s' * (len(times) > 1)}, {how_long}."


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "not reported" if value is None else str(value)
