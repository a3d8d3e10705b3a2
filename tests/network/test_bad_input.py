"""What cannot be sent is refused on both rigs by the command line: one line, the exit code, nothing sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.cli import main

pytestmark = pytest.mark.network

SIM = "--rig sim:ixgbe --engine pktgen"
VETH = "--rig veth --engine sendmmsg"

ON_BOTH = [
    ("--frame-bytes 1515", 2, "frame 0 has 1515 bytes; at MTU 1500 the largest legal frame has 1514 bytes"),
    ("--frame-bytes 13", 2, "a frame of 13 bytes cannot hold the headers of Ether / IP / UDP"),
    ("--batch 0", 2, "batch 0"),
    ("--batch 1025", 2, "batch 1025"),
    ("--flows 0", 2, "empty flow"),
    ("--flows 70000", 2, "from source port 1024 on there are 64512"),
    ("--engine warp", 2, "unknown engine 'warp'; known: af_xdp, "),
    ("--rig moon", 2, "unknown rig 'moon'; known: sim:ixgbe, sim:ixgbe@baseline, "),
    ("--sink drain", 2, "unknown sink 'drain'; known: ifb, port, rx_ring, socket, stack, wire, xdp_drop"),
    ("--set colour=3", 2, "unknown setting 'colour'; known: adaptive_rx"),
    ("--set rx_mini_ring=256", 4, "has no setting 'rx_mini_ring'"),
    ("--cpus 0", 2, "cpus 0"),
    ("--rate 0", 2, "give"),
    ("--rate inf", 2, "give"),
    ("--rate nan", 2, "give"),
    ("--duration 0", 2, "duration_s 0.0: give seconds above 0"),
    ("--duration nan", 2, "duration_s nan: give seconds above 0"),
    ("--duration inf", 2, "duration_s inf: give seconds above 0"),
    ("--duration 1e300", 2, "duration_s 1e+300: give seconds above 0"),
    ("--count -1", 2, "count -1: give a whole number of frames"),
]
ON_ONE = [
    (f"{VETH} --set tx_ring=256", 4, "rig 'veth' has no setting 'tx_ring'"),
    (f"{VETH} --set tx_ring=256", 4, "try rig 'sim:ixgbe'"),
    (f"{VETH} --engine pktgen", 4, "try rig 'sim:ixgbe'"),
    (f"{VETH} --no-peer-carrier", 1, "veth0: no carrier, the peer is down; bring it up"),
    (f"{VETH} --cpu 900", 2, "CPU 900 is not allowed here; allowed: "),
    (f"{VETH} --mtu 67", 1, "mtu 67 is outside 68..65535"),
    (f"{VETH} --mtu 1000 --frame-bytes 1015", 2, "at MTU 1000 the largest legal frame has 1014 bytes"),
    (f"{VETH} --set mtu=large", 2, "mtu 'large': give a whole number"),
    (f"{VETH} --qdisc fq", 2, "unknown qdisc 'fq'; known: noqueue, pfifo, bfifo, tbf"),
    (f"{VETH} --qdisc tbf", 1, "tbf needs qdisc_limit (bytes) and qdisc_rate_bps (bits per second)"),
    (f"{SIM} --engine sendmmsg", 4, "try rig 'sim:ixgbe-af-packet'"),
    (f"{SIM} --sink ifb", 4, "rig 'sim:ixgbe' has no sink 'ifb' (it has wire); try rig 'veth'"),
    (f"{SIM} --set gro=true", 4, "try rig 'veth'"),
    (f"{SIM} --delay-ns -1", 2, "delay_ns -1: give 0 or more"),
    (f"{SIM} --xmit-mode teleport", 2, "unknown xmit_mode 'teleport'"),
    (f"{SIM} --fault melt=1", 2, "unknown fault 'melt'; known: refuse"),
    (f"{SIM} --fault refuse", 2, "--fault 'refuse' is not NAME=VALUE"),
    (f"{SIM} --sim-seed -1", 2, "seed -1: give a whole number"),
    (f"{VETH} --cpus 4096", 2, "cpus 4096: this process may use"),
    (f"{VETH} --clone-skb 0", 4, "has no clone_skb; take engine 'pktgen' on rig 'sim:ixgbe'"),
    (f"{SIM} --batch 64 --xmit-mode queue_xmit", 4, "its burst, with xmit_mode queue_xmit"),
    (f"{SIM} --mtu 9000", 2, "rig 'sim:ixgbe' has no parameter 'mtu'; it takes seed, faults"),
    (f"{SIM} --set rx_usecs=1023", 1, "the driver takes 0 to 1022"),
]


def told(capsys: pytest.CaptureFixture[str], words: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [(f"{rig} {words}", code, said) for rig in (SIM, VETH) for words, code, said in ON_BOTH] + ON_ONE,
)
def test_run_refuses_with_one_line_and_its_exit_code(
    capsys: pytest.CaptureFixture[str], words: str, code: int, said: str
) -> None:
    ended, out, err = told(capsys, f"run --duration 0.05 --json {words}")
    assert (ended, out) == (code, ""), err
    assert said in err
    assert err.startswith("labkit: ")
    assert err.count("\n") == 1


def test_forbidden_user_namespaces_name_the_switch_and_end_with_4(tmp_path: Path) -> None:
    # the limit belongs to a user namespace of its own: nothing of the machine is changed
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec "
    run = f"{sys.executable} -m labkit run {VETH} --duration 0.05 --json"
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbid + run],
        env=os.environ | {"LABKIT_USERNS": "1", "LABKIT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (4, ""), ended.stderr
    assert "user.max_user_namespaces is 0" in ended.stderr
    assert "`sudo sysctl user.max_user_namespaces=10000`" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("rig", [SIM, VETH])
@pytest.mark.parametrize(
    ("factor", "code", "said"),
    [
        ("colour=3", 2, "factor 'colour' is unknown; known are adaptive_rx"),
        ("engine=warp,send", 2, "engine 'warp' is unknown"),
        ("sink=drain,stack", 2, "sink 'drain' is unknown"),
        ("batch=1,many", 2, "batch 'many': give a whole number"),
        ("batch=0", 2, "batch 0"),
        ("frame_bytes=60.5", 2, "frame_bytes 60.5: give a whole number"),
        ("frame_bytes=9014", 2, "the largest legal frame has 1514 bytes"),
        ("rate_pps=fast", 2, "rate_pps 'fast': give a number"),
        ("qdisc_bypass=maybe", 2, "qdisc_bypass 'maybe': give true or false"),
        ("rx_mini_ring=64,256", 4, "has no setting 'rx_mini_ring'"),
    ],
)
def test_sweep_refuses_before_its_first_trial(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    rig: str,
    factor: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    ended, out, err = told(capsys, f"sweep {rig} --set {factor} --duration 0.05 --json")
    assert (ended, out) == (code, ""), err
    assert said in err
    assert err.startswith("labkit: ")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("words", "code", "trials", "gaps"),
    [
        (f"{VETH} --set frame_bytes=60,9014", 0, 1, 1),
        (f"{SIM} --set rx_usecs=30,1023", 0, 1, 1),
        (f"{SIM} --set rx_usecs=1023", 1, 0, 1),
        (f"{VETH} --set tx_ring=64,256 --gaps", 1, 0, 2),
    ],
)
def test_sweep_with_some_gaps_ends_well_and_with_nothing_else_fails(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    code: int,
    trials: int,
    gaps: int,
) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    ended, out, _ = told(capsys, f"sweep {words} --duration 0.05 --repeats 1 --json")
    assert ended == code
    told_all = json.loads(out)
    assert (len(told_all["trials"]), len(told_all["gaps"])) == (trials, gaps)
    assert all(gap["gap"]["reason"] for gap in told_all["gaps"])
