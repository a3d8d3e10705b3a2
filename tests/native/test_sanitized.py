"""The native code under AddressSanitizer and UndefinedBehaviorSanitizer: a fake kernel, then a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.private import in_private_network, loopback_up

HERE = Path(__file__).resolve().parent
TOOLS = Path(sys.executable).parent
LIMIT_S = 300

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the freshly built test programs."""
    folder = tmp_path_factory.mktemp("sanitized")
    environment = os.environ | {"PATH": f"{TOOLS}:{os.environ['PATH']}"}
    for command in (["cmake", "-G", "Ninja", "-S", HERE, "-B", folder], ["cmake", "--build", folder]):
        built = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False
        )
        assert built.returncode == 0, built.stdout + built.stderr
    return folder


def run(program: Path, *arguments: str) -> tuple[int, str]:
    strict = {"ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    ended = subprocess.run(
        [program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        env=os.environ | strict,
        check=False,
    )
    return ended.returncode, ended.stdout


def test_pure_parts_hold_every_claim(programs: Path) -> None:
    code, said = run(programs / "pure")
    assert code == 0, said
    assert said.count("ok ") == cases_in(
        "frame_table_cases.cpp",
        "live_cases.cpp",
        "loop_cases.cpp",
        "microcost_cases.cpp",
        "pacing_cases.cpp",
        "ring_cases.cpp",
        "sim_cases.cpp",
        "sim_parts_cases.cpp",
        "sink_cases.cpp",
        "stamp_cases.cpp",
        "stamp_loop_cases.cpp",
        "super_packet_cases.cpp",
        "tcp_cases.cpp",
        "xsk_cases.cpp",
        "xsk_stamp_cases.cpp",
    )


def test_microcosts_hold_every_claim_without_assembly(programs: Path) -> None:
    code, said = run(programs / "portable")
    assert code == 0, said
    assert said.count("ok ") == cases_in("microcost_cases.cpp")


@pytest.mark.network
def test_loops_hold_every_claim_on_a_real_interface(programs: Path) -> None:
    @in_private_network
    def on_loopback() -> tuple[int, str]:
        return run(programs / "wire", str(loopback_up()))

    code, said = on_loopback()
    assert code == 0, said
    wire = ("allocation_cases.cpp", "tcp_wire_cases.cpp", "wire_cases.cpp", "receive_cases.cpp")
    assert said.count("ok ") == cases_in(*wire)


@pytest.mark.network
@pytest.mark.user
@pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("LABKIT_USERNS") == "1",
    reason="live frames need root outside of any user namespace",
)
def test_live_frames_hold_every_claim_on_a_real_interface(programs: Path) -> None:
    @in_private_network
    def on_loopback() -> tuple[int, str]:
        return run(programs / "live", str(loopback_up()))

    code, said = on_loopback()
    assert code == 0, said
    assert said.count("ok ") == cases_in("live_wire_cases.cpp")


def cases_in(*names: str) -> int:
    return sum((HERE / name).read_text().count("\nCASE(") for name in names)
