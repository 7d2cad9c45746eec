"""The raw rows of an engine that count: those that pass the filter, and of those that arrived the ones that it accepts."""

from __future__ import annotations

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


def looks_at_all(definition: Definition) -> bool:
    """Return whether rows of other keys make a row late."""
    return arrival.looks_at_all(query_of(definition).params)


def has_watermark(definition: Definition) -> bool:
    """Return whether the commits that brought rows move a watermark, where the order of arrival counts."""
    return bool(query_of(definition).params.arrival == "watermark")


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
        definition, forms, scope = self.definition, self.forms, Scope(self.forms.columns)
        time, end = spark_quoted(definition.spec.time_column), definition.engine and definition.engine.params.end
        found = [compiled(f"{time} IS NOT NULL", scope).sql] + ([forms.where] if forms.where else [])
        times = {TIME: time} | ({END: spark_quoted(end)} if end else {})
        instants = {name: compiled(instant_of_sql(sql, definition.time_type), scope).sql for name, sql in times.items()}
        made = [f"CAST({sql} AS BIGINT) AS {name}" for name, sql in instants.items()]
        made += [f"{sql} AS {quoted(name)}" for name, sql in forms.keys.items()]
        inside = f"SELECT * FROM {self.table} WHERE {' AND '.join(f'({t})' for t in found)}"
        return f"SELECT *, {', '.join(made)} FROM ({inside})"

    def accepted(self, at: ClosingClock) -> str:
        """Return SQL of those that count, where the order of arrival says which do."""
        return self._sql(arrival.accepted(self._judged(at)).without(NUMBER, VERSION))

    def refused(self, at: ClosingClock, after: int) -> pa.Table:
        """Return the number (their :data:`PLACE`), the reason and the commit of those that arrived after a version and do not count."""
        found = arrival.refused(self._judged(at, PLACE), query_of(self.definition), after)
        return self.connection.query(f"{self._sql(found.only(NUMBER, arrival.LATE, VERSION))} ORDER BY {NUMBER}")

    def newest(self) -> int | None:
        """Return the largest time of the rows that pass the filter."""
        found: int | None = self.connection.query(f"SELECT max({TIME}) AS t FROM ({self.prepared})")["t"][0].as_py()
        return found

    def submitted(self) -> int | None:
        """Return the time that set the newest watermark."""
        return arrival.submitted(query_of(self.definition).params, self._newest(self._arrived()))

    def _judged(self, at: ClosingClock, place: str = _ANY) -> Query:
        e, rows = query_of(self.definition), self._arrived(place)
        if e.params.arrival != "watermark":
            return arrival.judged(rows, e, at)
        known = zip(*arrival.discarded(e.params, self._newest(rows)), strict=True)
        columns = [pa.array(values, pa.int64()) for values in known] or [pa.array([], pa.int64())] * 2
        marks = arrival.marked()
        self.connection.register(marks.name, pa.table(columns, names=list(marks.names)))
        return arrival.judged(rows, e, at, marks)

    def _arrived(self, place: str = _ANY) -> Query:
        """Return the rows with the commit that brought each, and a number."""
        numbered = f"{COMMIT} AS {VERSION}, {place} AS {NUMBER}"
        self.connection.register(ARRIVED, self.connection.query(f"SELECT *, {numbered} FROM ({self.prepared})"))
        return arrived_rows(self.definition, self.forms)

    def _newest(self, rows: Query) -> list[tuple[int, int]]:
        found = self.connection.query(self._sql(arrival.newest(rows)))
        return list(zip(*(found[name].to_pylist() for name in (VERSION, "newest")), strict=True))

    def _sql(self, query: Query) -> str:
        return self.connection.prepared(rendered(query))
