"""The published rows of an aggregate in two lakes, compared group by group, without a JVM."""

# ruff: noqa: PLC0415 - Arrow and DuckDB are imported when rows are compared

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.difference_lines import differences
from materializer.core.compiled.sample import text_of, typed_where
from materializer.core.printed import Printed, PrintedTable, facts, spans_text
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.fetched import plain_text
from materializer.core.time.grid import Grid
from materializer.core.time.instants import render
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import (
    DiffTooLargeError,
    IncomparableError,
    RetryableError,
    UnknownAggregateError,
)
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState, States
from materializer.services.aggregate import Aggregate
from materializer.services.commit.commit_info import place_of, times_of
from materializer.services.definitions import rolled_up
from materializer.services.definitions.lineage import chain_of
from materializer.services.observe.dirty import reflected
from materializer.structs import LateStruct

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.local.differences import ComparedColumn, GroupDifference, RowDifferences

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FRACTIONS: Final = frozenset({"float", "double"})


class DiffSide(Printed, Struct, frozen=True):
    """One of the two lakes.

    Args:
        root: Its root.
        source: The raw table that the aggregate reads, itself or through others.
        source_version: The version of that table that the rows reflect.
        output_version: The version of the output whose rows were compared.
        sample: Which rows of the source are read, for people; "" for all.
        left_out: Where the rows were not compared because this lake's are dirty, not materialised, no longer retained, or not of
            its sample of the source.
        rows: How many rows were compared.
    """

    root: str
    source: str
    source_version: int
    output_version: int
    sample: str
    left_out: SpanSet
    rows: int


class DiffReport(Printed, LateStruct, frozen=True):
    """The outputs of an aggregate in two lakes, compared.

    Args:
        name: The aggregate.
        here: This lake.
        there: The other lake.
        grid: Its buckets.
        definition: How the definitions differ: ``-`` is of this lake, ``+`` of the other.
        types: Columns whose types differ: the name, the type here and there.
        only_here: Columns without a counterpart in the other lake.
        only_there: Columns without a counterpart in this lake.
        not_compared: Columns of both whose types cannot be compared.
        edges: The columns that hold times of the bucket.
        compared: Where rows were compared.
        rows: How they differ.
        seconds: Wall time.
    """

    name: str
    here: DiffSide
    there: DiffSide
    grid: Grid
    definition: tuple[str, ...]
    types: tuple[tuple[str, str, str], ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    not_compared: tuple[str, ...]
    edges: tuple[str, ...]
    compared: SpanSet
    rows: RowDifferences
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether both outputs have the same columns with the same rows."""
        is_other_row = self.rows.only_here or self.rows.only_there or self.rows.differing
        return not (is_other_row or self.only_here or self.only_there or self.not_compared)

    def _tables(self) -> list[PrintedTable]:
        kind, rows = self.grid.shown, self.rows
        sides = (self.here, self.there)
        both = [
            ("lake", *(side.root for side in sides)),
            ("source", *(side.source for side in sides)),
            ("source version", *(side.source_version for side in sides)),
            ("sample", *(side.sample or None for side in sides)),
            ("rows", *(side.rows for side in sides)),
            ("rows only in it", rows.only_here, rows.only_there),
            ("columns only in it", *(", ".join(names) or None for names in (self.only_here, self.only_there))),
            ("left out", *(spans_text(side.left_out, kind) or None for side in sides)),
        ]
        pairs: list[tuple[str, object]] = [
            ("definition", "\n".join(self.definition)),
            ("types", "\n".join(f"{name}: {here} here, {there} there" for name, here, there in self.types)),
            ("not compared", ", ".join(self.not_compared)),
            ("compared", spans_text(self.compared, kind) or "nothing"),
            ("equal rows", rows.equal),
            ("rows with other values", rows.differing),
            *((f"{column.name} differs in", f"{column.rows:,} rows") for column in rows.columns),
            ("took", f"{self.seconds:.2f} s"),
        ]
        word = "equal" if self.is_equal else "different"
        examples = [row for example in rows.examples for row in self._rows_of(example)]
        return [
            PrintedTable(f"{self.name}: {word}", ("", "here", "there"), both),
            facts("", pairs),
            *([PrintedTable("", ("row", "column", "here", "there"), examples)] if examples else []),
        ]

    def _rows_of(self, example: GroupDifference) -> Iterator[tuple[object, ...]]:
        place = ", ".join(
            f"{name}={render(value, self.grid.shown) if name in self.edges and isinstance(value, int) else plain_text(value)}"
            for name, value in example.place.items()
        )
        here, there = example.here or {}, example.there or {}
        for name in {**here, **there}:
            yield place, name, plain_text(here.get(name, "–")), plain_text(there.get(name, "–"))


class _Side(Struct, frozen=True):
    root: str
    journal: Journal
    state: AggregateState
    states: States
    aggregate: Aggregate

    @classmethod
    def of(cls, root: str, journal: Journal, name: str) -> _Side:
        view = journal.view()
        state = view.named(name)
        if state.switch:
            msg = f"the next version of '{state.name}' in {root} is being published"
            raise RetryableError(msg, hint=f"run 'materializer switch {state.name}' if the process that did has died")
        for each in chain_of(state, root, view.states):
            if rolled_up.moved(each, root, view.states) is not None:
                msg = f"'{each.name}' in {root} does not yet read what the aggregate that it rolls up has now"
                raise IncomparableError(msg, hint=f"run 'materializer refresh {each.name} --lake {root}'")
        return cls(root, journal, state, view.states, Aggregate.of(state, root))

    @property
    def raw(self) -> AggregateState:
        """The aggregate that reads the raw rows: this one, or what it reads."""
        return chain_of(self.state, self.root, self.states)[0]

    @property
    def types(self) -> Mapping[str, str]:
        return dict(self.aggregate.definition.output_columns)

    def stored(self) -> SpanSet:
        """Return where the output is what the whole source says at the version that is captured."""
        spans = reflected(self.state) & SpanSet.of(Span(self.state.retired, POS_INF))
        raw, definition = AggregateSpec.from_json(self.raw.spec), self.aggregate.definition
        times = (raw.time_type, raw.resolution), (definition.spec.time_type, definition.spec.resolution)
        if raw.sample is None or times[0] != times[1]:
            return spans
        later = definition.grid.within(Span(raw.sample.start, POS_INF))
        return SpanSet() if later is None else spans & SpanSet.of(later)

    def read(self, spans: SpanSet, columns: Mapping[str, str], most: int) -> tuple[int, pa.Table]:
        """Return the version of the output, and its rows with other names of columns.

        Args:
            spans: The buckets.
            columns: The columns, and how each is called.
            most: Bytes that they have in memory at most.
        """
        import pyarrow as pa

        from materializer.lake.rows import StoredRows

        stored = StoredRows.of(self.aggregate.paths["output"], self.aggregate.slice_column("output"), spans)
        batches, size = [], 0
        shape = pa.schema([pa.field(to, stored.shape.field(name).type) for name, to in columns.items()])
        for _, file in stored.files:
            for batch in stored.batches(file):
                size += batch.nbytes
                if size > most:
                    raise _too_large(f"the rows of '{self.state.name}' in {self.root} take more than {most:,} bytes")
                batches.append(batch.select(list(columns)).rename_columns(list(columns.values())))
        return stored.version, pa.Table.from_batches(batches, shape)

    def shown(self, version: int, compared: SpanSet, asked: SpanSet, rows: int) -> DiffSide:
        raw = self.raw
        return DiffSide(
            self.root,
            raw.source.path,
            raw.cursor,
            version,
            text_of(AggregateSpec.from_json(raw.spec)),
            (asked - self.stored()) - compared,
            rows,
        )


def diff(
    ours: tuple[str, Journal], theirs: tuple[str, Journal], name: str, window: Span | None, *, limit: int, most: int
) -> DiffReport:
    """Compare the rows of an aggregate in two lakes, wherever those of both are clean; writes nothing.

    Args:
        ours: Root and journal of this lake.
        theirs: Root and journal of the other lake.
        name: The aggregate.
        window: The window; None for all of time.
        limit: How many differing groups are returned.
        most: Bytes that the rows of one lake have in memory at most.

    Raises:
        RollupChangedError: If one of both rolls up an aggregate that was changed since.
        IncomparableError: If the other lake has no such aggregate, it rolls up other data than its parent has now, or buckets, keys or materialised spans have nothing in common.
        DiffTooLargeError: If this process cannot hold the rows.
        RefreshWindowTooSmallError: If *window* holds no whole bucket.
        RetryableError: If one of both was refreshed meanwhile.
    """
    from materializer.local.differences import compared
    from materializer.local.kinds import NotLocal

    began = time.perf_counter()
    if ours[0] == theirs[0]:
        raise IncomparableError("both are the same lake", hint="give the root or the environment of another one")
    here = _Side.of(*ours, name)
    there = _other(theirs, here)
    place = _place(here, there)
    columns, types, loose = _columns(here, there, [a for a, _ in place])
    grid = here.aggregate.definition.grid
    asked = SpanSet.of(EVERYTHING if window is None else whole_buckets(window, grid))
    spans = _common(here, there, asked)
    names = [*place, *((c.name, other) for c, other in columns)]
    version, rows = here.read(spans, {a: a for a, _ in names}, most)
    other_version, other_rows = there.read(spans, {b: a for a, b in names}, most)
    for side in (here, there):
        if side.journal.view().named(name).basis != side.state.basis:
            msg = f"'{name}' in {side.root} was refreshed while it was compared"
            raise RetryableError(msg, hint="run the same command again", wrote="nothing was written")
    try:
        found = compared(rows, other_rows, [a for a, _ in place], [c for c, _ in columns], limit=limit)
    except NotLocal as exc:
        raise _too_large(f"this process cannot compare the rows of '{name}': {exc}") from exc
    ours_only, theirs_only = _unpaired(here, there), _unpaired(there, here)
    return DiffReport(
        here.state.name,
        here.shown(version, spans, asked, rows.num_rows),
        there.shown(other_version, spans, asked, other_rows.num_rows),
        grid,
        differences(*(_of_rows(side.aggregate.definition.spec) for side in (here, there))),
        tuple(types),
        ours_only,
        theirs_only,
        tuple(loose),
        tuple(times_of(here.aggregate)),
        spans,
        found,
        time.perf_counter() - began,
    )


def _other(lake: tuple[str, Journal], here: _Side) -> _Side:
    root, journal = lake
    name = here.state.name
    try:
        return _Side.of(root, journal, name)
    except UnknownAggregateError:
        known = sorted(s.name for s in journal.view().states.values())
        what = f"; it has {', '.join(known)}" if known else ""
        where = "is no lake, or has no aggregates yet" if not known else f"has no aggregate '{name}'"
        raise IncomparableError(
            f"{root} {where}{what}",
            hint="give the root of a lake or an environment of the configuration that has it; "
            "'materializer apply' defines it there",
        ) from None


def _of_rows(spec: AggregateSpec) -> AggregateSpec:
    """Return a definition without what changes no row."""
    return replace(spec, where=typed_where(spec), comment="", properties=(), suites=(), sample=None)


def _place(here: _Side, there: _Side) -> list[tuple[str, str]]:
    """Return the columns of bucket and keys, each with its name there."""
    a, b = here.aggregate.definition, there.aggregate.definition
    name = here.state.name
    buckets = [a.grid.describe(), b.grid.describe()] if a.engine is None else [a.spec.engine, b.spec.engine]
    buckets = [f"{text} of {d.time_type}" for text, d in zip(buckets, (a, b), strict=True)]
    if buckets[0] != buckets[1] or a.spec.is_engine != b.spec.is_engine:
        msg = f"the buckets of '{name}' are {buckets[0]} here and {buckets[1]} in {there.root}, so no row has a counterpart"
        raise IncomparableError(msg, hint="apply the same definition in both lakes, and build it")
    mine, others = place_of(here.aggregate), {n.lower(): n for n in place_of(there.aggregate)}
    if {n.lower() for n in mine} != others.keys():
        sides = [", ".join(names) for names in (mine, others.values())]
        msg = f"the groups of '{name}' are {sides[0]} here and {sides[1]} in {there.root}, so no row has a counterpart"
        raise IncomparableError(msg, hint="apply the same definition in both lakes, and build it")
    for key in mine:
        kinds = here.types[key], there.types[others[key.lower()]]
        if kinds[0] != kinds[1] and not set(kinds) <= _INTEGERS:
            msg = f"the column {key} of '{name}' is {kinds[0]} here and {kinds[1]} in {there.root}, so no row has a counterpart"
            raise IncomparableError(msg, hint="apply the same definition over sources of the same types, and build it")
    return [(key, others[key.lower()]) for key in mine]


def _columns(
    here: _Side, there: _Side, place: list[str]
) -> tuple[list[tuple[ComparedColumn, str]], list[tuple[str, str, str]], list[str]]:
    """Return the columns that are compared with their names there, those of other types, and those that are not compared."""
    from materializer.local.differences import ComparedColumn, Law

    others = {name.lower(): name for name in there.types}
    columns, types, loose = [], [], []
    for name, kind in here.types.items():
        other = others.get(name.lower())
        if other is None or name in place or name in _internal(here):
            continue
        kinds = kind, there.types[other]
        is_number = all(map(_is_number, kinds))
        if kinds[0] != kinds[1]:
            types.append((name, *kinds))
        if kinds[0] != kinds[1] and not is_number:
            loose.append(name)
            continue
        laws = {dict(s.aggregate.definition.layout.tolerances).get(n) for s, n in ((here, name), (there, other))}
        law = Law.RANK if "rank" in laws else Law.EXACT
        if law is Law.EXACT and ("float" in laws or (kinds[0] != kinds[1] and _FRACTIONS & set(kinds))):
            law = Law.FLOAT
        columns.append((ComparedColumn(name, law, is_number, kinds == ("array<double>",) * 2), other))
    return columns, types, loose


def _internal(side: _Side) -> tuple[str, ...]:
    """Return the columns that divide the work of an engine and are no result."""
    spec = side.aggregate.definition.spec
    return spec.edges if spec.is_engine else ()


def _unpaired(side: _Side, other: _Side) -> tuple[str, ...]:
    has = {name.lower() for name in other.types}
    return tuple(name for name in side.types if name.lower() not in has)


def _is_number(kind: str) -> bool:
    return kind in _INTEGERS | _FRACTIONS or kind.startswith("decimal(")


def _common(here: _Side, there: _Side, asked: SpanSet) -> SpanSet:
    for side in (here, there):
        if side.state.threshold == NEG_INF:
            raise IncomparableError(
                f"nothing of '{side.state.name}' is materialized in {side.root}",
                hint=f"'{_command('backfill', side)}' computes it",
            )
    common = asked & here.stored() & there.stored()
    if not common:
        raise IncomparableError(
            f"no bucket of '{here.state.name}' is clean in both lakes",
            hint=f"'{_command('refresh', here)}' and '{_command('refresh', there)}' compute what is dirty",
        )
    return common


def _command(command: str, side: _Side) -> str:
    from shlex import quote

    return f"materializer {command} {side.state.name} --lake {quote(side.root)}"


def _too_large(message: str) -> DiffTooLargeError:
    return DiffTooLargeError(message, hint="give --start and --end, or local_memory more")
