"""Random work on a source and two aggregates with gates over it, with deaths, held against a naive oracle.

The oracle (``tests.oracle.naive``) stands for plain Spark over the source at one version: it is asked after every step, and Spark
would take seconds. That it may stand for it is seen at the end of every history that held: plain Spark itself is asked there
(``verify``), of what is clean as the history left it, and of every bucket once all is brought up to date.

``python -m tests.system.stateful --examples N --seed S`` runs as long as wanted.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from unittest import mock
from uuid import uuid4

import hypothesis
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    get_state_machine_test,
    initialize,
    invariant,
    rule,
)

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.core.refresh.plan import Lane
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import CanaryError, QualityGateError, RefreshWindowTooSmallError
from materializer.lake import places
from materializer.services.aggregate import Aggregate
from materializer.services.delivery import output_feed
from materializer.services.maintenance import maintain
from materializer.services.refresh.reports import RefreshReport
from tests.oracle.naive import differences
from tests.servers import s3
from tests.system.lake import (
    AGGREGATES,
    BAD,
    CHECKPOINTS,
    MAINTENANCE,
    Death,
    Defined,
    Died,
    Source,
    dying,
    leave_behind,
    micros,
    published,
    replayed,
    the_dead,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASES = (
    datetime(1969, 12, 31, 18, tzinfo=UTC),  # on both sides of the epoch
    datetime(2024, 3, 9, 20, tzinfo=UTC),  # New York's day of 23 hours
    datetime(2024, 11, 2, 22, tzinfo=UTC),  # and of 25
)
HOURS = (0, 1, 2, 3, 8, 9, 29, 30, 31, 54, 55, 79)
"""Where rows are, after the base: twelve buckets of an hour, and about five days."""

OFFSETS = st.builds(
    lambda hour, second: timedelta(hours=hour, seconds=second),
    st.sampled_from(HOURS),
    st.sampled_from([0, 1, 1800, 3599]),
)
VALUES = st.none() | st.integers(-20, 20) | st.just(13)
KEYS = st.sampled_from(["a", "b", None])
ROWS = st.fixed_dictionaries(
    {
        "after": st.none() | OFFSETS | OFFSETS | OFFSETS,
        "k": KEYS,
        "v": VALUES,
        "ok": st.sampled_from([True, False, None]),
    }
)
ENDS = st.none() | st.builds(
    lambda hours, minutes: timedelta(hours=hours, minutes=minutes), st.integers(-30, 90), st.sampled_from([0, 0, 0, 25])
)
WINDOWS = st.just((None, None)) | st.tuples(ENDS, ENDS)
NAMES = st.sampled_from(["daily", "hourly", "hourly"])
DEATHS = st.none() | st.builds(
    Death,
    st.sampled_from(CHECKPOINTS) | st.sampled_from(CHECKPOINTS[:10]),
    st.sampled_from([1, 1, 1, 2]),
    st.booleans(),
)
MAINTAIN_DEATHS = st.none() | st.builds(Death, st.sampled_from(MAINTENANCE), st.sampled_from([1, 2]), st.booleans())
Window = tuple[timedelta | None, timedelta | None]
Ends = tuple[datetime | None, datetime | None]


class Commit(NamedTuple):
    """One commit to the source: what it does, with which value, to which rows (numbers that stand for ids)."""

    what: str
    value: Any
    picks: list[int]


PICKS = st.lists(st.integers(0, 10**6), min_size=1, max_size=3)
INSERTS = st.builds(Commit, st.just("inserts"), st.lists(ROWS, min_size=1, max_size=4), st.just([]))
SPOILS = st.builds(
    Commit, st.just("inserts"), st.lists(ROWS.map(lambda row: row | {"v": BAD}), min_size=1, max_size=1), st.just([])
) | st.builds(Commit, st.just("spoils"), st.just(BAD), PICKS)
CHANGES = (
    st.builds(Commit, st.just("corrections"), VALUES, PICKS)
    | st.builds(Commit, st.just("moves"), st.none() | OFFSETS | OFFSETS | OFFSETS, PICKS)
    | st.builds(Commit, st.sampled_from(["deletes", "deletes", "overwrites", "compactions"]), st.none(), PICKS)
)
RUNS = st.fixed_dictionaries(
    {
        "buckets_per_run": st.none() | st.integers(1, 4),
        "order": st.sampled_from(["newest", "oldest"]),
        "max_runs": st.integers(1, 3),  # a later refresh takes what is left
    }
)
COMMITS = st.lists(INSERTS | CHANGES, min_size=1, max_size=3)
MAYBE = (
    st.just([])
    | st.lists(INSERTS, min_size=1, max_size=2)
    | COMMITS
    | st.lists(INSERTS | SPOILS | st.builds(Commit, st.just("mends"), VALUES, st.just([])), min_size=1, max_size=3)
)
"""Commits before a command: often none, or such that merging is allowed."""


class Held(NamedTuple):
    """What gates kept from being published when everything was looked at last, and the rows that stood there."""

    refused: set[datetime]
    rows: dict[datetime, list[tuple[Any, ...]]]
    was_open: bool


class Work(RuleBasedStateMachine):
    """One lake, used by one command after another, any of which may die."""

    spark: ClassVar[SparkSession]
    folder: ClassVar[str | Path]
    driver_lane_rows: ClassVar[int]
    has_gates: ClassVar[bool] = True
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        Work.seen["examples"] += 1
        self.executors = cycle(("auto", "spark"))
        self.home = f"{self.folder}/{uuid4().hex}"
        self.closing = ExitStack()
        self.dead = self.closing.enter_context(the_dead())
        # files that no version needs go at once: whatever reads them later fails
        self.closing.enter_context(mock.patch.object(maintain, "retention_hours", return_value=0.0))

    @initialize(
        base=st.sampled_from(BASES),
        has_feed=st.sampled_from([True, True, True, False]),
        rows=st.lists(ROWS, min_size=1, max_size=8),
        copies=st.sampled_from([1, 12, 12]),
        is_filled=st.booleans(),
        canaries=st.sampled_from([0, 0, 0, 2]),
    )
    def open(
        self,
        base: datetime,
        has_feed: bool,
        rows: list[dict[str, Any]],
        copies: int,
        is_filled: bool,
        canaries: int,
    ) -> None:
        """Make the source, define both aggregates over it, and give it its first rows."""
        self.base, self.canaries = base, canaries
        expectations = f"{self.home}/expectations"
        places.make_folder(expectations)
        for aggregate in AGGREGATES.values() if self.has_gates else ():
            places.put(f"{expectations}/{aggregate.name}.json", json.dumps(aggregate.suite).encode())
        self.config = Config(
            driver_lane_rows=self.driver_lane_rows, run_rows=40, price_tie_ms=60_000, expectations=expectations
        )
        self.before: dict[str, Held] = {}
        self.source = Source(f"{self.home}/source", has_feed)
        self.materializer = self.new()
        for aggregate in AGGREGATES.values():
            self.materializer.define(aggregate.name, self.source.path, **self.parts(aggregate))
        self.committed(
            [Commit("inserts", rows * copies, [])]
        )  # many rows a bucket make merging cheaper than reading them again
        if is_filled:
            self.brought_up_to_date("hourly")

    def parts(self, aggregate: Defined) -> dict[str, Any]:
        """Return what an aggregate is defined with in this example."""
        properties = {**aggregate.parts["properties"], "quality.canaries": str(self.canaries)}
        return {**aggregate.parts, "properties": properties}

    def new(self, on_checkpoint: Callable[[str], None] = lambda _: None) -> Materializer:
        """Return the lake as a new process opens it."""
        return Materializer(f"{self.home}/lake", spark=self.spark, config=self.config, on_checkpoint=on_checkpoint)

    # -- commands -------------------------------------------------------------------------------------------------------

    @rule(commits=COMMITS)
    def work(self, commits: list[Commit]) -> None:
        """Only the source moves on."""
        self.committed(commits)

    @rule(commits=MAYBE, name=NAMES, window=WINDOWS, force=st.sampled_from([False, False, False, True]), death=DEATHS)
    def refresh(self, commits: list[Commit], name: str, window: Window, force: bool, death: Death | None) -> None:
        """Refresh a window, or die in it; the executors take turns."""
        self.committed(commits)
        start, end = self.instants(window)
        options = {"force": force, "executor": next(self.executors)}
        self.command("refresh", name, window, death, lambda m: m.refresh(name, start, end, **options))

    @rule(commits=MAYBE, name=NAMES, window=WINDOWS, runs=RUNS, death=DEATHS)
    def backfill(
        self, commits: list[Commit], name: str, window: Window, runs: dict[str, Any], death: Death | None
    ) -> None:
        """Refresh a window run by run, perhaps not to its end."""
        self.committed(commits)
        start, end = self.instants(window)
        self.command("backfill", name, window, death, lambda m: m.backfill(name, start, end, **runs))

    @rule(name=NAMES, window=WINDOWS, death=DEATHS)
    def invalidate(self, name: str, window: Window, death: Death | None) -> None:
        """Declare a window dirty."""
        start, end = self.instants(window)
        self.command("invalidate", name, window, death, lambda m: m.invalidate(name, start, end))

    @rule(name=NAMES, death=MAINTAIN_DEATHS)
    def maintain(self, name: str, death: Death | None) -> None:
        """Lay the tables out again, and remove every file that no version needs."""
        self.command("maintain", name, (None, None), death, lambda m: m.maintain(name))
        if death is None:
            found = [r.has_work and bool(r.done) for r in self.materializer.maintain(name)]
            Work.seen["maintained twice"] += any(found)

    @rule(commits=MAYBE, name=NAMES)
    def refresh_everything(self, commits: list[Commit], name: str) -> None:
        """Refresh an open window; the truth is there, and a second refresh does nothing."""
        self.committed(commits)
        self.brought_up_to_date(name)

    @rule(name=NAMES, window=WINDOWS)
    def look(self, name: str, window: Window) -> None:
        """A plan that is only asked for changes nothing, not even the journal; always-fresh reads are the truth."""
        version = self.materializer.journal.view().version
        start, end = self.instants(window)
        try:
            self.materializer.plan(name, start, end)
        except RefreshWindowTooSmallError:
            self.check_too_small(name, window)
        times = sorted(row["ts"] for row in self.source.rows.values() if row["ts"])
        middle = times[len(times) // 2] - self.base if times else None  # drawn windows seldom part the few rows
        for part in dict.fromkeys([(None, None), window, (None, middle), (middle, None)]):
            self.check_fresh(name, part)
        assert version == self.materializer.journal.view().version

    # -- what holds -----------------------------------------------------------------------------------------------------

    @invariant()
    def clean_buckets_are_true(self) -> None:
        """Every published row outside dirt equals the oracle at the cursor, and none is missing."""
        for aggregate in map(self.now, AGGREGATES):
            [status] = self.materializer.status(aggregate.name)
            if status.open_refresh is not None:
                Work.seen["left unfinished"] += 1
                continue
            everywhere = status.state == "fresh"
            end = status.newest_bucket_end

            def is_clean(
                row: tuple[Any, ...], dirty: SpanSet = status.dirty, end: int = end, fresh: bool = everywhere
            ) -> bool:
                at = micros(row[0])
                return fresh or (at < end and at not in dirty)

            expected = aggregate.expected(self.source.at(status.cursor))
            found = published(f"{self.home}/lake", aggregate)
            wrong = differences(filter(is_clean, expected), filter(is_clean, found), aggregate.known_by)
            assert not wrong, f"{aggregate.name} is {status.state} at version {status.cursor}, but {wrong}"

    @invariant()
    def nothing_refused_is_published(self) -> None:
        """No published row fails its suite; where the newest rows do, older ones stand, and go on standing."""
        for aggregate in AGGREGATES.values() if self.has_gates else ():
            [status] = self.materializer.status(aggregate.name)
            found = published(f"{self.home}/lake", aggregate)
            assert not [row for row in found if aggregate.is_refused(row)], aggregate.name
            refused = aggregate.refused(self.source.at(status.cursor))
            rows = {at: sorted((row for row in found if row[0] == at), key=str) for at in refused}
            last = self.before.get(aggregate.name, Held(set(), {}, was_open=True))
            for at in refused:
                if at in last.refused and not last.was_open:
                    assert last.rows[at] == rows[at], f"{aggregate.name} changed at {at}"
                else:
                    self.check_older(aggregate, at, rows[at], status.cursor)
            self.before[aggregate.name] = Held(refused, rows, was_open=status.open_refresh is not None)

    @invariant()
    def changes_lead_to_what_is_published(self) -> None:
        """Replaying the change feed gives the output, unless a process died before it had followed; the next one does."""
        state = self.materializer.journal.view().named("hourly")
        if output_feed.is_behind(Aggregate.of(state, self.materializer.root)):
            Work.seen["feed behind"] += 1
            return
        self.check_feed()

    def check_feed(self) -> None:
        """The feed leads to what is published, exactly."""
        path = f"{self.home}/lake/hourly/output"
        rows = [tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist()]
        assert Counter(rows) == replayed(f"{self.home}/lake", "hourly"), "the change feed leads to other rows"

    def teardown(self) -> None:
        """At the end plain Spark finds nothing that differs in what is clean, nor anywhere once all is brought up to date."""
        try:
            if sys.exc_info()[0] is None and hasattr(self, "materializer"):
                for name in AGGREGATES:
                    self.verified(name)
                    self.brought_up_to_date(name)
                    expected = self.now(name).expected(self.source.at(self.source.newest))
                    assert len(expected) == self.verified(name), f"verify {name} leaves rows out"
        finally:
            self.closing.close()

    def verified(self, name: str) -> int:
        """Ask plain Spark, which differs nowhere where buckets are clean; return how many rows it has there."""
        report = self.materializer.verify(name)
        assert 0 == report.differing, f"verify {name}: {report.examples}"
        Work.seen["rows of plain Spark"] += report.rows
        return report.rows

    # -- helpers --------------------------------------------------------------------------------------------------------

    def now(self, name: str) -> Defined:
        """Return the definition of what an aggregate publishes."""
        return AGGREGATES[name]

    def committed(self, commits: list[Commit]) -> None:
        """Write to the source; a change of rows where there are none is left out."""
        for what, value, picks in commits:
            if what != "inserts" and not self.source.rows:
                continue
            Work.seen[what] += 1
            match what:
                case "inserts":
                    self.source.insert([self.placed(row) for row in value])
                case "corrections":
                    self.source.update(self.picked(picks), "v", value)
                case "moves":
                    self.source.update(self.picked(picks), "ts", None if value is None else self.base + value)
                case "deletes":
                    self.source.delete(self.picked(picks))
                case "spoils":
                    self.source.update(self.picked(picks[:1]), "v", value)
                case "mends":
                    if bad := [i for i, row in self.source.rows.items() if row["v"] == BAD]:
                        self.source.update(bad, "v", value)
                case "overwrites":
                    self.source.overwrite(set(self.source.rows) - self.picked(picks))
                case _:
                    self.source.compact()

    def command(
        self, what: str, name: str, window: Window, death: Death | None, do: Callable[[Materializer], Any]
    ) -> None:
        """Run a command, in a process that may die; then the next process looks at the lake."""
        Work.seen[what] += 1
        try:
            if death is None:
                self.check_report(name, do(self.materializer))
                return
            with dying(death) as on_checkpoint:
                self.check_report(name, do(self.new(on_checkpoint)))
        except RefreshWindowTooSmallError:
            Work.seen["refused"] += 1
            self.check_too_small(name, window)
        except CanaryError:
            raise
        except QualityGateError:
            Work.seen["refused by the gate"] += 1
            assert AGGREGATES[name].refused(self.source.at(self.source.newest)), f"{name} has nothing to be refused"
        except Died as died:
            Work.seen[f"died at {died}"] += 1
            leave_behind(self.materializer, self.dead)
            self.materializer = self.new()

    def check_report(self, name: str, report: object) -> None:
        """What a report says of itself must be so."""
        if not isinstance(report, RefreshReport):
            return
        Work.seen[report.outcome] += 1
        for _, how in report.recovered:
            Work.seen[f"recovered: {how}"] += 1
        for run in report.runs:
            Work.seen[f"strategy {run.report.strategy}"] += 1
            Work.seen[f"lane {run.plan.lane}"] += 1
            Work.seen[f"executor {run.report.executor or 'spark'}"] += 1
            Work.seen["held back"] += "held" in run.verdict
        [status] = self.materializer.status(name)
        Work.seen["canaries looked"] += bool(status.canaries and status.canaries.clean)
        if report.runs:
            assert report.source_version == self.source.newest, name

    def check_fresh(self, name: str, window: Window) -> None:
        """The always-fresh read of a window is the truth in its whole buckets, and is refused only where it has none."""
        Work.seen["fresh reads"] += 1
        aggregate = self.now(name)
        first, last = self.whole(name, window)
        is_empty = first is not None and last is not None and first >= last
        try:
            if window == (None, None):
                read = self.materializer.read(name, fresh=True).toArrow()
            else:
                read = self.materializer.fresh(name, *self.instants(window)).fetch().table
        except RefreshWindowTooSmallError:
            Work.seen["fresh reads refused"] += 1
            assert is_empty, f"the fresh read of {name} from {first} to {last} is refused"
            return
        assert not is_empty, f"the fresh read of {name} from {first} to {last} is not refused"
        everything = aggregate.expected(self.source.at(self.source.newest))
        expected = [r for r in everything if (first is None or first <= r[0]) and (last is None or r[0] < last)]
        Work.seen["fresh reads of a part of the rows"] += 0 < len(expected) < len(everything)
        wrong = differences(
            expected, [tuple(r[c] for c in aggregate.columns) for r in read.to_pylist()], aggregate.known_by
        )
        assert not wrong, f"the fresh read of {name} from {first} to {last} is wrong: {wrong}"

    def check_too_small(self, name: str, window: Window) -> None:
        """A window is refused as too small only where it can lie between two edges."""
        first, last = window
        assert first is not None
        assert last is not None
        assert abs(last - first) < 2 * self.now(name).longest, f"{name} refuses {window}"

    def brought_up_to_date(self, name: str) -> None:
        """A refresh of everything leaves the truth at the newest version and no dirt; a second one does nothing.

        What the gate refuses is left out, and corrected.
        """
        Work.seen["refreshes of everything"] += 1
        aggregate = self.now(name)
        if self.has_gates and (refused := aggregate.refused(self.source.at(self.source.newest))):
            self.check_refused(aggregate, refused)
            self.committed([Commit("mends", 5, [])])
        self.check_report(name, self.materializer.refresh(name))
        [status] = self.materializer.status(name)
        assert not status.dirty, f"{name} is dirty after a refresh of everything: {status.dirty}"
        assert status.cursor == self.source.newest
        expected = aggregate.expected(self.source.at(self.source.newest))
        wrong = differences(expected, published(f"{self.home}/lake", aggregate), aggregate.known_by)
        assert not wrong, f"{name} after a refresh of everything: {wrong}"
        again = self.materializer.refresh(name)
        assert (again.outcome, again.runs) == ("up-to-date", ()), f"{name}: the second refresh did something"
        if name == "hourly":
            self.check_feed()

    def check_refused(self, aggregate: Defined, refused: set[datetime]) -> None:
        """A refresh of everything is refused, or publishes all buckets but those that its suite does not let through."""
        try:
            self.check_report(aggregate.name, self.materializer.refresh(aggregate.name))
        except CanaryError:
            raise
        except QualityGateError:
            Work.seen["refused by the gate"] += 1
            return
        assert aggregate.parts["properties"]["quality.on_failure"] == "buckets"
        [status] = self.materializer.status(aggregate.name)
        held = SpanSet.union(Span(micros(at), micros(at + aggregate.longest)) for at in refused)
        assert (held, held) == (status.dirty, status.held), f"{aggregate.name} holds back other buckets"

    def check_older(self, aggregate: Defined, at: datetime, rows: list[tuple[Any, ...]], cursor: int) -> None:
        """Rows of a bucket that is held back are those of an older version of the source."""
        for version in range(cursor, -1, -1):
            older = [row for row in self.source.at(version) if row["ts"] and aggregate.bucket(row["ts"]) == at]
            if not differences(aggregate.expected(older), rows, aggregate.known_by):
                return
        assert not rows, f"{aggregate.name} has other rows at {at} than ever: {rows}"

    def placed(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a drawn row with a time of this example."""
        after = row["after"]
        return {"ts": None if after is None else self.base + after, "k": row["k"], "v": row["v"], "ok": row["ok"]}

    def picked(self, picks: list[int]) -> set[int]:
        """Return the ids that some drawn numbers stand for."""
        ids = sorted(self.source.rows)
        return {ids[pick % len(ids)] for pick in picks}

    def instants(self, window: Window) -> tuple[str | None, str | None]:
        """Return a drawn window as text, in order and not empty."""
        start, end = (None if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ") for at in self.ends(window))
        return start, end

    def whole(self, name: str, window: Window) -> Ends:
        """Return where the whole buckets of a drawn window begin and end; not in order where it holds none."""
        first, last = self.ends(window)
        aggregate = self.now(name)
        return first and aggregate.edge(first), last and aggregate.bucket(last)

    def ends(self, window: Window) -> Ends:
        """Return a drawn window in order and not empty."""
        first, last = window
        if first is not None and last is not None:
            first, last = min(first, last), max(first, last, min(first, last) + timedelta(minutes=5))
        start, end = (None if d is None else self.base + d for d in (first, last))
        return start, end


def explore(
    spark: SparkSession,
    folder: str | Path,
    how: settings,
    seed: int | None = None,
    *,
    lane: Lane = Lane.DRIVER,
    machine: type[Work] = Work,
) -> Counter[str]:
    """Run examples in one lane; return how often what happened.

    Raises:
        AssertionError: Or whatever else an example found; the steps to it are printed.
    """
    Work.spark, Work.folder, Work.seen = spark, folder, Counter()
    Work.driver_lane_rows = 200_000 if lane is Lane.DRIVER else 0
    test = get_state_machine_test(machine, settings=how)
    (test if seed is None else hypothesis.seed(seed)(test))()
    return Work.seen


def main() -> int:
    """Print what was run and what was found; return 1 when an example failed."""
    from materializer.spark.runtime import session
    from tests.system import keeping
    from tests.system.stateful_repairs import Mending
    from tests.system.stateful_versions import Changing

    parser = argparse.ArgumentParser(prog="python -m tests.system.stateful", description=__doc__)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20, help="at most so many an example")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lane", type=Lane, choices=list(Lane), default=Lane.DRIVER)
    parser.add_argument("--versions", action="store_true", help="definitions change, too")
    parser.add_argument("--repairs", action="store_true", help="tables and journal are harmed, and repaired")
    parser.add_argument("--retention", action="store_true", help="raw rows go and history stays, instead")
    parser.add_argument("--on", choices=("disk", "s3"), default="disk", help="where lake and source lie")
    parser.add_argument("--shrink", action="store_true", help="make a failing example small; takes minutes")
    args = parser.parse_args()
    phases = [Phase.generate, Phase.shrink] if args.shrink else [Phase.generate]
    how = settings(
        max_examples=args.examples,
        stateful_step_count=args.steps,
        phases=phases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="stateful-") as folder, ExitStack() as closing:
        place = folder if args.on == "disk" else closing.enter_context(s3.new_bucket(Path(folder)))
        options["spark.sql.warehouse.dir"] = folder
        spark = session.start(
            Config(spark=SparkConfig(profile="long", options=options)), stores=[] if args.on == "disk" else [args.on]
        )
        try:
            if args.retention:
                keeping.explore(spark, place, how, args.seed, lane=args.lane)
            else:
                machine = Changing if args.versions else Mending if args.repairs else Work
                explore(spark, place, how, args.seed, lane=args.lane, machine=machine)
            finding = None
        except Exception as exc:  # noqa: BLE001 (whatever is found is reported)
            finding = exc
    seen = keeping.Keeping.seen if args.retention else Work.seen
    print(*(f"{count:6} {what}" for what, count in sorted(seen.items())), sep="\n")
    seconds = time.perf_counter() - began
    print(f"{seen['examples']} examples, seed {args.seed}, {seconds:.0f} s: {finding or 'nothing found'}")
    for note in getattr(finding, "__notes__", []):
        print(note)
    if finding:
        print(f"again: python -m tests.system.stateful {shlex.join(sys.argv[1:])}")
    return 1 if finding else 0


if __name__ == "__main__":
    from tests.system import stateful  # the module that others import, and not a second one

    sys.exit(stateful.main())
