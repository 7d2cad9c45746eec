"""Quality checks over rows in this process: the aggregates of all checks in one query, then the rows that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from materializer.core.compiled.bucket_sql import instant_of_sql
from materializer.core.quality.checks import Check, copies_of
from materializer.core.quality.failing import MOST_BUCKETS, Failing, FailingRow
from materializer.core.quality.verdict import Finding
from materializer.core.spec.spec import TimeType
from materializer.core.spec.table_names import quoted as spark_quoted
from materializer.local.compiled_before import compiled
from materializer.local.forms import GROUPED, OURS
from materializer.local.kinds import BIGINT, BOOLEAN, Kind, NotLocal, bugs_left_to_spark, kind_of, quoted
from materializer.local.scope import Scope
from materializer.local.typed import Typed, same_zero

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from materializer.local.connection import Connection

_COPIES: Final = f"{OURS}copies_"
_AT: Final = f"{OURS}at"
_PLACE: Final = f"{OURS}place"


def why_not(check: Check, columns: Mapping[str, str]) -> str:
    """Return what of a check has no local form; "" if all of it has one.

    Args:
        check: The check.
        columns: Spark type of each column of the rows.
    """
    try:
        with bugs_left_to_spark():
            _Forms.of([check], columns)
    except NotLocal as exc:
        return str(exc)
    return ""


class LocalRows(Struct, frozen=True):
    """Rows in this process that checks are about.

    Args:
        columns: Spark type of each column, by name and in order.
        rows: The rows.
        frame: Returns the same rows as a frame of Spark, for what is not checked here.
    """

    columns: Mapping[str, str]
    rows: pa.Table
    frame: Callable[[], DataFrame]

    def audit(self, checks: Sequence[Check]) -> list[Finding]:
        """Return a finding for each check.

        Raises:
            NotLocal: If Spark has to check them: one has no local form, or fails.
        """
        forms = _Forms.of(checks, self.columns)
        texts = [sql for found in forms.aggregates for sql in found]
        values: Iterator[Any] = iter(())
        if texts:
            with self._connected() as connection:
                aggregates = ", ".join(f"{sql} AS a_{i}" for i, sql in enumerate(texts))
                row = connection.query(f"SELECT {aggregates} FROM ({forms.seen})").to_pylist()[0]
            values = iter(row.values())
        return [
            check.finding([next(values) for _ in found]) for check, found in zip(checks, forms.aggregates, strict=True)
        ]

    def failing(
        self, checks: Sequence[Check], findings: Sequence[Finding], bucket: str, *, most: int, start_sql: str = ""
    ) -> Failing:
        """Return the rows and buckets on which checks failed, as Spark's rows do.

        Raises:
            NotLocal: If Spark has to look for them.
        """
        failed = [check for check, finding in zip(checks, findings, strict=True) if not finding.success]
        buckets: dict[tuple[int, str], frozenset[Any] | None] = {(c.index, c.type): None for c in failed}
        about_rows = [check for check in failed if check.failing is not None]
        if not about_rows:
            return Failing((), buckets)
        forms = _Forms.of(about_rows, self.columns)
        place_sql = instant_of_sql(start_sql or spark_quoted(bucket), TimeType(self.columns[bucket]))
        place = compiled(place_sql, forms.scope).sql
        names = ", ".join(map(quoted, self.columns))
        kinds = {name: kind_of(kind) for name, kind in self.columns.items()}
        rows = []
        with self._connected() as connection:
            for check, test in zip(about_rows, forms.tests, strict=True):
                seen = f"FROM ({forms.seen}) WHERE {test}"
                some = connection.query(f"SELECT {names} {seen} ORDER BY {_AT} LIMIT {most}")
                rows += [
                    FailingRow(check.index, check.type, {n: _fetched(v, kinds[n]) for n, v in row.items()})
                    for row in some.to_pylist()
                ]
                places = connection.query(f"SELECT DISTINCT {place} AS {_PLACE} {seen} LIMIT {MOST_BUCKETS + 1}")
                found = places[_PLACE].to_pylist()
                if len(found) <= MOST_BUCKETS:
                    buckets[check.index, check.type] = frozenset(found)
        return Failing(tuple(rows), buckets)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        from materializer.local.connection import opened  # noqa: PLC0415 (planning compiles checks and runs none)

        with opened() as connection:
            numbers = pa.array(np.arange(self.rows.num_rows))
            connection.register("rows", self.rows.append_column(_AT, numbers))
            yield connection


class _Forms(Struct, frozen=True):
    """The local forms of some checks.

    Args:
        scope: The columns over which they are written.
        seen: SQL of the rows with the columns that count equal rows.
        aggregates: The aggregates of each check.
        tests: The predicate of the failing rows of each check that is about rows.
    """

    scope: Scope
    seen: str
    aggregates: list[list[str]]
    tests: list[str]

    @classmethod
    def of(cls, checks: Sequence[Check], columns: Mapping[str, str]) -> _Forms:
        if ours := [name for name in columns if name.lower().startswith(OURS)]:
            raise NotLocal(f"a column whose name begins with {OURS!r}: {ours[0]}")
        kinds = {name: kind_of(kind) for name, kind in columns.items()}
        copies = copies_of(checks, _COPIES)
        scope = Scope(kinds | dict.fromkeys(copies.values(), BIGINT))
        over = Scope(scope.columns, are_rows=True)
        counts = "".join(f", count(*) OVER (PARTITION BY {_groups(by, kinds)}) AS {n}" for by, n in copies.items())
        aggregates = [[compiled(sql, over).sql for sql in check.asked(copies)] for check in checks]
        tests = [compiled(c.predicate(copies), scope) for c in checks if c.failing is not None]
        if any(test.kind != BOOLEAN for test in tests):
            raise NotLocal("a predicate that is not boolean")
        return cls(scope, f"SELECT *{counts} FROM rows", aggregates, [test.sql for test in tests])


def _groups(names: Sequence[str], kinds: Mapping[str, Kind]) -> str:
    for name in names:
        if kinds[name].name not in GROUPED:
            raise NotLocal(f"equal values of type {kinds[name].text}")
    return ", ".join(same_zero(Typed(quoted(name), kinds[name])) for name in names)


def _fetched(value: Any, kind: Kind) -> Any:
    """Return a value as Spark's driver fetches it; an instant keeps its zone."""
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if kind.element is not None:
        return [_fetched(v, kind.element) for v in value]
    if kind.fields:
        return tuple(_fetched(value[name], field) for name, field in kind.fields)
    return bytearray(value) if isinstance(value, bytes) else value
