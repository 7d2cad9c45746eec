"""The page of benchmarks shows what the newest entries of their history say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks import charts, history

FOUND = {
    "trades": {
        "options": {"rows": "1000"},
        "plain": 2.0,
        "duckdb": None,
        "first": 2.6,
        "late": 0.3,
        "one": 0.1,
        "late_counters": {"rows_read": 20},
        "one_counters": {"rows_read": 1},
    },
    "growth": {
        "options": {"days": "[1, 30]"},
        "refreshes": {
            d: {"late": {"seconds": 1.0 + i}, "spread": {"seconds": 1.5}, "one": {"seconds": 0.5}}
            for i, d in enumerate(("1", "30"))
        },
        "memory": {"1": {"runs": 1.0, "heap_mb": 90.0}, "30": {"runs": 15.0, "heap_mb": 91.0}},
    },
    "decay": {
        "options": {"refreshes": "1000"},
        **{
            k: {"first": 0.5, "last": 0.6, "new": 0.55, "old": 0.6, "output_files": 9, "journal_files": 30}
            for k in ("with", "without")
        },
    },
    "journal": {
        "options": {"refreshes": "10000"},
        **{n: {"open_and_fold_seconds": 0.011, "refresh_seconds": 0.02} for n in ("100", "10000")},
    },
    "process": {"options": {}, "with": 6.0, "without": 9.0, "idle": 0.6},
}


def test_an_entry_says_when_of_what_and_where(tmp_path: Path) -> None:
    """
    The newest of each benchmark counts.
    """
    file = tmp_path / "deep" / "history.jsonl"
    assert {} == history.newest(file)
    history.keep("process", {"with": 1.0}, file)
    history.keep("trades", {"plain": 1.0}, file)
    entry = history.keep("process", {"with": 2.0}, file)

    found = history.newest(file)

    assert {"process", "trades"} == set(found)
    assert entry == found["process"]
    assert {"benchmark", "at", "commit", "machine", "found"} == set(entry)
    assert {"cores", "python", "java"} == set(entry["machine"])


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    """
    Half a line is not passed over: its figures would be missing without a word.
    """
    file = tmp_path / "history.jsonl"
    history.keep("process", {}, file)
    file.write_text(file.read_text() + '{"benchmark": "tra')

    with pytest.raises(ValueError, match="line 2"):
        history.newest(file)


def test_every_benchmark_is_drawn(tmp_path: Path) -> None:
    """
    Every chart is an SVG with a bar for each figure, and stands on the page.
    """
    file = tmp_path / "history.jsonl"
    for benchmark, found in FOUND.items():
        history.keep(benchmark, found, file)

    files = charts.render(history.newest(file))
    page = files.pop("benchmarks.md")

    assert all(f"]({name})" in page for name in files)
    assert all(f"`python -m tests.benchmarks.{benchmark}`" in page for benchmark in FOUND)
    drawn = {name: ET.fromstring(text) for name, text in files.items()}
    widths = {
        name: [float(e.attrib["width"]) for e in svg.iter("{http://www.w3.org/2000/svg}rect")][1:]
        for name, svg in drawn.items()
    }
    assert 4 == len(widths["benchmarks/trades.svg"])
    assert widths["benchmarks/growth-late.svg"][1] == pytest.approx(2 * widths["benchmarks/growth-late.svg"][0], abs=1)


def test_what_others_took_is_drawn_where_it_was_measured(tmp_path: Path) -> None:
    """
    TimescaleDB has a bar for its whole and for each refresh, the quicker of its two ways, as multiples of its own whole.
    """
    both = {"batched": 6.0, "one_pass": 5.0}
    late, one = {"batched": 1.0, "one_pass": 2.0}, {"batched": 0.014, "one_pass": 0.012}
    other = {"plain": 4.0, "first": both, "late": late, "one": one}
    without = charts.render({"trades": history.keep("trades", FOUND["trades"], tmp_path / "history.jsonl")})
    found = FOUND["trades"] | {"timescaledb": other}

    files = charts.render({"trades": history.keep("trades", found, tmp_path / "history.jsonl")})

    drawn = files["benchmarks/trades.svg"]
    assert "TimescaleDB" not in without["benchmarks/trades.svg"]
    for text in ("4.00 s", "5.00 s = 1.25 x its whole", "1.00 s = 0.25 x its whole", "12 ms"):
        assert f">{text}</text>" in drawn
    assert drawn.count("TimescaleDB") == 4


def test_what_compiles_is_held_against_what_compiles(tmp_path: Path) -> None:
    """
    A first materialization is a multiple of plain Spark that is as cold, where that was measured; a refresh of the warm one.
    """
    entry = history.keep("trades", FOUND["trades"] | {"plain_cold": 2.5}, tmp_path / "history.jsonl")
    drawn = charts.render({"trades": entry})["benchmarks/trades.svg"]

    assert ">2.60 s = 1.04 x plain</text>" in drawn
    assert ">0.30 s = 0.15 x plain</text>" in drawn


def test_files_are_drawn_where_they_were_counted(tmp_path: Path) -> None:
    """
    A bar for what was read, written and removed by each refresh that tells; runs of before have no such picture.
    """
    counted = {f"{what}_{kind}": 4 for what in ("files", "bytes") for kind in ("read", "written", "removed")}
    without = charts.render({"trades": history.keep("trades", FOUND["trades"], tmp_path / "history.jsonl")})
    found = FOUND["trades"] | {"late_counters": {"rows_read": 20, **counted, "bytes_read": 9_870_000}}

    files = charts.render({"trades": history.keep("trades", found, tmp_path / "history.jsonl")})

    assert {"benchmarks/trades-files.svg"} == files.keys() - without.keys()
    assert 3 == files["benchmarks/trades-files.svg"].count(" MB in 4 files</text>")
    assert ">9.87 MB in 4 files</text>" in files["benchmarks/trades-files.svg"]


def test_the_most_resident_is_drawn_where_it_was_measured(tmp_path: Path) -> None:
    """
    A bar for the JVM and one for Python, for each length that tells, under what heap the JVM was given.
    """
    without = charts.render({"growth": history.keep("growth", FOUND["growth"], tmp_path / "history.jsonl")})
    measured = {"30": {"runs": 15.0, "heap_mb": 91.0, "jvm_peak_mb": 1_500.4, "python_peak_mb": 470.0}}
    found = FOUND["growth"] | {"options": {"memory": "2g"}, "memory": FOUND["growth"]["memory"] | measured}

    files = charts.render({"growth": history.keep("growth", found, tmp_path / "history.jsonl")})

    assert {"benchmarks/growth-peak.svg"} == files.keys() - without.keys()
    for text in ("30 days, the JVM", "1500 MB", "30 days, Python", "470 MB"):
        assert f">{text}</text>" in files["benchmarks/growth-peak.svg"]
    assert "with 2g of heap" in files["benchmarks.md"]


def test_a_long_text_has_room_beside_its_bar() -> None:
    """
    The longest bar is shortened for it.
    """
    longest = [
        float(next(e for e in ET.fromstring(svg).iter() if e.get("class") == "ours").attrib["width"])
        for svg in (charts.bars("", [("a", 1.0, words, "ours")]) for words in ("1 s", "w" * 40))
    ]

    assert longest[1] + charts.LEFT + 6 * 40 <= charts.WIDTH < longest[0] + charts.LEFT + 6 * 40


def test_texts_cannot_leave_their_place() -> None:
    """
    Whatever stands in a label is text.
    """
    svg = charts.bars('"><script>', [("</text><script>alert(1)</script>", 1.0, "<b>", "ours")])

    assert "<script>" not in svg
    assert ET.fromstring(svg).attrib["aria-label"] == '"><script>'


def test_the_page_is_that_of_the_history() -> None:
    """
    Whoever adds an entry draws it: `python -m tests.benchmarks.charts`.
    """
    entries = history.newest()

    assert {"trades", "growth", "process"} <= set(entries)
    for name, text in charts.render(entries).items():
        assert text == (charts.PAGE.parent / name).read_text(encoding="utf-8"), name
