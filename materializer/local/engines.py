"""The results of a windowing engine: of all raw rows, or of the ranges that a change touched, next to stored results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.bucket_sql import slice_sql
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.compiled.shown import SAME_SHARE, shown_values
from materializer.core.engines.engine_query import CARRY, END, PART, TIME
from materializer.core.engines.engine_query import KNOWN_MAX as KNOWN
from materializer.core.engines.work import ChangedKeys, Part, Work, frozen, joined, raw_spans
from materializer.core.refresh.plan import MAX_SPANS, Plan
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.span_rows import rows_of_spans
from materializer.local.arrival import CountedRows, looks_at_all
from materializer.local.compiled_before import compiled
from materializer.local.connection import Connection
from materializer.local.forms import NUMBER, Forms, joined_query, query_of, results_query, taken_rows
from materializer.local.forms import RAW as _RAW
from materializer.local.forms import STORED as _PLACED
from materializer.local.forms import TOUCHED as _TOUCHED
from materializer.local.frozen import PARTS as _PARTS
from materializer.local.frozen import Below
from materializer.local.kinds import BIGINT, NotLocal, quoted
from materializer.local.render import rendered
from materializer.local.scope import Scope

if TYPE_CHECKING:
    from materializer.core.engines.queries.census import Census
    from materializer.core.query.nodes import Query
    from materializer.local.reading import LocalReader

_FAR: Final = 2**62
_LAST: Final = f"greatest({TIME}, coalesce({END} - 1, {_FAR}))"
"""The last instant of an event that lasts."""
_NEW: Final = "mz_new"
_IDENTITY: Final = ("w_start", "w_end", "label", "x_ordinal")
_STORED: Final = "mz_stored"


class Results(Struct, frozen=True):
    """Computes results of one engine's aggregate.

    Args:
        connection: A connection.
        definition: The definition.
        forms: Its local forms.
    """

    connection: Connection
    definition: Definition
    forms: Forms

    def changed(self, rows: pa.Table, most: int) -> ChangedKeys | None:
        """Return source rows as if they had just been inserted; None when they are in too many pairs of key and slice."""
        assert self.definition.engine is not None
        self.connection.register("rows", rows)
        keys, engine = self._keys, self.definition.engine
        last = _LAST if engine.params.end else TIME
        values = [f"min({TIME}) AS lo", f"max({last}) AS hi", f"max({TIME}) AS newest", "count(*) AS n"]
        found = self.connection.query(
            f"SELECT {', '.join([*keys, *values])} FROM ({self._rows.prepared}) "
            f"GROUP BY {', '.join([*keys, _slice_of(TIME, engine.slice_ticks)])}"
        )
        if found.num_rows > most:
            return None
        names = [key_column(k.name) for k in self.definition.spec.keys]
        by_key: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for row in found.to_pylist():
            until = POS_INF if row["hi"] >= _FAR else row["hi"]
            by_key.setdefault(frozen([row[k] for k in names]), []).append((row["lo"], until))
        return ChangedKeys(
            {key: joined(pieces) for key, pieces in by_key.items()},
            max(found["newest"].to_pylist(), default=None),
            is_insert_only=True,
            rows=sum(found["n"].to_pylist()),
        )

    def of_plan(
        self,
        reader: LocalReader,
        source: str,
        partials: str,
        plan: Plan,
        work: Work,
        replaced: SpanSet,
    ) -> tuple[str, int]:
        """Return SQL of all results that a plan replaces, and how many raw rows were read for them.

        Args:
            reader: Reads rows.
            source: The source, pinned to the plan's source version.
            partials: Our partials table.
            plan: The plan.
            work: Its work.
            replaced: The slices that it replaces, in whole or in part.

        Raises:
            NotLocal: If Spark has to compute them.
        """
        definition = self.definition
        if work.only is None:
            columns, version = list(self.forms.partials), plan.partials.version
            rows = reader.read(partials, version, columns, replaced, SLICE, definition.time_type)
        else:
            rows = reader.read_results(
                definition, partials, plan.partials.version, list(self.forms.partials), work.only
            )
        self.connection.register(_STORED, rows)
        stored = f"SELECT {', '.join(map(quoted, self.forms.partials))} FROM {_STORED}"
        if work.parts == ():
            return stored, 0
        return self.computed(reader, source, partials, plan, work, stored, replaced)

    def again(self, reader: LocalReader, source: str, partials: str, plan: Plan, work: Work, spans: SpanSet) -> str:
        """Return SQL of the results of some slices, all with revision 0, computed without looking at stored ones.

        Args:
            reader: Reads rows.
            source: The source, pinned to the plan's source version.
            partials: Our partials table, of which only what the results go on from is read.
            plan: The plan.
            work: All work that has results in the slices.
            spans: The slices.

        Raises:
            NotLocal: If Spark has to compute them.
        """
        columns = ", ".join(f"NULL::{kind.duck} AS {quoted(name)}" for name, kind in self.forms.partials.items())
        nothing = f"SELECT {columns} WHERE false"
        if work.parts == ():
            return nothing
        return self.computed(reader, source, partials, plan, work, nothing, spans)[0]

    def _spans(self, work: Work) -> SpanSet:
        """Return where the raw rows of some work may begin."""
        if work.parts is not None:
            return raw_spans(work.parts, MAX_SPANS, last_long=self._end is not None)
        engine = self.definition.engine
        are_all = engine is not None and engine.params.lasts_from(work.since) is not None
        return SpanSet.of(Span(NEG_INF if are_all else work.since, POS_INF))

    def _raw(self, reader: LocalReader, source: str, version: int, work: Work, spans: SpanSet) -> pa.Table:
        """Return at least the raw rows of some work, and of other keys none where keys are columns; or those that were added."""
        definition, columns = self.definition, list(self.forms.columns)
        names, time = definition.key_sources, definition.spec.time_column
        if work.added_after is not None:
            of_changes = source, work.added_after, version, columns, spans
            return reader.read_changes(*of_changes, time, definition.time_type)
        by_columns = [name for name in names if name]
        if definition.spec.lateness != "recompute":
            is_of_all = work.parts is None or looks_at_all(definition)
            keys = None if is_of_all else list({part.key: None for part in work.parts or ()})
            return reader.read_arrivals(definition, source, -1, version, columns, keys)
        if work.only is None or len(by_columns) < len(names):
            return reader.read(source, version, columns, spans, time, definition.time_type)
        keys = list({part.key: None for part in work.parts or ()})
        at = time, definition.time_type
        return reader.read_keys(source, version, columns, spans, keys, by_columns, *at)

    def computed(
        self,
        reader: LocalReader,
        source: str,
        partials: str,
        plan: Plan,
        work: Work,
        stored: str,
        replaced: SpanSet,
    ) -> tuple[str, int]:
        """Return SQL of all result rows of the slices that a plan replaces, and how many raw rows they were made from.

        Args:
            reader: Reads rows.
            source: The source.
            partials: Our partials table.
            plan: The plan.
            work: Its work, or other.
            stored: SQL of the stored results of the replaced slices.
            replaced: These slices.
        """
        below, counted = self._counted(reader, source, plan.source_version, partials, plan.partials.version, work)
        if below.looks_back:
            self.connection.register(_RAW, self.connection.query(below.looking_back()))
        if work.parts is not None:
            at = " AND ".join([*self._same_keys("s"), "s.w_start >= p.start"])
            inside = f"coalesce(s.w_start < p.stop, false) AS {_TOUCHED}"
            placed = f"SELECT s.*, p.{PART}, p.{KNOWN}, {inside} FROM ({stored}) s ASOF LEFT JOIN {_PARTS} p ON {at}"
            self.connection.register(_PLACED, self.connection.query(placed))
        query: Query | None = None
        if work.added_after is None:
            going_on = below.carried, below.looks_back, below.before
            query = results_query(self.definition, self.forms, work.at, *going_on)
        else:
            query = joined_query(self.definition, self.forms, work.at)
        if query is None:
            raise NotLocal("results that take no added rows")
        found = self.connection.prepared(rendered(query, below.given))
        new, columns = self._stored(found), ", ".join(map(quoted, self.forms.partials))
        if work.parts is not None:
            mine = f"n.{PART} = p.{PART} AND n.w_start >= p.start AND n.w_start < p.stop"
            new = f"SELECT n.* FROM ({new}) n SEMI JOIN {_PARTS} p ON {mine}"
        results = self.connection.query(f"SELECT {columns} FROM ({new})")
        self.connection.register(_NEW, rows_of_spans(results, replaced, SLICE, self.definition.time_type))
        if work.parts is None:
            return self._revised(f"FROM {_NEW}", stored), counted.num_rows
        old, clean = (f"SELECT {columns} FROM {_PLACED} WHERE {test}" for test in (_TOUCHED, f"NOT {_TOUCHED}"))
        return f"{self._revised(f'FROM {_NEW}', old)} UNION ALL BY NAME {clean}", counted.num_rows

    def _counted(
        self, reader: LocalReader, source: str, version: int, partials: str, stored: int, work: Work
    ) -> tuple[Below, pa.Table]:
        """Return what some work goes on from, and the raw rows that count for it, which are called :data:`RAW` then.

        Args:
            reader: Reads rows.
            source: The source.
            version: Its version.
            partials: Our partials table.
            stored: Its version.
            work: The work.
        """
        self.connection.register("rows", self._raw(reader, source, version, work, self._spans(work)))
        below = Below(self.connection, self.definition, self.forms, work)
        below.read(reader, partials, stored)
        keys = ""
        if work.parts is not None:
            self.connection.register(_PARTS, self._part_rows(work.parts))
            keys = self._keys_of_parts()
        is_judged = self.definition.spec.lateness != "recompute"
        prepared = self._rows.accepted(work.at, keys) if is_judged else self._rows.prepared
        engine = self.definition.engine
        last = None if engine is None or work.since == NEG_INF else engine.params.lasts_from(work.since)
        if last is not None:  # what ended below the frozen boundary does not count
            prepared = f"SELECT * FROM ({prepared}) WHERE {_LAST} >= {_clamped(last)}"
        if work.parts is None:
            sql = below.going_on(f"SELECT *, 0 AS {PART}, NULL::BIGINT AS {KNOWN} FROM ({prepared})")
        else:
            sql = self._in_parts(prepared, below.carried)
        sql = f"SELECT *, row_number() OVER () AS {NUMBER} FROM ({sql})"
        # the rows that count are made once, because they are counted, too
        counted = self.connection.query(sql)
        self.connection.register(_RAW, counted)
        return below, counted

    def census(
        self, reader: LocalReader, source: str, version: int, partials: str, stored: int, work: Work, limit: int
    ) -> Census:
        """Return how many windows some work would make, and which row makes the most of them.

        Args:
            reader: Reads rows.
            source: The source.
            version: Its version.
            partials: Our partials table.
            stored: Its version.
            work: The work.
            limit: Maximum number of windows that one row may make.
        """
        from materializer.core.engines.queries import census  # noqa: PLC0415 - few refreshes count

        below, _ = self._counted(reader, source, version, partials, stored, work)
        e = query_of(self.definition)
        raw = taken_rows(self.definition, self.forms, e, below.carried)
        query = census.counted(raw, replace(e, before=below.before), work.at, limit)
        [row] = self.connection.query(self.connection.prepared(rendered(query, below.given))).to_pylist()
        return census.Census.of(row)

    @property
    def _end(self) -> str | None:
        """The column of the ends of events."""
        return None if self.definition.engine is None else self.definition.engine.params.end

    def _in_parts(self, prepared: str, carried: Sequence[str]) -> str:
        """Return SQL of the raw rows of the parts; an event that lasts may be in several."""
        state = "".join(
            f", CAST(p.mz_c_{i} AS {self.forms.partials[name].duck}) AS {quoted(CARRY + name)}"
            for i, name in enumerate(carried)
        )
        columns, same = f"r.*, p.{PART}, p.{KNOWN}{state}", self._same_keys("r")
        if self._end is None:
            at = " AND ".join([*same, f"r.{TIME} >= p.raw_start"])
            return f"SELECT {columns} FROM ({prepared}) r ASOF JOIN {_PARTS} p ON {at} WHERE r.{TIME} < p.raw_end"
        until = f"CASE WHEN r.{END} IS NULL THEN {_FAR} ELSE greatest(r.{END}, r.{TIME} + 1) END"
        at = " AND ".join([*same, f"r.{TIME} < p.raw_end", f"{until} > p.raw_start"])
        return f"SELECT {columns} FROM ({prepared}) r JOIN {_PARTS} p ON {at}"

    @property
    def _keys(self) -> list[str]:
        return [quoted(key_column(k.name)) for k in self.definition.spec.keys]

    @property
    def _rows(self) -> CountedRows:
        return CountedRows(self.connection, self.definition, self.forms, "rows")

    def _part_rows(self, parts: Sequence[Part]) -> pa.Table:
        bounds = {
            "start": [_clamped(p.start) for p in parts],
            "stop": [_clamped(p.end) for p in parts],
            "raw_start": [_clamped(p.raw_start) for p in parts],
            "raw_end": [_clamped(p.raw_end) for p in parts],
            KNOWN: [p.known_max for p in parts],
        }
        columns = {PART: pa.array(range(len(parts)), pa.int32())}
        columns |= {name: pa.array(values, pa.int64()) for name, values in bounds.items()}
        columns |= {f"mz_p_{i}": pa.array([p.key[i] for p in parts]) for i in range(len(self._keys))}
        columns |= {f"mz_c_{i}": pa.array([p.carry[i][1] for p in parts]) for i in range(len(parts[0].carry))}
        return pa.table(columns)

    def _keys_of_parts(self) -> str:
        """Return SQL of the keys of the parts; "" without keys."""
        kinds = [self.forms.partials[key_column(k.name)].duck for k in self.definition.spec.keys]
        typed = [
            f"CAST(mz_p_{i} AS {kind}) AS {name}" for i, (name, kind) in enumerate(zip(self._keys, kinds, strict=True))
        ]
        return f"SELECT DISTINCT {', '.join(typed)} FROM {_PARTS}" if typed else ""

    def _same_keys(self, side: str) -> list[str]:
        kinds = [self.forms.partials[key_column(k.name)].duck for k in self.definition.spec.keys]
        return [
            f"{side}.{name} IS NOT DISTINCT FROM CAST(p.mz_p_{i} AS {kind})"
            for i, (name, kind) in enumerate(zip(self._keys, kinds, strict=True))
        ]

    def _stored(self, found: str) -> str:
        """Return SQL of new results in their stored form, all with revision 0."""
        definition, forms = self.definition, self.forms
        assert definition.engine is not None
        first = f"(w_start - pmod(w_start, {definition.engine.slice_ticks}L))"
        at = compiled(slice_sql(first, definition.time_type), Scope({"w_start": BIGINT})).sql
        columns = {name: quoted(name) for name in forms.partials} | {SLICE: at, "revision": "0"}
        typed = [f"CAST({sql} AS {forms.partials[n].duck}) AS {quoted(n)}" for n, sql in columns.items()]
        return f"SELECT {', '.join(typed)}, {PART} FROM ({found})"

    def _revised(self, new: str, old: str) -> str:
        """Return SQL of *new* rows with the revision of the *old* row that they replace, plus one if that was shown and readers
        see another.
        """
        assert self.definition.engine is not None
        keys = [n for n in self.forms.partials if n in _IDENTITY or n in self.definition.group_columns[1:]]
        on = " AND ".join(f"n.{quoted(c)} IS NOT DISTINCT FROM o.{quoted(c)}" for c in keys)
        shown = shown_values(self.definition, self.definition.engine)
        same = " AND ".join(
            ["n.is_shown", *(_same(quoted(n), inexact=shown[n]) for n in self.forms.partials if n in shown)]
        )
        revision = f"CASE WHEN o.revision IS NULL THEN 0 WHEN ({same}) OR NOT o.is_shown THEN o.revision ELSE o.revision + 1 END"
        columns = [f"n.{quoted(n)}" for n in self.forms.partials if n != "revision"]
        return f"SELECT {', '.join(columns)}, CAST({revision} AS INTEGER) AS revision FROM ({new}) n LEFT JOIN ({old}) o ON {on}"


def _same(column: str, *, inexact: bool) -> str:
    """Return SQL of whether readers of the output see no difference; of an inexact double its last digits do not count."""
    same = f"n.{column} IS NOT DISTINCT FROM o.{column}"
    if not inexact:
        return same
    largest = f"greatest(abs(n.{column}), abs(o.{column}))"
    near = f"isfinite({largest}) AND abs(n.{column} - o.{column}) <= {SAME_SHARE} * {largest}"
    return f"({same} OR coalesce({near}, false))"


def _slice_of(instant: str, ticks: int) -> str:
    return f"{instant} - (CASE WHEN {instant} % {ticks} < 0 THEN {instant} % {ticks} + {ticks} ELSE {instant} % {ticks} END)"


def _clamped(instant: int) -> int:
    """Return the instant as a 64-bit number; infinite instants become numbers beyond every real instant."""
    return max(-_FAR, min(_FAR, instant))
