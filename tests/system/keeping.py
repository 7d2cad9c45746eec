"""Random work on a source whose old rows go, and an aggregate over it, held against an oracle that remembers them.

Commands die, tables are maintained, harmed and repaired, the output lets old buckets go, and a measure comes and goes that is
made from what is stored; what the oracle knows is in :mod:`tests.system.memory`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from unittest import mock
from uuid import uuid4

import hypothesis
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, initialize, invariant, precondition, rule
from msgspec import Struct
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.refresh.plan import Lane
from materializer.core.time.instants import HOUR
from materializer.core.time.spans import NEG_INF, SpanSet
from materializer.errors import (
    ExpireBoundError,
    ExpireDirtyError,
    FrozenHistoryError,
    FrozenWindowError,
    HistoryBuildingError,
    NothingBuiltError,
    RefreshWindowTooSmallError,
    RetiredWindowError,
)
from materializer.journal.codec import Row
from materializer.journal.state import AggregateState
from materializer.journal.store import JournalStore
from materializer.lake import places
from materializer.lake.write.commit import fence
from materializer.services.aggregate import Aggregate
from materializer.services.maintenance import maintain
from materializer.services.maintenance.maintain import MaintainReport
from materializer.services.refresh.reports import RefreshReport
from materializer.services.versions.build import BuildReport
from tests.oracle import naive
from tests.oracle.naive import differences
from tests.system.lake import (
    CHECKPOINTS,
    HOURLY,
    MAINTENANCE,
    Death,
    Defined,
    Died,
    Source,
    dying,
    leave_behind,
    micros,
    the_dead,
)
from tests.system.memory import Memory, Rows, bucket_of
from tests.system.stateful import RUNS
from tests.system.stateful_repairs import RECOVERIES, REPAIRS, deaths
from tests.system.stateful_versions import SWITCHES

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


class Commit(NamedTuple):
    """One commit to the source: what it does, with the rows or the numbers that stand for rows."""

    what: str
    values: list[Any]


class Backup(NamedTuple):
    """A copy of the journal, and what it says."""

    folder: str
    state: AggregateState

    def is_older(self, now: AggregateState) -> bool:
        """Whether the same tables were refreshed since."""
        return self.state.data_version == now.data_version and self.state.written_n < now.written_n


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


_PARTS: Final = dict(zip(HOURLY.parts["measures"], HOURLY.measures, strict=True))


def counted(*left_out: str) -> Defined:
    """Return what is computed, with a count that the mean can be made from, less some measures."""
    sql = {name: sql for name, sql in HOURLY.parts["measures"].items() if name not in left_out}
    measures = tuple(_PARTS[name] for name in sql)
    parts = {**HOURLY.parts, "measures": {**sql, "c": "count(v)"}}
    return replace(HOURLY, parts=parts, measures=(*measures, naive.of("v", len, least=0)))


VARIANTS: Final[Mapping[str, Defined]] = {"": counted("a"), "with a mean": counted()}
"""By comment, which tells what is published; each can be made from what is stored for the other."""
LENGTHS: Final = (None, None, 4, 9)
"""Hours that the output keeps; None for all."""
BOUNDS: Final = ("bound", "bounded")
"""Steps of a command that moves the frozen bound."""
STEPS: Final = ("compute", "writing_partials", "writing_output", "wrote_partials", "wrote_output", "done")
"""Steps at which a refresh has planned, and has not ended."""
REFRESHING: Final = deaths(STEPS, STEPS, CHECKPOINTS)
MOVING: Final = deaths(RECOVERIES, BOUNDS)
REPAIRING: Final = deaths(RECOVERIES, REPAIRS, REPAIRS)
HARMED: Final = (
    *("partials missing", "partials ahead", "output missing", "output ahead"),
    *("journal old", "journal unreadable"),
)
"""What is done to tables and journal, in an order in which it can be done."""
HARMS: Final = st.just(["output missing"]) | st.lists(st.sampled_from(HARMED), min_size=1, max_size=2, unique=True)
CHANGING: Final = deaths(
    SWITCHES,
    CHECKPOINTS[:10],
    ("version_tables", "version_partials", "version_output", "version_journal", "version_drop", "version_sweep"),
)
MAINTAINING: Final = deaths(RECOVERIES, MAINTENANCE, MAINTENANCE)


class Version(Struct):
    """A version of the data, and what it should show."""

    data_version: str
    memory: Memory


class Keeping(RuleBasedStateMachine):
    """One lake, used by one command after another, any of which may die, while old rows go and come."""

    spark: ClassVar[SparkSession]
    folder: ClassVar[str | Path]
    driver_lane_rows: ClassVar[int]
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.dead = self.closing.enter_context(the_dead())
        # files that no version needs go at once: whatever reads them later fails
        self.closing.enter_context(mock.patch.object(maintain, "retention_hours", return_value=0.0))

    @initialize(
        rows=ROWS,
        copies=st.sampled_from([1, 8]),
        retention=st.sampled_from([None, None, 5]),
        keeps=st.sampled_from(LENGTHS),
        bound=st.sampled_from([0, 5, 8]),
        run=st.sampled_from([None, 2]),
        canaries=st.sampled_from([0, 0, 0, 2]),
    )
    def open(
        self,
        rows: list[dict[str, Any]],
        copies: int,
        retention: int | None,
        keeps: int | None,
        bound: int,
        run: int | None,
        canaries: int,
    ) -> None:
        """Make the source and the aggregate, and publish what there is."""
        Keeping.seen["examples"] += 1
        self.executors = cycle(("auto", "spark"))
        home = f"{self.folder}/{uuid4().hex}"
        self.source = Source(f"{home}/source", has_feed=True)
        self.root = f"{home}/lake"
        self.lake = self.new()
        self.retention, self.keeps, self.canaries = retention, keeps, canaries
        self.lake.define("hourly", self.source.path, **self.parts())
        self.published, self.value = Version(self.state.data_version, Memory()), 1000
        self.next: Version | None = None
        self.previous: Version | None = None
        self.backup: Backup | None = None
        every = [{"after": timedelta(hours=h), "k": k, "v": h} for h in HOURS for k in "ab"]
        self.committed([Commit("comes", [*every, *rows] * copies)])
        if run:  # in so many files that they are worth writing again
            self.command("backfill", None, lambda m: m.backfill("hourly", buckets_per_run=run))
        else:
            self.refresh([], (None, None), force=False, death=None)
        if bound:
            self.expire([], bound, is_deleted=False, death=None)

    def new(self, on_checkpoint: Callable[[str], None] = lambda _: None) -> Materializer:
        """Return the lake as a new process opens it."""
        config = Config(driver_lane_rows=self.driver_lane_rows, executor="spark")
        return Materializer(self.root, spark=self.spark, config=config, on_checkpoint=on_checkpoint)

    @property
    def memory(self) -> Memory:
        """What is known of what is published."""
        return self.published.memory

    def parts(self, variant: str = "") -> dict[str, Any]:
        """Return what the aggregate is defined with now, as some variant."""
        asked = {"source.retention": self.retention, "output.retention": self.keeps}
        lengths = {name: f"{hours} hours" for name, hours in asked.items() if hours}
        properties = {"quality.canaries": str(self.canaries), **lengths}
        return {**VARIANTS[variant].parts, "comment": variant, "properties": properties}

    # -- commands --------------------------------------------------------------------------------------------------------

    @rule(commits=COMMITS, window=WINDOWS, force=st.sampled_from([False, False, False, True]), death=REFRESHING)
    def refresh(
        self, commits: list[Commit], window: tuple[int | None, int | None], force: bool, death: Death | None
    ) -> None:
        """Refresh, perhaps only a window; the executors take turns."""
        self.committed(commits)
        start, end = (None if hours is None else self.at(hours) for hours in window)
        options = {"force": force, "executor": next(self.executors)}
        self.command("refresh", death, lambda m: m.refresh("hourly", start, end, **options), end=window[1])
        self.check_followed()

    @rule(commits=COMMITS, window=WINDOWS, runs=RUNS, death=REFRESHING)
    def backfill(
        self, commits: list[Commit], window: tuple[int | None, int | None], runs: dict[str, Any], death: Death | None
    ) -> None:
        """Refresh a window run by run, perhaps not to its end."""
        self.committed(commits)
        start, end = (None if hours is None else self.at(hours) for hours in window)
        self.command("backfill", death, lambda m: m.backfill("hourly", start, end, **runs), end=window[1])
        self.check_followed()

    @rule(commits=COMMITS, hours=EDGES, is_deleted=st.booleans(), death=MOVING)
    def expire(self, commits: list[Commit], hours: int, is_deleted: bool, death: Death | None) -> None:
        """Freeze history up to some time; often the owner deletes its rows then."""
        self.committed(commits)
        if self.command("expire", death, lambda m: m.expire("hourly", self.at(hours))):
            Keeping.seen["expired"] += 1
        if is_deleted:
            self.committed([Commit("goes", [])])

    @rule(commits=COMMITS, is_sure=st.sampled_from([False, False, True]), death=MOVING)
    def thaw(self, commits: list[Commit], is_sure: bool, death: Death | None) -> None:
        """Give history up, or only ask what that would mean."""
        self.committed(commits)
        self.command("thaw", death, lambda m: m.thaw("hourly", dry_run=not is_sure), thaws=is_sure)

    @rule(hours=EDGES, death=deaths(RECOVERIES))
    def invalidate(self, hours: int, death: Death | None) -> None:
        """Declare an hour or two dirty."""
        self.invalidated(hours, hours + 2, death)

    def invalidated(self, start: int, end: int, death: Death | None) -> None:
        """Declare some hours dirty; those that the output let go are wanted again where it may keep them."""
        was = self.memory.retired
        self.command("invalidate", death, lambda m: m.invalidate("hourly", self.at(start), self.at(end)), end=end)
        Keeping.seen["wanted again"] += self.memory.retired < was

    @rule(hours=st.sampled_from([*LENGTHS, 11]), wants=st.booleans(), death=deaths(RECOVERIES))
    def keep(self, hours: int | None, wants: bool, death: Death | None) -> None:
        """Let the output keep more hours, or fewer; nothing is computed, unless they are wanted again then."""
        self.keeps = hours
        parts = self.parts(self.state.spec["comment"])
        self.command("keep", death, lambda m: m.define("hourly", self.source.path, **parts))
        if wants:
            self.invalidated(0, 14, None)

    @precondition(lambda self: not self.state.switch)
    @rule(commits=COMMITS, is_other=st.sampled_from([True, True, True, False]), death=CHANGING)
    def change(self, commits: list[Commit], is_other: bool, death: Death | None) -> None:
        """Let a measure come or go; the other version is made from what is stored, and published."""
        self.committed(commits)
        shown = self.state.spec["comment"]
        variant = next(v for v in VARIANTS if (v != shown) == is_other)

        def do(m: Materializer) -> BuildReport:
            change = m.define("hourly", self.source.path, **self.parts(variant))
            Keeping.seen[f"{change.kind} {change.next}".strip()] += 1
            return m.build("hourly")

        self.command("change", death, do)

    @precondition(lambda self: self.state.previous and not self.state.switch)
    @rule(commits=COMMITS, death=CHANGING)
    def roll_back(self, commits: list[Commit], death: Death | None) -> None:
        """Publish the version before again, made true."""
        self.committed(commits)

        def do(m: Materializer) -> BuildReport:
            m.rollback("hourly")
            return m.build("hourly")

        self.command("roll back", death, do)

    @rule(death=MAINTAINING)
    def maintain(self, death: Death | None) -> None:
        """Lay the tables out again, and remove every file that no version needs."""
        self.command("maintain", death, lambda m: m.maintain("hourly"))

    @precondition(lambda self: self.next is None)
    @rule()
    def back_up(self) -> None:
        """Keep a copy of the journal."""
        folder = f"{self.folder}/{uuid4().hex}"
        self.lake.backup(folder)
        self.backup = Backup(folder, self.state)

    @precondition(lambda self: not self.state.switch)
    @rule(commits=COMMITS, harms=HARMS, death=REPAIRING)
    def repair(self, commits: list[Commit], harms: list[str], death: Death | None) -> None:
        """Do harm, and repair it: what cannot be had back is reported, and nothing is made up."""
        self.committed(commits)
        open_plan = taken_by(self.state)
        harms = [harm for harm in sorted(harms, key=HARMED.index) if self.harm(harm)]
        if not harms:
            return
        if death is not None:
            try:
                with dying(death) as on_checkpoint:
                    self.new(on_checkpoint).repair("hourly")
            except Died as died:
                Keeping.seen[f"repair died at {died}"] += 1
                leave_behind(self.lake, self.dead)
        self.lake = self.new()
        Keeping.seen[f"repair: {self.lake.repair('hourly').outcome}"] += 1
        assert self.lake.repair("hourly", dry_run=True).outcome == "sound"
        if "partials missing" in harms:
            self.memory.loses_partials()
        if "output missing" in harms:
            self.memory.loses_output(open_plan)
            Keeping.seen["late rows given up"] += bool(open_plan & self.memory.frozen)
        state = self.state
        self.published.data_version = state.data_version
        rows = self.source.versions[state.cursor]
        if harms == ["output missing"]:
            assert (state.cursor, state.frozen) == (self.memory.cursor, self.memory.bound)
            return
        self.check_frozen_again(state, rows, self.backup if "journal old" in harms else None)
        self.memory.stands(state.frozen, state.retired, rows)
        self.memory.repaired(state.cursor)
        Keeping.seen["buckets stuck by a repair"] += bool(self.memory.stuck)

    @rule(commits=COMMITS)
    def look(self, commits: list[Commit]) -> None:
        """The always-fresh read is the truth above the bound, and writes nothing."""
        self.committed(commits)
        version = self.lake.journal.view().version
        rows = self.lake.read("hourly", fresh=True).toArrow().to_pylist()
        how = now(self.state)
        found = [tuple(row[c] for c in how.columns) for row in rows]
        retired = max(self.memory.retired, self.wanted(kept_by(self.state), self.source.rows))
        bound = max(self.memory.bound, retired)
        new = [row for row in self.source.rows.values() if bucket_of(row) >= bound]
        assert not differences(how.expected(new), [r for r in found if micros(r[0]) >= bound], how.known_by)
        assert not [row for row in found if micros(row[0]) < retired]
        assert version == self.lake.journal.view().version

    # -- what holds ------------------------------------------------------------------------------------------------------

    @invariant()
    def history_is_remembered(self) -> None:
        """
        What is clean is what the oracle remembers, what is dirty is what it was, and what is stuck is just what was in conflict.
        """
        if self.next is not None and (build := self.lake.journal.view().build_of(self.state)) is not None:
            self.check(build, self.next.memory)
            Keeping.seen["next versions looked at"] += 1
        if self.state.switch:  # what is published is this version or the next one
            Keeping.seen["left in a switch"] += 1
            return
        self.check(self.state, self.memory)
        [status] = self.lake.status("hourly")
        assert self.memory.stuck == SpanSet.union(span for span, _ in status.stuck)

    def check(self, state: AggregateState, memory: Memory) -> None:
        """A version shows what it should, be it the one that is published or the next one."""
        open_plan, how = taken_by(state), now(state)
        rows = DeltaTable(Aggregate.of(state, self.root).paths["output"]).to_pyarrow_table().to_pylist()
        found = [tuple(row[c] for c in how.columns) for row in rows]
        wrong = memory.shows(found, self.source.versions[state.cursor], state.log.spans, open_plan, how)
        assert not wrong, f"{how.columns} at version {state.cursor}, frozen {memory.bound}: {wrong}"
        Keeping.seen["left unfinished"] += bool(state.plan)
        Keeping.seen["left unfinished below the bound"] += bool(open_plan & memory.frozen)

    def teardown(self) -> None:
        """At the end everything that can be true is, and verifies."""
        try:
            if sys.exc_info()[0] is None and hasattr(self, "lake"):
                self.publish_what_is_built()
                for _ in range(2):  # the bound follows what the first one made clean
                    self.refresh([], (None, None), force=False, death=None)
                assert self.memory.bound >= self.wanted(self.retention, self.source.rows)
                assert not self.lake.status("hourly")[0].dirty
                self.history_is_remembered()
                report = self.lake.verify("hourly")
                assert report.is_equal, report.examples
                Keeping.seen["conflicts"] += len(self.memory.stuck)
                Keeping.seen["buckets remembered"] += len(self.memory.rows)
        finally:
            self.closing.close()

    @property
    def state(self) -> AggregateState:
        """The aggregate, as the journal knows it."""
        return self.lake.journal.view().named("hourly")

    # -- helpers ---------------------------------------------------------------------------------------------------------

    def command(
        self,
        what: str,
        death: Death | None,
        do: Callable[[Materializer], Any],
        *,
        end: int | None = None,
        thaws: bool = False,
    ) -> Any:
        """Run a command that may die, and let the oracle see what it captured and where the bounds stand then.

        Args:
            what: The command.
            death: Where it dies.
            do: Runs it.
            end: Hour at which its window ends, None for an open end.
            thaws: Whether it may move the frozen bound back.
        """
        Keeping.seen[what] += 1
        result = None
        try:
            if death is None:
                result = do(self.lake)
            else:
                with dying(death) as on_checkpoint:
                    result = do(self.new(on_checkpoint))
        except (ExpireBoundError, ExpireDirtyError, RefreshWindowTooSmallError, NothingBuiltError) as exc:
            Keeping.seen[exc.code] += 1
        except HistoryBuildingError as exc:
            Keeping.seen[exc.code] += 1
            assert self.lake.journal.view().build_of(self.state) is not None
        except FrozenHistoryError as exc:
            Keeping.seen[exc.code] += 1
            self.check_history_lost(what)
        except (FrozenWindowError, RetiredWindowError) as exc:
            Keeping.seen[exc.code] += 1
            self.check_below(exc, end)
        except Died as died:
            Keeping.seen[f"{what} died at {died}"] += 1
            leave_behind(self.lake, self.dead)
            self.lake = self.new()
        self.told(result)
        was = self.memory
        self.was_refreshed, self.was_retired = isinstance(result, RefreshReport), was.retired
        self.follow_versions(what)
        state, is_switched = self.state, self.memory is not was
        self.follow(state, self.memory)
        assert thaws or state.frozen >= was.bound, f"{what} moved the frozen bound back"
        assert what == "invalidate" or is_switched or state.retired >= self.was_retired, f"{what} wants again what went"
        return result

    def follow(self, state: AggregateState, memory: Memory) -> None:
        """Let a version's memory see what it captured, and where its bounds stand."""
        memory.captures(self.source.versions, state.cursor)
        memory.stands(state.frozen, state.retired, self.source.versions[state.cursor])

    def follow_versions(self, what: str) -> None:
        """Note that a next version was begun, given up or published; it started from what the one before had stored."""
        origin = self.previous if what == "roll back" and self.previous else self.published
        state = self.state
        build = self.lake.journal.view().build_of(state)
        found = {state.data_version, build.data_version if build else state.data_version}
        known = {v.data_version for v in (self.published, self.next) if v is not None}
        assert found <= known or not origin.memory.lacks(), f"{what} begins without history that only the output has"
        if state.data_version != self.published.data_version:
            is_known = self.next is not None and self.next.data_version == state.data_version
            memory = self.next.memory if is_known and self.next else origin.memory.from_partials()
            self.previous, self.published, self.next = self.published, Version(state.data_version, memory), None
            Keeping.seen[f"published by {what}"] += 1
        elif build is None:
            self.next = None
        elif self.next is None or self.next.data_version != build.data_version:
            self.next = Version(build.data_version, origin.memory.from_partials())
        if build is not None and self.next is not None:
            self.follow(build, self.next.memory)

    def publish_what_is_built(self) -> None:
        """What is being built can be published, and is true."""
        if self.lake.journal.view().build_of(self.state) is not None:
            report = self.command("build", None, lambda m: m.build("hourly"))
            assert report is None or report.switched is not None, report
            if self.next is not None:  # more was frozen than it knows
                self.command("abandon", None, lambda m: m.abandon("hourly"))

    def check_followed(self) -> None:
        """After a refresh that did not die the output keeps what it is asked to by the newest row, and nothing older."""
        if self.was_refreshed:
            wanted = self.wanted(kept_by(self.state), self.source.versions[self.memory.cursor])
            assert self.memory.retired == max(self.was_retired, wanted)
            Keeping.seen["retired"] += self.memory.retired > self.was_retired

    def check_history_lost(self, what: str) -> None:
        """A version is refused only where another has history that it lacks, or is frozen further."""
        before = self.previous if what == "roll back" else None
        versions = [version for version in (self.published, self.next, before) if version is not None]
        assert any(v.memory.is_repaired or v.memory.bound < self.memory.bound for v in versions)

    def check_below(self, exc: FrozenWindowError | RetiredWindowError, end: int | None) -> None:
        """A window is refused only where a bound stands above all of it, or follows the newest row to there."""
        state = self.state
        is_frozen = isinstance(exc, FrozenWindowError)
        stands = state.frozen if is_frozen else state.retired
        bound = max(stands, self.wanted(self.retention if is_frozen else kept_by(state), self.source.rows))
        newest = max(state.threshold, self.wanted(0, self.source.rows))
        assert bound >= (newest if end is None else micros(BASE) + end * HOUR), exc

    def wanted(self, hours: int | None, rows: Rows) -> int:
        """Return where a length back from the newest row leads; nothing is as old as what no length asks for."""
        if hours is None or not rows:
            return NEG_INF
        return max(map(bucket_of, rows.values())) + HOUR - hours * HOUR

    def told(self, report: object) -> None:
        """Count what reports say that was done."""
        if isinstance(report, RefreshReport):
            Keeping.seen.update(f"recovered: {how}" for _, how in report.recovered)
            [status] = self.lake.status("hourly")
            Keeping.seen["canaries looked"] += bool(report.runs and status.canaries and status.canaries.clean)
            for run in report.runs:
                Keeping.seen.update(f"strategy {strategy}" for strategy in run.report.strategy.split("+"))
                Keeping.seen[f"executor {run.report.executor or 'spark'}"] += 1
        for each in report if isinstance(report, list) else ():
            if isinstance(each, MaintainReport):
                Keeping.seen["tables maintained"] += sum(bool(table.rewritten) for table in each.done)
                Keeping.seen["files removed"] += sum(table.removed for table in each.done)

    def harm(self, harm: str) -> bool:
        """Do some harm, and return whether it could be done."""
        paths = Aggregate.of(self.state, self.root).paths if harm.startswith(("output", "partials")) else {}
        match harm.split():
            case [which, _] if which in paths and not DeltaTable.is_deltatable(paths[which]):
                return False
            case [which, "missing"]:
                places.delete_folder(paths[which])
            case [which, "ahead"]:
                app_ids, n = Aggregate.of(self.state, self.root).app_ids, self.state.last_n + 1
                fence(paths[which], app_ids[which], n, {"plan": "", "n": n, "kind": "fence", "source_version": 0})
            case ["journal", "unreadable"]:
                store = JournalStore(self.root)
                store.append([Row(self.state.id, "captured", "", "{")], expected_version=store.read().version)
            case _ if self.backup is not None and self.next is None and self.backup.is_older(self.state):
                self.lake.restore(self.backup.folder)
            case _:
                return False
        Keeping.seen[f"harm: {harm}"] += 1
        return True

    def check_frozen_again(self, state: AggregateState, rows: Rows, restored: Backup | None) -> None:
        """A repair freezes more only where the source lets rows go: what retention says, and what lies before its first row."""
        first = min(map(bucket_of, rows.values()), default=NEG_INF)
        lets_go = NEG_INF if self.retention is None else state.threshold - self.retention * HOUR
        was = self.memory.bound if restored is None else max(self.memory.bound, restored.state.frozen)
        most = max(was, first, lets_go) if self.retention is not None or was != NEG_INF else NEG_INF
        assert self.memory.bound <= state.frozen <= most
        Keeping.seen["frozen by a repair"] += state.frozen > self.memory.bound

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


def now(state: AggregateState) -> Defined:
    """Return what a version of the aggregate computes."""
    return VARIANTS[state.spec["comment"]]


def kept_by(state: AggregateState) -> int | None:
    """Return how many hours a version lets the output keep, None for all."""
    length = dict(state.spec["properties"]).get("output.retention")
    return None if length is None else int(length.split()[0])


def taken_by(state: AggregateState) -> SpanSet:
    """Return where a refresh that has not ended writes."""
    return SpanSet.union(e.span for e in state.plan.taken) if state.plan else SpanSet()


def explore(
    spark: SparkSession, folder: str | Path, how: settings, seed: int | None = None, *, lane: Lane = Lane.DRIVER
) -> Counter[str]:
    """Run examples in one lane; return how often what happened."""
    Keeping.spark, Keeping.folder, Keeping.seen = spark, folder, Counter()
    Keeping.driver_lane_rows = 200_000 if lane is Lane.DRIVER else 0
    test = get_state_machine_test(Keeping, settings=how)
    (test if seed is None else hypothesis.seed(seed)(test))()
    return +Keeping.seen
