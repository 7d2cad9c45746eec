"""The report as a folder of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.adapters.page.files import ASSETS, script_json
from materializer.api import Materializer
from materializer.errors import UsageError
from tests.adapters import page_lakes

NAMES = {"daily", "empty", "gone", "held", "hourly", "kept", "ticks"}
CHARTS = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"
"""SHA-256 of dist/echarts.min.js in the package echarts 6.1.0."""


def test_a_report_is_complete_and_has_no_other_file(report: Path) -> None:
    """
    The first page, its assets, and one script for each aggregate, also for one whose source is gone.
    """
    found = {str(p.relative_to(report.parent)) for p in report.parent.rglob("*") if p.is_file()}

    assert found == {"index.html", *ASSETS, *(f"data/{name}.js" for name in NAMES)}


def test_a_report_starts_no_spark(lake: Materializer, tmp_path: Path) -> None:
    """
    Also where a plan is shown.
    """
    opened = Materializer(lake.root, config=lake.config)
    opened.report(tmp_path / "site")

    assert opened.report_data("hourly")["plan"]["steps"]
    assert not opened.has_started_spark


def test_a_report_asks_no_network(report: Path) -> None:
    """
    Nothing of ours names another host.
    """
    ours = [report, *(report.parent / name for name in ("page.js", "charts.js", "page.css"))]

    assert [] == [
        p.name
        for p in ours
        for word in ("http://", "https://", "//cdn")
        if word in p.read_text().replace("http://www.w3.org", "")
    ]


def test_the_library_of_charts_is_the_one_that_was_published(report: Path) -> None:
    """
    It is shipped unchanged, with its licence.
    """
    assert hashlib.sha256((report.parent / "echarts.min.js").read_bytes()).hexdigest() == CHARTS
    assert "Apache License 2.0" in (report.parent / "NOTICE.txt").read_text()


def test_a_report_is_replaced_and_drops_what_is_gone(lake: Materializer, tmp_path: Path) -> None:
    """
    A second report into the same folder leaves no page of an aggregate that the lake no longer has.
    """
    index = lake.report(tmp_path / "site")
    (index.parent / "data" / "dropped.js").write_text("old")

    assert lake.report(tmp_path / "site") == index
    assert NAMES == {p.stem for p in (index.parent / "data").glob("*.js")}


@pytest.mark.parametrize("name", ["notes.txt", "index.html"])
def test_a_folder_with_other_files_is_refused(lake: Materializer, tmp_path: Path, name: str) -> None:
    """
    Also one with a page of somebody else; nothing is written.
    """
    (tmp_path / name).write_text("<html>mine</html>")

    with pytest.raises(UsageError, match="other files"):
        lake.report(tmp_path)
    assert [name] == [p.name for p in tmp_path.iterdir()]


def test_a_file_is_no_folder(lake: Materializer, tmp_path: Path) -> None:
    """
    It stays as it is.
    """
    (tmp_path / "file").write_text("mine")

    with pytest.raises(UsageError, match="is a file"):
        lake.report(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_in_a_script_stays_what_it_was_and_ends_no_script(value: object) -> None:
    """
    Whatever texts it has: it reads back as the same value, and has none of the characters that HTML or old JavaScript look at.
    """
    text = script_json(value)

    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


def test_what_a_page_has_is_what_the_lake_says(lake: Materializer, report: Path) -> None:
    """
    Rows, source versions, refreshes and dirt of each page are those of ``status`` and ``history``.
    """
    for status in lake.status():
        page = page_lakes.page_of((report.parent / "data" / f"{status.name}.js").read_text())
        ended = list(reversed(lake.history(status.name, None)))

        assert (page["facts"]["state"], page["facts"]["rows"], page["facts"]["cursor"]) == (
            status.state,
            status.rows,
            status.cursor,
        )
        assert page["refreshes"]["n"] == [e.n for e in ended]
        assert page["refreshes"]["seconds"] == [e.report.seconds for e in ended]
        assert len({len(column) for column in page["refreshes"].values()}) == 1
