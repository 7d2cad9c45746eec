"""The demo: a year of flights, fed as they became known, and three aggregates that are refreshed meanwhile.

The demo uses the public façade for everything except the changes of the source, which are in
:mod:`materializer.demo.flights` and :mod:`materializer.demo.changes`: ingestion belongs to other systems.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from materializer import config
from materializer.api import Materializer
from materializer.core.quality.verdict import Finding
from materializer.demo import changes
from materializer.demo import flights as source
from materializer.demo.earlier import DEFINITIONS, FLIGHTS, remove
from materializer.demo.story import Refreshed, Story, count, seconds
from materializer.errors import QualityGateError, UsageError
from materializer.lake import places
from materializer.lake.store_settings import configure
from materializer.lake.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from materializer.core.time.spans import SpanSet
    from materializer.services.quality.verify import VerifyReport
    from materializer.services.refresh.reports import RefreshReport, RunDone

LAKE: Final = ".demo/lake"
EXPECTATIONS: Final = DEFINITIONS.parent / "expectations"
DAILY_FROM: Final = date(2013, 11, 1)
"""Before it flights are written week by week: the Delta library lists all files of a table at each commit."""
FED_FROM: Final = date(2013, 12, 1)
DAYS: Final = 7
RUN_ROWS: Final = 200_000
"""Source rows of one run of a backfill; small, so that the backfill has several runs."""
GATED: Final = "departures_hourly"
BY_BOTH: Final = "departures_daily"
NEW_YORK: Final = ZoneInfo("America/New_York")
ODD_DAYS: Final = ((date(2013, 3, 9), date(2013, 3, 11)), (date(2013, 11, 2), date(2013, 11, 4)))
"""Periods of three days; on the middle day New York set its clocks forward or back."""


class DemoResult(Struct, frozen=True):
    """The results of a demo.

    Args:
        day_hours: Length of a few days of ``departures_daily``, by New York date.
        refreshes: Refreshes of the fed week and after the corrections, in order.
        idle: The refreshes that found nothing left to do.
        dirty: Dirty spans before and after OPTIMIZE, by aggregate.
        stopped: The gate's message about the corrupted day.
        verified: The comparison of every aggregate with plain Spark.
        is_same_by_both: Whether both executors computed the same rows of :data:`BY_BOTH`.
    """

    day_hours: dict[date, float]
    refreshes: tuple[RefreshReport, ...]
    idle: tuple[RefreshReport, ...]
    dirty: dict[str, tuple[SpanSet, SpanSet]]
    stopped: str
    verified: tuple[VerifyReport, ...]
    is_same_by_both: bool

    @property
    def is_true(self) -> bool:
        """Whether every aggregate equals the result of plain Spark, and the executors each other."""
        return self.is_same_by_both and all(report.is_equal for report in self.verified)


def main(
    *,
    lake: str | Path | None = None,
    settings: config.Config | None = None,
    console: Console | None = None,
    is_verbose: bool = False,
) -> int:
    """Run the demo and return the exit status: 0 if every aggregate is correct at the end.

    Args:
        lake: Root of the demo's lake, a path or a URL; an earlier demo is removed first. By default ``.demo/lake`` in the
            working directory.
        settings: The user's settings, of which the demo takes those of Spark and of stores; by default those in force.
        console: Console for the story; by default standard output.
        is_verbose: Whether plans are printed with their reasons.

    Raises:
        UsageError: If *lake* has something that no demo made, or if the data or definitions are not installed.
        MaterializerError: If Spark does not start or a refresh fails.
    """
    story = Story(console, is_verbose=is_verbose)
    return 0 if tell(LAKE if lake is None else lake, story, settings=settings).is_true else 1


def tell(
    lake: str | Path,
    story: Story,
    *,
    flights: pa.Table | None = None,
    days: int = DAYS,
    spark: SparkSession | None = None,
    settings: config.Config | None = None,
) -> DemoResult:
    """Run the demo on a new lake.

    Args:
        lake: Root of the lake.
        story: The story, which prints the events.
        flights: The flights to load; by default every flight of the year.
        days: Number of days of December that are fed one by one.
        spark: A session for the computations; by default an embedded session is started.
        settings: Those of :func:`main`.
    """
    if not DEFINITIONS.is_dir():
        raise UsageError(f"the demo's definitions are not at {DEFINITIONS}", hint="install delta-materializer again")
    root = places.normalised(lake)
    given = config.read() if settings is None else settings
    # the user's settings may name jars, memory and credentials; all others are the demo's
    own = replace(given, lake=root, sources={}, expectations=EXPECTATIONS, run_rows=RUN_ROWS)
    configure(own.storage)
    remove(root)
    return _Demo(root, story, Materializer(root, spark=spark, config=own)).tell(flights, days)


class _Demo(Struct):
    lake: str
    story: Story
    m: Materializer
    names: list[str] = field(default_factory=list)
    rows: int = 0
    full: dict[str, float] = field(default_factory=dict)
    refreshes: list[RefreshReport] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"{self.lake}/{FLIGHTS}"

    def tell(self, flights: pa.Table | None, days: int) -> DemoResult:
        began = time.perf_counter()
        self.story.title(
            "materializer: aggregates of a table that keeps changing, kept true for what changed. Times: UTC"
        )
        with ThreadPoolExecutor(max_workers=1) as starter:
            # starting a JVM takes as long as writing the lake
            spark = starter.submit(self._start)
            to_come, held_back = self._write(flights, days, spark)
            spark_took = spark.result()
        self._define(spark_took)
        is_same = self._backfill()
        day_hours = self._odd_days()
        odd = ", ".join(f"{length:g} on {day:%-d %B}" for day, length in day_hours.items() if length != 24)
        rows = "the same rows" if is_same else "OTHER ROWS, which must not be,"
        self.story.say(f"{BY_BOTH}: {rows} by both. Its days have 24 hours, {odd}.")
        self._feed(to_come)
        dirty = self._change(held_back)
        idle = self._refresh_twice()
        stopped = self._stop()
        verified = self._verify()
        self._suggest(time.perf_counter() - began)
        return DemoResult(day_hours, tuple(self.refreshes), idle, dirty, stopped, verified, is_same_by_both=is_same)

    # -- 1: the lake -----------------------------------------------------------------------------------------------------

    def _start(self) -> float:
        began = time.perf_counter()
        self.m.engine()
        return time.perf_counter() - began

    def _write(
        self, flights: pa.Table | None, days: int, spark: Future[float]
    ) -> tuple[list[tuple[date, pa.Table]], pa.Table]:
        self.story.chapter(1, "A lake that is fed once a week, and later once a day")
        began = time.perf_counter()
        table = source.load() if flights is None else flights
        delivered, held_back = source.split(table)
        batches = source.daily_batches(delivered)
        weeks = source.weekly_batches(batch for batch in batches if batch[0] < DAILY_FROM)
        before = [*weeks, *(batch for batch in batches if DAILY_FROM <= batch[0] < FED_FROM)]
        with self.story.bar("writing commits") as move:
            rows = 0

            def on_commit(day: date, number: int) -> None:
                nonlocal rows
                rows += number
                move(1 + [d for d, _ in before].index(day), len(before), f"{day}, {count(rows, 'flight')}")
                if spark.done():
                    spark.result()  # without Spark there is no demo: fail now

            version = source.write_lake(self.path, before, on_commit=on_commit)
        took = time.perf_counter() - began
        self.rows = rows
        self.story.say(
            f"{count(rows, 'flight')} out of New York in 2013, in {count(len(before), 'commit')} up to November, change "
            f"feed on, written in {seconds(took)} without Spark: version {version}. A flight counts at its scheduled departure and is "
            f"known when it has landed, {source.lateness(delivered)}. Held back: "
            f"{count(held_back.num_rows, 'flight')} of LGA in the week of 8 April."
        )
        return [batch for batch in batches if batch[0] >= FED_FROM][:days], held_back

    # -- 2: definitions --------------------------------------------------------------------------------------------------

    def _define(self, spark_took: float) -> None:
        self.story.chapter(2, "Three aggregates, defined in sql/")
        specs, _ = self.m.read_definitions(DEFINITIONS)
        self.names = [change.name for change in self.m.apply(specs)]
        for spec in specs:
            self.story.fact(spec.name, spec.comment, width=20)
        if self.story.is_verbose:
            self.story.say(f"Checked while Spark started, which took {seconds(spark_took)}.")

    # -- 3: backfill and a week ------------------------------------------------------------------------------------------

    def _backfill(self) -> bool:
        """Backfill all, one of them by each executor; return whether both gave the same rows."""
        self.story.chapter(3, "Backfill: one of them in this process and again by Spark, then a week of December")
        rows = [self._backfilled(BY_BOTH, "local")]
        before = self._published(BY_BOTH)
        rows.append(self._backfilled(BY_BOTH, "spark", force=True))
        is_same = _is_same(before, self._published(BY_BOTH))
        rows += [self._backfilled(name) for name in self.names if name != BY_BOTH]
        self.story.table(("aggregate", "computed by", "rows read", "rows written", "seconds"), rows)
        return is_same

    def _backfilled(
        self, name: str, executor: Literal["local", "spark"] | None = None, *, force: bool = False
    ) -> tuple[str, ...]:
        """Backfill an aggregate; return what is said of it."""
        with self.story.bar(f"backfilling {name}") as move:
            runs: list[RunDone] = []

            def on_run(run: RunDone) -> None:
                runs.append(run)
                rows = sum(r.report.rows_read for r in runs)
                refreshed = sum(r.report.buckets for r in runs)
                progress = f"{count(rows, 'row')}, {count(refreshed, 'bucket')}"
                move(len(runs), len(runs) + run.runs_left, progress)

            report = self.m.backfill(name, force=force, executor=executor, on_run=on_run)
        self.full.setdefault(name, report.seconds)
        read, written = (sum(getattr(r.report, what) for r in runs) for what in ("rows_read", "rows_written"))
        by = "process" if {r.report.executor for r in runs} == {"local"} else "Spark"
        return name, by, f"{read:,}", f"{written:,}", f"{report.seconds:.2f}"

    def _published(self, name: str) -> list[tuple[Any, ...]]:
        _, rows = self.m.show(name, limit=1_000_000)
        return rows

    def _odd_days(self) -> dict[date, float]:
        """Return the lengths of the days around the changes of the clock, from the published rows."""
        hours: dict[date, float] = {}
        for first, last in ODD_DAYS:
            window = (f"{first}T00:00:00Z", f"{last + timedelta(days=3)}T00:00:00Z")
            columns, rows = self.m.show("departures_daily", limit=1_000, start=window[0], end=window[1])
            starts = sorted({row[columns.index("day")] for row in rows})
            for start, following in itertools.pairwise(starts):
                day = start.astimezone(NEW_YORK).date()
                if first <= day <= last:
                    hours[day] = (following - start) / timedelta(hours=1)
        return hours

    def _feed(self, days: Iterable[tuple[date, pa.Table]]) -> None:
        self.story.gap()
        self.story.refreshes()
        for day, landed in days:
            version = source.deliver(self.path, landed, note=f"flights known on {day}")
            self.rows += landed.num_rows
            if self.story.is_verbose:
                self.story.gap()
                self.story.fact(f"{day:%-d %B}", f"{count(landed.num_rows, 'flight')} became known, version {version}")
            self._refresh_all(f"{day:%-d %b} +{landed.num_rows:,}")

    def _refresh_all(self, news: str) -> None:
        for name in self.names:
            report = self.m.refresh(name)
            self.refreshes.append(report)
            runs = [(run.plan, run.report) for run in report.runs]
            refresh = Refreshed(name, self.m.grid(name), runs, self.rows, report.seconds, self.full[name])
            self.story.refreshed(news, refresh)
            news = ""

    # -- 4: what happens to a table --------------------------------------------------------------------------------------

    def _change(self, held_back: pa.Table) -> dict[str, tuple[SpanSet, SpanSet]]:
        self.story.chapter(4, "Corrections, deletes, a week found again, and OPTIMIZE")
        for edit in changes.correct(self.path):
            self._edited("UPDATE", edit)
        withdrawn = changes.withdraw(self.path)
        self._edited("DELETE", withdrawn)
        version = source.deliver(self.path, held_back, note="LGA, week of 8 April, found again")
        self.rows += held_back.num_rows - withdrawn.rows
        self.story.fact(
            "found again",
            f"LGA in the week of 8 April: {count(held_back.num_rows, 'row')}, version {version}",
            width=12,
        )
        before = {name: self.m.plan(name).dirty for name in self.names}
        removed, added, version = changes.optimize(self.path)
        dirty = {name: (before[name], self.m.plan(name).dirty) for name in self.names}
        is_same = all(old == new for old, new in dirty.values())
        what = "nothing more is dirty" if is_same else "it made buckets DIRTY, which must not be"
        text = f"{count(removed, 'file')} became {added}, version {version}: {what}"
        self.story.fact("OPTIMIZE", text, width=12)
        return dirty

    def _edited(self, what: str, edit: changes.Edit) -> None:
        self.story.fact(what, f"{edit.what}: {count(edit.rows, 'row')}, version {edit.version}", width=12)

    def _refresh_twice(self) -> tuple[RefreshReport, ...]:
        self._refresh_all("corrections")
        idle = tuple(self.m.refresh(name) for name in self.names)
        outcomes = " and ".join(dict.fromkeys(report.outcome for report in idle))
        took = seconds(sum(report.seconds for report in idle))
        self.story.say(f"Refreshed again, all: {outcomes} in {took}.")
        return idle

    # -- 5: the gate -----------------------------------------------------------------------------------------------------

    def _stop(self) -> str:
        """Corrupt a day and check that it is not published; correct the day and check that it is published."""
        self.story.chapter(5, "A corrupted day is stopped")
        self._edited("UPDATE", changes.corrupt(self.path))
        stopped = ""
        try:
            self.m.refresh(GATED)
        except QualityGateError as exc:
            stopped = exc.message
            failed = self.m.history(GATED)[0].verdict["output"]["failed"]
            for finding in map(Finding.from_json, failed):
                self.story.fact("stopped", f"{finding.words()}; {exc.wrote}", width=12, style="bold red")
            failing = open_table(f"{self.lake}/{GATED}/failing").to_pyarrow_table(columns=["row"])["row"]
            row = json.loads(failing[0].as_py())
            example = f"{row['hour']}, {row['origin']}, {row['carrier']}: a mean delay of {row['mean_delay']:,.0f}"
            self.story.fact("kept", f"{count(len(failing), 'failing row')}, such as {example}", width=12)
        self._edited("UPDATE", changes.mend(self.path))
        self._refresh_all("corrected")
        return stopped

    # -- 6: the proof ----------------------------------------------------------------------------------------------------

    def _verify(self) -> tuple[VerifyReport, ...]:
        self.story.chapter(
            6, "Is it true? Every row beside plain Spark over the source: exactly, sums of fractions to 1e-9"
        )
        reports = []
        for name in self.names:
            report = self.m.verify(name)
            reports.append(report)
            compared = f"{count(report.rows, 'row')} at source version {report.source_version}"
            if report.is_equal:
                self.story.fact(name, f"equal: {compared}, {seconds(report.seconds)}", width=20, style="bold green")
            else:
                first = report.examples[0] if report.examples else "none to show"
                self.story.fact(
                    name,
                    f"DIFFERS in {count(report.differing, 'row')} of {compared}; the first: {first}",
                    width=20,
                    style="bold red",
                )
        return tuple(reports)

    def _suggest(self, took: float) -> None:
        self.story.gap()
        self.story.say(
            f"That was {seconds(took)}. The lake stays at {self.lake} until the next demo. What to try next:"
        )
        command = _command()
        self.story.commands(
            (
                (f"export MATERIALIZER_LAKE={self.lake}", ""),
                (f"{command} status", "what is fresh or dirty"),
                (f"{command} show departures_daily --limit 6", "the newest rows"),
                (f"{command} plan departures_hourly --why", "what a refresh would do, and why"),
            )
        )


def _is_same(rows: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]) -> bool:
    """Whether rows are the same in the same order; fractions as sums of fractions are compared everywhere."""

    def is_same(value: Any, other: Any) -> bool:
        both = isinstance(value, float) and isinstance(other, float)
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9) if both else bool(value == other)

    return len(rows) == len(others) and all(
        is_same(value, other)
        for row, like in zip(rows, others, strict=True)
        for value, other in zip(row, like, strict=True)
    )


def _command() -> str:
    """Return the command that runs `materializer` from here."""
    if shutil.which("materializer"):
        return "materializer"
    script = Path(sys.executable).parent / "materializer"
    return os.path.relpath(script) if script.exists() else f"{os.path.relpath(sys.executable)} -m materializer"
