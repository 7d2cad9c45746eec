"""The report in a real Chromium, used as a person uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from materializer.api import Materializer
from tests import tables
from tests.adapters import page_lakes

pytestmark = pytest.mark.browser
SIZES = [(1440, 900), (768, 1024), (390, 844)]
VIEWS = ["#/", "#/a/hourly", "#/a/held", "#/a/ticks", "#/a/empty", "#/a/gone", "#/a/kept", "#/a/daily", "#/lineage"]
SHIFT = """new Promise(done => { let moved = 0;
  new PerformanceObserver(l => { for (const e of l.getEntries()) if (!e.hadRecentInput) moved += e.value; }).observe({type: 'layout-shift', buffered: true});
  setTimeout(() => done(moved), 600); })"""
"""How much of what was shown moved, as Chromium counts it; 0.1 is felt."""
SERIOUS = {"serious", "critical"}


@pytest.fixture
def page(chromium: Any, report: Path) -> Iterator[Any]:
    """A page of the report that was written, from a folder; errors and requests to anywhere else fail the test."""
    yield from opened(chromium, report.as_uri())


def opened(chromium: Any, url: str, **options: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, **options)
    found = context.new_page()
    wrong: list[str] = []
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    root = url.rpartition("/")[0]
    found.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith((root, "data:")) else None
    )
    found.home = url
    yield found
    assert found.title() != "1", "a text of the lake was run as code"
    assert wrong == []
    context.close()


def go(page: Any, view: str) -> None:
    """Open a view, and wait until its charts are drawn."""
    page.goto("about:blank")
    page.goto(page.home + view)
    page.wait_for_selector("h1")
    if view.startswith("#/a/") and page.locator(".chart").count():
        page.wait_for_selector(".chart[data-drawn]")


def line(page: Any) -> tuple[float, float, int]:
    """Return what of the time line is shown, and how many bucket edges are drawn."""
    page.wait_for_timeout(350)  # the address follows a moment later
    data = page.locator("#chart-timeline").evaluate("e => ({...e.dataset})")
    return float(data["from"]), float(data["to"]), int(data["edges"])


@pytest.mark.one_of(4)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_is_accessible_and_stands_still(chromium: Any, report: Path, view: str) -> None:
    """
    At three widths, nothing is wider than the window, nothing moves after it was shown, and axe finds no serious violation.
    """
    for page in opened(chromium, report.as_uri(), color_scheme="light"):
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            go(page, view)
            assert page.evaluate(SHIFT) < 0.1, (view, width)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert [] == violations(page), width


@pytest.mark.one_of(3)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [SIZES[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SIZES[1:])], ids=str)
def test_every_view_is_accessible_in_the_dark(chromium: Any, report: Path, view: str, size: tuple[int, int]) -> None:
    """
    Colours are what differs, and axe looks at those.
    """
    for page in opened(chromium, report.as_uri(), color_scheme="dark"):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        go(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        assert [] == violations(page)


def violations(page: Any) -> list[tuple[str, list[str]]]:
    """Return what axe finds that keeps somebody from using the page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra `browser`").Axe()
    found = axe.run(page, options={"preload": False}).response["violations"]
    return [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found if v["impact"] in SERIOUS]


def test_the_lake_says_first_what_is_wrong(page: Any) -> None:
    """
    The source that is gone and the bucket that a gate withholds come before what is only dirty; each row leads to its page.
    """
    go(page, "#/")
    names = page.locator("tbody th").all_inner_texts()

    assert names[:2] == ["gone", "held"]
    assert "2 aggregates need attention" in page.locator("h1").inner_text()
    page.click("tbody a:text-is('held')")
    page.wait_for_selector("h1:text('held')")


def test_the_lake_is_sorted_and_filtered(page: Any) -> None:
    """
    By any column, both ways; a state that is chosen leaves the aggregates in it.
    """
    go(page, "#/")
    page.click("thead button:text-is('aggregate')")
    names = page.locator("tbody th").all_inner_texts()
    assert names == sorted(names)
    page.click("thead button:text-is('aggregate')")
    assert page.locator("tbody th").all_inner_texts() == sorted(names, reverse=True)
    page.click(".chip:has-text('fresh')")
    assert set(page.locator("tbody td:first-of-type .state").all_inner_texts()) == {"fresh"}


def test_search_by_keyboard(page: Any) -> None:
    """
    A slash begins it, arrows choose, Enter opens.
    """
    go(page, "#/")
    page.keyboard.press("/")
    page.keyboard.type("e")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#found [aria-selected=true]").inner_text().split("\n")[0]
    page.keyboard.press("Enter")

    page.wait_for_selector(f"h1:text-is('{chosen}')")
    page.keyboard.press("/")
    page.keyboard.type("nothing like it")
    assert "No aggregate" in page.locator("#found").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#found").is_visible()


def test_the_time_line_zooms_from_all_to_buckets_and_back(page: Any) -> None:
    """
    By buttons, by keys and by its slider; bucket edges are drawn when there is room; the address has what is shown.
    """
    go(page, "#/a/hourly")
    first, last, _ = line(page)
    assert (last - first) == page_lakes.DAYS * 86_400_000
    page.click("#zooms button:text-is('Day')")
    start, end, edges = line(page)
    assert (end - start, edges) == (86_400_000, 25)
    assert re.search(r"from=\d+&to=\d+", page.url)
    page.focus("#chart-timeline")
    page.keyboard.press("ArrowLeft")
    assert line(page)[0] == start - 21_600_000
    page.keyboard.press("+")
    assert line(page)[1] - line(page)[0] == 43_200_000
    page.keyboard.press("Home")
    assert line(page)[:2] == (first, last)
    assert "from=" not in page.url


def test_a_bucket_is_chosen_and_linked_to(page: Any) -> None:
    """
    A click on a bucket shows its state, values and refreshes; the address leads back to it.
    """
    go(page, "#/a/hourly")
    page.click("#zooms button:text-is('Buckets')")
    line(page)
    box = page.locator("#chart-timeline").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    page.wait_for_selector("#picked b")
    picked = page.locator("#picked").inner_text()
    assert re.match(r"2024-01-\d\d", picked)
    assert "Refreshes of a window with it" in picked
    url = page.url
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector("#picked b")
    assert page.locator("#picked b").inner_text() == picked.split("\n")[0]


def test_next_dirty_leads_to_what_is_dirty(page: Any) -> None:
    """
    What a gate withholds is found with one click.
    """
    go(page, "#/a/held")
    assert not page.locator("#zooms button:text-is('Next dirty')").is_disabled()
    page.click("#zooms button:text-is('Next dirty')")
    start, end, _ = line(page)
    assert start < 1_705_104_000_000 < end  # 2024-01-13


def test_a_measure_is_chosen_and_corrected_buckets_are_marked(page: Any) -> None:
    """
    The label of the chart says what it shows; the address has the measure.
    """
    go(page, "#/a/hourly")
    page.select_option("#measure", label="high")
    label = page.locator("#chart-measures").get_attribute("aria-label")

    assert label.startswith("high over time, 2 lines")
    assert int(re.search(r"(\d+) corrected", label)[1]) > 0
    assert "measure=high" in page.url


def test_lineage_is_followed(page: Any) -> None:
    """
    A click on an aggregate in the graph opens its page, and so does its name in the list below.
    """
    go(page, "#/lineage")
    page.wait_for_selector("#chart-lineage[data-drawn]")
    place = page.evaluate("""() => { const c = echarts.getInstanceByDom(document.getElementById('chart-lineage'));
      const g = c.getModel().getSeriesByIndex(0).getData(), i = g.indexOfName('a:daily'), p = c.convertToPixel({seriesIndex: 0}, g.getItemLayout(i)); return p; }""")
    box = page.locator("#chart-lineage").bounding_box()
    page.mouse.click(box["x"] + place[0], box["y"] + place[1])
    page.wait_for_selector("h1:text-is('daily')")
    go(page, "#/lineage")
    page.click("main a:text-is('hourly') >> nth=0")
    page.wait_for_selector("h1:text-is('hourly')")


def test_texts_of_the_lake_are_shown_as_text(page: Any) -> None:
    """
    A comment, a value of a key and the name of a suite that are markup are read as they are; none becomes an element.
    """
    for view in ("#/a/hourly", "#/a/held"):
        go(page, view)
        for summary in page.locator("details > summary").all():
            summary.click()
        assert page.locator("main script, main img").count() == 0
        assert page_lakes.SCRIPT in page.locator("main").inner_text()


def test_an_address_that_leads_nowhere_says_so(page: Any) -> None:
    """
    Also one that is markup, and one that is no address at all.
    """
    for view in ("#/a/nothing", "#/a/" + "<img src=x onerror=alert(1)>", "#/a/%E0%A4%A", "#/nowhere"):
        page.goto("about:blank")
        page.goto(page.home + view)
        page.wait_for_selector("h1:has-text('There is no page of')")
        assert page.locator("main img").count() == 0
        page.evaluate("1")


def test_a_served_page_shows_a_change_of_the_journal(chromium: Any, tmp_path: Path) -> None:
    """
    Within seconds, without being loaded again, and where the person was.
    """
    made: Materializer = page_lakes.lake(tmp_path)
    server: Any = made.report_server()
    Thread(target=server.serve_forever, daemon=True).start()
    for page in opened(chromium, server.url):
        go(page, "#/a/hourly")
        before = page.locator("#refreshes .lead").inner_text()
        tables.append(tmp_path / "trades", page_lakes.trades(range(1, 2), minute=40))
        made.refresh("hourly", executor="local")
        page.wait_for_function(
            "before => document.querySelector('#refreshes .lead').innerText !== before", arg=before, timeout=15_000
        )
        assert "Live" in page.locator("#live").inner_text()
        assert page.locator("h1").inner_text() == "hourly"
    server.shutdown()
    server.server_close()
