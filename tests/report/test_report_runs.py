from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from labkit.errors import WorkloadError
from labkit.report import record
from tests.report.conftest import Make, Run

FINISH = "from labkit.report import finish\nfinish(value=value)"


def outputs(executed: str) -> str:
    return json.dumps(nbformat.read(executed, as_version=4), ensure_ascii=False)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a kernel was started")

    monkeypatch.setattr("labkit.report.report.run", refuse)


def test_values_arrive_equal_in_the_kernel(notebook: Make, run: Run) -> None:
    given = {
        "none": None,
        "truth": True,
        "mixed": [1, None, True],
        "table": {"a": None},
        "text": "µs Ω 漢字 'quoted' \"twice\"\n{braces}",
        "path": Path("out/x"),
        "number": np.int64(3),
        "share": np.float64(0.1),
        "rings": (64, 256),
    }
    cell = "\n".join(f"{name} = None" for name in given)
    path = notebook(
        "from labkit.report import finish",
        f"finish(**{{name: globals()[name] for name in {list(given)}}})",
        parameters=cell,
    )
    result = run(path, parameters=given)
    right = given | {"path": "out/x", "number": 3, "rings": [64, 256]}
    assert result.states == {"sample": "finished"}
    assert result.runs[0].findings == right


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("value", [{1}, b"x", range(2), object()])
def test_a_value_that_would_become_text_is_refused_before_a_kernel(
    notebook: Make, run: Run, tmp_path: Path, value: object
) -> None:
    with pytest.raises(WorkloadError, match="value"):
        run(notebook(FINISH, parameters="value = None"), parameters={"value": value})
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "deep").exists()


@pytest.mark.usefixtures("no_kernel")
def test_everything_is_checked_before_the_first_notebook_starts(notebook: Make, run: Run) -> None:
    good = notebook(FINISH, parameters="value: int = 1", name="good")
    with pytest.raises(WorkloadError, match=r"bad\.ipynb: 0 cells are tagged 'parameters'"):
        run([good, notebook("ring = 512", parameters=None, name="bad")], texts={"value": "2"})
    with pytest.raises(WorkloadError, match=r"unknown parameter values: good\.ipynb knows value"):
        run(good, texts={"values": "768"})
    with pytest.raises(WorkloadError, match="two notebooks are named good"):
        run([good, good])
    with pytest.raises(WorkloadError, match=r"nowhere\.ipynb"):
        run([good, good.with_name("nowhere.ipynb")])
    with pytest.raises(WorkloadError, match="no notebook to run"):
        run([])


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"cells": 3}', "\x00"])
def test_a_file_that_is_no_notebook_is_refused(tmp_path: Path, run: Run, content: str) -> None:
    (tmp_path / "x.ipynb").write_text(content)
    with pytest.raises(WorkloadError, match=r"x\.ipynb"):
        run(tmp_path / "x.ipynb")


@pytest.mark.usefixtures("no_kernel")
def test_two_parameters_cells_are_refused(notebook: Make, run: Run) -> None:
    path = notebook(FINISH)
    made = nbformat.read(path, as_version=4)
    made.cells.append(nbformat.v4.new_code_cell("ring = 1", metadata={"tags": ["parameters"]}))
    nbformat.write(made, path)
    with pytest.raises(WorkloadError, match="2 cells are tagged"):
        run(path)


@pytest.mark.usefixtures("no_kernel")
def test_a_notebook_is_never_overwritten_by_its_own_result(notebook: Make, tmp_path: Path) -> None:
    from labkit.report import run_report

    path = notebook(FINISH, parameters="value = 1")
    with pytest.raises(WorkloadError, match="overwrite"):
        run_report([path], path.parent, records_dir=tmp_path / "runs")


def test_missing_folders_are_made_and_braces_in_names_kept(notebook: Make, run: Run, tmp_path: Path) -> None:
    result = run(notebook(FINISH, parameters="value: int = 1", name="a {value} b"), texts={"value": "1e3"})
    assert result.runs[0].findings == {"value": 1000}
    assert (tmp_path / "deep" / "out" / "a {value} b.ipynb").exists()
    assert result.html == tmp_path / "deep" / "out" / "report.html"


@pytest.mark.parametrize(
    "kernelspec",
    [None, {"name": "not-installed-here", "display_name": "x", "language": "python"}],
    ids=["none", "unknown"],
)
def test_any_kernel_name_runs_in_this_interpreter(
    notebook: Make, run: Run, kernelspec: dict[str, str] | None
) -> None:
    metadata = {"kernelspec": kernelspec} if kernelspec else {}
    result = run(notebook("import sys\nvalue = sys.executable", FINISH, **metadata))
    assert result.runs[0].findings == {"value": sys.executable}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["value = 1", "print(value)"], "without lk.finish"),
        (["raise ValueError('no <ring>')", FINISH], r"ValueError: no <ring> \(cell 3 of 4: raise"),
        (
            ["import os\nos.kill(os.getpid(), 9)", "value = 1", FINISH],
            r"kernel died \(cell 3 of 5: import os\)",
        ),
        (["value = 1", FINISH, "1 / 0"], "ZeroDivisionError"),
        (["import threading\nthreading.Event().wait()", FINISH], "longer than 2 s"),
    ],
    ids=["no finish", "raised", "kernel killed", "raised after finish", "too long"],
)
def test_a_run_that_did_not_finish_is_failed_with_its_reason(
    notebook: Make, run: Run, cells: list[str], reason: str
) -> None:
    result = run(notebook(*cells), cell_limit_s=2.0)
    assert result.states == {"sample": "failed"}
    assert re.search(reason, str(result.runs[0].reason))
    assert record.read(result.records[0]) == result.runs[0]
    assert not result.finished


def test_a_record_that_the_notebook_broke_is_settled_all_the_same(notebook: Make, run: Run) -> None:
    broken = notebook('import os, pathlib; pathlib.Path(os.environ["LABKIT_RUN_RECORD"]).write_text("{")')
    result = run(broken)
    assert result.states == {"sample": "failed"}
    assert "lk.finish" in str(result.runs[0].reason)


def test_a_failed_notebook_does_not_keep_the_next_from_running(notebook: Make, run: Run) -> None:
    result = run([notebook("1 / 0", name="bad"), notebook("value = 7", FINISH, name="good")])
    assert result.states == {"bad": "failed", "good": "finished"}
    page = result.html.read_text()
    assert "ZeroDivisionError" in page
    assert "id='run-bad'" in page
    assert "id='run-good'" in page


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_cancelled_run_says_so_and_leaves_no_process(
    notebook: Make, tmp_path: Path, number: signal.Signals
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    slow = notebook(
        "print('row 1')",
        f"import os, subprocess, threading\nchild = subprocess.Popen(['sleep', '300'])\n"
        f"open({str(ready)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')",
        "threading.Event().wait()",
        name="slow",
    )
    never = notebook(FINISH, name="never", parameters="value = 1")
    command = [
        sys.executable,
        "-m",
        "labkit",
        "report",
        str(slow),
        str(never),
        "--out",
        str(tmp_path / "out"),
    ]
    home = os.environ | {"LABKIT_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home
    ) as runner:
        started = [int(word) for word in ready.read_text().split()]  # waits for the writing cell
        runner.send_signal(number)
        out, err = runner.communicate(timeout=60)
    assert (runner.returncode, out) == (130, "")
    assert f"what was done so far is in {tmp_path / 'out' / 'report.html'}" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert "row 1" in (tmp_path / "out" / "report.html").read_text()
    assert not (tmp_path / "out" / "never.ipynb").exists()
    assert [pid for pid in started if Path(f"/proc/{pid}/stat").exists() and not _is_zombie(pid)] == []
    (path,) = (tmp_path / "runs").iterdir()
    settled = record.read(path)
    assert settled.state == "cancelled"
    assert settled.reason is not None
    assert settled.reason.startswith(number.name)
    assert "row 1" in outputs(settled.executed)


def test_command_line_converts_runs_and_ends_by_the_record(
    notebook: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from labkit.cli import main

    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    good = str(notebook(FINISH, parameters="value: bool = True", name="good"))
    bad = str(notebook("1 / 0", parameters="value: bool = True", name="bad"))
    words = ["--param", "value=no", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["report", good, *words])
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / "report.html")
    (path,) = (tmp_path / "home" / "runs").iterdir()
    assert record.read(path).findings == {"value": False}
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["report", bad, *words])
    assert "bad failed: ZeroDivisionError" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["report", good, "--param", "valeu=no", "--out", str(tmp_path / "other")])
    assert "unknown parameter valeu: good.ipynb knows value" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
