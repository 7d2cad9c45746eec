"""Results above a frozen boundary that go on from the stored ones below it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from materializer.core.compiled.definition import Definition
from materializer.core.engines.compile import carried_columns
from materializer.core.engines.engine_query import CARRY, PART, Before
from materializer.core.engines.queries import frozen
from materializer.core.engines.work import Work, continues
from materializer.core.query.nodes import Named, Query
from materializer.local.connection import Connection
from materializer.local.forms import RAW, Forms, query_of, taken_rows
from materializer.local.kinds import quoted
from materializer.local.render import rendered

if TYPE_CHECKING:
    from materializer.local.reading import LocalReader

PARTS: Final = "mz_parts"
_BELOW: Final = "mz_below"


class Below:
    """What some work goes on from; nothing where it needs raw rows alone.

    Args:
        connection: A connection, which has the parts of the work as :data:`PARTS`.
        definition: The definition.
        forms: Its local forms.
        work: The work.
    """

    def __init__(self, connection: Connection, definition: Definition, forms: Forms, work: Work) -> None:
        self._connection, self._definition, self._forms, self._work = connection, definition, forms, work
        self._e = query_of(definition)
        self.is_any = continues(self._e.params, work)

    def read(self, reader: LocalReader, path: str, version: int) -> None:
        """Read the stored rows below the boundary: of the keys whose parts reach below it, or all.

        Raises:
            NotLocal: If Spark has to read them.
        """
        if self.is_any:
            parts, columns = self._work.parts, list(self._forms.partials)
            keys = None if parts is None else list({p.key: None for p in parts if p.raw_start <= self._work.since})
            rows = reader.read_below(self._definition, path, version, columns, self._work.since, keys)
            self._connection.register(_BELOW, rows)

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """The stored columns that hold the state before each part, or before everything above the boundary."""
        if self._e.params.resumes_from != "state" or not (self._work.parts or (self.is_any and self._is_whole)):
            return ()
        return tuple(carried_columns(self._definition))

    @property
    def looks_back(self) -> bool:
        """Whether stored rows lie before the raw ones."""
        return self.is_any and bool(self._e.params.lookback)

    @property
    def before(self) -> Before | None:
        """The windows after which empty ones are filled."""
        if not (self.is_any and self._e.params.fills_on):
            return None
        return Before(frozen.windows_before(self._stored, self._e, self._parts), self._work.since)

    @property
    def given(self) -> dict[str, str]:
        """SQL of what the queries name and is no table."""
        types, kinds = self._forms.partials, dict(zip(self._e.keys, self._definition.key_types, strict=True))
        keys = [f"CAST(mz_p_{i} AS {types[name].duck}) AS _mz_{i}" for i, name in enumerate(kinds)]
        state = [f"CAST(mz_c_{i} AS {types[n].duck}) AS {quoted(CARRY + n)}" for i, n in enumerate(self.carried)]
        columns = ", ".join([PART, *keys, *state])
        return {"parts": f"SELECT {columns} FROM {PARTS} WHERE raw_start <= {self._work.since}"}

    def going_on(self, raw: str) -> str:
        """Return SQL of all raw rows above the boundary with the state below it, where nothing but this is computed."""
        if not (self.is_any and self._is_whole):
            return raw
        rows = Named(RAW, taken_rows(self._definition, self._forms, self._e, is_numbered=False).columns)
        carried = carried_columns(self._definition)
        found = frozen.going_on(rows, self._stored, self._e, self._work.since, carried)
        return self._connection.prepared(rendered(found, {RAW: raw}))

    def looking_back(self) -> str:
        """Return SQL of the rows that are called :data:`RAW`, and of the stored rows on which functions look back."""
        rows = taken_rows(self._definition, self._forms, self._e, self.carried)
        before = frozen.rows_before(self._stored, self._e, self.carried, self._parts)
        types = {name: kind.text for name, kind in self._forms.partials.items()}
        return self._connection.prepared(rendered(frozen.looking_back(rows, before, self._e, types), self.given))

    @property
    def _is_whole(self) -> bool:
        return self._work.parts is None

    @property
    def _parts(self) -> Query | None:
        if self._is_whole:
            return None
        return frozen.parts_of(self._e, {n: kind.text for n, kind in self._forms.partials.items()}, self.carried)

    @property
    def _stored(self) -> Query:
        stored = Named(_BELOW, tuple((name, kind.text) for name, kind in self._forms.partials.items()))
        return stored.where(f"w_start < {self._work.since}L")
