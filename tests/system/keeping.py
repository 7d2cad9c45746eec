"""Random work on a source whose old rows go, and an aggregate over it, held against an oracle that remembers them.

The oracle knows two things of time below the frozen bound: the rows that were ever added there, and the buckets in which
something else happened. It classifies each source version by its own bookkeeping, with the bound that stood when the version
was captured.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import hypothesis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, initialize, invariant, rule

from materializer.config import Config
from materializer.core.instants import HOUR
from materializer.core.plan import Lane
from materializer.core.spans import NEG_INF, Span, SpanSet
from materializer.errors import ExpireBoundError, ExpireDirtyError, FrozenWindowError, RefreshWindowTooSmallError
from materializer.wiring import Materializer
from tests.oracle.naive import differences
from tests.system.lake import HOURLY, Source, micros, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = datetime(2024, 3, 9, tzinfo=UTC)
HOURS = (0, 1, 2, 4, 5, 7, 9, 12)
OFFSETS = st.builds(
    lambda hour, minute: timedelta(hours=hour, minutes=minute), st.sampled_from(HOURS), st.sampled_from([0, 10, 59])
)
ROWS = st.lists(
    st.fixed_dictionaries({"after": OFFSETS, "k": st.sampled_from("ab"), "v": st.integers(-9, 13)}),
    min_size=1,
    max_size=4,
)
Rows = dict[int, dict[str, Any]]


class Commit(NamedTuple):
    """One commit to the source: what it does, with the rows or the numbers that stand for rows."""

    what: str
    values: list[Any]


PICKS = st.lists(st.integers(0, 10**6), min_size=1, max_size=2)
EDGES = st.sampled_from(range(14))
COMMITS = st.lists(
    st.builds(Commit, st.just("comes"), ROWS)
    | st.builds(Commit, st.just("comes"), ROWS)
    | st.builds(Commit, st.just("changes"), PICKS)
    | st.builds(Commit, st.sampled_from(["goes", "goes one by one", "is compacted"]), PICKS),
    max_size=3,
)
WINDOWS = st.just((None, None)) | st.tuples(st.integers(0, 6), st.integers(7, 14))


def bucket_of(row: dict[str, Any]) -> int:
    """Return the start of a row's hour."""
    at = micros(row["ts"])
    return at - at % HOUR


class Memory:
    """What the aggregate should show below its bound.

    Args:
        rows: By bucket, the rows that were ever added.
        conflicts: By bucket in which something else happened, what was published before.
    """

    def __init__(self) -> None:
        self.bound = NEG_INF
        self.rows: dict[int, list[dict[str, Any]]] = {}
        self.conflicts: dict[int, list[tuple[Any, ...]]] = {}

    def saw(self, before: Rows, after: Rows, shown: list[tuple[Any, ...]]) -> None:
        """Take up one source version, captured with the bound as it stands."""
        kinds: dict[int, set[str]] = defaultdict(set)
        added: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for i in before.keys() | after.keys():
            old, new = before.get(i), after.get(i)
            if old == new:
                continue
            kind = "insert" if old is None else "delete" if new is None else "update"
            for row in filter(None, (old, new)):
                kinds[bucket_of(row)].add(kind)
            if old is None and new is not None:
                added[bucket_of(new)].append(new)
        for bucket, found in kinds.items():
            if bucket >= self.bound:
                continue
            if found == {"insert"}:
                self.rows.setdefault(bucket, []).extend(added[bucket])
            elif found != {"delete"} and bucket not in self.conflicts:
                self.conflicts[bucket] = [row for row in shown if micros(row[0]) == bucket]

    def stands(self, bound: int, rows: Rows) -> None:
        """Take up where the bound stands now, with the source's rows at the cursor."""
        if bound < self.bound:
            self.rows, self.conflicts = {}, {}
        for row in rows.values():
            if self.bound <= bucket_of(row) < bound:
                self.rows.setdefault(bucket_of(row), []).append(row)
        self.bound = bound

    def expected(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Return all rows that should be published over a source that has *rows*."""
        old = [row for bucket, found in self.rows.items() if bucket not in self.conflicts for row in found]
        new = [row for row in rows.values() if bucket_of(row) >= self.bound]
        return [*HOURLY.expected([*old, *new]), *(row for found in self.conflicts.values() for row in found)]


class Keeping(RuleBasedStateMachine):
    """One lake, used by one command after another, while old rows go and come."""

    spark: ClassVar[SparkSession]
    folder: ClassVar[Path]
    driver_lane_rows: ClassVar[int]
    seen: ClassVar[Counter[str]] = Counter()

    @initialize(
        rows=ROWS,
        copies=st.sampled_from([1, 8]),
        retention=st.sampled_from([None, None, "5 hours"]),
        bound=st.sampled_from([0, 5, 8]),
    )
    def open(self, rows: list[dict[str, Any]], copies: int, retention: str | None, bound: int) -> None:
        """Make the source and the aggregate, and publish what there is."""
        Keeping.seen["examples"] += 1
        home = Path(tempfile.mkdtemp(dir=self.folder))
        self.source = Source(str(home / "source"), has_feed=True)
        self.root = home / "lake"
        config = Config(driver_lane_rows=self.driver_lane_rows)
        self.lake = Materializer(self.root, spark=self.spark, config=config)
        properties = {} if retention is None else {"source.retention": retention}
        self.lake.define("hourly", self.source.path, **{**HOURLY.parts, "properties": properties})
        self.memory, self.cursor, self.value = Memory(), 0, 1000
        every = [{"after": timedelta(hours=h), "k": k, "v": h} for h in HOURS for k in "ab"]
        self.committed([Commit("comes", [*every, *rows] * copies)])
        self.refresh([], (None, None), force=False)
        if bound:
            self.expire([], bound, is_deleted=False)

    # -- commands --------------------------------------------------------------------------------------------------------

    @rule(commits=COMMITS, window=WINDOWS, force=st.sampled_from([False, False, False, True]))
    def refresh(self, commits: list[Commit], window: tuple[int | None, int | None], force: bool) -> None:
        """Refresh, perhaps only a window."""
        self.committed(commits)
        start, end = (None if hours is None else self.at(hours) for hours in window)
        report = self.command(lambda: self.lake.refresh("hourly", start, end, force=force))
        for run in report.runs if report else ():
            Keeping.seen.update(f"strategy {strategy}" for strategy in run.report.strategy.split("+"))

    @rule(commits=COMMITS, hours=EDGES, is_deleted=st.booleans())
    def expire(self, commits: list[Commit], hours: int, is_deleted: bool) -> None:
        """Freeze history up to some time; often the owner deletes its rows then."""
        self.committed(commits)
        if self.command(lambda: self.lake.expire("hourly", self.at(hours))):
            Keeping.seen["expired"] += 1
        if is_deleted:
            self.committed([Commit("goes", [])])

    @rule(commits=COMMITS, is_sure=st.sampled_from([False, False, True]))
    def thaw(self, commits: list[Commit], is_sure: bool) -> None:
        """Give history up, or only ask what that would mean."""
        self.committed(commits)
        self.command(lambda: self.lake.thaw("hourly", dry_run=not is_sure))

    @rule(hours=EDGES)
    def invalidate(self, hours: int) -> None:
        """Declare an hour or two dirty."""
        self.command(lambda: self.lake.invalidate("hourly", self.at(hours), self.at(hours + 2)))

    @rule(commits=COMMITS)
    def look(self, commits: list[Commit]) -> None:
        """The always-fresh read is the truth above the bound, and writes nothing."""
        self.committed(commits)
        rows = self.lake.read("hourly", fresh=True).toArrow().to_pylist()
        found = [tuple(row[c] for c in HOURLY.columns) for row in rows]
        new = [row for row in self.source.rows.values() if bucket_of(row) >= self.memory.bound]
        above = [row for row in found if micros(row[0]) >= self.memory.bound]
        assert not differences(HOURLY.expected(new), above, HOURLY.known_by)

    # -- what holds ------------------------------------------------------------------------------------------------------

    @invariant()
    def history_is_remembered(self) -> None:
        """What is clean is what the oracle remembers, and what is stuck is just what was in conflict."""
        [status] = self.lake.status("hourly")
        everywhere, end, dirty = status.state == "fresh", status.newest_bucket_end, status.dirty

        def is_clean(row: tuple[Any, ...]) -> bool:
            at = micros(row[0])
            return everywhere or (at < max(end, self.memory.bound) and at not in dirty)

        expected = self.memory.expected(self.source.versions[status.cursor])
        found = published(self.root, HOURLY)
        wrong = differences(filter(is_clean, expected), filter(is_clean, found), HOURLY.known_by)
        assert not wrong, f"{status.state} at version {status.cursor}, frozen {self.memory.bound}: {wrong}"
        conflicts = SpanSet.union(Span(b, b + HOUR) for b in self.memory.conflicts)
        assert conflicts == SpanSet.union(span for span, _ in status.stuck)

    def teardown(self) -> None:
        """At the end everything that can be true is, and verifies."""
        if hasattr(self, "lake"):
            self.refresh([], (None, None), force=False)
            assert not self.lake.status("hourly")[0].dirty
            self.history_is_remembered()
            report = self.lake.verify("hourly")
            assert report.is_equal, report.examples
            Keeping.seen["conflicts"] += len(self.memory.conflicts)
            Keeping.seen["buckets remembered"] += len(self.memory.rows)

    # -- helpers ---------------------------------------------------------------------------------------------------------

    def command(self, do: Callable[[], Any]) -> Any:
        """Run a command, and let the oracle see what it captured and where the bound stands then."""
        shown = published(self.root, HOURLY)
        result = None
        try:
            result = do()
        except (ExpireBoundError, ExpireDirtyError, FrozenWindowError, RefreshWindowTooSmallError) as exc:
            Keeping.seen[exc.code] += 1
        [status] = self.lake.status("hourly")
        for version in range(self.cursor + 1, status.cursor + 1):
            self.memory.saw(self.source.versions[version - 1], self.source.versions[version], shown)
        self.cursor = status.cursor
        self.memory.stands(status.frozen, self.source.versions[self.cursor])
        return result

    def committed(self, commits: list[Commit]) -> None:
        """Write to the source; a change of rows where there are none is left out."""
        for what, values in commits:
            Keeping.seen[what] += 1
            old = [i for i, row in self.source.rows.items() if bucket_of(row) < self.memory.bound]
            match what:
                case "comes":
                    rows = [{"ts": BASE + r["after"], "k": r["k"], "v": r["v"], "ok": True} for r in values]
                    self.source.insert(rows)
                case "changes" if self.source.rows:
                    self.value += 1  # a value that no row had, so that the oracle sees the change
                    self.source.update(self.picked(values), "v", self.value)
                case "goes" if old:
                    Keeping.seen["rows gone"] += len(old)
                    self.source.delete(old)
                case "goes one by one" if self.source.rows:
                    self.source.delete(self.picked(values))
                case "is compacted":
                    self.source.compact()

    def picked(self, picks: list[int]) -> set[int]:
        """Return the ids that some drawn numbers stand for."""
        ids = sorted(self.source.rows)
        return {ids[pick % len(ids)] for pick in picks}

    def at(self, hours: int) -> str:
        """Return a time of this example as text."""
        return (BASE + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def explore(
    spark: SparkSession, folder: Path, how: settings, seed: int | None = None, *, lane: Lane = Lane.DRIVER
) -> Counter[str]:
    """Run examples in one lane; return how often what happened."""
    Keeping.spark, Keeping.folder, Keeping.seen = spark, folder, Counter()
    Keeping.driver_lane_rows = 200_000 if lane is Lane.DRIVER else 0
    test = get_state_machine_test(Keeping, settings=how)
    (test if seed is None else hypothesis.seed(seed)(test))()
    return +Keeping.seen
