"""The report as a browser would meet it: nothing fetched, everything shown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.report.conftest import Make, Run

FIGURES = """
import plotly.graph_objects as go
for _ in range(2):
    go.Figure(go.Scatter(x=[1, 2, 3], y=[1.0, None, 2.0])).show()
"""
TABLE = "import pandas as pd\npd.DataFrame({'pps': [1.0, 2.0]}, index=['a', 'b'])"
WORDS = "import sys\nprint('plain <text>')\nprint('10%\\r50%\\rdone', file=sys.stderr)"
WIDGETS = """
import ipywidgets
from tqdm.auto import tqdm
for _ in tqdm([1], desc="bar of a sweep"): pass
ipywidgets.IntSlider(value=42)
"""
MARKUP = "from IPython.display import HTML\nHTML('<b>bold</b>')"
FINISH = "from labkit.report import finish\nfinish(median_pps=1234567.0, note='<script>')"


class Page(HTMLParser):
    """Collects what a browser would fetch by itself, and the text of style sheets."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.styles: list[str] = []
        self.policies: list[str] = []
        self.scripts = 0
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._inside = tag
        self.scripts += tag == "script"
        if tag != "a":
            self.fetched += [found[name] for name in ("src", "href", "data", "srcset") if name in found]
        self.styles.append(found.get("style", ""))
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(found["content"])

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.styles.append(data)


@pytest.fixture(scope="module")
def report_cache() -> dict[str, str]:
    return {}


@pytest.fixture
def page(notebook: Make, run: Run, report_cache: dict[str, str]) -> str:
    """One report of two notebooks with figures, made once for the module."""
    if not report_cache:
        first = notebook(FIGURES, TABLE, WORDS, FINISH, name="first")
        second = notebook(FIGURES, MARKUP, WIDGETS, "1 / 0", name="second")
        report_cache["page"] = run([first, second]).html.read_text()
    return report_cache["page"]


def test_nothing_is_fetched_from_anywhere(page: str) -> None:
    parsed = Page()
    parsed.feed(page)
    assert [address for address in parsed.fetched if not address.startswith("data:")] == []
    styles = "\n".join(parsed.styles)
    assert "@import" not in styles
    assert re.findall(r"url\((?!['\"]?data:)", styles) == []
    assert parsed.policies[0].startswith("default-src 'none';")
    assert "http" not in parsed.policies[0]
    # plotly.js names servers for maps; the policy above keeps even those unasked
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"cdn|require\.js", outside)
    assert not re.search(r"<script[^>]+mathjax", page, re.IGNORECASE)


def test_plotly_is_embedded_once_for_all_figures(page: str) -> None:
    assert len(re.findall(r"\* plotly\.js v\d", page)) == 1
    assert len(re.findall(r"<div class='figure'>", page)) == 4
    assert page.count("Plotly.newPlot(") >= 4


def test_prose_tables_text_and_errors_are_visible(page: str) -> None:
    assert "Cost is $t = a + b/n$ a packet." in page
    assert "<table border" in page
    assert "plain &lt;text&gt;" in page
    assert "<b>bold</b>" in page
    assert "<pre class='stderr'>done" in page
    error = re.search(r"<pre class='error'>(.*?)</pre>", page, re.DOTALL)
    assert error
    assert "ZeroDivisionError: division by zero" in error[1]
    assert "\x1b" not in page


def test_code_is_collapsed_except_where_it_failed(page: str) -> None:
    assert page.count("<details class='code'>") == 9
    assert page.count("<details class='code' open>") == 1


def test_head_and_sections_say_what_ran_and_how_it_ended(page: str) -> None:
    head = page.partition("<main>")[0]
    for word in ("date", "labkit", "kernel", "CPU", "Python"):
        assert f"<th>{word}</th>" in head
    assert re.search(r"href='#run-first'>first</a> <span class='state finished'>finished</span> \d", head)
    assert "<span class='state failed'>failed</span>" in head
    assert "median pps" in page
    assert "1 234 567" in page
    assert "<td style='text-align:left'>&lt;script&gt;</td>" in page
    assert "ZeroDivisionError: division by zero (cell 6 of 6: 1 / 0)" in page
    assert "papermill" not in page


def test_page_adapts_to_dark_screens_and_paper(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_widgets_are_named_and_finished_bars_left_out(page: str) -> None:
    assert page.count("a widget: it works in JupyterLab only") == 1
    prose = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert "bar of a sweep" not in prose
    assert "IntSlider" not in prose
