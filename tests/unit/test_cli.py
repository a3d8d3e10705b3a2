"""The command line over stand-ins for the rooms below: what it asks, what it prints, how it ends."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, get_args

import msgspec
import pytest

from labkit.cli import main
from labkit.cli.app import COMMANDS
from labkit.cli.show import DASH, MARKS
from labkit.errors import AgentLostError, CapabilityMissingError, SettingRefusedError, WorkloadError
from labkit.experiment.published import PublishedPoint
from labkit.factors import Scalar
from labkit.nic.put_back import Outcome, PutBack
from labkit.records import SCHEMA_VERSION, Gap, Mark, RigInfo, Trial
from labkit.results.results import Measured, Missed, Results
from labkit.traffic.table import FrameTable

TRIAL = Trial(
    rig="veth",
    engine="sendmmsg",
    sink="stack",
    frame_bytes=60,
    batch=64,
    duration_s=1.0,
    rate_pps=None,
    elapsed_ns=1_000_000_000,
    cpu_ns=None,
    pps=1_234_567.0,
    ns_per_packet=810.0,
    engine_sent=1_234_567,
    engine_refused=1,
    refused_by_errno={"EMSGSIZE": 1},
    partial_returns=0,
    segments_sent=None,
    qdisc_dropped=0,
    device_sent=1_234_567,
    device_dropped=0,
    peer_received=None,
    peer_dropped=None,
    reconciled=None,
    difference_reason="not verified at the peer",
    limiter=None,
    marks=["cpu-shared"],
    settings_asked={},
    settings_accepted={"mtu": 1500},
    settings_effective={},
    environment={},
    privilege="userns",
    schema_version=SCHEMA_VERSION,
    samples=(),
)

FLOW = {"packet": "Ether / IP / UDP", "layers": [], "vary": {}, "seed": 3}

Run = Callable[..., tuple[int, str, str]]


def results_of(measured: list[dict[str, Any]], missed: list[dict[str, Any]], **trial: Any) -> Results:
    """Results with one trial at each of some levels, and a gap at each of others."""
    told = msgspec.structs.replace(TRIAL, **trial)
    gap = Gap(error="SettingRefusedError", reason="too small")
    levels = [*measured, *missed]
    return Results(
        sweep_id=1,
        rig="veth",
        state="finished",
        factors={name: tuple(dict.fromkeys(each[name] for each in levels)) for name in (levels or [{}])[0]},
        rows=tuple(Measured(point=0, repeat=0, levels=each, trial=told) for each in measured),
        gaps=tuple(Missed(point=0, repeat=0, levels=each, gap=gap) for each in missed),
        environment={},
    )


STANDS_FOR = {
    "labkit.rigs.choose.rig": "rig",
    "labkit.rigs.choose.preview": "preview",
    "labkit.agent.launch.connect_as_root": "connect_as_root",
    "labkit.traffic.flows.udp_flow": "udp_flow",
    "labkit.experiment.trial.run_trial": "run_trial",
    "labkit.experiment.sweep.Sweep": "sweep",
}


class FakeRooms:
    """Stands for rigs, the agent, traffic and experiments, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.closed = 0
        self.trial: Trial | BaseException = TRIAL
        self.results = results_of([], [])
        self.interrupted = False
        self.merged: tuple[str, ...] = ()
        self.put_back: list[PutBack] = []
        self.notes: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1

    def rig(self, name: str, **parameters: Any) -> FakeRooms:
        self.asked["rig"] = name, parameters
        return self

    def preview(self, name: str, settings: dict[str, Any], **parameters: Any) -> str:
        self.asked["preview"] = name, settings, parameters
        return "  tx_ring  512 -> 1024\nThe link stays up."

    def connect_as_root(self, *, state: Path | None) -> FakeRooms:
        self.asked["restore"] = state
        return self

    def restore_all(self) -> list[PutBack]:
        return self.put_back

    def forget(self, device: str) -> list[PutBack]:
        self.asked["forget"] = device
        return self.put_back

    def udp_flow(self, **options: Any) -> Any:
        self.asked["flow"] = options
        return SimpleNamespace(
            frame_bytes=60,
            table=lambda: FrameTable.of([b"\x02" * 60, b"A" * 60]),
            describe=lambda: FLOW,
        )

    def run_trial(self, rig: Any, workload: Any, **options: Any) -> Trial:
        self.asked["workload"], self.asked["trial"] = workload, options
        if isinstance(self.trial, BaseException):
            raise self.trial
        return self.trial

    def sweep(self, rig: Any, workload: Any, *, factors: Any, **options: Any) -> FakeRooms:
        self.asked["workload"], self.asked["factors"], self.asked["sweep"] = workload, factors, options
        return self

    def run(self, **options: Any) -> Any:
        self.asked["sweep_run"] = options
        if self.interrupted:
            raise KeyboardInterrupt
        return self.results


@pytest.fixture
def below(monkeypatch: pytest.MonkeyPatch) -> FakeRooms:
    fake = FakeRooms()
    importlib.import_module("labkit.traffic.mixes")  # it keeps the udp_flow that it finds
    for target, name in STANDS_FOR.items():
        monkeypatch.setattr(target, getattr(fake, name))
    return fake


@pytest.fixture
def labkit(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


def test_run_prints_one_json_object_and_nothing_else_on_stdout(below: FakeRooms, labkit: Run) -> None:
    code, out, err = labkit("run", "--rig", "veth", "--engine", "sendmmsg", "--duration", "1", "--json")
    assert code == 0
    assert json.loads(out) == TRIAL.as_json()
    assert err == ""
    assert below.closed == 1


def test_run_hands_over_what_was_asked(below: FakeRooms, labkit: Run) -> None:
    words = (
        "run --rig veth --engine send --duration 0.5 --count 9 --batch 8 --frame-bytes 128 --flows 4 "
        "--rate 1e5 --qdisc-bypass --cpu 1 --sink ifb --mtu 9000 --qdisc pfifo --qdisc-limit 10 "
        "--qdisc-rate-bps 1000000 --no-peer-carrier --set txqueuelen=100 --set adaptive_rx=off --unchecked"
    )
    assert labkit(*words.split())[0] == 0
    assert below.asked["rig"] == (
        "veth",
        {
            "mtu": 9000,
            "qdisc": "pfifo",
            "qdisc_limit": 10,
            "qdisc_rate_bps": 1_000_000,
            "peer_carrier": False,
        },
    )
    assert below.asked["flow"] == {"frame_bytes": 128, "flows": 4}
    workload = below.asked["workload"]
    assert (workload.engine, workload.batch, workload.rate_pps, workload.cpu) == ("send", 8, 1e5, 1)
    assert (workload.qdisc_bypass, workload.sink) == (True, "ifb")
    settings = {"txqueuelen": 100, "adaptive_rx": False}
    assert below.asked["trial"] == {"settings": settings, "duration_s": 0.5, "count": 9, "check": False}


@pytest.mark.parametrize("command", ["run", "sweep --set tx_ring=64"])
def test_second_port_and_the_guards_word_reach_the_device(
    below: FakeRooms, labkit: Run, tmp_path: Path, command: str
) -> None:
    words = f"{command} --rig nic:eth8 --port eth9 --i-know eth8 --state {tmp_path}"
    labkit(*words.split())
    assert below.asked["rig"] == ("nic:eth8", {"port": "eth9", "i_know": "eth8", "state": tmp_path})


def test_dry_run_says_what_would_change_and_opens_nothing_to_send(below: FakeRooms, labkit: Run) -> None:
    words = "run --rig nic:eth8 --i-know eth8 --set tx_ring=1024 --dry-run"
    code, out, err = labkit(*words.split())
    assert (code, out, err) == (0, "  tx_ring  512 -> 1024\nThe link stays up.\n", "")
    assert below.asked == {"preview": ("nic:eth8", {"tx_ring": 1024}, {"i_know": "eth8"})}
    assert json.loads(labkit(*words.split(), "--json")[1]) == {
        "rig": "nic:eth8",
        "changes": ["  tx_ring  512 -> 1024", "The link stays up."],
    }


def test_dry_run_on_a_simulated_rig_says_that_nothing_stays(labkit: Run) -> None:
    code, out, _ = labkit("run", "--rig", "sim:ixgbe", "--set", "tx_ring=1001", "--dry-run")
    assert code == 0
    assert out.splitlines() == [
        "  tx_ring  512 -> 1008  (link down and up, at most 3 s)",
        "The link goes down and up 1 time, at most 3 s in all.",
        "tx_ring: 1001 becomes 1008",
        "Nothing of this outlives the rig.",
    ]
    assert labkit("run", "--rig", "sim:ixgbe", "--set", "gro=true", "--dry-run")[0] == 4


def test_options_of_a_simulated_sender_reach_it(labkit: Run) -> None:
    options = "--batch 4 --clone-skb 0 --cpus 2 --delay-ns 0 --xmit-mode start_xmit"
    words = f"run --rig sim:ixgbe --engine pktgen --duration 0.01 --json {options}"
    sender = json.loads(labkit(*words.split())[1])["environment"]["sender"]
    assert (sender["batch"], sender["clone_skb"], sender["cpus"]) == (4, 0, 2)
    assert (sender["xmit_mode"], sender["gap_ns"]) == ("start_xmit", 0)


def test_faults_and_seed_of_a_simulated_rig_come_from_the_command_line(labkit: Run) -> None:
    faults = ("--fault", "carrier_lost_after_s=0.005", "--fault", "refuse=mtu;channels", "--sim-seed", "7")
    words = ("run", "--rig", "sim:ixgbe", "--engine", "pktgen", "--duration", "0.01", *faults)
    trial = json.loads(labkit(*words, "--json")[1])
    assert (trial["limiter"], trial["marks"]) == ("carrier", ["no-carrier"])
    assert trial["environment"]["faults"]["refuse"] == ["mtu", "channels"]
    assert trial["environment"]["seed"] == 7
    assert "is refused" in labkit(*words, "--set", "mtu=1400")[2]
    assert labkit("run", "--rig", "sim:ixgbe", "--fault", "refuse=mtu", "--set", "mtu=9", "--dry-run")[0] == 1


def test_hypotheses_and_random_arrivals_come_from_the_command_line(labkit: Run) -> None:
    words = "run --rig sim:generic-25g --engine receive --rate 1e6 --duration 0.01 --json"
    switches = "--random-arrivals --hypothesis shared-line --hypothesis locked-stall"
    plain, turned = (
        json.loads(labkit(*each.split())[1])["environment"]["sender"]
        for each in (words, f"{words} {switches}")
    )
    assert (plain["poisson"], plain["hypotheses"]) == (False, [])
    assert (turned["poisson"], turned["hypotheses"]) == (True, ["locked-stall", "shared-line"])
    assert "known: locked-stall" in labkit(*words.split(), "--hypothesis", "magic")[2]


def test_length_that_the_sender_chose_is_shown_beside_the_asked_one(labkit: Run) -> None:
    shown = labkit("run", "--rig", "sim:gianfar", "--engine", "tcp", "--duration", "0.01")[1]
    assert shown.startswith("sim:gianfar, tcp, 1514-byte frames (asked 60), batch 1, sink wire")


def put_back(outcome: Outcome) -> PutBack:
    return PutBack(name="mtu", original=1500, found=9000, outcome=outcome, text=f"eth8: mtu {outcome}")


def test_restore_with_nothing_left_is_one_line(below: FakeRooms, labkit: Run) -> None:
    assert labkit("restore") == (0, "nothing is left to put back\n", "")
    assert below.closed == 1
    assert labkit("restore", "--json") == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        *(("restored", 0), ("unchanged", 0), ("foreign", 0), ("skipped", 0)),
        *(("inexact", 1), ("refused", 1), ("gone", 1), ("busy", 1)),
    ],
)
def test_restore_tells_each_setting_and_fails_where_one_is_not_as_before(
    below: FakeRooms, labkit: Run, outcome: Outcome, code: int
) -> None:
    below.put_back = [put_back("restored"), put_back(outcome)]
    assert labkit("restore") == (code, f"eth8: mtu restored\neth8: mtu {outcome}\n", "")
    told = json.loads(labkit("restore", "--json")[1])
    assert [each["outcome"] for each in told] == ["restored", outcome]
    assert told[0] == {
        "name": "mtu",
        "original": 1500,
        "found": 9000,
        "outcome": "restored",
        "text": "eth8: mtu restored",
    }


def test_restore_that_is_to_forget_puts_nothing_back_and_tells_what_is_forgotten(
    below: FakeRooms, labkit: Run
) -> None:
    below.put_back = [put_back("forgotten")]
    assert labkit("restore", "--forget", "eth8") == (0, "eth8: mtu forgotten\n", "")
    assert below.asked["forget"] == "eth8"
    assert json.loads(labkit("restore", "--forget", "eth8", "--json")[1])[0]["outcome"] == "forgotten"


@pytest.mark.parametrize("command", ["run", "sweep --set tx_ring=64"])
def test_what_opening_a_device_put_back_is_told_on_stderr(
    below: FakeRooms, labkit: Run, command: str
) -> None:
    below.notes = ("eth8: mtu put back to 1500",)
    assert "labkit: eth8: mtu put back to 1500\n" in labkit(*command.split(), "--rig", "nic:eth8")[2]


def test_what_failed_on_the_way_out_is_told_behind_the_error(below: FakeRooms, labkit: Run) -> None:
    failure = SettingRefusedError("eth8: tx_ring refused")
    failure.add_note("at the end of the rig: eth8: mtu could not be put back to 1500")
    below.trial = failure
    code, out, err = labkit("run")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "labkit: eth8: tx_ring refused",
        "labkit: at the end of the rig: eth8: mtu could not be put back to 1500",
    ]


def test_rigs_mention_real_devices(labkit: Run) -> None:
    assert "\nnic:INTERFACE: " in labkit("rigs")[1]


def test_run_says_speed_counts_and_doubts(below: FakeRooms, labkit: Run) -> None:
    _, out, _ = labkit("run")
    assert "1 234 567 pps, 810.0 ns/packet" in out
    assert "engine sent 1 234 567   device sent 1 234 567   peer received –" in out  # noqa: RUF001
    assert "reconciled unknown, a count is missing; not verified at the peer" in out
    assert "limiter: none proven; marks: cpu-shared" in out


@pytest.mark.parametrize("mark", get_args(Mark))
def test_run_says_what_each_mark_doubts(below: FakeRooms, labkit: Run, mark: Mark) -> None:
    assert MARKS.keys() == set(get_args(Mark))
    below.trial = msgspec.structs.replace(TRIAL, marks=[mark])
    told = labkit("run")[1].splitlines()
    assert f"  {mark}: {MARKS[mark]}" in told
    assert sum(line.startswith(tuple(f"  {each}:" for each in MARKS)) for line in told) == 1


@pytest.mark.parametrize(
    ("pps", "shown"),
    [(57_609.0, "asked 150 000 pps, error -61.59 %"), (None, "asked 150 000 pps, error \N{EN DASH}")],
)
def test_run_shows_the_asked_rate_and_how_far_off_it_is(
    below: FakeRooms, labkit: Run, pps: float | None, shown: str
) -> None:
    below.trial = msgspec.structs.replace(TRIAL, rate_pps=150_000.0, pps=pps)
    assert shown in labkit("run", "--rate", "150000")[1]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WorkloadError("no such engine"), 2),
        (SettingRefusedError("veth0 refuses", errno=22, kernel_text="ring too large"), 1),
        (AgentLostError("agent ended", stderr_tail="last words"), 1),
        (CapabilityMissingError("no pktgen here"), 4),
        (PermissionError(13, "Permission denied", "results.sqlite"), 1),
    ],
)
def test_errors_are_one_message_on_stderr_and_an_exit_code(
    below: FakeRooms, labkit: Run, error: Exception, code: int
) -> None:
    below.trial = error
    ended, out, err = labkit("run", "--json")
    assert (ended, out, err) == (code, "", f"labkit: {error}\n")
    assert below.closed == 1


def test_debug_shows_where_an_error_came_from(below: FakeRooms, labkit: Run) -> None:
    below.trial = WorkloadError("no such engine")
    assert "Traceback" in labkit("--debug", "run")[2]


def test_an_error_that_is_labkits_own_is_not_hidden(below: FakeRooms) -> None:
    below.trial = ZeroDivisionError("bug")
    with pytest.raises(ZeroDivisionError, match="bug"):
        main(["run"])


def test_interrupt_is_130_and_one_line(below: FakeRooms, labkit: Run) -> None:
    below.trial = KeyboardInterrupt()
    code, out, err = labkit("run", "--json")
    assert (code, out) == (130, "")
    assert err.strip() == "labkit: interrupted; nothing is left running"


@pytest.mark.parametrize(
    "words",
    [
        "run --batch x",
        "run --duration soon",
        "run --set txqueuelen",
        "run --set mtu=1 --set mtu=2",
        "run nonsense",
        "sweep",
        "sweep --set tx_ring=,",
        "sweep --set tx_ring",
        "craft --show -1",
        "craft --vlan seven",
        "craft --imix --frame-bytes 64",
        "run --pcap /nowhere.pcap",
        "run --pcap /nowhere.pcap --imix --flows 2",
        "report --param quick",
        "bogus",
        "--bogus",
    ],
)
def test_usage_errors_are_2_and_run_nothing(below: FakeRooms, labkit: Run, words: str) -> None:
    code, out, err = labkit(*words.split())
    assert (code, out) == (2, "")
    assert err.strip()
    assert below.asked.keys() <= {"flow"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(labkit: Run, command: str) -> None:
    code, out, _ = labkit(command, "--help")
    assert code == 0
    assert re.search(rf"^    (sudo \S*)?labkit {command}", out, re.MULTILINE)
    assert command in labkit("--help")[1]


def test_sweep_reads_levels_and_prints_its_trials(below: FakeRooms, labkit: Run) -> None:
    below.results = results_of([{"tx_ring": 256}], [])
    words = (
        "sweep --set tx_ring=64,256 --set qdisc=fq,pfifo --repeats 2 --duration 0.1 --seed 7 --gaps --resume"
    )
    code, out, _ = labkit(*words.split(), "--json")
    assert code == 0
    assert json.loads(out) == {"trials": [TRIAL.as_json()], "gaps": []}
    assert below.asked["factors"] == {"tx_ring": [64, 256], "qdisc": ["fq", "pfifo"]}
    assert below.asked["sweep"] == {"repeats": 2, "duration_s": 0.1, "seed": 7}
    assert below.asked["sweep_run"] == {"progress": True, "gaps": True, "resume": True}
    below.results = results_of([{"tx_ring": 256}], [{"tx_ring": 64}])
    code, out, _ = labkit(*words.split())
    assert code == 0
    assert "tx_ring=256" in out
    assert "gap tx_ring=64: too small" in out


def test_sweep_counts_frames_when_asked(below: FakeRooms, labkit: Run) -> None:
    labkit("sweep", "--set", "tx_ring=64", "--count", "60000")
    assert below.asked["sweep"]["count"] == 60000


def test_sweeps_table_is_ordered_by_level_not_by_run(below: FakeRooms, labkit: Run) -> None:
    levels = [{"tx_ring": 256}, {"tx_ring": 64}, {"tx_ring": 1024}, {"tx_ring": 64}]
    planned: tuple[Scalar, ...] = (64, 256, 1024)
    below.results = msgspec.structs.replace(results_of(levels, [], marks=[]), factors={"tx_ring": planned})
    lines = labkit("sweep", "--set", "tx_ring=64,256,1024")[1].splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [
        ["tx_ring=64", "2"],
        ["tx_ring=256", "1"],
        ["tx_ring=1024", "1"],
    ]


def test_sweep_and_run_say_what_the_driver_made_of_a_value(below: FakeRooms, labkit: Run) -> None:
    in_force = {
        "settings_asked": {"tx_ring": 1001, "rx_usecs": 31},
        "settings_accepted": {"tx_ring": 1008, "rx_usecs": 31},
        "settings_effective": {"tx_ring": 1008, "rx_usecs": 30.72},
    }
    below.results = results_of([{"tx_ring": 1001, "rx_usecs": 31}], [], marks=[], **in_force)
    line = labkit("sweep", "--set", "tx_ring=1001")[1].splitlines()[1]
    assert "tx_ring=1001 (accepted 1008) rx_usecs=31 (effective 30.72)" in line
    below.trial = msgspec.structs.replace(TRIAL, **in_force)
    assert "tx_ring=1008 (asked 1001) rx_usecs=31 (effective 30.72)" in labkit("run")[1]


def test_sweep_of_nothing_but_gaps_failed(below: FakeRooms, labkit: Run) -> None:
    below.results = results_of([], [{"tx_ring": 64}])
    assert labkit("sweep", "--set", "tx_ring=64")[0] == 1


def test_marked_trials_stay_out_of_a_sweeps_speeds(below: FakeRooms, labkit: Run) -> None:
    below.results = results_of([{"mtu": 1500}], [], marks=["cpu-shared"])
    line = labkit("sweep", "--set", "mtu=1500")[1].splitlines()[1]
    assert line.split() == ["mtu=1500", "0", DASH, DASH, DASH, "1"]


def test_interrupted_sweep_says_where_its_trials_are(
    below: FakeRooms, labkit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_DB", "/tmp/kept.sqlite")  # noqa: S108 - a name only
    below.interrupted = True
    code, out, err = labkit("sweep", "--set", "tx_ring=64", "--json")
    assert (code, out) == (130, "")
    assert "kept.sqlite, --resume goes on" in err
    assert len(err.splitlines()) == 1
    assert below.closed == 1


def test_frames_of_one_length_name_it_once(labkit: Run) -> None:
    _, out, _ = labkit("craft", "--flows", "4", "--show", "0")
    assert out.count("60 bytes") == 1


def test_craft_dumps_frames(below: FakeRooms, labkit: Run) -> None:
    code, out, _ = labkit("craft", "--vlan", "7", "--vary", "UDP.dport=9,10", "--seed", "3", "--show", "5")
    assert code == 0
    assert "Ether / IP / UDP\n2 frames of 60 bytes (84 on the wire), seed 3\n" in out
    assert "0020  41 41 41 41 41 41 41 41 41 41 41 41 41 41 41 41  AAAAAAAAAAAAAAAA" in out
    assert below.asked["flow"]["vary"].keys() == {"UDP.dport"}
    assert below.asked["flow"]["vlan"] == 7
    assert labkit("craft", "--vlan", "30,7")[0] == 0
    assert below.asked["flow"]["vlan"] == (30, 7)
    assert labkit("craft", "--pktgen-header")[0] == 0
    assert below.asked["flow"] == {"pktgen_header": True}
    _, out, _ = labkit("craft", "--seed", "3", "--json")
    assert json.loads(out) == {"flow": FLOW, "count": 2, "frames": ["02" * 60]}


def test_craft_writes_a_capture_that_run_sends(below: FakeRooms, labkit: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "frames.pcap")
    assert labkit("craft", "--pcap", file, "--show", "0")[0] == 0
    assert labkit("run", "--pcap", file)[0] == 0
    assert below.asked["workload"].flow.describe()["packet"] == "capture frames.pcap"
    code, _, err = labkit("run", "--pcap", file, "--imix", "--flows", "2")
    assert (code, err) == (2, "labkit: --pcap sends a file's frames as they are; leave out --flows, --imix\n")


def test_mixed_lengths_are_told_with_their_mean_and_what_they_take_of_a_wire(
    below: FakeRooms, labkit: Run
) -> None:
    flow = {"shortest_frame_bytes": 60, "mean_frame_bytes": 4294 / 12, "mean_wire_bytes": 4582 / 12}
    below.trial = msgspec.structs.replace(
        TRIAL, frame_bytes=1514, pps=3_273_680.0, environment={"flow": flow}
    )
    code, out, _ = labkit("run", "--imix", "--flows", "12")
    assert code == 0
    assert "frames of 60 to 1514 bytes, 357.8 on average" in out
    assert "the mix takes 10.000 Gbit/s of a wire" in out
    assert below.asked["workload"].flow.describe()["sizes"] == {"60": 7, "590": 4, "1514": 1}


def test_rigs_lists_what_each_can(labkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    info = RigInfo(name="veth", title="a pair", engines=("send",), sinks=(), factors=("mtu", "qdisc"))
    monkeypatch.setattr("labkit.rigs.catalog.known_rigs", lambda: [info])
    assert labkit("rigs")[1] == "veth: a pair\n    engines: send\n    settings: mtu, qdisc\n"
    assert json.loads(labkit("rigs", "--json")[1])[0]["factors"] == ["mtu", "qdisc"]


def test_published_compares_points(labkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        PublishedPoint(
            file=file,
            table=table,
            setting={"tx_ring": 64},
            unit="pps",
            published=100.0,
            lab=lab,
            error=None if lab is None else lab - 100,
            fitted=table == "b",
            reason="no mechanism" if lab is None else None,
        )
        for file, table, lab in (("one", "a", 99.0), ("one", "b", 97.0), ("two", "two", None))
    ]
    monkeypatch.setattr("labkit.experiment.published.published_points", lambda: points)
    left_over = SimpleNamespace(as_text=lambda: "image 2: a saving")
    monkeypatch.setattr("labkit.experiment.unexplained.unexplained", lambda _points: [left_over])
    every = [point.as_json() for point in points]
    assert json.loads(labkit("published", "--check", "--json")[1]) == every
    assert json.loads(labkit("published", "b", "--check", "--json")[1]) == every[1:2]
    assert json.loads(labkit("published", "one", "--check", "--json")[1]) == every[:2]
    said = labkit("published", "--check")[1]
    assert "image 2: a saving" in said
    assert "no mechanism" in said
    lines = [line.split() for line in said.splitlines()]
    assert ["a", "tx_ring", "64", "pps", "100.000", "99.000", "-1.00", "predicted"] in lines
    assert ["tx_ring", "64", "pps", "100.000", "no", "answer"] in lines
    assert " no answer for 1: no mechanism" in said
    summary = [line for line in lines if line[:2] == ["one", "pps"]]
    assert summary == [
        ["one", "pps", "predicted", "1", "1.00", "1.00"],
        ["one", "pps", "fitted", "1", "3.00", "3.00"],
    ]
    assert "image 2" not in labkit("published", "one", "--check")[1]
    code, _, error = labkit("published", "gianfar", "--check")
    assert code == 2
    assert "nothing to check in table 'gianfar'; there are one, a, b, two" in error


def test_published_table_goes_into_the_store(
    labkit: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LABKIT_DB", str(tmp_path / "results.sqlite"))
    said = labkit("published", "af_packet_flush", "--store", "--json")[1]
    assert json.loads(said) == {"sweep": 1, "store": str(tmp_path / "results.sqlite")}
    assert "is sweep 1 in" in labkit("published", "af_packet_flush", "--store")[1]
    assert labkit("published", "--store")[0] == 2


class GianfarRow(msgspec.Struct):
    """netperf on gianfar.

    More about it.
    """

    name: str
    pps: int | None


def test_published_shows_tables(labkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (GianfarRow(name="a", pps=1234567), GianfarRow(name="b", pps=None))
    monkeypatch.setattr("labkit.results.published.TABLES", {"gianfar": GianfarRow})
    monkeypatch.setattr("labkit.results.published.published_table", lambda name: rows)
    assert [line.split(maxsplit=1) for line in labkit("published")[1].splitlines()] == [
        ["table", "about"],
        ["gianfar", "netperf on gianfar."],
    ]
    assert "1 234 567" in labkit("published", "gianfar")[1]


def test_help_loads_no_heavy_library() -> None:
    heavy = (
        "{'numpy', 'pandas', 'scapy', 'plotly', 'papermill', 'sqlalchemy', 'scipy', 'IPython', 'nbformat'}"
    )
    code = (
        "import sys, labkit.cli\n"
        "try: labkit.cli.main(['report', '--help'])\n"
        f"except SystemExit: print({heavy} & set(sys.modules), file=sys.stderr)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stderr.strip() == "set()"


def test_trial_with_a_hundred_settings_shows_those_that_were_asked(below: FakeRooms, labkit: Run) -> None:
    in_force: dict[str, Scalar] = {**{f"feature_{number}": True for number in range(99)}, "mtu": 1400}
    below.trial = msgspec.structs.replace(TRIAL, settings_asked={"mtu": 1400}, settings_accepted=in_force)
    assert "  settings: mtu=1400 (99 more in --json)\n" in labkit("run")[1]
