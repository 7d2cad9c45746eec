"""The local forms of one definition: every text of its layout compiled, each with the type that its table has."""

# ruff: noqa: PLC0415 - queries are imported for engines alone

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.aggregates.layout import SIGN
from materializer.core.compiled.definition import SLICE, Definition, EngineDefinition, key_column
from materializer.core.engines.time_series import TimeSeries
from materializer.local.compiled_before import compiled
from materializer.local.kinds import BOOLEAN, INT, VOID, Kind, NotLocal, kind_of
from materializer.local.scope import Scope
from materializer.local.typed import Typed, same_zero

if TYPE_CHECKING:
    from materializer.core.engines.clock import ClosingClock
    from materializer.core.engines.engine_query import Before, EngineQuery
    from materializer.core.query.nodes import Named, Query

GROUPED: Final = frozenset(
    [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "boolean",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal",
    ]
)
"""Types by which rows are grouped here as in Spark."""
OURS: Final = "mz_"
"""How names begin that the local executor uses beside those of the source."""


RAW: Final = "mz_raw"
"""The rows that the query of an engine takes."""
STORED: Final = "mz_placed"
"""Stored results, each with its part."""
TOUCHED: Final = "mz_touched"
"""Whether a stored result is computed anew."""
ARRIVED: Final = "mz_arrived"
"""All rows that arrived, from which the query of an engine takes those that count."""
NUMBER: Final = "mz_row"
"""A number of each row that the query of an engine takes, which puts rows in an order where all else is equal."""


class Forms(Struct, frozen=True):
    """What the local executor needs of a definition that it can compute; all texts are SQL of DuckDB.

    Args:
        columns: Type of each column of the source that is read.
        partials: Type of each column of the partials table.
        where: The condition on source rows, or "".
        keys: Expression over source rows of each key column of the partials.
    """

    columns: dict[str, Kind]
    partials: dict[str, Kind]
    where: str
    keys: dict[str, str]

    @classmethod
    def of(cls, definition: Definition, refused: list[str] | None = None) -> Forms:
        """Return the forms of a definition.

        Args:
            definition: The definition.
            refused: Gets what the texts without a local form lack, in place of an exception.

        Raises:
            NotLocal: If a part of it has no local form; the message names the part.
        """
        typed = _Typing(refused)
        if definition.engine is not None and (why := _why_not(definition)):
            raise NotLocal(why)
        spec, layout = definition.spec, definition.layout
        columns = {name: kind_of(kind) for name, kind in spec.read_types}
        if ours := [name for name in columns if name.lower().startswith(OURS)]:
            raise NotLocal(f"a column whose name begins with {OURS!r}: {ours[0]}")
        partials = {name: kind_of(kind) for name, kind in definition.partial_columns}
        outputs = {name: kind_of(kind) for name, kind in definition.output_columns}
        raw, rows = Scope(columns), Scope(columns, are_rows=True)
        named = {key.name: partials[key_column(key.name)] for key in spec.keys}
        named |= dict.fromkeys(spec.edges, partials[SLICE])
        taken = {name.lower() for name in partials}
        final = Scope(partials | {n: k for n, k in named.items() if n.lower() not in taken})
        stored, signed = (Scope(partials | more, are_rows=True) for more in ({}, {SIGN: INT}))
        where = typed(spec.where, raw, BOOLEAN).sql if spec.where else ""
        forms = cls(columns, partials, where, _keys(definition, raw, typed))
        # what is found here is what its queries are made of
        for partial in layout.partials:
            kind = partials[partial.name]
            if partial.build:  # results of an engine are a query
                typed(partial.build, rows, kind)
            if partial.merge is not None and layout.is_mergeable:
                typed(partial.merge, stored, kind)
            if not layout.why_not_retract:
                typed(str(partial.retract), signed, kind)
        for name, sql in layout.finals:
            typed(sql, final, outputs[name])
        if layout.having:
            typed(layout.having, final, BOOLEAN)
        if definition.engine is not None:
            _check_measures(definition.engine, partials, typed, rows)
            _check_query(definition, forms, typed)
        return forms


class _Typing(Struct, frozen=True):
    """Compiles texts whose type is known.

    Args:
        refused: Gets what the texts without a local form lack, in place of an exception; or None.
    """

    refused: list[str] | None

    def __call__(self, sql: str, scope: Scope, kind: Kind | None) -> Typed:
        try:
            return compiled(sql, scope) if kind is None else _typed(sql, scope, kind)
        except NotLocal as exc:
            if self.refused is None:
                raise
            self.refused.append(str(exc))
            return Typed("NULL", kind or VOID)


def keys_of(definition: Definition, columns: Collection[str]) -> dict[str, str]:
    """Return the expression over source rows of each key column of the partials.

    Args:
        definition: The definition.
        columns: The source columns that the keys read.

    Raises:
        NotLocal: If one has no local form.
    """
    scope = Scope({name: kind_of(kind) for name, kind in definition.spec.read_types if name in columns})
    return _keys(definition, scope, _Typing(None))


def _keys(definition: Definition, scope: Scope, typed: _Typing) -> dict[str, str]:
    found = {}
    for key, text in zip(definition.spec.keys, definition.key_types, strict=True):
        kind = kind_of(text)
        if kind.name not in GROUPED:
            raise NotLocal(f"the key {key.name} of type {kind.text}")
        found[key_column(key.name)] = same_zero(typed(key.sql, scope, kind))
    return found


def _why_not(definition: Definition) -> str:
    """Return why this process cannot compute what an engine makes, or ""."""
    from materializer.core.engines.engine_query import CLOSED_ON_ARRIVAL, END, KNOWN_MAX, ORIGIN, PART, TIME, VERSION

    spec = definition.spec
    taken = {TIME, PART, KNOWN_MAX, END, *(key_column(k.name).lower() for k in spec.keys)}
    if spec.lateness != "recompute":
        taken |= {VERSION, CLOSED_ON_ARRIVAL, ORIGIN, "_late"}
    if ours := [name for name, _ in spec.read_types if name.lower() in taken]:
        return f"a column with the name {ours[0]}, which results have, too"
    return ""


def results_query(
    definition: Definition,
    forms: Forms,
    at: ClosingClock,
    carried: Sequence[str] = (),
    looks_back: bool = False,  # noqa: FBT001, FBT002 (the three go together)
    before: Before | None = None,
) -> Query:
    """Return the query of the results of an engine over rows that are called :data:`RAW`.

    Args:
        definition: The definition.
        forms: Its local forms.
        at: The bounds that close windows.
        carried: The stored columns that hold the state before a part.
        looks_back: Whether stored rows lie among them, on which functions look back.
        before: The windows below a frozen boundary after which empty ones are filled, or None.
    """
    from materializer.core.engines.reactive_state import ARGUMENT
    from materializer.core.engines.registry import query_module

    e = query_of(definition)
    raw = taken_rows(definition, forms, e, carried, looks_back=looks_back)
    query: Query = query_module(definition.spec.engine).rows(raw, replace(e, before=before), at)
    not_stored = {n for n in query.names if n.startswith(ARGUMENT) and n not in forms.partials}
    return query.without(*not_stored) if not_stored else query  # a table of an older version has no arguments


def joined_query(definition: Definition, forms: Forms, at: ClosingClock) -> Query | None:
    """Return the query of the results of added rows and those that :data:`STORED` has, marked by :data:`TOUCHED`, together.

    The arguments are those of :func:`results_query`. It is None where results take no added rows.
    """
    engine = definition.engine
    stored_as = None if engine is None or not engine.params.merges else engine.layout.stored_as
    if stored_as is None:
        return None
    from materializer.core.engines.engine_query import KNOWN_MAX, PART
    from materializer.core.engines.registry import query_module
    from materializer.core.query.nodes import Named

    e = query_of(definition)
    kinds = {name: kind.text for name, kind in forms.partials.items()}
    kinds |= {PART: "int", KNOWN_MAX: "bigint", TOUCHED: "boolean"}
    stored = Named(STORED, tuple(kinds.items())).where(TOUCHED)
    module = query_module(definition.spec.engine)
    query: Query = module.joined(taken_rows(definition, forms, e), stored, stored_as, e, at)
    return query


def of_times(definition: Definition, forms: Forms) -> Forms:
    """Return forms with the columns alone that keys, times and the condition may read; all where the order of arrival counts."""
    spec, engine = definition.spec, definition.engine
    if engine is None or spec.lateness != "recompute":
        return forms
    texts = [*(key.sql for key in spec.keys), spec.where or "", spec.time_column, engine.params.end or ""]
    return replace(forms, columns=dict(Scope(forms.columns).of_text("\n".join(texts)).columns))


def query_of(definition: Definition) -> EngineQuery:
    """Return a definition in the form that its query needs, where equal rows are ordered by their number."""
    from materializer.core.engines.engine_query import EngineQuery

    e = EngineQuery.of(definition)
    return replace(e, order=(*e.order, NUMBER))


def arrived_rows(definition: Definition, forms: Forms) -> Named:
    """Return the rows that are called :data:`ARRIVED`."""
    from materializer.core.engines.engine_query import VERSION
    from materializer.core.query.nodes import Named

    kinds = _prepared(definition, forms, query_of(definition)) | {VERSION: "bigint", NUMBER: "bigint"}
    return Named(ARRIVED, tuple(kinds.items()))


def _prepared(definition: Definition, forms: Forms, e: EngineQuery) -> dict[str, str]:
    from materializer.core.engines.engine_query import END, TIME

    kinds = {name: kind.text for name, kind in forms.columns.items()} | {TIME: "bigint"}
    kinds |= {END: "bigint"} if e.params.end else {}
    return kinds | dict(zip(e.keys, definition.key_types, strict=True))


def taken_rows(
    definition: Definition,
    forms: Forms,
    e: EngineQuery,
    carried: Sequence[str] = (),
    *,
    looks_back: bool = False,
    is_numbered: bool = True,
) -> Named:
    """Return the rows that are called :data:`RAW`; the other arguments are those of :func:`results_query`."""
    from materializer.core.engines.engine_query import CARRY, CLOSED_ON_ARRIVAL, KNOWN_MAX, ORIGIN, PART
    from materializer.core.engines.engine_query import STORED as LOOKED_AT
    from materializer.core.engines.queries.frozen import looked_at
    from materializer.core.query.nodes import Named

    kinds = _prepared(definition, forms, e)
    if e.lateness != "recompute":
        kinds |= dict.fromkeys([CLOSED_ON_ARRIVAL, *([ORIGIN] if e.params.arrival == "panes" else [])], "bigint")
    kinds |= {PART: "int", KNOWN_MAX: "bigint"}
    kinds |= {f"{CARRY}{name}": forms.partials[name].text for name in carried}
    kinds |= {f"{LOOKED_AT}{name}": forms.partials[name].text for name in (looked_at(e) if looks_back else ())}
    kinds |= {NUMBER: "bigint"} if is_numbered else {}
    return Named(RAW, tuple(kinds.items()))


def _check_query(definition: Definition, forms: Forms, typed: _Typing) -> None:
    """Refuse a definition whose query has no local form, or makes other columns than are stored.

    Raises:
        NotLocal: If this process cannot compute it.
    """
    from materializer.core.engines.clock import ClosingClock
    from materializer.core.engines.compile import carried_columns
    from materializer.core.engines.engine_query import PART
    from materializer.core.query.nodes import hidden_in
    from materializer.local.render import rendered

    if typed.refused:
        return
    query = results_query(definition, forms, ClosingClock(0, 0, 0))
    hidden = hidden_in(query)
    if definition.spec.lateness != "recompute":
        from materializer.core.engines.queries import arrival

        e = query_of(definition)
        marks = arrival.marked() if e.params.arrival == "watermark" else None
        judged = arrival.judged(arrived_rows(definition, forms), e, ClosingClock(0, 0, 0), marks)
        rendered(arrival.refused(judged, e))
        hidden |= hidden_in(judged)
    if taken := hidden & {name.lower() for name in forms.columns}:
        raise NotLocal(f"a column with the name {min(taken)}, which its query has, too")
    found = {name: kind for name, kind in rendered(query).kinds.items() if name != PART}
    if definition.engine is not None and definition.engine.params.resumes_from == "state":
        going_on = results_query(definition, forms, ClosingClock(0, 0, 0), carried_columns(definition))
        if rendered(going_on).kinds != rendered(query).kinds:
            raise NotLocal("results of other types where they go on from a stored state")
    joined = joined_query(definition, forms, ClosingClock(0, 0, 0))
    if joined is not None and rendered(joined).kinds != rendered(query).kinds:
        raise NotLocal("results of other types where stored ones take added rows")
    if others := {*found, SLICE, "revision"} ^ {name for name, _ in definition.partial_columns}:
        raise NotLocal(f"results with the columns {', '.join(sorted(others))}")
    if wrong := [name for name, kind in found.items() if forms.partials[name] != kind]:
        raise NotLocal(f"the type {forms.partials[wrong[0]].text} of {wrong[0]}, taken for {found[wrong[0]].text}")


def _check_measures(engine: EngineDefinition, partials: Mapping[str, Kind], typed: _Typing, rows: Scope) -> None:
    """Refuse measures of which a text has no local form: its query would name the first one only."""
    layout, params = engine.layout, engine.params
    if isinstance(params, TimeSeries) and params.window_sizes != (params.step,) and layout.is_mergeable:
        for partial in layout.partials:
            typed(partial.build, rows, None)
        return
    for name, sql in layout.reference:
        typed(sql, rows, partials[f"v_{name}"])


def _typed(sql: str, scope: Scope, kind: Kind) -> Typed:
    found = compiled(sql, scope)
    if found.kind != kind:  # the declared type is Spark's, so the local one is wrong
        raise NotLocal(f"{sql!r}, whose type {kind.text} was taken for {found.kind.text}")
    return found


def obstacles(definition: Definition) -> tuple[str, ...]:
    """Return what of a definition has no local form."""
    refused: list[str] = []
    try:
        Forms.of(definition, refused)
    except NotLocal as exc:
        refused.append(str(exc))
    return tuple(dict.fromkeys(refused))
