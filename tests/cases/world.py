"""A lake of one case: sources written without a JVM, aggregates defined, refreshed and read through the public API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.refresh.plan import Plan
from materializer.errors import MaterializerError, RefreshWindowError
from materializer.services.refresh.reports import RefreshReport
from tests import tables
from tests.cases.reading import micros
from tests.cases.reasons import contradictions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME_TYPES = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_COMPARED = {"==": "=", "=": "=", "!=": "<>", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class How:
    """What every case is run with.

    Args:
        spark: The session that computes.
        folder: Where lakes and their sources are put, one folder a case: a path or a URL.
        driver_lane_rows: 0 sends every write through Spark.
        has_feed: Whether sources keep a change feed.
    """

    spark: SparkSession
    folder: Path | str
    driver_lane_rows: int = 200_000
    has_feed: bool = True


def expect_reasons(report: RefreshReport, lake: Materializer) -> None:
    """Expect that no reason of what a refresh did speaks against it."""
    for run in report.runs:
        expect_no_contradiction(run.plan, lake)


def expect_no_contradiction(plan: Plan | None, lake: Materializer) -> None:
    """Expect that no reason of a plan speaks against what it chose."""
    wrong = contradictions(plan, lake.config.price_tie_ms / 1_000) if plan else []
    if wrong:
        raise AssertionError("; ".join(wrong))


@dataclass(slots=True)
class World:
    """The lake of one case and its sources."""

    how: How
    name: str
    materializer: Materializer = field(init=False)
    times: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = Config(driver_lane_rows=self.how.driver_lane_rows)
        self.materializer = Materializer(f"{self.how.folder}/{self.name}/lake", spark=self.how.spark, config=config)

    def path(self, table: str) -> str:
        """Return where a source lies."""
        return f"{self.how.folder}/{self.name}/sources/{table}"

    def create(
        self, table: str, *, time: str, time_type: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
    ) -> None:
        """Create an empty source whose columns fit *rows*, the rows it will ever be given."""
        given = list(rows)
        types = [(c, TIME_TYPES[time_type] if c == time else _type_of(r.get(c) for r in given)) for c in columns]
        tables.create(self.path(table), pa.schema(types), feed=self.how.has_feed)
        self.times[table] = (time, time_type)

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows in one commit."""
        schema = pa.schema(DeltaTable(self.path(table)).schema().to_arrow())
        time, time_type = self.times[table]
        given = [dict(row) | {time: value(row.get(time), time_type)} for row in rows]
        columns = {f.name: [row.get(f.name) for row in given] for f in schema}
        tables.append(self.path(table), pa.table(columns, schema=schema))

    def change(self, table: str, op: Mapping[str, Any]) -> None:
        """Update or delete in one commit the rows that ``range`` (of the time, half-open) and ``where`` name."""
        source, predicate = DeltaTable(self.path(table)), self._predicate(table, op)
        if op["op"] == "update":
            source.update(predicate=predicate, updates={_quoted(c): _literal(v) for c, v in op["set"].items()})
        else:
            source.delete(predicate)

    def refreshed(self, name: str, *window: Any, **options: Any) -> RefreshReport:
        """Refresh; no reason of a plan may speak against what was chosen, of the plan that is shown before neither."""
        if options.get("as_of") is None:
            shown = self.materializer.plan(name, *window, force=options.get("force", False))
            expect_no_contradiction(shown.plan, self.materializer)
        report = self.materializer.refresh(name, *window, **options)
        expect_reasons(report, self.materializer)
        return report

    def refresh(self, name: str, start: Any, end: Any, *, buckets_per_run: int = 0, force: bool = False) -> str:
        """Return ``refreshed``, ``already up-to-date``, or ``error: …`` for a refresh that was refused."""
        try:
            if buckets_per_run:
                report = self.materializer.backfill(name, start, end, buckets_per_run=buckets_per_run, force=force)
                expect_reasons(report, self.materializer)
            else:
                report = self.refreshed(name, start, end, force=force)
        except RefreshWindowError as exc:
            return f"error: {exc.code}"
        return "already up-to-date" if report.outcome in {"up-to-date", "empty-window"} else report.outcome

    def rows(self, name: str, *, fresh: bool = False) -> list[dict[str, Any]]:
        """Return published rows, or those of the always-fresh read, with times as instants of the core."""
        if fresh:
            frame = self.materializer.read(name, fresh=True)
            return [{c: _plain(v) for c, v in row.asDict().items()} for row in frame.collect()]
        path = f"{self.materializer.root}/{name}/output"
        if not DeltaTable.is_deltatable(path):
            return []
        found = DeltaTable(path).to_pyarrow_table().to_pylist()
        return [{c: _plain(v) for c, v in row.items()} for row in found]

    def verify(self) -> list[str]:
        """Return the names of aggregates whose clean buckets differ from plain Spark."""
        names = [s.name for s in self.materializer.status()]
        return [n for n in names if self._differs(n)]

    def _differs(self, name: str) -> bool:
        try:
            return self.materializer.verify(name).differing > 0
        except MaterializerError:
            return True

    def _predicate(self, table: str, op: Mapping[str, Any]) -> str | None:
        time, time_type = self.times[table]
        tests = []
        first, last = op.get("range") or (op.get("start"), op.get("end"))
        for bound, sign in ((first, ">="), (last, "<")):
            if bound is not None:
                tests.append(f"{_quoted(time)} {sign} {_literal(value(bound, time_type))}")
        where = op.get("where") or []
        if isinstance(where, str):
            tests.append(f"({where})")
        else:
            named = [{"col": c, "value": v} for c, v in where.items()] if isinstance(where, Mapping) else where
            tests += [condition(w, _quoted) for w in named]
        return " AND ".join(tests) or None


def condition(about: Mapping[str, Any], quoted: Callable[[str], str]) -> str:
    """Return one ``{col, op, value}`` as SQL; a null fails every comparison."""
    column, op = quoted(about["col"]), about.get("op", "==")
    if op == "notnull":
        return f"{column} IS NOT NULL"
    return f"{column} {_COMPARED[op]} {_literal(about['value'])}"


def value(given: Any, time_type: str) -> Any:
    """Return a time of a case file as a value of its column."""
    if given is None or isinstance(given, int):
        return given
    at = _EPOCH + timedelta(microseconds=micros(given))
    if time_type == "date":
        return at.date()
    return at if time_type == "timestamptz" else at.replace(tzinfo=None)


def _type_of(values: Iterable[Any]) -> pa.DataType:
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {int}:
        return pa.int64()
    if kinds <= {int, float}:
        return pa.float64()
    return pa.bool_() if kinds == {bool} else pa.string()


def _plain(found: Any) -> Any:
    """The value with times as microseconds, as the core counts them."""
    if isinstance(found, datetime):
        at = found if found.tzinfo else found.replace(tzinfo=UTC)
        return (at - _EPOCH) // timedelta(microseconds=1)
    if isinstance(found, date):
        return (found - _EPOCH.date()) // timedelta(microseconds=1)
    return found


def _quoted(column: str) -> str:
    return f'"{column}"'


def _literal(given: Any) -> str:
    if given is None:
        return "NULL"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, datetime):
        return f"'{given.replace(tzinfo=None).isoformat()}'"
    return str(given) if isinstance(given, (int, float)) else "'" + str(given).replace("'", "''") + "'"
