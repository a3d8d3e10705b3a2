"""Everything that the lab does without hardware, an ordinary user can do in a checkout set up by another."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

TRIAL = "labkit run --rig veth --engine sendmmsg --duration 0.2 --json"

pytestmark = [pytest.mark.user, pytest.mark.timeout(600)]


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_works_and_leaves_the_home_empty(ordinary_user) -> None:
    said = succeeded(
        ordinary_user.run("python", "-I", "-c", "import os, labkit, labkit._native; print(os.getuid())")
    )
    assert int(said) >= 1000
    assert list(ordinary_user.home.iterdir()) == []


def test_rigs_are_listed(ordinary_user) -> None:
    said = succeeded(ordinary_user.run("labkit", "rigs"))
    assert "veth" in said
    assert "sim:ixgbe" in said


def test_published_points_stand_beside_the_law(ordinary_user) -> None:
    points = json.loads(succeeded(ordinary_user.run("labkit", "published", "--check", "--json")))
    assert len(points) >= 36


def test_frames_are_crafted(ordinary_user) -> None:
    assert succeeded(ordinary_user.run("labkit", "craft")).strip()


@pytest.mark.network
@pytest.mark.parametrize("engine", ["sendmmsg", "af_xdp"])
def test_real_packets_are_sent_and_reconciled_without_root(ordinary_user, engine: str) -> None:
    trial = json.loads(succeeded(ordinary_user.run(*TRIAL.split(), "--engine", engine)))
    assert trial["privilege"] == "userns"
    assert trial["reconciled"] is True
    assert trial["engine_sent"] == trial["device_sent"] == trial["peer_received"] > 0


@pytest.mark.network
@pytest.mark.parametrize("program", ["trafgen", "tcpreplay"])
def test_other_programs_send_without_root(ordinary_user, program: str) -> None:
    if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        pytest.skip(f"no {program}: make system-packages")
    trial = json.loads(succeeded(ordinary_user.run(*TRIAL.split(), "--engine", program, "--count", "100")))
    assert trial["device_sent"] == trial["peer_received"] == 100


@pytest.mark.network
def test_profile_is_refused_with_the_sysctl_that_allows_it(ordinary_user) -> None:
    said = ordinary_user.run(*"labkit run --profile --duration 0.1".split())
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) <= 0:
        pytest.skip("kernel.perf_event_paranoid lets everybody sample CPUs here")
    assert said.returncode == 4
    assert "kernel.perf_event_paranoid <= 0" in said.stderr
    assert "sudo sysctl" in said.stderr
    assert said.stdout == ""


@pytest.mark.network
def test_trial_leaves_the_hosts_interfaces_alone(ordinary_user) -> None:
    before = succeeded(ordinary_user.run("ls", "/sys/class/net"))
    succeeded(ordinary_user.run(*TRIAL.split()))
    assert succeeded(ordinary_user.run("ls", "/sys/class/net")) == before


def test_report_is_written_into_the_users_own_folder(ordinary_user, checkout) -> None:
    notebook = str(checkout.folder / "notebooks/00_start.ipynb")
    succeeded(ordinary_user.run("labkit", "report", notebook, "--param", "quick=true"))
    report = ordinary_user.home / "out/report.html"
    assert report.stat().st_size > 0
    assert report.owner() == ordinary_user.name
