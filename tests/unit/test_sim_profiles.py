"""Profiles of simulated machines: every number has a source, and a broken file is told by name and key."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

import labkit as lk
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.paths import data_dir
from labkit.rigs import catalog
from labkit.rigs.profiles import load_profile, load_profiles
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Constant
from labkit.simnic.run import Run
from labkit.simnic.sender import Sender

PROFILES = data_dir() / "profiles"
ALL = load_profiles(PROFILES)
UNITS = ("_ns", "_per_s", "_descriptors", "_frames", "_segments")


def broken(tmp_path: Path, old: str, new: str, name: str = "ixgbe") -> Path:
    """A folder of profiles of which one file has `new` instead of `old`."""
    folder = tmp_path / "profiles"
    shutil.copytree(PROFILES, folder)
    file = folder / f"{name}.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return folder


def test_every_machine_of_the_tables_is_there() -> None:
    assert list(ALL)[:2] == ["ixgbe", "ixgbe@baseline"]
    steps = {"v1-patch3", "v1-patch4", "v1-unlocked", "v1", "v1-no-tx-lock", "v2-patch2", "v2", "burst"}
    expected = {"ixgbe", "ixgbe@baseline", *(f"ixgbe@{step}" for step in steps)}
    expected |= {f"ixgbe-e5-2695{kernel}" for kernel in ("", "@xmit-flush", "@xmit-flush-mmiowb", "@flush-8")}
    expected |= {"gianfar", "gianfar@image2", "gianfar@image3", "ixgbe-af-packet", "pktgen-receive"}
    assert set(ALL) == expected | {"generic-25g", "generic-100g"}


@pytest.mark.parametrize("name", ALL)
def test_every_number_has_a_unit_a_kind_and_a_source(name: str) -> None:
    for constant, found in ALL[name].constants.known().items():
        assert constant.endswith(UNITS), constant
        assert found.kind in {"sourced", "fitted", "assumed"}, constant
        assert len(found.source) > 15, constant
        assert "data/published/" in found.source or found.kind != "fitted", constant


def test_what_if_machines_are_marked_and_fit_nothing() -> None:
    assert {name for name, profile in ALL.items() if profile.what_if} == {"generic-25g", "generic-100g"}
    for name in ("generic-25g", "generic-100g"):
        assert {constant.kind for constant in ALL[name].constants.known().values()} == {"assumed"}
        found = simulate(ALL[name], {}, Sender(engine="pktgen"), Run(duration_s=0.01))
        assert found.pps is not None
        assert found.pps < ALL[name].value("link_bits_per_s") / 672


@pytest.mark.parametrize(
    ("kernel", "locks", "rcu"),
    [
        ("v1-patch3", 1, 0),
        ("v1-patch4", 2, 0),
        ("v1-unlocked", 4, 0),
        ("v1", 4, 1),
        ("v1-no-tx-lock", 6, 1),
        ("v2-patch2", 1, 0),
        ("v2", 3, 1),
    ],
)
def test_patched_kernels_are_the_baseline_less_counted_operations(kernel: str, locks: int, rcu: int) -> None:
    baseline, patched = ALL["ixgbe@baseline"], ALL[f"ixgbe@{kernel}"]
    saved = baseline.value("packet_ns") - patched.value("packet_ns")
    assert saved == pytest.approx(locks * 8.23 - rcu * 1.90, abs=1e-6)
    differing = {
        name
        for name, constant in baseline.constants.known().items()
        if constant != patched.constants.known()[name]
    }
    assert differing == {"packet_ns"}


def test_numbers_taken_over_from_another_machine_are_assumptions_there() -> None:
    own, other = ALL["ixgbe"].constants, ALL["ixgbe-af-packet"].constants
    assert other.interrupt_ns.value == own.interrupt_ns.value
    assert own.interrupt_ns.kind == "fitted"
    assert other.interrupt_ns.kind == "assumed"
    assert other.interrupt_ns.source.startswith("as in ixgbe.toml: ")
    assert other.link_bits_per_s.kind == "sourced"


def test_engines_are_those_whose_costs_are_known() -> None:
    assert ALL["ixgbe"].engines == ("pktgen",)
    assert ALL["ixgbe-e5-2695"].engines == ("pktgen", "tx_ring", "send", "sendmmsg")
    assert ALL["gianfar"].engines == ("tcp",)
    assert ALL["pktgen-receive"].engines == ("pktgen",)
    with pytest.raises(CapabilityMissingError, match=r"sim:gianfar has no packet_ns.*it answers tcp"):
        ALL["gianfar"].value("packet_ns")


def test_images_differ_in_poll_and_byte_limits() -> None:
    assert [ALL[name].driver.shared_vector for name in ("gianfar", "gianfar@image2", "gianfar@image3")] == [
        True,
        False,
        True,
    ]
    assert [ALL[name].bql for name in ("gianfar", "gianfar@image2", "gianfar@image3")] == [True, True, False]


def test_an_unknown_profile_is_refused_with_those_that_exist() -> None:
    with pytest.raises(WorkloadError, match=r"sim:ixgbe@v9.*known: sim:ixgbe, sim:ixgbe@baseline.*gianfar"):
        load_profile(PROFILES, "ixgbe@v9")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("value = 876\n", "", r"constants\.interrupt_ns: .*missing required field `value`"),
        ("value = 876", "value = -876", r"constants\.interrupt_ns: .*value -876 must be .*0 or more"),
        ("value = 876", "value = nan", r"constants\.interrupt_ns: .*value nan must be a number"),
        ("value = 876", "value = 1e300", r"constants\.interrupt_ns: .*value 1e\+300 must be .*at the most"),
        ("value = 876", 'value = "many"', r"constants\.interrupt_ns: Expected .*int.*got `str`"),
        ("value = 876", "value = 876\nunit = 1", r"constants\.interrupt_ns: .*unknown field `unit`"),
        ('876\nkind = "fitted"', '876\nkind = "guessed"', r"constants\.interrupt_ns: .*guessed"),
        ("[constants.interrupt_ns]", "[constants.interrupts_ns]", r"interrupts_ns: unknown.*interrupt_ns"),
        ('driver = "ixgbe"', 'driver = "ixgbf"', r"unknown driver 'ixgbf'; known: ixgbe, gianfar"),
        ('driver = "ixgbe"', 'drivers = "ixgbe"', "unknown field `drivers`"),
        ('driver = "ixgbe"', "driver = ", "Invalid value"),
        ('built_from = "baseline"', 'built_from = "base"', r"kernels\.v1-patch3\.built_from: 'base'"),
        ("{ lock_op = -1 }", "{ lock_op = -1000000000 }", r"kernels\.v1-patch3\.operations: .*-8229999821"),
        ("{ lock_op = -1 }", "{ luck = -1 }", r"kernels\.v1-patch3\.operations\.luck: no constant luck_ns"),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_by_name_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=r"ixgbe\.toml: .*" + said):
        load_profiles(broken(tmp_path, old, new))


def test_a_file_that_is_no_text_is_told_by_name(tmp_path: Path) -> None:
    folder = broken(tmp_path, "value = 876", "value = 876")
    (folder / "ixgbe.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(WorkloadError, match=r"ixgbe\.toml: .*can't decode byte"):
        load_profiles(folder)


def test_a_number_that_the_loop_has_no_room_for_names_the_profile(tmp_path: Path) -> None:
    folder = broken(tmp_path, "value = 876", "value = 2e9")
    with pytest.raises(WorkloadError, match=r"sim:ixgbe: .*a cost or gap must be 0 to 1 s"):
        lk.loop_and_law("sim:ixgbe", folder=folder)


def test_a_missing_number_names_file_and_key(tmp_path: Path) -> None:
    folder = broken(tmp_path, "[constants.repoll_ns]", "[constants.shared_line_ns]", "gianfar")
    with pytest.raises(WorkloadError, match=r"gianfar\.toml: constants\.repoll_ns: is missing"):
        load_profiles(folder)


def test_a_file_like_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    folder = broken(tmp_path, 'like = "ixgbe"', 'like = "nosuch"', "pktgen-receive")
    with pytest.raises(WorkloadError, match=r"pktgen-receive\.toml: like: there is no .*nosuch\.toml"):
        load_profiles(folder)


def test_a_constant_without_source_does_not_load() -> None:
    with pytest.raises(msgspec.ValidationError, match="source"):
        msgspec.convert({"value": 1, "kind": "assumed"}, Constant)


def test_rigs_are_listed_under_their_profiles_titles() -> None:
    listed = {info.name: info.title for info in catalog.known_rigs() if info.name.startswith("sim:")}
    assert listed == {f"sim:{name}": profile.title for name, profile in ALL.items()}
