"""Trials, sweeps and tables as text for people, and JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from labkit.analysis.scaling import scaling
from labkit.analysis.summary import PointSummary, ResultsLike, caveat, summarise
from labkit.cli.stream_text import stream_lines
from labkit.records import EMULATED, WHAT_IF, Mark, Trial
from labkit.traffic.sizes import mean_wire_bytes, sizes_text
from labkit.units import NS_PER_US, gbit_per_s, ns_to_seconds, percent_error

DASH: Final = "\N{EN DASH}"
"""Stands where a value is not known."""

MOST_SETTINGS: Final = 16
"""A trial with more settings in force shows those that were asked for: a card has a hundred."""

MARKS: Final[Mapping[Mark, str]] = {
    "cpu-shared": "something else ran on the sender's CPU",
    "kernel-log": "the kernel warned during the run",
    "rate-missed": "the asked rate was not reached within 0.1 % (of a second, where the run was shorter)",
    "device-reset": "the device started again during the run, by its driver's own counters",
    "frozen": "no live sample came for five intervals: the sender stood still; look at what stopped it",
    "ended-early": "the sender ended before its count or time, and nobody here stopped it",
    "no-carrier": "the link was down during the run",
    "nothing-sent": "the device counted no frame",
    "unsettled": "frames left a queue after the sender's end, which makes pps too high, or are in it still; "
    "take a longer run or a shorter queue",
}
"""What is doubtful about a trial with each mark; no marked trial is in a mean."""

CAVEATS: Final[Mapping[str, str]] = {
    WHAT_IF: "what-if: nobody ever measured such a machine",
    EMULATED: "emulated time: speeds compare settings with each other, and say nothing of silicon",
}
"""What each caveat means (`labkit.records.caveat_of`)."""


def print_json(value: object) -> None:
    """One line of JSON on stdout; what is not finite becomes null."""
    click.echo(msgspec.json.encode(value).decode())


def number(value: float | None, digits: int = 0) -> str:
    """Group the digits of `value`; a dash when it is not known."""
    return DASH if value is None else f"{value:,.{digits}f}".replace(",", " ")


def write_figure(figure: Any, path: Path) -> None:
    """Keep a plotly figure as a page that needs no network; where it lies goes to stderr."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.write_html(path, include_plotlyjs=True)
    click.echo(f"labkit: written to {path}", err=True)


def trial_text(trial: Trial) -> str:
    """One trial: speed, the three counts beside each other, whether they agree, what limited it."""
    asked_bytes = trial.environment.get("frame_bytes_asked")
    asked = "" if asked_bytes is None else f" (asked {asked_bytes})"
    flow = trial.environment.get("flow", {})
    mixed = flow.get("shortest_frame_bytes", trial.frame_bytes) != trial.frame_bytes
    length = (
        f"frames of {sizes_text(flow, trial.frame_bytes)}" if mixed else f"{trial.frame_bytes}-byte frames"
    )
    parts = [trial.place, trial.engine, f"{length}{asked}"]
    parts += [f"batch {trial.batch}"] if trial.batch is not None else []
    parts += [f"sink {trial.sink}"] if trial.sink is not None else []
    counts = [
        ("engine sent", trial.engine_sent),
        ("device sent", trial.device_sent),
        ("peer received", trial.peer_received),
    ]
    lines = [
        ", ".join(parts),
        f"  {number(trial.pps)} pps, {number(trial.ns_per_packet, 1)} ns/packet "
        f"over {_seconds(trial.elapsed_ns)}{_asked_rate(trial)}",
        *([f"  the mix takes {number(_wire_gbit_per_s(trial), 3)} Gbit/s of a wire"] if mixed else []),
        "  " + "   ".join(f"{name} {number(count)}" for name, count in counts),
        f"  {_agreement(trial)}",
        f"  limiter: {trial.limiter or 'none proven'}; marks: {', '.join(trial.marks) or 'none'}",
    ]
    lines[3:3] = [*_segments(trial), *stream_lines(trial), *_pacing(trial), *_pktgen(trial), *_workers(trial)]
    lines += _received(trial)
    peer_mode = trial.environment.get("peer_mode") or {}
    lines += [f"  {peer_mode['note']}"] if "note" in peer_mode else []
    lines += [f"  {mark}: {doubt}" for mark, doubt in MARKS.items() if mark in trial.marks]
    if trial.settings_accepted:
        lines.append(f"  settings: {_settings_text(trial)}")
    return "\n".join(lines)


def _wire_gbit_per_s(trial: Trial) -> float | None:
    """What the frames of a mix take of a wire: each at its own length there, preamble and gap included."""
    on_wire = mean_wire_bytes(trial.environment["flow"], trial.frame_bytes)
    return None if trial.pps is None else gbit_per_s(trial.pps, on_wire)


def _segments(trial: Trial) -> list[str]:
    if trial.segments_sent is None or "super_packets" not in trial.environment:
        return []
    carriers = number(trial.environment.get("super_packets"))
    counted = trial.environment.get("device_packets_are")
    return [
        f"  {number(trial.segments_sent)} frames in {carriers} super-packets; device packets are {counted}"
    ]


def _pacing(trial: Trial) -> list[str]:
    """Of a paced run how even it was."""
    seen = trial.environment.get("pacing")
    if not seen:
        return []
    gaps = f"{number(seen['gap_p50_ns'])} ns in the median, {number(seen['gap_p99_ns'])} ns p99"
    return [f"  gaps between calls {gaps}; longest burst {number(seen['burst_frames'])}"]


def _pktgen(trial: Trial) -> list[str]:
    """What the kernel's pktgen took otherwise than asked."""
    told = trial.environment.get("pktgen") or {}
    lines = [f"  asked {each['asked']}, accepted {each['accepted']}" for each in told.get("accepted", [])]
    more = told.get("beyond_count")
    return [*lines, *([f"  {number(more)} frames more than asked: a burst is not cut"] if more else [])]


def _workers(trial: Trial) -> list[str]:
    """What each CPU did, where there were several."""
    return [
        f"  CPU {each['cpu']}: {number(each['pps'])} pps, {number(each['cpu_ns_per_packet'], 1)} ns a packet"
        for each in trial.environment.get("workers", [])
    ]


def _received(trial: Trial) -> list[str]:
    """What a sink that receives tells beyond its count."""
    seen = trial.environment.get("sink")
    if not isinstance(seen, Mapping):
        return []
    kinds = ("lost", "duplicates", "reordered", "corrupted", "foreign", "kernel_dropped")
    known = [f"{kind.replace('_', ' ')} {number(seen[kind])}" for kind in kinds if seen[kind] is not None]
    lines = [f"  sink: {'   '.join(known)}"]
    if seen["latency_ns"] is not None:
        times = (f"{name} {number(ns / NS_PER_US, 1)}" for name, ns in seen["latency_ns"].items())
        return [*lines, f"  µs from when a frame was due: {'   '.join(times)}"]
    return [*lines, f"  no latency: {seen['latency_note']}"]


def _seconds(elapsed_ns: int | None) -> str:
    return "an untold time" if elapsed_ns is None else f"{ns_to_seconds(elapsed_ns):.3f} s"


def _settings_text(trial: Trial) -> str:
    """Settings in force; what was asked and what the hardware does, where that is another value."""
    words, in_force = [], trial.settings_accepted
    shown = in_force if len(in_force) <= MOST_SETTINGS else in_force.keys() & trial.settings_asked.keys()
    for name, accepted in in_force.items():
        if name not in shown:
            continue
        asked, effective = trial.settings_asked.get(name, accepted), trial.settings_effective.get(name)
        notes = [f"asked {asked}"] if asked != accepted else []
        differs = isinstance(effective, float) and effective != accepted
        notes += [f"effective {effective:g}"] if differs else []
        words.append(levels_text({name: accepted}) + (f" ({', '.join(notes)})" if notes else ""))
    words += [f"({len(in_force) - len(shown)} more in --json)"] if len(shown) < len(in_force) else []
    return " ".join(words)


def _asked_rate(trial: Trial) -> str:
    """Asked rate and how far the achieved one is from it; nothing when none was asked."""
    if trial.rate_pps is None:
        return ""
    error = DASH if trial.pps is None else f"{percent_error(trial.pps, trial.rate_pps):+.2f} %"
    asked = f"{trial.rate_pps:,.10g}".replace(",", " ")
    return f"; asked {asked} pps, error {error}"


def _agreement(trial: Trial) -> str:
    verdicts = {True: "reconciled", False: "NOT RECONCILED", None: "reconciled unknown, a count is missing"}
    reason = f"; {trial.difference_reason}" if trial.difference_reason else ""
    return verdicts[trial.reconciled] + reason


def levels_text(levels: Mapping[str, object]) -> str:
    """Settings as ``name=value`` words."""
    return " ".join(f"{name}={DASH if value is None else value}" for name, value in levels.items())


def sweep_text(results: ResultsLike) -> str:
    """Each combination's mean speed with its 95 % interval, then the gaps with their reasons."""
    rows = []
    for point in summarise(results, value="pps"):
        found = point.estimate
        n, speeds = (found.n, [found.mean, found.low, found.high]) if found else (0, [None, None, None])
        rows.append([_point_text(point), str(n), *map(number, speeds), str(point.marked)])
    lines = table(["", "trials", "mean pps", "95 % from", "to", "marked"], rows)
    lines += scaling_lines(results)
    reasons = {(levels_text(gap.levels), gap.gap.reason): None for gap in results.gaps}
    lines += [f"gap {levels}: {reason}" for levels, reason in reasons]
    lines += _marked_text(row.trial for row in results.rows)
    return "\n".join([*lines, *caveat_lines(caveat(results))])


def caveat_lines(caveat: str | None) -> list[str]:
    """What has to be said of numbers with this caveat; nothing of those without."""
    return [] if caveat is None else [CAVEATS.get(caveat, caveat)]


def scaling_lines(results: ResultsLike) -> list[str]:
    """How much each CPU still brings, where their number is all that varies; else nothing."""
    vary = [name for name, levels in results.factors.items() if len(levels) > 1]
    if vary != ["cpus"] or not any(row.trial.pps is not None and not row.trial.marks for row in results.rows):
        return []
    rows = [
        [
            *(number(row.cpus), number(row.pps_per_cpu)),
            *(number(share, 3) for share in (row.efficiency, row.low, row.high)),
        ]
        for row in scaling(results)
    ]
    return ["", *table(["CPUs", "pps a CPU", "efficiency", "95 % from", "to"], rows)]


def _marked_text(trials: Iterable[Trial]) -> list[str]:
    """What is doubtful about marked trials, a line a mark: the table only says how many have one."""
    seen = Counter(mark for trial in trials for mark in trial.marks)
    return [
        f"marked {mark}, {number(seen[mark])} of the trials, in no mean: {doubt}"
        for mark, doubt in MARKS.items()
        if seen[mark]
    ]


def _point_text(point: PointSummary) -> str:
    """Levels as asked, with what the device made of them."""
    words = ((levels_text({name: level}), point.turned.get(name)) for name, level in point.levels.items())
    return " ".join(f"{level} ({turned})" if turned else level for level, turned in words)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, numbers to the right, words to the left."""
    columns = list(zip(head, *rows, strict=True))
    return [" ".join(line).rstrip() for line in zip(*(_aligned(column) for column in columns), strict=True)]


def _aligned(column: Sequence[str]) -> list[str]:
    width = max(len(text) for text in column) + 1
    numeric = all(text == DASH or text.lstrip("+-")[:1].isdigit() for text in column[1:])
    return [text.rjust(width) if numeric else text.ljust(width) for text in column]


def records_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a table with one column a name; numbers grouped, what is not known a dash."""
    return table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows]) if rows else []


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return levels_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 0 if value.is_integer() or abs(value) >= 1000 else 3)
    return number(value) if value is None or isinstance(value, int) else str(value)
