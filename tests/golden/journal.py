"""Bytes of the journal: one of every event with fixed values, definitions of every kind, and journals of a real history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer import Materializer, Span, define
from materializer.core.codec import as_json
from materializer.core.engines.guides import GUIDES
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import (
    Estimate,
    Lane,
    Merge,
    Plan,
    Recompute,
    Rejected,
    Retract,
    RunReport,
    Settle,
    TableBase,
)
from materializer.core.time.spans import NEG_INF, POS_INF, SpanSet
from materializer.journal import events
from materializer.journal.codec import KINDS, Row, encode
from materializer.journal.events import Event, Repaired, SourceIdentity
from materializer.journal.fold import apply, fold
from materializer.journal.version_fields import version_of
from materializer.structs import as_dict
from tests.golden import normal
from tests.golden.normal import AT

DAY: Final = 86_400_000_000
SPAN: Final = Span(0, DAY)
LATER: Final = Span(2 * DAY, 3 * DAY)


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as lines of JSON."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


# -- a real history ------------------------------------------------------------------------------------------------------


def rows(lake: Path, root: Path) -> list[dict[str, Any]]:
    """Return the rows of a lake's journal in their order, as they are stored but for ids, moments, processes and folders."""
    table = pa.table(DeltaTable(lake / "_materializer" / "journal").to_pyarrow_table())
    names = normal.Names()
    return [
        {
            "aggregate": names.told(row["aggregate"]),
            "kind": row["kind"],
            "at": AT,
            "payload": names.told(normal.stored(row["payload"], root)),
            "format": row["format"],
        }
        for row in table.sort_by([("version", "ascending"), ("position", "ascending")]).to_pylist()
    ]


def read(text: str) -> list[Row]:
    """Return the rows that stand in lines of JSON."""
    return [Row(**json.loads(line)) for line in text.splitlines()]


def meaning(found: Sequence[Mapping[str, Any]]) -> str:
    """Return what rows of a journal mean, as the state of each aggregate is stored."""
    states = fold(Row(**row) for row in found)
    return json.dumps({key: as_json(state) for key, state in states.items()}, indent=1, ensure_ascii=False) + "\n"


# -- one of every event --------------------------------------------------------------------------------------------------

ENTRIES: Final = (
    *(Entry(Span(n * DAY, (n + 1) * DAY), cause=cause) for n, cause in enumerate(Cause)),
    Entry(Span(NEG_INF, 0), 7, Cause.CHANGE, frozenset({("A", 1), (None, "ä\"'")}), is_insert_only=True, gone=12),
    Entry(Span(40 * DAY, POS_INF), 8, Cause.FILES, frozenset()),
)
ESTIMATE: Final = Estimate(2_400, 310_000, 2, 1_200)
PLAN: Final = Plan(
    "plan-1",
    12,
    341,
    Span(NEG_INF, 3 * DAY),
    ENTRIES,
    (
        Merge(SpanSet.of(SPAN, LATER), 339, ESTIMATE, (Rejected("recompute", "would read 1,512,000 raw rows"),)),
        Recompute(
            SpanSet.of(LATER), "rows changed", ESTIMATE, (Rejected("merge", "rows were updated"),), changed_rows=3
        ),
        Retract(SpanSet.of(LATER), 340, ESTIMATE, (Rejected("merge", "rows were updated"),), 0.25),
        Recompute(SpanSet.of(SPAN), "never materialised", is_rebuild=True),
        Recompute(SpanSet.of(SPAN), "rows changed", Estimate(40, 900, 3, 12), keys=2),
        Recompute(SpanSet.of(Span(NEG_INF, 0)), "older than output.retention", is_discard=True, windows=4),
        Settle(SpanSet.of(Span(3 * DAY, POS_INF))),
    ),
    Lane.SPARK,
    TableBase("partials-id", 3),
    TableBase("output-id", 4),
)
REPORT: Final = RunReport(
    341, "merge+recompute", "driver", 12, 2_416, 240, 236, 3, 4, 5, 2, 0.6184, {"windows": 7, "kept": [1, None]}
)
LEASE: Final = events.Lease("owner-1", "host", 101, 102, 1_710_072_030.5)
DEFINED: Final = events.Defined(
    "bars",
    {"name": "bars", "engine": "continuous_aggregate", "time_type": "timestamp"},
    "data-1",
    SourceIdentity("/golden/lake/trades", "source-id", "spark_catalog.default.trades"),
    7,
    {"partials": [["bucket", "timestamp"]], "output": [["bucket", "timestamp"], ["n", "bigint"]]},
    {"partials": "partials-id", "output": "output-id"},
)
VERDICT: Final = {
    "output": {"suite": "few", "failed": [{"index": 0, "kwargs": {"column": "n"}}]},
    "sampled": {"clean": 5, "differed": [[0, DAY]]},
    "published_anyway": {"reason": "a storm"},
}


def _all_events() -> Iterator[Event]:
    """Every kind once or more, in an order in which they may follow each other where a state is made of them."""
    captured = events.Captured(
        341,
        ENTRIES,
        3 * DAY,
        (
            {"version": 341, "rung": "feed", "rows": 3, "insert": 2, "delete": 1},
            {"version": 340, "rung": "files", "rows": None},
        ),
        4,
        ("the change feed does not reach back to version 339",),
        64,
        {"0": 900, "24": 60},
        12.5,
        6,
        2 * DAY,
    )
    yield DEFINED
    yield events.Described({"name": "bars", "comment": "Hours of trades"})
    yield events.ParentSwitched(
        {"name": "days", "rolls_up": {"name": "bars"}}, SourceIdentity("/lake/bars/partials/v2", "table-5"), 17
    )
    yield events.LeaseTaken(LEASE)
    yield events.LeaseRenewed("owner-1", 1_710_072_060.25)
    yield events.LeaseReleased("owner-1")
    yield captured
    yield replace(captured, followed_end=POS_INF, extent_end=NEG_INF, null_times=None, waited=None)
    yield events.Captured(342, ())
    yield events.Invalidated((Entry(SPAN, None, Cause.INVALIDATED),), "by hand")
    yield events.Frozen(DAY, "expire", SpanSet.of(Span(NEG_INF, 0)))
    yield events.Frozen(NEG_INF, "thaw")
    yield events.Retired(-DAY)
    yield events.Retired(NEG_INF)
    yield events.Planned(
        PLAN, 3 * DAY, {"policy": {"name": "old", "now": 5 * DAY}, "engine": {"origin": 0}, "force": True}
    )
    yield events.Planned(replace(PLAN, n=13, steps=(), taken=(), window=SPAN, lane=Lane.DRIVER), POS_INF)
    yield events.Audited(12, ((0, DAY), (2 * DAY, 3 * DAY)), VERDICT)
    yield events.Done(12, REPORT)
    yield events.Done(13, RunReport(341))
    yield events.Aborted(13, "its process died")
    yield events.Delivered(4)
    yield events.Registered("lake.bars", "")
    yield events.PolicyRan("old", 5 * DAY, 5 * DAY + 1, is_by_clock=True)
    yield events.PolicyRan("by_number", 5, 5 * DAY)
    yield events.Checked({"suite": "few", "version": 12, "window": [0, DAY], "failed": []})
    yield Repaired(14, "data-2", {"partials": "p2", "output": "o2"}, "its partials are gone", is_everything_dirty=False)
    source = {"path": "/golden/lake/trades", "table_id": "source-2", "name": ""}
    tables = {"partials": "p2", "output": "o2"}
    yield Repaired(
        15, "data-2", tables, "nobody knows", is_everything_dirty=True, threshold=DAY, cursor=3, source=source
    )
    yield events.Maintained({"tables": [{"table": "partials", "files": 2, "bytes": 310_000}], "seconds": 0.457})
    yield events.BuildStarted("bars", "a1", _version(), 16)
    yield events.SwitchPlanned(replace(PLAN, n=17, taken=(), steps=()), "b1")
    yield events.BuildClosed()
    yield events.BuildOpened()
    yield events.Switched(17, _version(), 2, REPORT)
    yield events.Dropped()
    yield events.Snapshot(as_json(_state()))


def _state() -> Any:
    """The state of an aggregate of which a refresh is open."""
    follow: tuple[Event, ...] = (
        DEFINED,
        events.LeaseTaken(LEASE),
        events.Captured(
            341, (Entry(SPAN, 340, Cause.CHANGE, gone=1),), 2 * DAY, ({"rows": 3},), 1, waited=2.5, lateness={"3": 1}
        ),
        events.Planned(replace(PLAN, taken=()), 3 * DAY, {"policy": {"name": "old"}, "engine": {"origin": 0}}),
        events.Audited(12, ((0, DAY),), VERDICT),
        events.Done(12, REPORT),
        events.PolicyRan("old", 5 * DAY, 5 * DAY),
        events.Delivered(4),
        events.Registered("lake.bars", "the catalog does not answer"),
        events.Checked({"suite": "few", "failed": []}),
        events.Maintained({"seconds": 0.457}),
        events.Planned(replace(PLAN, n=13), POS_INF, {"policy": {"name": "new"}}),
    )
    state = None
    for event in follow:
        state = apply(state, "a1", event, at=AT)
    assert state is not None
    return state


def _version() -> Mapping[str, Any]:
    return version_of(_state())


def every_event() -> list[tuple[Event, Row]]:
    """Return every event with the row that it is stored as.

    Raises:
        KeyError: If a kind has no event here.
    """
    found = [(event, encode("a1", event, at=AT)) for event in _all_events()]
    if missing := KINDS.keys() - {row.kind for _, row in found}:
        raise KeyError(*sorted(missing))
    return found


# -- definitions ---------------------------------------------------------------------------------------------------------

PLAIN: Final = """
CREATE MATERIALIZED VIEW hourly COMMENT 'Hours' TBLPROPERTIES ('sequence' = 'id', 'time.timezone' = 'Europe/Paris')
AS SELECT window.start AS hour, window.end AS until, sym AS symbol, count(*) AS n, avg(price) FILTER (WHERE size > 1) AS mean,
          try_divide(sum(price * size), sum(size)) AS vwap, last(price) AS close, count(DISTINCT sym) AS syms,
          collect_list(size) AS sizes
FROM trades WHERE price > 0 GROUP BY window(ts, '1 hour'), sym HAVING count(*) > 1;

CREATE MATERIALIZED VIEW months AS
SELECT time_bucket('1 month', ts, 'America/New_York') AS month, max(price) AS high FROM delta.`lake/trades`
GROUP BY time_bucket('1 month', ts, 'America/New_York');

CREATE MATERIALIZED VIEW shifted AS
SELECT window.start AS hour, approx_percentile(price, 0.5) AS median FROM trades GROUP BY window(ts, '1 day', '1 day', '6 hours');

CREATE MATERIALIZED VIEW ticks TBLPROPERTIES ('time.resolution' = 'ms') AS
SELECT time_bucket('5 minutes', tick) AS bucket, sum(size) AS size FROM quotes GROUP BY time_bucket('5 minutes', tick);

CREATE MATERIALIZED VIEW over_hourly AS
SELECT window.start AS day, symbol, sum(n) AS n FROM hourly GROUP BY window(hour, '1 day'), symbol;

CREATE MATERIALIZED VIEW ruled TBLPROPERTIES (
  'refresh.start_offset' = '7 days', 'refresh.end_offset' = '1 hour', 'refresh.schedule' = '*/15 * * * *',
  'refresh.old.end_offset' = '7 days', 'refresh.old.max_runs' = '4', 'refresh.old.order' = 'oldest',
  'refresh.old.catch_dirt' = 'true', 'refresh.max_staleness' = '2 hours', 'source.retention' = '90 days',
  'output.retention' = '400 days', 'output.change_feed' = 'true', 'versions.keep' = '2', 'maintain.every' = '10',
  'log.max_entries' = '100'
) AS SELECT window.start AS hour, count(*) AS n FROM trades GROUP BY window(ts, '1 hour');

CREATE MATERIALIZED VIEW watched TBLPROPERTIES (
  'quality.suite' = 'expectations/few.json', 'quality.source_suite' = 'expectations/source.json',
  'quality.on_failure' = 'buckets', 'quality.checks' = 'true', 'quality.canaries' = '3', 'quality.canaries.every' = '5',
  'quality.parameters' = '{"most": 300}', 'quality.schedule' = '@daily'
) AS SELECT window.start AS hour, count(*) AS n FROM trades GROUP BY window(ts, '1 hour');

CREATE MATERIALIZED VIEW handled TBLPROPERTIES ('output_handler' = 'publish', 'msg_as_table' = 'false')
AS SELECT window.start AS hour, count(*) AS n FROM trades GROUP BY window(ts, '1 hour');
"""


def specs() -> list[dict[str, Any]]:
    """Return definitions of every kind as they are stored, without a lake: their types are not known yet."""
    lake = Materializer("no-lake")
    read_, _ = lake.read_definitions([PLAIN, *(guide.sql for guide in GUIDES.values())])
    built = define(
        "built", "trades", time="ts", width="1 hour", keys=["sym"], measures={"n": "count(*)", "top": "max(price)"}
    )
    suited = replace(built, name="suited", suites=(("output", '{"name": "few"}'),))
    return [spec.as_json() for spec in (*read_, built, suited)]


def stored() -> dict[str, str]:
    """Return the golden files of events and definitions."""
    return {"journal.jsonl": lines([as_dict(row) for _, row in every_event()]), "specs.jsonl": lines(specs())}
