"""Which perf is run: a program by its own name, else one that a script of that name would choose of."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.linux.perf_program import find_perf

DEBIAN = b'#!/bin/sh\nexec "perf_$(uname -r)" "$@"\n'
UBUNTU = b'#!/bin/bash\nexec "/usr/lib/linux-tools/$(uname -r)/perf" "$@"\n'
PROGRAM = b"\x7fELF"


def put(path: Path, text: bytes, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def found(root: Path, release: str = "6.1.0-57-amd64") -> str | None:
    return find_perf(f"{root}/local:{root}/bin", root / "lib", release)


def test_none_where_nothing_is_called_perf(tmp_path: Path) -> None:
    put(tmp_path / "bin/perf", PROGRAM, mode=0o644)
    assert found(tmp_path) is None


def test_a_program_is_taken_in_the_order_of_folders(tmp_path: Path) -> None:
    second = put(tmp_path / "bin/perf", PROGRAM)
    assert found(tmp_path) == second
    assert found(tmp_path) != put(tmp_path / "bin/perf_6.1", PROGRAM)
    assert put(tmp_path / "local/perf", PROGRAM) == found(tmp_path)


@pytest.mark.parametrize(
    ("release", "chosen"), [("6.18.44", "perf_6.10"), ("6.1.0-57-amd64", "perf_6.10"), ("4.9", "perf_4.9")]
)
def test_debians_script_is_passed_by_for_the_newest_program_beside_it(
    tmp_path: Path, release: str, chosen: str
) -> None:
    put(tmp_path / "bin/perf", DEBIAN)
    put(tmp_path / "bin/perf_4.9", PROGRAM)
    put(tmp_path / "bin/perf_6.8", PROGRAM)
    put(tmp_path / "bin/perf_6.10", PROGRAM)
    put(tmp_path / "bin/perf_7.0", DEBIAN)
    put(tmp_path / "bin/perf_7.1", PROGRAM, mode=0o644)
    assert found(tmp_path, release) == str(tmp_path / "bin" / chosen)


def test_ubuntus_script_is_passed_by_for_the_running_kernels_else_the_newest(tmp_path: Path) -> None:
    put(tmp_path / "bin/perf", UBUNTU)
    own = put(tmp_path / "lib/linux-tools/6.8.0-31-generic/perf", PROGRAM)
    newest = put(tmp_path / "lib/linux-tools-6.11.0-9/perf", PROGRAM)
    assert found(tmp_path, "6.8.0-31-generic") == own
    assert found(tmp_path) == newest


def test_a_script_that_chooses_of_nothing_is_run_itself(tmp_path: Path) -> None:
    script = put(tmp_path / "bin/perf", DEBIAN)
    put(tmp_path / "lib/linux-tools/6.8.0-31-generic/perf", PROGRAM)
    assert found(tmp_path) == script
