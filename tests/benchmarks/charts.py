"""Draw the newest entry of each benchmark: ``python -m tests.benchmarks.charts`` writes docs/benchmarks/ and its page.

The table of what was asked, on the page of measurements, is made from the same records, and is written too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.benchmarks import asked, history
from tests.benchmarks.growth import CHANGES

WIDTH: Final = 820
LEFT: Final = 300
BAR: Final = 26
PAGE: Final = history.ROOT / "docs" / "benchmarks.md"
_STYLE: Final = """  .page { fill: #ffffff } text { fill: #24292f; font: 12px ui-sans-serif, system-ui, sans-serif }
  .title { font-weight: 600; font-size: 13px } .small { font-size: 11px; fill: #57606a }
  .plain { fill: #8c959f } .ours { fill: #0969da } .other { fill: #bf8700 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9198a1 }
    .plain { fill: #656c76 } .ours { fill: #4493f8 } .other { fill: #d29922 }
  }"""
_HEAD: Final = """# Benchmarks

Made by `python -m tests.benchmarks.charts` from `docs/benchmarks/history.jsonl`, to which every benchmark adds a line when it
is run with `--keep` or `--json`. Shown is the newest run of each; [measurements](measurements.md) says what the figures mean, and
what was asked of them beside the newest and the worst. `python -m tests.benchmarks` runs all one after the other and keeps what they
find; `--only NAME…` some, `--unkept` without keeping, `--quick` with small sizes for a first look.
"""
Bar = tuple[str, float, str, str]
"""Label, value, the value in words, and its class: ``plain``, ``ours`` or ``other``."""


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return an SVG with one horizontal bar for each row, all in one measure that starts at nothing."""
    most = max((value for _, value, _, _ in rows), default=1) or 1
    height = 44 + BAR * len(rows)
    right = max(130.0, 12 + 6 * max((len(words) for _, _, words, _ in rows), default=0))
    body = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-label="{escape(title, quote=True)}">'
        ),
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
    ]
    for i, (label, value, words, kind) in enumerate(rows):
        y = 36 + BAR * i
        wide = max(1.0, round((WIDTH - LEFT - right) * value / most, 1))
        body.append(f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        body.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{wide}" height="{BAR - 8}" rx="2"/>')
        body.append(f'<text class="small" x="{LEFT + wide + 8}" y="{y + 14}">{escape(words)}</text>')
    return "\n".join([*body, "</svg>", ""])


def _trades(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    plain = found["plain"]
    cold = found.get("plain_cold", plain)  # not measured in older entries
    rows: list[Bar] = [("plain Spark, the whole", plain, f"{plain:.2f} s", "plain")]
    if "plain_cold" in found:
        rows.append(("… while the JVM compiles", cold, f"{cold:.2f} s", "plain"))
    if found.get("duckdb") is not None:
        rows.append(("DuckDB, without order among equal times", found["duckdb"], f"{found['duckdb']:.2f} s", "other"))
    timings = (
        ("first", "first materialization, while the JVM compiles", cold),
        ("again", "first materialization, warm", plain),
        ("late", "after 20,000 late rows", plain),
        ("one", "one late row", plain),
    )
    for key, label, base in (t for t in timings if t[0] in found):
        rows.append((label, found[key], f"{found[key]:.2f} s = {found[key] / base:.2f} x plain", "ours"))
    if (other := found.get("timescaledb")) is not None:
        rows.append(("TimescaleDB, the whole", other["plain"], f"{other['plain']:.2f} s", "other"))
        for key, label in (("first", "first refresh"), ("late", "after late rows"), ("one", "one late row")):
            value = min(other[key].values())
            words = f"{value:.2f} s = {value / other['plain']:.2f} x its whole"
            rows.append((f"TimescaleDB, {label}", value, words if value >= 0.1 else f"{1000 * value:.0f} ms", "other"))
    options = found["options"]
    yield "trades", f"One-minute bars over {int(options['rows']):,} trades: seconds", rows
    read: list[Bar] = [("plain Spark", float(options["rows"]), f"{int(options['rows']):,}", "plain")]
    for key, label in (("late", "after 20,000 late rows"), ("one", "one late row")):
        count = found[f"{key}_counters"]["rows_read"]
        read.append((label, float(count), f"{count:,}", "ours"))
    yield "trades-rows", "… source rows aggregated", read
    files: list[Bar] = [
        (f"{label}: {kind}", told[f"bytes_{kind}"] / 1e6, _in_files(told, kind), "plain" if kind == "read" else "ours")
        for key, label in (("late", "20,000 late rows"), ("one", "one late row"))
        if "files_read" in (told := found[f"{key}_counters"])
        for kind in ("read", "written", "removed")
    ]
    if files:
        yield "trades-files", "… files read, written, and removed for these: megabytes", files


def _in_files(told: Mapping[str, Any], kind: str) -> str:
    return f"{told[f'bytes_{kind}'] / 1e6:,.2f} MB in {told[f'files_{kind}']:,} files"


def _growth(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    measured = next(iter(found["refreshes"].values()))
    for kind, title in ((k, t) for k, t in CHANGES.items() if k in measured):
        first = measured[kind]["seconds"]
        rows = [
            (
                f"{days} days of history",
                told[kind]["seconds"],
                f"{told[kind]['seconds']:.2f} s = {told[kind]['seconds'] / first:.2f} x",
                "ours",
            )
            for days, told in found["refreshes"].items()
        ]
        yield f"growth-{kind}", f"{title[0].upper()}{title[1:]}, by the length of the history: seconds", rows
    memory = [
        (f"{days} days, {int(told['runs'])} runs", told["heap_mb"], f"{told['heap_mb']:.0f} MB", "ours")
        for days, told in found["memory"].items()
    ]
    yield "growth-memory", "A backfill, by its length: most the JVM holds at the end of a run", memory
    peaks: list[Bar] = [
        (f"{days} days, {of}", told[key], f"{told[key]:.0f} MB", kind)
        for days, told in found["memory"].items()
        for of, key, kind in (("the JVM", "jvm_peak_mb", "plain"), ("Python", "python_peak_mb", "ours"))
        if key in told
    ]
    if peaks:
        yield "growth-peak", f"… most ever resident, with {found['options']['memory']} of heap for the JVM", peaks


def _decay(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    rows: list[Bar] = []
    for kind, css in (("without", "plain"), ("with", "ours")):
        told = found[kind]
        rows.append((f"first ten, {kind} maintain", told["first"], f"{told['first']:.2f} s", css))
        times = f"{told['last']:.2f} s = {told['last'] / told['first']:.2f} x"
        rows.append((f"last ten, {kind} maintain", told["last"], times, css))
        if "old" in told:  # older entries have no new lakes
            rows.append((f"first ten of five new lakes, {kind}", told["new"], f"{told['new']:.2f} s", css))
            times = f"{told['old']:.2f} s = {told['old'] / told['new']:.2f} x"
            rows.append((f"last fifty, in turn with these, {kind}", told["old"], times, css))
    yield "decay", f"{found['options']['refreshes']} refreshes of one row each: seconds of one", rows
    files: list[Bar] = [
        (f"{what}, {kind} maintain", found[kind][key], f"{found[kind][key]:,}", css)
        for what, key in (("files of the output", "output_files"), ("files of the journal", "journal_files"))
        for kind, css in (("without", "plain"), ("with", "ours"))
    ]
    yield "decay-files", "… files left", files


def _process(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    labels = {
        "without": ("one late row, as it comes", "plain"),
        "with": ("one late row, after materializer setup", "ours"),
        "idle": ("nothing to do", "ours"),
    }
    rows = [(labels[k][0], found[k], f"{found[k]:.2f} s", labels[k][1]) for k in labels]
    yield "process", "A process of its own, from command to exit: seconds", rows


def _connect(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    labels = {
        "embedded": ("one late row, embedded", "plain"),
        "connect": ("one late row, over Connect", "ours"),
        "idle": ("nothing to do, over Connect", "ours"),
    }
    rows = [(label, found[k], f"{found[k]:.2f} s", css) for k, (label, css) in labels.items()]
    yield "connect", "A warm Spark Connect server, from command to exit: seconds", rows


def _journal(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    for key, title in (
        ("open_and_fold_seconds", "Opening and folding the journal: milliseconds"),
        ("refresh_seconds", "… the commits of one refresh"),
    ):
        told = [(n, 1_000 * at[key]) for n, at in found.items() if n != "options"]
        rows: list[Bar] = [(f"after {int(n):,} refreshes", ms, f"{ms:.0f} ms", "ours") for n, ms in told]
        yield f"journal-{key.partition('_')[0]}", title, rows


def _engines(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    for after, name, title in (
        ("0.1 % new rows", "engines-new", "An engine after 0.1 % new rows: rows aggregated"),
        ("one late row", "engines-one", "… after one late row"),
    ):
        lines = [line for line in found["lines"] if line["after"] == after]
        rows: list[Bar] = [
            (
                line["engine"],
                float(line["rows_read"]),
                f"{line['rows_read']:,} = {line['rows_read'] / line['source']:.3%} of the source, {line['jobs']} jobs",
                "ours",
            )
            for line in lines
        ]
        if rows:
            yield name, title, rows


def _gate(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    rows: list[Bar] = []
    for kind, label, css in (("plain", "without a gate", "plain"), ("gated", "with eight expectations", "ours")):
        seconds = sorted(one["seconds"] for one in found["late"][kind])
        middle = median(seconds)
        words = f"{middle:.2f} s, from {seconds[0]:.2f} to {seconds[-1]:.2f} s"
        rows.append((label, middle, words, css))
    cost = found["cost"]
    interval = f"{cost['median']:+.1%}, 95 % interval {cost['low']:+.1%} to {cost['high']:+.1%}"
    yield "gate", f"A refresh of late rows, medians of {cost['pairs']:.0f} pairs: seconds. The gate: {interval}", rows


def _dags(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    labels = {
        "task": "one DAG, for a task",
        "list": "from the list beside the journal",
        "journal": "from the journal, after a commit",
        "again": "… read again",
        "folder": "from a folder nobody has read",
        "changed": "… of which one file changed",
    }
    readings = found["readings"]
    rows = [(labels[kind], value, f"{value:.2f} s", "ours") for kind, value in readings.items()]
    yield "dags", f"Reading the DAGs of {found['options']['aggregates']} aggregates: seconds", rows


def _logs(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    rows: list[Bar] = [
        (f"{days} days, {told['commits']:,} commits", told["seconds"], f"{1_000 * told['seconds']:.0f} ms", "ours")
        for days, told in found.items()
        if days != "options"
    ]
    yield "logs", "One row more in a table of ours, by the length of its log: milliseconds", rows


def _airflow_tasks(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    rows: list[Bar] = []
    for kind, label in (("nothing", "nothing to do"), ("one", "one late row")):
        told = found["tasks"][kind]
        words = f"{told['median']:.2f} s, from {told['least']:.2f} to {told['most']:.2f} s"
        rows.append((f"{label}, the task", told["median"], words, "ours"))
        rows.append(("… from the request to its end", told["whole"], f"{told['whole']:.2f} s", "plain"))
    yield "airflow-tasks", "A task in Airflow, medians: seconds", rows


def _local(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    rows: list[Bar] = []
    labels = {"one": "one late row, by a command", "idle": "nothing to do, by a command"}
    labels |= {"warm": "one late row, warm", "many": "late rows in ten hours, warm"}
    for kind, label in labels.items():
        for executor, words, style in (("local", label, "ours"), ("spark", "… with Spark", "plain")):
            value = found[f"{executor}_{kind}"]
            rows.append((words, value, f"{value:.2f} s", style))
    yield "local", "Small refreshes without Spark: seconds", rows


def _due(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Bar]]]:
    many = f"{found['options']['aggregates']} aggregates"
    rows: list[Bar] = [
        ("first materialization of all", found["first"], f"{found['first']:.1f} s", "ours"),
        ("one late row each", found["due"], f"{found['due']:.1f} s", "ours"),
    ]
    yield "due", f"policy run --due over {many}, without Spark: seconds", rows


_CHARTS: Final = {
    "trades": _trades,
    "growth": _growth,
    "decay": _decay,
    "journal": _journal,
    "process": _process,
    "connect": _connect,
    "local": _local,
    "due": _due,
    "engines": _engines,
    "gate": _gate,
    "dags": _dags,
    "logs": _logs,
    "airflow_tasks": _airflow_tasks,
}


def render(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the text of the page and of each picture, by path under ``docs/``."""
    files, page = {}, [_HEAD]
    for benchmark, charts in _CHARTS.items():
        if (entry := entries.get(benchmark)) is None:
            continue
        machine = entry["machine"]
        page.append(f"## `python -m tests.benchmarks.{benchmark}`\n")
        given = ", ".join(
            f"{k} {v}" for k, v in entry["found"].get("options", {}).items() if v and k not in {"folder", "json"}
        )
        memory = f", {machine['memory_gb']} GB" if "memory_gb" in machine else ""  # not told in older entries
        page.append(
            f"{entry['at'][:10]}, commit `{entry['commit']}`, {machine['cores']} cores{memory}, Python {machine['python']}, "
            f"Java {machine['java']}. {given[:1].upper()}{given[1:]}.\n"
        )
        for name, title, rows in charts(entry["found"]):
            files[f"benchmarks/{name}.svg"] = bars(title, rows)
            page.append(f"![{title}](benchmarks/{name}.svg)\n")
    return {"benchmarks.md": "\n".join(page), **files}


def main(docs: Path = PAGE.parent) -> None:
    """Write the page and its pictures, and the table of what was asked."""
    for name, text in render(history.newest()).items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
        print(docs / name)
    if docs == PAGE.parent:
        asked.main()


if __name__ == "__main__":
    main()
