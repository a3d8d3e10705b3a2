"""Simulated machines read from ``data/profiles``: one TOML file a machine, one entry in it a kernel.

A constant stands in the file for all kernels or in one kernel; a file may be `like` another one, whose
constants it takes as assumptions; a kernel may be `built_from` another one by operations that it saves
or adds. Every message about a file names it and the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.drivers.facts import TransmitFacts
from labkit.drivers.generic import GENERIC
from labkit.drivers.gianfar import GIANFAR_2012, GIANFAR_TX_NAPI
from labkit.drivers.ixgbe import IXGBE_2014
from labkit.errors import WorkloadError
from labkit.simnic.profile import Constant, Constants, Profile

DRIVERS: Final[Mapping[str, TransmitFacts]] = {
    "ixgbe": IXGBE_2014,
    "gianfar": GIANFAR_2012,
    "gianfar-tx-napi": GIANFAR_TX_NAPI,
    "generic": GENERIC,
}
"""Simulated drivers by their name in a profile."""

NEEDED: Final = tuple(field.name for field in msgspec.structs.fields(Constants) if field.required)
"""Constants that every machine has."""


class _Kernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    constants: dict[str, Any] = {}
    built_from: str | None = None
    operations: dict[str, int] = {}
    driver: str | None = None
    bql: bool = True


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    driver: str
    cpu: str
    nic: str
    kernels: dict[str, _Kernel]
    constants: dict[str, Any] = {}
    like: str | None = None
    what_if: bool = False


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Profiles in `folder` by name: a file's first kernel is ``ixgbe``, each other one ``ixgbe@kernel``.

    Those of ixgbe, of which most was published, come first.

    Raises
    ------
    WorkloadError
        A file that is no profile; the message names it and the key.
    """
    found: dict[str, Profile] = {}
    for path in sorted(
        folder.glob("*.toml"), key=lambda file: (not file.stem.startswith("ixgbe"), file.stem)
    ):
        content = _read(path)
        for position, kernel in enumerate(content.kernels):
            name = path.stem if position == 0 else f"{path.stem}@{kernel}"
            found[name] = _profile(path, content, name, kernel)
    return found


def load_profile(folder: Path, name: str) -> Profile:
    """Profile `name` of `folder`.

    Raises
    ------
    WorkloadError
        No such profile; the message lists those that exist.
    """
    found = load_profiles(folder)
    if name not in found:
        known = ", ".join(f"sim:{each}" for each in found)
        raise WorkloadError(f"rig 'sim:{name}': no such profile in {folder}; known: {known}")
    return found[name]


def _read(path: Path) -> _File:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as odd:
        raise WorkloadError(f"{path}: {odd}; mend that key of the profile") from odd


def _profile(path: Path, content: _File, name: str, kernel_name: str) -> Profile:
    kernel = content.kernels[kernel_name]
    driver = kernel.driver or content.driver
    if driver not in DRIVERS:
        raise _wrong(
            path, f"kernels.{kernel_name}", f"unknown driver '{driver}'; known: {', '.join(DRIVERS)}"
        )
    constants = _of_kernel(path, content, kernel_name)
    for needed in NEEDED:
        if needed not in constants:
            raise _wrong(path, f"constants.{needed}", "is missing; every machine needs it")
    return Profile(
        name=name,
        title=f"{content.title}, {kernel.title}",
        kernel=kernel.title,
        cpu=content.cpu,
        nic=content.nic,
        what_if=content.what_if,
        driver=DRIVERS[driver],
        constants=Constants(**constants),
        bql=kernel.bql,
    )


def _of_kernel(path: Path, content: _File, kernel_name: str) -> dict[str, Constant]:
    kernel = content.kernels[kernel_name]
    place = f"kernels.{kernel_name}"
    shared = {**_assumed(path, content), **_constants(path, "constants", content.constants)}
    if kernel.built_from is None:
        return {**shared, **_constants(path, f"{place}.constants", kernel.constants)}
    if kernel.built_from not in content.kernels or content.kernels[kernel.built_from].built_from:
        raise _wrong(path, f"{place}.built_from", f"'{kernel.built_from}' is no kernel with its own numbers")
    before = _of_kernel(path, content, kernel.built_from)
    own = _constants(path, f"{place}.constants", kernel.constants)
    return {**before, "packet_ns": _built(path, place, kernel, before), **own}


def _built(path: Path, place: str, kernel: _Kernel, before: Mapping[str, Constant]) -> Constant:
    """``packet_ns`` of a kernel that differs from another one by counted operations."""
    packet = before["packet_ns"]
    value, parts = float(packet.value), [f"{packet.value} ns of kernel {kernel.built_from}"]
    for operation, times in kernel.operations.items():
        cost = before.get(f"{operation}_ns")
        if cost is None:
            raise _wrong(path, f"{place}.operations.{operation}", f"no constant {operation}_ns costs it")
        value += times * cost.value
        parts.append(f"{times:+d} {operation} of {cost.value} ns ({cost.source})")
    source = f"{'; '.join(parts)}; the first: {packet.source}"
    try:
        return Constant(value=round(value, 3), kind=packet.kind, source=source)
    except ValueError as odd:
        raise _wrong(path, f"{place}.operations", f"they leave packet_ns what it cannot be: {odd}") from odd


def _assumed(path: Path, content: _File) -> dict[str, Constant]:
    """Constants of the file that this one is like, marked as assumptions here."""
    if content.like is None:
        return {}
    other = path.with_name(f"{content.like}.toml")
    if not other.exists():
        raise _wrong(path, "like", f"there is no {other}")
    return {
        name: Constant(
            value=constant.value,
            kind=constant.kind if constant.kind == "sourced" else "assumed",
            source=f"as in {other.name}: {constant.source}",
        )
        for name, constant in _constants(other, "constants", _read(other).constants).items()
    }


def _constants(path: Path, place: str, tables: Mapping[str, Any]) -> dict[str, Constant]:
    known = Constants.__struct_fields__
    found = {}
    for name, table in tables.items():
        if name not in known:
            raise _wrong(path, f"{place}.{name}", f"unknown constant; known: {', '.join(known)}")
        try:
            found[name] = msgspec.convert(table, Constant)
        except msgspec.ValidationError as odd:
            raise _wrong(path, f"{place}.{name}", str(odd)) from odd
    return found


def _wrong(path: Path, key: str, what: str) -> WorkloadError:
    return WorkloadError(f"{path}: {key}: {what}")
