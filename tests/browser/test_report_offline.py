"""The report is one page that draws its figures in a browser that reaches nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import nbformat
import pytest
from playwright.sync_api import Browser, sync_playwright

from labkit.report import run_report

CHROMIUM = "/usr/bin/chromium"
SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
FIGURES = 2
DRAWN = ".js-plotly-plot:has(.main-svg)"
FIGURE = "go.Figure(go.Scatter(x=[60, 1514], y=[low, 2], name='pps'))"
HOUSE_FIGURE = (
    "lk.heatmap(lk.table({(1, 256): 4e6, (30, 256): None}, x='rx_usecs', y='tx_ring', value='pps'))"
)
WORDS = ".gtitle, .xtitle, .ytitle, .xtick text, .ytick text, .annotation-text"
LEAST_CONTRAST = {"words": 3.9, "icons": 3.0}
"""What one grey can have on white and on the dark page alike; of graphics WCAG asks 3."""
COLOURS = """figure => ({
    paper: getComputedStyle(document.body).backgroundColor,
    behind: [figure, ...figure.querySelectorAll('*')].concat(figure.closest('.figure'))
        .map(each => getComputedStyle(each).backgroundColor),
    sheets: [...figure.querySelectorAll('.main-svg rect.bg')].map(each => getComputedStyle(each).fillOpacity),
    words: [...figure.querySelectorAll('WORDS')].map(each => getComputedStyle(each).fill),
    icons: [...figure.querySelectorAll('.modebar-btn .icon path')].map(each => getComputedStyle(each).fill),
})""".replace("WORDS", WORDS)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


class Opened(NamedTuple):
    """What the browser did while it showed the page."""

    asked: list[str]
    complaints: list[str]
    figures: int
    heights_px: list[float]
    text: str


def write_notebook(path: Path) -> Path:
    """Write a notebook with two figures, one formula and a line of text."""
    v4 = nbformat.v4
    parameters = v4.new_code_cell("low = 1", metadata={"tags": ["parameters"]})
    cells = [
        v4.new_markdown_cell(r"# Two figures and $\frac{1}{pps}$"),
        parameters,
        v4.new_code_cell("import labkit as lk\nimport plotly.graph_objects as go"),
        v4.new_code_cell(FIGURE),
        v4.new_code_cell(HOUSE_FIGURE),
        v4.new_code_cell("print('seen', 'offline')\nlk.finish(figures=2)"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    notebook = write_notebook(folder / "two_figures.ipynb")
    run_report([notebook], folder / "out", parameters={"low": 0}, records_dir=folder / "runs", progress=False)
    return folder / "out/report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield started
        started.close()


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Opened:
    """The page, opened with every request but the one for itself refused."""
    asked: list[str] = []
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def gate(route) -> None:
        if route.request.url == report.as_uri():
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    page.route("**/*", gate)
    page.goto(report.as_uri())
    page.wait_for_function(f"document.querySelectorAll('{DRAWN}').length >= {FIGURES}", polling=50)
    boxes = [figure.bounding_box() for figure in page.locator(DRAWN).all()]
    heights_px = [box["height"] for box in boxes if box]
    figures = page.locator(".js-plotly-plot").count()
    result = Opened(asked, complaints, figures, heights_px, page.inner_text("body"))
    page.close()
    return result


def test_no_request_leaves_the_page(opened: Opened) -> None:
    assert [address for address in opened.asked if not address.startswith(("data:", "blob:"))] == []


def test_each_figure_is_drawn(opened: Opened) -> None:
    assert opened.figures == FIGURES
    assert len(opened.heights_px) == FIGURES
    assert min(opened.heights_px) > 100


def test_browser_has_nothing_to_complain_about(opened: Opened) -> None:
    assert opened.complaints == []


def test_printed_text_stands_in_the_page(opened: Opened) -> None:
    assert "seen offline" in opened.text


def luminance(colour: str) -> float:
    """Relative luminance of ``rgb(…)``, as WCAG 2 defines it."""
    channels = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figure_is_readable_on_the_page_itself_in_either_scheme(
    browser: Browser, report: Path, scheme: Literal["light", "dark"]
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(report.as_uri())
    page.wait_for_function(f"document.querySelectorAll('{DRAWN}').length >= {FIGURES}", polling=50)
    found = page.locator(DRAWN).nth(1).evaluate(COLOURS)
    page.close()
    assert (luminance(found["paper"]) < 0.05) == (scheme == "dark")
    assert set(found["behind"]) <= {"rgba(0, 0, 0, 0)"}
    assert set(found["sheets"]) <= {"0"}
    assert len(found["words"]) >= 6
    for kind, least in LEAST_CONTRAST.items():
        assert found[kind]
        assert min(contrast(colour, found["paper"]) for colour in found[kind]) >= least, kind
