"""Hand-made results, one of each kind, with every optional part present."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from materializer.adapters.cli.render.about import SetupResult, VersionResult
from materializer.adapters.cli.render.apply import ApplyResult
from materializer.adapters.cli.render.backup import BackupResult, RestoreResult
from materializer.adapters.cli.render.build import AbandonResult, BuildResult, SwitchResult
from materializer.adapters.cli.render.check import CheckResult
from materializer.adapters.cli.render.completion import CompletionResult
from materializer.adapters.cli.render.diff import DiffResult
from materializer.adapters.cli.render.doctor import DoctorResult
from materializer.adapters.cli.render.drop import DropResult
from materializer.adapters.cli.render.engines import EnginesResult
from materializer.adapters.cli.render.expire import ExpireResult, ThawResult
from materializer.adapters.cli.render.explain import ExplainResult
from materializer.adapters.cli.render.export import ExportResult
from materializer.adapters.cli.render.history import HistoryResult
from materializer.adapters.cli.render.how import HowResult
from materializer.adapters.cli.render.invalidate import InvalidateResult
from materializer.adapters.cli.render.maintain import MaintainResult
from materializer.adapters.cli.render.new import LookResult, MeasuresResult, NewResult, ProposedResult
from materializer.adapters.cli.render.plan import PlanResult
from materializer.adapters.cli.render.policy import PolicyListResult
from materializer.adapters.cli.render.proposal import ProposalResult
from materializer.adapters.cli.render.refresh import RefreshResult
from materializer.adapters.cli.render.repair import RepairResult
from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.render.show import ChangesResult, FreshCost, ShowResult
from materializer.adapters.cli.render.status import StatusResult
from materializer.adapters.cli.render.testing import TestsResult
from materializer.adapters.cli.render.verify import VerifyResult
from materializer.core.engines.guides import GUIDES
from materializer.core.language import new_text
from materializer.core.language.new_text import Answers
from materializer.core.language.suggest import ColumnFacts, SourceFacts, TimeChoice
from materializer.core.policy.compaction import FileExtent, Group
from materializer.core.policy.policies import Policy
from materializer.core.quality.canaries import Canaries
from materializer.core.quality.failing import FailingRow
from materializer.core.quality.verdict import Finding as Found
from materializer.core.quality.verdict import Severity, Verdict
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.lateness import Lateness, advice
from materializer.core.refresh.plan import (
    Estimate,
    Lane,
    Merge,
    Plan,
    ReadCost,
    Recompute,
    Rejected,
    RunReport,
    Settle,
    TableBase,
)
from materializer.core.refresh.strategies import reason_of
from materializer.core.spec.spec import GridSpec, TimeType, Width
from materializer.core.time.grid import build
from materializer.core.time.instants import parse
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.demo.prepare import PreparedDemo
from materializer.errors import Problem, UsageError
from materializer.errors.explained import all_codes
from materializer.journal.events import Captured
from materializer.journal.snapshot import Manifest
from materializer.journal.state import Ended
from materializer.local.differences import ColumnDifference, GroupDifference, Law, RowDifferences
from materializer.services.definitions.changes import DefinitionChange, Reads, ReusedPartials
from materializer.services.definitions.coverage import Lack
from materializer.services.definitions.sources import MissingFeed
from materializer.services.definitions.starting import NewDefinition
from materializer.services.definitions.waiting import WaitingCheck, WaitingVersion
from materializer.services.delivery.export import ExportReport
from materializer.services.maintenance.expire import Expiry, Thaw
from materializer.services.maintenance.maintain import MaintainReport, TableDone, TablePlan
from materializer.services.observe.source_deletes import OtherReader
from materializer.services.quality.check import CheckReport
from materializer.services.quality.gate import summary
from materializer.services.quality.verify import Difference, VerifyReport
from materializer.services.refresh.preview import Preview
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.repair.apply import RepairReport
from materializer.services.repair.backup import BackupReport, Outlived, RestoreReport, TableComparison
from materializer.services.repair.plan import Mending, Table
from materializer.services.report.chain import Ancestor
from materializer.services.report.diff import DiffReport, DiffSide
from materializer.services.report.freshness import Freshness
from materializer.services.report.snippets import Snippet
from materializer.services.report.source_lateness import SourceLateness
from materializer.services.report.status import PastClock, Status
from materializer.services.report.tables import DoctorFinding
from materializer.services.schedule.policies import PolicyState
from materializer.services.testing.compare import RowDifference
from materializer.services.testing.run import TestOutcome
from materializer.services.versions.build import BuildReport
from materializer.services.versions.progress import NextVersion, PreviousVersion
from materializer.services.versions.proposal import ChangedReader, ChangePrice, DefinitionsPlan, PlannedChange
from materializer.services.versions.versions import SwitchReport
from materializer.structs import as_dict

TS = TimeType.TIMESTAMP


def day(n: int, hour: int = 0) -> int:
    """Return an instant of December 2013."""
    return parse(f"2013-12-{n:02}T{hour:02}:00:00Z", TS)


WINDOW = Span(NEG_INF, day(8))
DIRTY = SpanSet.of(*(Span(day(d, 3), day(d, 5)) for d in range(1, 7)))
STEPS = (
    Merge(
        SpanSet.of(Span(day(1, 3), day(1, 5)), Span(day(2, 3), day(2, 5))),
        339,
        Estimate(2_400, 310_000, 2),
        (Rejected("recompute", "would read 1,512,000 raw rows"),),
    ),
    Recompute(
        SpanSet.of(*(Span(day(d, 3), day(d, 5)) for d in range(3, 7))),
        "rows changed",
        Estimate(120_500, 12_600_000, 7),
        (Rejected("merge", "rows were updated or deleted, not only inserted"),),
    ),
    Settle(SpanSet.of(Span(NEG_INF, day(1)))),
)
PLAN = Plan("p", 12, 341, WINDOW, (), STEPS, Lane.DRIVER, TableBase("a", 3), TableBase("b", 4))
REPORT = RunReport(341, "merge+recompute", "driver", 12, 2_416, 240, 236, 3, 4, 5, 2, 0.6184)
VERDICT = Verdict(
    "flights",
    (
        Found(
            0,
            "expect_column_values_to_be_between",
            {"column": "mean", "max_value": 300},
            Severity.CRITICAL,
            success=False,
            unexpected_count=2,
            element_count=1_200,
        ),
        Found(
            1, "expect_table_row_count_to_be_between", {"min_value": 1}, Severity.WARNING, success=True, observed=1_200
        ),
    ),
)
GATE = {
    "output": summary(VERDICT),
    "held": [[day(2), day(3)]],
    "published_anyway": {"reason": "a storm, confirmed"},
    "sampled": {"clean": 5, "differed": [[day(2), day(3)]]},
}
ENDED = Ended(12, "2026-08-01T10:00:00Z", "done", WINDOW, REPORT, verdict=GATE, policy="history")
ABORTED = Ended(
    11,
    "2026-08-01T09:58:00.251Z",
    "aborted",
    Span(day(1, 12), day(2, 12)),
    RunReport(340, "merge", "driver"),
    "its process died",
)
CAPTURED = Captured(341, (Entry(Span(day(5, 3), day(5, 5)), 340, Cause.CHANGE),), day(8), (), 3)
PREVIEW = Preview("flights_hourly", TS, WINDOW, 341, CAPTURED, DIRTY, SpanSet.of(Span(day(9), day(10))), PLAN, 3, 11)
CHECK = WaitingCheck(
    "output", "expect_column_values_to_not_be_null", ("late",), "column 'late' comes with the next version"
)
PREVIEW = replace(
    PREVIEW, waiting=WaitingVersion(("adds measure late",), "materializer build flights_hourly", (CHECK,))
)
IDLE_PREVIEW = Preview("flights_hourly", TS, WINDOW, 341, None, SpanSet(), SpanSet(), None, 0)
RUN = RunDone(PLAN, REPORT, WINDOW, 2)
SMALL = Group(tuple(FileExtent(f"part-{i}", 12, 2_000, day(1, i), day(1, i + 1)) for i in range(9)), "small")
MAINTAIN = MaintainReport(
    "flights_hourly",
    (
        TablePlan("partials", 40, 12_000, 900_000, 12, 3, (SMALL,), 17, 310_000, 14, 6),
        TablePlan("output", 3, 12_000, 700_000, 0, 1),
    ),
    (
        TableDone("partials", 32, 870_000, 9, 1, 108, 1, 17, 310_000, checkpoint=True),
        TableDone("output", 3, 700_000),
    ),
    seconds=0.4567,
)
MAINTAINED = {"tables": [as_dict(d) for d in MAINTAIN.done], "seconds": 0.457, "n": 12, "at": "2013-12-09T00:00:00Z"}
REFRESH = RefreshReport(
    "flights_hourly",
    "refreshed",
    WINDOW,
    341,
    (RUN, RunDone(PLAN, REPORT, WINDOW)),
    ((11, "finished"),),
    SpanSet.of(Span(day(9), POS_INF)),
    3,
    1.2345,
    (MAINTAIN,),
    ("the maintenance after it failed: the disk is full (storage.failed)",),
    day(1),
    SpanSet.of(Span(day(1, 3), day(1, 5))),
    "DELETE FROM delta.`lake/flights` WHERE `time_hour` < TIMESTAMP_LTZ '2013-12-01 00:00:00Z'",
    (OtherReader("flights_daily", "not frozen"),),
)
IDLE_REFRESH = RefreshReport("flights_hourly", "up-to-date", WINDOW, 341, seconds=0.0021)
POLICY = PolicyState(
    "flights_hourly",
    Policy("default", Width(days=7), Width(micros=3_600_000_000), "*/15 * * * *", 4, "newest", catch_dirt=True),
    build(GridSpec(Width(micros=3_600_000_000)), TS),
    Span(day(1), day(8)),
    day(8),
    day(8, 1),
    is_due=False,
)
LATENESS = Lateness({0: 900, 24: 60, 68: 40})
DIFFERENCES = ("- measure mean: avg(dep_delay)", "+ measure mean: avg(arr_delay)")
SWITCH = SwitchReport("flights_hourly", 13, 341, 336_776, previous=True, differences=DIFFERENCES, seconds=0.4)
BUILT = BuildReport("flights_hourly", TS, (REFRESH,), Lack(), "", SWITCH, 4.5)
HALF_BUILT = BuildReport("flights_hourly", TS, (REFRESH,), Lack(DIRTY, (340, 341)), "it does not cover it", seconds=4.5)
NEXT = NextVersion(
    "building",
    0.4,
    202_000,
    DIRTY,
    TS,
    "1 hour",
    339,
    behind=True,
    open_refresh=3,
    holder="process 12",
    differences=DIFFERENCES,
)
SOURCE = SourceLateness("/lake/flights", "departed", "flights_hourly", 2, LATENESS, 5_400.0)
STATUS = Status(
    name="flights_hourly",
    source="lake/flights",
    grid="1 hour",
    time_type=TS,
    cursor=340,
    newest=341,
    waits_for=Ancestor("flights_raw", "behind"),
    threshold=day(8),
    newest_bucket_end=day(8),
    dirty=DIRTY,
    entries=7,
    changed_keys=4,
    null_times=3,
    open_refresh=12,
    holder="process 4711 on laptop",
    rows=336_776,
    last=ENDED,
    state="unfinished",
    problem="the source is older than what was captured",
    policies=(POLICY,),
    outside=SpanSet.of(Span(day(1), day(2))),
    held=SpanSet.of(Span(day(2), day(3))),
    last_check=summary(VERDICT) | {"version": 12, "window": [day(1), day(8)], "at": "2013-12-09T00:00:00Z"},
    canaries=Canaries(3, 2, 29, 31, 20, "2013-12-09T00:00:00Z", 12, SpanSet.of(Span(day(2), day(3)))),
    maintained=MAINTAINED,
    freshness=Freshness(Width(micros=7_200_000_000), 86_400.0, is_kept=False),
    lateness=LATENESS,
    advice=advice(LATENESS, 3600.0, 90.0),
    next=NEXT,
    previous=(PreviousVersion(330, DIFFERENCES),),
    frozen=day(1),
    delete="DELETE FROM delta.`/data/trades` WHERE `ts` < TIMESTAMP '2024-03-01 00:00:00+00:00'",
    readers=(OtherReader("by_day", "not frozen"),),
    retired=day(1, 1),
    expired_rows=1_200,
    stuck=((Span(NEG_INF, day(1)), reason_of(Cause.CONFLICT)),),
    past_clock=PastClock(day(30), 12, 1),
    only_spark=("the aggregate approx_quantile", "its gate checks rows of the source"),
)
EXPIRY = Expiry(
    "flights_hourly",
    TS,
    day(2, 5),
    day(2),
    NEG_INF,
    "lake/flights",
    341,
    Estimate(12_000, 1_300_000, 4),
    SpanSet.of(Span(day(1, 3), day(1, 5))),
    "DELETE FROM delta.`lake/flights` WHERE `time_hour` < TIMESTAMP_LTZ '2013-12-02 00:00:00Z'",
    (OtherReader("flights_daily", "not frozen"),),
    ("the source has no change feed: rows that come below the bound cannot be merged, only reported",),
    is_dry_run=True,
)
THAW = Thaw(
    "flights_hourly",
    TS,
    day(2),
    SpanSet.of(Span(NEG_INF, day(2))),
    Estimate(240, 31_000, 2),
    Estimate(0, 0, 0),
    1_200,
    SpanSet.of(Span(day(1, 3), day(1, 5))),
    follows=True,
    is_dry_run=True,
)
PROBLEM = Problem(
    "definition.unknown-column",
    "there is no column 'dep_dely' in 'flights'",
    "the nearest is 'dep_delay'",
    "sql/flights.sql",
    4,
    12,
)
CHECKED = CheckReport(
    "flights_hourly",
    WINDOW,
    12,
    VERDICT,
    (
        FailingRow(
            0, "expect_column_values_to_be_between", {"bucket": datetime(2013, 12, 1, 3, tzinfo=UTC), "mean": 999.5}
        ),
    ),
    "docs/index.html",
    1.5,
)
VERIFIED = VerifyReport(
    "flights_hourly",
    341,
    SpanSet.of(WINDOW),
    SpanSet.of(Span(day(8), POS_INF)),
    336_776,
    2,
    (
        Difference("differs", {"bucket": "2013-12-01T03:00:00Z", "origin": "JFK"}, {"flights": ("12", "13")}),
        Difference("missing", {"bucket": "2013-12-01T04:00:00Z", "origin": "LGA"}, {}),
    ),
    {"flights": "exact", "mean_delay": "float"},
    4.25,
    types=(("flights", "int", "bigint"),),
)
EQUAL = VerifyReport("flights_hourly", 341, SpanSet.of(WINDOW), SpanSet(), 336_776, 0, (), {"flights": "exact"}, 4.25)

REPAIRED = RepairReport(
    "flights_hourly",
    "repaired",
    Mending(
        "flights_hourly",
        (("tables.foreign", "its partials table is not the one that was made for it"),),
        Table.EMPTY,
        Table.KEPT,
        is_everything_dirty=True,
        n=43,
        abandons=42,
        source_rows=336_776,
    ),
    ((41, "finished"),),
    ("lake/flights_hourly/partials/d1",),
    0.2,
)
MANIFEST = Manifest("2013-12-02T00:00:00Z", "lake", 341, {"flights_daily": 17, "flights_hourly": 42})
RESTORED = RestoreReport(
    "backups/2013-12-02",
    MANIFEST,
    "restored",
    (TableComparison("flights_daily", 17, 17, "same"), TableComparison("flights_hourly", 42, None, "back")),
    "the journal is damaged",
    "lake/_materializer.aside",
    {"flights_hourly": ("its output table carries refresh 43, the journal left it at 42",)},
    ("flights_daily",),
    0.1,
    (Outlived("flights_hourly", 1_385_856_000_000_000, "2013-12-01T00:00:00Z", 7_900),),
)

PROPOSAL = DefinitionsPlan(
    (
        PlannedChange(
            DefinitionChange("flights_hourly", "data", DIFFERENCES, "lake/flights", 341, "started"),
            ("measure mean", "where"),
            ChangePrice("recompute", "spark", "a run reads 168,388 rows", 336_776, 12_345_678, 12, 2, 12.34),
            ("flights_minutely",),
            (
                ChangedReader(
                    "flights_daily", is_direct=True, problem="it reads the column `mean`, which would be gone"
                ),
                ChangedReader("flights_monthly", is_direct=False),
            ),
        ),
        PlannedChange(DefinitionChange("flights_daily", "metadata", DIFFERENCES), ("comment",)),
        PlannedChange(DefinitionChange("flights_yearly", "unchanged")),
    ),
    (PROBLEM,),
    (PROBLEM,),
)

DEPARTED = ColumnFacts("departed", "timestamp", 300_000, 12, 1_357_000_000_000_000, 1_388_000_000_000_000)
ANSWERS = Answers(
    "flights_1h",
    "flights",
    "departed",
    "",
    "1 hour",
    ("origin",),
    ("count(*) AS n", "avg(delay) AS delay_avg"),
    (("start_offset", "31 hours"), ("end_offset", "1 hour"), ("schedule", "5 * * * *")),
)
NEW = NewDefinition(
    ANSWERS,
    "lake/flights",
    341,
    SourceFacts((DEPARTED, ColumnFacts("origin", "string", 3), ColumnFacts("delay", "double", 700)), 336_776, 50_000),
    (TimeChoice(DEPARTED, TimeType.TIMESTAMP),),
    new_text.definition(ANSWERS),
    new_text.suite(ANSWERS, ["origin"]),
    MissingFeed(
        "lake/flights", "ALTER TABLE delta.`lake/flights` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    ),
)

RESULTS: dict[str, Result] = {
    "new": NewResult(NEW, ("sql/flights_1h.sql", "expectations/flights_1h.json")),
    "engines": EnginesResult((GUIDES["session_window"],), is_detailed=True),
    "completion": CompletionResult("bash", "complete -F _materializer materializer"),
    "explain": ExplainResult((all_codes()["history.fewer-rows"],), is_detailed=True),
    "apply": ApplyResult(
        (
            DefinitionChange(
                "flights_hourly",
                "data",
                DIFFERENCES,
                "lake/flights",
                341,
                "started",
                Reads(336_776, 12_345_678, 12, 2),
                ReusedPartials(5_040, 1_234_567, 3),
            ),
        ),
        (PROBLEM,),
        is_dry_run=True,
        builds=(BUILT,),
    ),
    "build": BuildResult(BUILT),
    "switch": SwitchResult(SWITCH),
    "abandon": AbandonResult("flights_hourly"),
    "plan": PlanResult(PREVIEW),
    "plan --definitions": ProposalResult(PROPOSAL),
    "refresh": RefreshResult(REFRESH, TS),
    "policy list": PolicyListResult((POLICY,)),
    "status": StatusResult((STATUS,), sources=(SOURCE,)),
    "status NAME": StatusResult((STATUS,), is_detailed=True, sources=(SOURCE,)),
    "history": HistoryResult("flights_hourly", TS, (ENDED, ABORTED)),
    "show": ShowResult(
        "flights_hourly",
        ("bucket", "day", "origin", "flights", "mean", "share"),
        (
            (datetime(2013, 12, 1, 3, tzinfo=UTC), date(2013, 12, 1), "JFK", 12, 1.5, Decimal("0.25")),
            (datetime(2013, 12, 1, 2, tzinfo=UTC), date(2013, 12, 1), None, 7, float("nan"), None),
        ),
        FreshCost(341, "merge", 2, Estimate(1_200, 45_000, 3), 0.125, ReadCost(236, 4, 0.618)),
    ),
    "show --how": HowResult(
        "flights_hourly", (Snippet("DuckDB", "sql", "INSTALL delta;\nSELECT 1;", "fetches the extension `delta`"),)
    ),
    "export": ExportResult(
        ExportReport("flights_hourly", "/exports/flights.parquet", "parquet", 12, 6_936, 210_000, 0.25)
    ),
    "changes": ChangesResult(
        "flights_hourly",
        ("bucket", "origin", "flights", "_change", "_reason", "_refresh", "_source_version", "_published_at"),
        (
            (day(12, 1), "JFK", 12, "update_preimage", "late", 12, 341, day(12, 9)),
            (day(12, 1), "JFK", 13, "update_postimage", "late", 12, 341, day(12, 9)),
        ),
        5,
    ),
    "verify": VerifyResult(VERIFIED, TS),
    "diff": DiffResult(
        DiffReport(
            "flights_hourly",
            DiffSide("/lake", "/lake/flights", 341, 12, "", SpanSet.of(Span(day(9), POS_INF)), 240),
            DiffSide(
                "/dev",
                "/lake/flights",
                339,
                7,
                "only rows since 2013-12-01 are read",
                SpanSet.of(Span(day(8), POS_INF)),
                239,
            ),
            build(GridSpec(Width(micros=3_600_000_000), "America/New_York"), TS),
            ("- measure mean: avg(delay)", "+ measure mean: avg(delay + 1)"),
            (("n", "bigint", "int"), ("last", "string", "bigint")),
            ("p50",),
            ("p90",),
            ("last",),
            ("bucket",),
            SpanSet.of(Span(NEG_INF, day(8))),
            RowDifferences(
                235,
                2,
                1,
                3,
                (ColumnDifference("mean", 3, 1.5, Law.FLOAT), ColumnDifference("median", 4, 7.0, Law.RANK)),
                (
                    GroupDifference(
                        {"bucket": datetime(2013, 12, 1, 3, tzinfo=UTC), "origin": "JFK"}, {"mean": 1.5}, {"mean": 3.0}
                    ),
                    GroupDifference(
                        {"bucket": datetime(2013, 12, 1, 4, tzinfo=UTC), "origin": None}, {"mean": 2.5}, None
                    ),
                    GroupDifference(
                        {"bucket": datetime(2013, 12, 1, 5, tzinfo=UTC), "origin": "EWR"}, None, {"mean": 0.5}
                    ),
                ),
            ),
            0.25,
        )
    ),
    "check": CheckResult(CHECKED, TS),
    "test": TestsResult(
        (
            TestOutcome("a_day", "flights_hourly", "tests/flights.yml", 3, ("origin",), 2, 2, (), "local", 0.002),
            TestOutcome(
                "an_hour",
                "flights_hourly",
                "tests/flights.yml",
                14,
                ("bucket", "flights"),
                1,
                1,
                (
                    RowDifference("expected", (datetime(2013, 12, 1, 3, tzinfo=UTC), 12)),
                    RowDifference("got", (datetime(2013, 12, 1, 3, tzinfo=UTC), 11)),
                ),
                "spark",
                1.25,
            ),
            TestOutcome("a_year", "flights_hourly", "tests/flights.yml", 30, error=UsageError("no", hint="yes")),
        )
    ),
    "maintain": MaintainResult(MAINTAIN),
    "invalidate": InvalidateResult("flights_hourly", TS, Span(day(1), day(2)), "repaired by hand"),
    "expire": ExpireResult(EXPIRY),
    "thaw": ThawResult(THAW),
    "drop": DropResult("flights_hourly", ("flights_daily",)),
    "doctor": DoctorResult(
        (
            DoctorFinding("ok", "environment", "doctor.java", "Java 17"),
            DoctorFinding(
                "warning", "flights_hourly", "doctor.no-feed", "the source has no change feed", "switch it on"
            ),
        )
    ),
    "repair": RepairResult(REPAIRED),
    "backup": BackupResult(BackupReport("backups/2013-12-02", MANIFEST, 0.02)),
    "restore": RestoreResult(RESTORED),
    "setup": SetupResult(
        PreparedDemo(("delta-spark.jar",), Path("cache/classes/0123.jsa"), 190_000_000, 31.5, is_new=True)
    ),
    "version": VersionResult({"materializer": "0.1.0", "python": "3.11.7"}),
}
OTHERS: dict[str, Result] = {
    "new: what was found": LookResult(NEW),
    "new: measures": MeasuresResult(NEW),
    "new: the text": ProposedResult(NEW),
    "plan of no definitions": ProposalResult(DefinitionsPlan(())),
    "setup again": SetupResult(
        PreparedDemo(("delta-spark.jar",), Path("cache/classes/0123.jsa"), 190_000_000, 0.1, is_new=False)
    ),
    "setup without": SetupResult(
        PreparedDemo(("delta-spark.jar",), None, 0, 0.1, is_new=False, reason="profile 'long'")
    ),
    "build in part": BuildResult(HALF_BUILT),
    "build without a switch": BuildResult(replace(HALF_BUILT, lack=Lack(), why_not="asked")),
    "status of what is ready": StatusResult((replace(STATUS, next=replace(NEXT, state="ready")),), is_detailed=True),
    **{
        f"apply {kind} {what}": ApplyResult(
            (DefinitionChange("flights_daily", kind, DIFFERENCES, "lake/flights", 3, what, Reads(1, 2, 3, 4), kept),)
        )
        for kind, kept in (("data", None), ("measures", ReusedPartials(5_040, 1_234_567, 3)))
        for what in ("started", "replaced", "building", "switched")
    },
    "apply what is published": ApplyResult(
        (DefinitionChange("flights_daily", "metadata", DIFFERENCES, next="abandoned"),)
    ),
}
IDLE: dict[str, Result] = {
    "apply": ApplyResult((DefinitionChange("flights_daily", "unchanged"),)),
    "plan": PlanResult(IDLE_PREVIEW),
    "maintain": MaintainResult(MaintainReport(None, (TablePlan("journal", 2, 30, 9_000, fold=0),), seconds=0.004)),
    "refresh": RefreshResult(IDLE_REFRESH, TS),
    "repair": RepairResult(RepairReport("flights_hourly", "sound", Mending("flights_hourly", ()))),
    "expire": ExpireResult(replace(EXPIRY, was=EXPIRY.bound, readers=(), notes=(), waiting=SpanSet(), delete="")),
    "thaw": ThawResult(replace(THAW, was=NEG_INF)),
}
