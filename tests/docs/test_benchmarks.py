"""The page of benchmarks shows what the newest entries of their history say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks import asked, charts, gate, history

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
    "engines": {
        "options": {},
        "lines": [
            {"engine": "event time", "after": after, "rows_read": 9, "source": 1_000, "jobs": 5}
            for after in ("0.1 % new rows", "one late row")
        ],
    },
    "gate": {
        "options": {},
        "late": {kind: [{"seconds": 2.0, "jobs": 3}] for kind in ("gated", "plain")},
        "cost": {"median": 0.1, "low": 0.05, "high": 0.15, "jobs": 1, "pairs": 15},
    },
    "dags": {"options": {"aggregates": "200"}, "readings": {"list": 0.3, "folder": 0.9}},
    "logs": {"options": {}, "0": {"commits": 0, "seconds": 0.004}, "30": {"commits": 8_640, "seconds": 0.03}},
    "airflow_tasks": {
        "options": {},
        "tasks": {k: {"median": 2.0, "least": 1.0, "most": 3.0, "whole": 4.0, "all": []} for k in ("nothing", "one")},
    },
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
    assert {"cores", "memory_gb", "python", "java"} == set(entry["machine"])


def test_no_folder_and_no_password_is_kept(tmp_path: Path) -> None:
    """
    What was given to a benchmark is kept, but for where somebody works and what lets them in.
    """
    options = {"rows": "9", "folder": "/home/me/lake", "timescaledb": "postgres://me:secret@host", "keep": "True"}

    entry = history.keep("trades", {"options": options, "plain": 1.0}, tmp_path / "history.jsonl")

    assert {"options": {"rows": "9"}, "plain": 1.0} == entry["found"]


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
    assert asked.made() == asked.PAGE.read_text(encoding="utf-8")


# -- what was asked ------------------------------------------------------------------------------------------------------

FIRST = asked.Ask(benchmark="trades", what="first", value="first", over="plain", most=1.4, where={"rows": "20"})


def run_of(first: float, rows: str = "20") -> dict[str, object]:
    return {
        "benchmark": "trades",
        "at": "2026-11-23T12:00:00Z",
        "found": {"options": {"rows": rows}, "first": first, "plain": 10.0},
    }


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([13.0, 12.0], ("1.2 x", "1.3 x", "1.2 x", "2", "met")),
        ([17.0, 12.0], ("1.2 x", "1.7 x", "1.2 x", "2", "**missed** at worst")),
        ([12.0, 15.0], ("1.5 x", "1.5 x", "1.2 x", "2", "**missed**")),
        ([], ("–", "–", "–", "0", "no record")),
    ],
)
def test_missed_stands_where_it_was_missed(runs: list[float], told: tuple[str, ...]) -> None:
    """
    By the newest run or by the worst; a run with other options does not count.
    """
    row = asked.table([*map(run_of, runs), run_of(99.0, rows="7")], [FIRST]).splitlines()[-1]

    assert ("first", "≤ 1.4 x", *told) == tuple(cell.strip() for cell in row.split("|"))[1:8]


def test_a_run_says_what_it_is_to_what_was_asked() -> None:
    """
    In its own units, at its end; a run of another size says nothing.
    """
    found = {"options": {"rows": "20000000"}, "noop": 0.0161, "plain": 10.0, "first": 9.8, "unordered": 5.0}

    said = list(asked.lines("trades", found))

    assert "asked: first materialization, cold, of plain Spark (ordered form): 0.98 x, ≤ 1 x: met" in said
    assert "asked: … of plain Spark (ordinary form): 1.96 x, ≤ 1.9 x: missed" in said
    assert "asked: nothing to do, in process: 16.1 ms, ≤ 15 ms: missed" in said
    assert [] == list(asked.lines("trades", found | {"options": {"rows": "500000"}}))


def test_every_figure_that_was_asked_is_one_of_a_benchmark() -> None:
    """
    A figure without a record is of a benchmark that can be run; every other one was found in some record of its sizes.
    """
    entries = history.every()
    for ask in asked.asks():
        sizes = set((ask.where or {}).items())
        kept = [
            e
            for e in entries
            if e["benchmark"] == ask.benchmark and sizes <= set(e["found"].get("options", {}).items())
        ]
        assert ask.benchmark in charts._CHARTS
        assert not kept or any(ask.of(entry["found"]) is not None for entry in kept), ask


def test_what_a_gate_costs_is_told_with_its_noise() -> None:
    """
    The median of the pairs, and an interval that holds 0 when the pairs do not agree.
    """
    plain = [{"seconds": 2.0, "jobs": 3}] * 15
    gated = [{"seconds": 2.0 + 0.1 * (i % 3 + 1), "jobs": 4} for i in range(15)]
    noisy = [{"seconds": 2.0 + 0.1 * (-1) ** i, "jobs": 4} for i in range(15)]

    assert {"median": 0.1, "low": 0.05, "high": 0.15, "jobs": 1, "pairs": 15} == gate.cost(
        {"gated": gated, "plain": plain}
    )
    of = gate.cost({"gated": noisy, "plain": plain})
    assert of["low"] < 0 < of["high"]
