"""The raw rows of an engine that count: those that pass the filter, and of those that arrived the ones that it accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct

from materializer.core.compiled.bucket_sql import instant_of_sql
from materializer.core.compiled.definition import Definition
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import END, TIME, VERSION
from materializer.core.engines.queries import arrival
from materializer.core.engines.work import Key, frozen
from materializer.core.spec.table_names import quoted as spark_quoted
from materializer.local.compiled_before import compiled
from materializer.local.connection import Connection
from materializer.local.forms import ARRIVED, NUMBER, Forms, arrived_rows, query_of
from materializer.local.kinds import quoted
from materializer.local.render import rendered
from materializer.local.scope import Scope

if TYPE_CHECKING:
    from materializer.core.query.nodes import Query

COMMIT: Final = "_commit_version"
PLACE: Final = "mz_place"
"""A column of rows that arrived, by which those that are refused are known."""


_ANY: Final = "row_number() OVER ()"
_FEW: Final = "mz_few"


def looks_at_all(definition: Definition) -> bool:
    """Return whether rows of other keys make a row late."""
    return arrival.looks_at_all(query_of(definition).params)


def has_watermark(definition: Definition) -> bool:
    """Return whether the commits that brought rows move a watermark, where the order of arrival counts."""
    return bool(query_of(definition).params.arrival == "watermark")


def counting(definition: Definition, forms: Forms) -> list[str]:
    """Return the columns that tell which rows count, and their times."""
    spec = definition.spec
    named = Scope(forms.columns).of_text(spec.where).columns if spec.where else {}
    return list(dict.fromkeys([spec.time_column, *named]))


def keys_of(definition: Definition, rows: pa.Table) -> list[Key] | None:
    """Return the keys of source rows, without which none of these is judged; None for all keys."""
    names = definition.key_sources
    if looks_at_all(definition) or not all(names):
        return None
    return list(dict.fromkeys(map(frozen, zip(*(rows[str(name)].to_pylist() for name in names), strict=True))))


class CountedRows(Struct, frozen=True):
    """Raw rows of one definition, which a connection has as a table.

    Args:
        connection: The connection.
        definition: The definition.
        forms: Its local forms.
        table: The name of the table.
    """

    connection: Connection
    definition: Definition
    forms: Forms
    table: str

    @property
    def prepared(self) -> str:
        """SQL of the rows that pass the filter and have a time, with it and their keys."""
        definition, forms = self.definition, self.forms
        end = definition.engine and definition.engine.params.end
        made = [self._instant(TIME, definition.spec.time_column)] + ([self._instant(END, end)] if end else [])
        made += [f"{sql} AS {quoted(name)}" for name, sql in forms.keys.items()]
        return f"SELECT *, {', '.join(made)} FROM ({self._inside})"

    @property
    def _inside(self) -> str:
        """SQL of the rows that pass the filter and have a time."""
        time = spark_quoted(self.definition.spec.time_column)
        found = [compiled(f"{time} IS NOT NULL", Scope(self.forms.columns)).sql]
        found += [self.forms.where] if self.forms.where else []
        return f"SELECT * FROM {self.table} WHERE {' AND '.join(f'({t})' for t in found)}"

    def _instant(self, name: str, column: str) -> str:
        text = instant_of_sql(spark_quoted(column), self.definition.time_type)
        return f"CAST({compiled(text, Scope(self.forms.columns)).sql} AS BIGINT) AS {name}"

    def accepted(self, at: ClosingClock, keys: str = "") -> str:
        """Return SQL of those that count, where the order of arrival says which do.

        Args:
            at: The bounds that close windows.
            keys: SQL of the keys whose rows are wanted, with the names of the key columns; "" for all. Others may be returned.
        """
        return self._sql(arrival.accepted(self._judged(at, keys)).without(NUMBER, VERSION))

    def refused(self, at: ClosingClock, after: int) -> pa.Table:
        """Return the number (their :data:`PLACE`), the reason and the commit of those that arrived after a version and do not count."""
        names = ", ".join(map(quoted, self.forms.keys))
        keys = f"SELECT DISTINCT {names} FROM ({self.prepared}) WHERE {COMMIT} > {after}" if names else ""
        judged = self._judged(at, keys, PLACE, f"{COMMIT} > {after}")
        found = arrival.refused(judged, query_of(self.definition)).only(NUMBER, arrival.LATE, VERSION)
        # the version is no part of the query: each refresh has another, and would compile another text
        return self.connection.query(f"SELECT * FROM ({self._sql(found)}) WHERE {VERSION} > {after} ORDER BY {NUMBER}")

    def newest(self) -> int | None:
        """Return the largest time of the rows that pass the filter; they need :func:`counting` columns alone."""
        times = f"SELECT {self._instant(TIME, self.definition.spec.time_column)} FROM ({self._inside})"
        found: int | None = self.connection.query(f"SELECT max({TIME}) AS t FROM ({times})")["t"][0].as_py()
        return found

    def submitted(self) -> int | None:
        """Return the time that set the newest watermark."""
        return arrival.submitted(query_of(self.definition).params, self._newest(arrival.newest(self._rows), "newest"))

    def _judged(self, at: ClosingClock, keys: str = "", place: str = _ANY, only: str = "true") -> Query:
        """Return rows that arrived with why they are late.

        Args:
            at: The bounds that close windows.
            keys: SQL of the keys whose rows are wanted; "" for all.
            place: SQL of a number of each row.
            only: SQL of which rows are wanted.
        """
        e = query_of(self.definition)
        if e.params.arrival == "watermark":  # a row is judged by itself, once the watermarks are known
            marks = self._marks(arrival.discarded(e.params, self._newest(arrival.newest(self._rows), "newest")))
            self._arrive(self._of_keys(keys), place, only)
            return arrival.judged(self._rows, e, at, marks)
        is_by_days = looks_at_all(self.definition) and e.params.force_trigger_time is None
        if keys and is_by_days and (found := self.judged_by_days(at, keys, place)) is not None:
            return found
        self._arrive(self.prepared, place)
        return arrival.judged(self._rows, e, at)

    def judged_by_days(self, at: ClosingClock, keys: str, place: str) -> Query | None:
        """Return the rows of some keys, and of few others, with why they are late; None where rows of all others decide that."""
        e, arrived = query_of(self.definition), {ARRIVED: self._numbered(self.prepared, "0")}
        placed = arrival.days_with_sessions(self._rows, e)
        marks = self._marks(arrival.later(self._newest(arrival.days_of_commits(placed), "day")))
        records = self._sql(arrival.records(placed, e, marks), arrived)
        names = ", ".join(map(quoted, self.forms.keys))
        few = f"SELECT {names} FROM ({records})"
        self.connection.register(_FEW, self.connection.query(f"{few} UNION {keys}"))
        self._arrive(self._of_keys(f"SELECT {names} FROM {_FEW}"), place)
        judged = arrival.judged(self._rows, e, at)
        late = arrival.records(arrival.days_with_sessions(judged, e), e, marks).where(f"{arrival.LATE} IS NOT NULL")
        return None if self.connection.query(self._sql(late)).num_rows else judged

    def _of_keys(self, keys: str) -> str:
        """Return SQL of the rows that pass the filter, of some keys; "" for all."""
        if not keys:
            return self.prepared
        same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM k.{name}" for name in map(quoted, self.forms.keys))
        return f"SELECT r.* FROM ({self.prepared}) r SEMI JOIN ({keys}) k ON {same}"

    def _arrive(self, rows: str, place: str, only: str = "true") -> None:
        """Make rows those that arrived."""
        numbered = self._numbered(rows, place)
        self.connection.register(ARRIVED, self.connection.query(f"SELECT * FROM ({numbered}) WHERE {only}"))

    def _numbered(self, rows: str, place: str) -> str:
        """Return SQL of rows with the commit that brought each, and a number."""
        return f"SELECT *, {COMMIT} AS {VERSION}, {place} AS {NUMBER} FROM ({rows})"

    @property
    def _rows(self) -> Query:
        return arrived_rows(self.definition, self.forms)

    def _marks(self, known: Iterable[tuple[int, int | None]]) -> Query:
        columns = [pa.array(values, pa.int64()) for values in zip(*known, strict=True)] or [
            pa.array([], pa.int64())
        ] * 2
        marks = arrival.marked()
        self.connection.register(marks.name, pa.table(columns, names=list(marks.names)))
        return marks

    def _newest(self, of_commits: Query, name: str) -> list[tuple[int, int]]:
        """Return a number of each commit, of all rows that arrived."""
        found = self.connection.query(self._sql(of_commits, {ARRIVED: self._numbered(self.prepared, "0")}))
        return list(zip(*(found[column].to_pylist() for column in (VERSION, name)), strict=True))

    def _sql(self, query: Query, given: Mapping[str, str] | None = None) -> str:
        return self.connection.prepared(rendered(query, given))
