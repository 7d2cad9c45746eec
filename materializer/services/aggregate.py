"""One aggregate, ready for use: its definition compiled, its tables located, its buckets as predicates over them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.bucket_sql import slices_sql, spans_sql
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.spec.spec import AggregateSpec, GridSpec, Resolution, TimeType
from materializer.core.spec.table_names import quoted
from materializer.core.time.grid import Grid, build, slices
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState, spec_of
from materializer.lake import places
from materializer.lake.table import DeltaFolder

MOST_COMPILED: Final = 1_000
"""Compiled definitions that a process keeps."""
COMPILED: Final[dict[str, tuple[tuple[Mapping[str, Any], Mapping[str, Any]], Definition]]] = {}
"""By version of the data: spec and schemas as the journal has them, and what they compile to."""


class Aggregate(Struct, frozen=True):
    """An aggregate as it stands in the journal, with its definition compiled and its tables located.

    Args:
        name: Its name.
        aggregate_id: Its id.
        definition: The compiled definition.
        source: The table it reads.
        paths: Where ``partials``, ``output``, ``quarantine``, ``failing`` and ``changes`` lie.
        app_ids: Their transaction identifiers.
        data_version: Id of this version of its data.
        mend: What mends its tables, as a hint.
        kept_from: Below it the output stored nothing when it was looked at; ``NEG_INF`` when it stored everything.
    """

    name: str
    aggregate_id: str
    definition: Definition
    source: SourceIdentity
    paths: dict[str, str]
    app_ids: dict[str, str]
    data_version: str = ""
    mend: str = ""
    kept_from: int = NEG_INF

    @classmethod
    def of(cls, state: AggregateState, root: str) -> Aggregate:
        """Return the aggregate of *state* in the lake at *root*."""
        definition = compiled(state)
        own = own_tables(state, root)
        paths = {which: path for which, (path, _) in own.items()} | {
            "quarantine": f"{root}/{state.name}/quarantine",
            "failing": f"{root}/{state.name}/failing",
            "changes": f"{root}/{state.name}/changes",
        }
        app_ids = {which: app_id for which, (_, app_id) in own.items()} | {
            "quarantine": f"materializer/{state.data_version}/quarantine",
            "failing": f"materializer/{state.id}/failing",
            "changes": f"materializer/{state.id}/changes",
        }
        known = (state.data_version, state.mend, state.retired)
        return cls(state.name, state.id, definition, state.source, paths, app_ids, *known)

    def published_from(self, instant: int) -> Definition:
        """Return the definition whose output keeps nothing below an instant; of an engine it lies in the partials still."""
        definition, layout = self.definition, self.definition.layout
        if definition.engine is None or instant == NEG_INF:
            return definition
        stored = spans_sql(quoted(SLICE), SpanSet.of(Span(instant, POS_INF)), definition.time_type)
        return replace(definition, layout=replace(layout, having=f"{layout.having} AND {stored}"))

    def slice_column(self, which: str) -> SliceColumn:
        """Return the column that a table's buckets are replaced by."""
        spec, time_type = self.definition.spec, self.definition.time_type
        if which == "partials":
            return SliceColumn(SLICE, False, time_type)
        name = next(iter(spec.edges), "")
        return SliceColumn(name, name not in (spec.bucket_start, spec.bucket_time), time_type)

    def predicate(self, which: str, spans: SpanSet) -> str:
        """Return Spark SQL that holds for the rows of *spans* in a table of ours."""
        return slices_sql(self.slice_column(which), spans)

    def order(self, which: str) -> list[str]:
        """Return the columns a table is sorted by."""
        keys = self.definition.spec.keys
        return [self.slice_column(which).name, *(key_column(k.name) if which == "partials" else k.name for k in keys)]


def compiled(state: AggregateState) -> Definition:
    """Return the definition of *state*, compiled; once for each version of its data and each change of its settings."""
    before = COMPILED.get(state.data_version)
    if before is not None and before[0] == (state.spec, state.schemas):
        return before[1]
    definition = _compile(state)
    if len(COMPILED) >= MOST_COMPILED:
        COMPILED.clear()
    COMPILED[state.data_version] = (state.spec, state.schemas), definition
    return definition


class Timed(Struct, frozen=True):
    """What a definition says of time.

    Args:
        spec: The resolved definition.
        grid: Its division of time; of an engine the slices.
    """

    spec: AggregateSpec
    grid: Grid

    @property
    def time_type(self) -> TimeType:
        """Type of the time column."""
        return self.grid.time_type


def timed(state: AggregateState) -> Timed:
    """Return what the definition of an aggregate says of time, for which its expressions are not compiled."""
    spec = spec_of(state)
    if spec.time_type is None:
        msg = f"the journal holds an unresolved definition of {state.name}"
        raise ValueError(msg)
    grid = _grid_of(spec.grid, spec.time_type, spec.resolution)
    return Timed(spec, slices(grid) if spec.is_engine else grid)


@lru_cache(1_024)
def _grid_of(spec: GridSpec, time_type: TimeType, resolution: Resolution) -> Grid:
    """Return the grid of a declaration; many definitions have the same one."""
    return build(spec, time_type, resolution)


def _compile(state: AggregateState) -> Definition:
    time = timed(state)
    spec, grid = time.spec, time.grid
    columns = {t: tuple((str(n), str(ty)) for n, ty in state.schemas[t]) for t in ("partials", "output")}
    if spec.is_engine:
        from materializer.core.engines.compile import compile_engine, result_layout  # noqa: PLC0415 (only engines)

        engine = compile_engine(spec, [name for name, _ in columns["partials"]])
        layout = result_layout(spec, columns["partials"], engine.layout)
    else:
        from materializer.core.aggregates.decompose import decompose  # noqa: PLC0415 - not without work

        stored = {name for name, _ in columns["partials"]}
        engine, layout = None, decompose(spec, stored).stored_in(stored)
    return Definition(spec, layout, grid, columns["partials"], columns["output"], engine)


def refuse_links(root: str, name: str) -> None:
    """Refuse an aggregate of which a folder is a symbolic link; a writer asks before.

    Raises:
        OutsideLakeError: If one is a link. Nothing was written.
    """
    from materializer.lake.links import refuse  # noqa: PLC0415 - only writers ask

    tables = [f"{name}/{which}" for which in ("output", "quarantine", "failing", "changes")]
    versioned = [f"{name}/{which}" for which in ("partials", "build")]
    folders = [name, *tables, *versioned]
    refuse(root, folders)
    each = [f"{folder}/{version}" for folder in versioned for version in _names(f"{root}/{folder}")]
    refuse(root, [*each, *(f"{table}/_delta_log" for table in (*tables, *each))])


def _names(folder: str) -> list[str]:
    return places.names(folder) if places.is_local(folder) else []


def partials_path(root: str, name: str, data_version: str) -> str:
    """Return where the partials of a version of an aggregate lie."""
    return f"{root}/{name}/partials/{data_version}"


def build_path(root: str, name: str, data_version: str) -> str:
    """Return where the output of a version lies while it is built."""
    return f"{root}/{name}/build/{data_version}"


def output_path(root: str, name: str) -> str:
    """Return where the output of an aggregate lies, for readers."""
    return f"{root}/{name}/output"


def output_of(state: AggregateState, root: str) -> str:
    """Return where the output of an aggregate or of a build lies."""
    return build_path(root, state.name, state.data_version) if state.builds else output_path(root, state.name)


def own_tables(state: AggregateState, root: str) -> dict[str, tuple[str, str]]:
    """Return where ``partials`` and ``output`` of an aggregate or of a build lie, each with its transaction identifier."""
    return {
        "partials": (partials_path(root, state.name, state.data_version), f"materializer/{state.data_version}"),
        "output": (output_of(state, root), f"materializer/{state.id}"),
    }


def is_made_for(folder: DeltaFolder, which: str, aggregate: str) -> bool:
    """Whether a table says of itself that it was made for an aggregate."""
    return made_for(folder, which) == aggregate


def made_for(folder: DeltaFolder, which: str) -> str:
    """Return the id of the aggregate that a table was made for, by its own description; "" when it is none of ours."""
    words = str(folder.opened().metadata().description or "").replace(":", " ").split()
    return words[2] if words[:2] == ["materializer", which] and len(words) > 2 else ""
