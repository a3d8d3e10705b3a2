"""Why no CPU can be sampled here is said with the sysctl's name, its value, and what to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.agent.sampling import Sampler
from labkit.errors import CapabilityMissingError, LabError
from labkit.linux.perf_limits import PerfLimits, no_sampling, no_symbols, perf_limits

OWN_MAP = "         0          0 4294967295\n"
USER_MAP = "         0       1000          1\n"
HIDDEN, SHOWN = "0000000000000000 T _text\n", "ffffffff81000000 T _text\n"
STAT = "1.19,msec,cpu-clock,1191307,100.00,1.076,CPUs utilized"
WITHOUT_CYCLES = f"<not supported>,,cycles,0,100.00,,\n{STAT}"


def tree(
    folder: Path,
    paranoid: int | None = 2,
    pointers: int | None = 0,
    uids: str = OWN_MAP,
    symbols: str = SHOWN,
) -> Path:
    """A /proc that tells these."""
    for name, text in (
        ("sys/kernel/perf_event_paranoid", paranoid),
        ("sys/kernel/kptr_restrict", pointers),
        ("self/uid_map", uids),
        ("kallsyms", symbols),
    ):
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}")
    return folder


def limits(folder: Path, **told: Any) -> Callable[[], PerfLimits]:
    return lambda: perf_limits(tree(folder, **told))


def fake_perf(folder: Path, script: str) -> str:
    """A folder with a perf of these lines of sh."""
    folder.mkdir(exist_ok=True)
    program = folder / "perf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_machine_that_tells_nothing_is_unknown_and_shows_no_symbols(tmp_path: Path) -> None:
    limits = perf_limits(tmp_path)
    assert (limits.paranoid, limits.pointers, limits.user_namespace, limits.symbols) == (
        None,
        None,
        False,
        False,
    )
    assert "it is unknown" in str(no_sampling(limits, ""))


def test_symbols_are_seen_behind_the_cpus_own_variables_whose_addresses_begin_at_0(tmp_path: Path) -> None:
    own = "0000000000000000 A fixed_percpu_data\n"
    assert perf_limits(tree(tmp_path, symbols=own + own + SHOWN)).symbols
    assert not perf_limits(tree(tmp_path, symbols=own + HIDDEN)).symbols


def test_a_clock_that_is_no_limit_waits_for_a_perf_that_takes_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.agent.sampling.STARTS_WITHIN_S", 0.01)
    slow = f"[ $1 = record ] && echo gone >&2 && exit 1; sleep 0.05; printf '{WITHOUT_CYCLES}\\n' >&2"
    place: dict[str, Any] = {
        "searched": fake_perf(tmp_path / "perf", slow),
        "limits": limits(tmp_path / "proc"),
    }
    with pytest.raises(LabError, match="perf stat` did not end within"):
        Sampler([0], 1.0, **place)
    with pytest.raises(LabError, match="did not start") as ended:
        Sampler([0], 1.0, limited=False, **place)
    assert "gone" in str(ended.value)


@pytest.mark.parametrize(
    ("paranoid", "uids", "place"), [(2, OWN_MAP, "CAP_PERFMON"), (4, USER_MAP, "namespace")]
)
def test_refused_sampling_names_the_sysctl_its_value_and_what_to_run(
    tmp_path: Path, paranoid: int, uids: str, place: str
) -> None:
    limits = perf_limits(tree(tmp_path, paranoid, uids=uids, symbols=HIDDEN))
    told = str(no_sampling(limits, "Access is limited."))
    assert f"kernel.perf_event_paranoid <= 0 (it is {paranoid})" in told
    assert "sudo sysctl kernel.perf_event_paranoid=0 kernel.kptr_restrict=0" in told
    assert place in told
    assert "Access is limited." in told


def test_sampling_refused_where_the_sysctl_allows_it_names_the_container(tmp_path: Path) -> None:
    told = str(no_sampling(perf_limits(tree(tmp_path, paranoid=-1)), ""))
    assert "seccomp" in told
    assert "sysctl kernel.perf" not in told


def test_hidden_symbols_name_the_sysctl_that_hides_them(tmp_path: Path) -> None:
    told = str(no_symbols(perf_limits(tree(tmp_path / "a", 0, pointers=2, symbols=HIDDEN))))
    assert "kernel.kptr_restrict = 0 (it is 2)" in told
    assert "to nobody;" in told
    by_paranoia = str(no_symbols(perf_limits(tree(tmp_path / "b", 3, pointers=0, symbols=HIDDEN))))
    assert "kernel.perf_event_paranoid <= 1 (it is 3)" in by_paranoia


def test_absent_perf_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(CapabilityMissingError, match=r"apt-get install linux-perf"):
        Sampler([0], 1.0, searched=str(tmp_path), limits=limits(tmp_path / "proc"))


def test_refusal_and_hidden_symbols_come_before_anything_is_recorded(tmp_path: Path) -> None:
    refusing = fake_perf(
        tmp_path / "refusing", "printf 'Error:\\nAccess is limited.\\nmore\\n' >&2; exit 255"
    )
    with pytest.raises(CapabilityMissingError, match=r"perf_event_paranoid <= 0 .*Access is limited\."):
        Sampler([0], 1.0, searched=refusing, limits=limits(tmp_path / "proc"))
    blind = fake_perf(tmp_path / "blind", f"[ $1 = stat ] || exit 9; printf '{WITHOUT_CYCLES}\\n' >&2")
    with pytest.raises(CapabilityMissingError, match="kptr_restrict"):
        Sampler([0], 1.0, searched=blind, limits=limits(tmp_path / "proc", pointers=2, symbols=HIDDEN))


def test_perf_that_ends_at_once_is_told_with_its_words(tmp_path: Path) -> None:
    ending = f"[ $1 = stat ] && printf '{WITHOUT_CYCLES}\\n' >&2 && exit 0; echo no such event >&2; exit 1"
    with pytest.raises(LabError, match=r"did not start .*no such event"):
        Sampler([0], 1.0, searched=fake_perf(tmp_path / "perf", ending), limits=limits(tmp_path / "proc"))


def test_perf_that_hangs_is_killed_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.agent.sampling.STARTS_WITHIN_S", 0.5)
    monkeypatch.setattr("labkit.agent.sampling.ENDS_WITHIN_S", 0.5)
    with pytest.raises(LabError, match=r"`perf stat` did not end within 0\.5 s"):
        Sampler(
            [0], 1.0, searched=fake_perf(tmp_path / "stat", "exec sleep 60"), limits=limits(tmp_path / "proc")
        )
    silent = f"[ $1 = stat ] && printf '{WITHOUT_CYCLES}\\n' >&2 && exit 0; exec sleep 60"
    with pytest.raises(LabError, match=r"did not start within 0\.5 s"):
        Sampler([0], 1.0, searched=fake_perf(tmp_path / "silent", silent), limits=limits(tmp_path / "proc"))


def test_cycles_are_taken_where_the_cpu_counts_them(tmp_path: Path) -> None:
    said = tmp_path / "said"
    for cycles, event in (
        ("5123,,cycles,1191307,100.00,,", "cycles"),
        ("<not supported>,,cycles,0,1,,", "cpu-clock"),
    ):
        script = f"[ $1 = stat ] && printf '{cycles}\\n{STAT}\\n' >&2 && exit 0; echo $* > {said}; exit 1"
        with pytest.raises(LabError):
            Sampler([0], 1.0, searched=fake_perf(tmp_path / "perf", script), limits=limits(tmp_path / "proc"))
        assert f"-e {event} " in said.read_text()
