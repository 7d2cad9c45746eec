"""The local forms of one definition: every text of its layout compiled, each with the type that its table has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.local.expressions import Scope, compiled
from materializer.local.kinds import BOOLEAN, Kind, NotLocal, kind_of
from materializer.local.typed import Typed

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


@dataclass(frozen=True, slots=True)
class Forms:
    """What the local executor runs for a definition; all texts are SQL of DuckDB.

    Args:
        columns: Type of each column of the source that is read.
        partials: Type of each column of the partials table.
        where: The condition on source rows, or "".
        keys: Expression over source rows of each key column of the partials.
        builds: Aggregate over source rows of each partial.
        merges: Aggregate over partial rows of each partial; empty where one cannot be merged.
        finals: Expression over a partial row of each measure.
        having: The condition on partial rows, or "".
    """

    columns: dict[str, Kind]
    partials: dict[str, Kind]
    where: str
    keys: dict[str, str]
    builds: dict[str, str]
    merges: dict[str, str]
    finals: dict[str, str]
    having: str

    @classmethod
    def of(cls, definition: Definition, refused: list[str] | None = None) -> Forms:
        """Return the forms of a definition.

        Args:
            definition: The definition.
            refused: Gets what the texts without a local form lack, in place of an exception.

        Raises:
            NotLocal: If a part of it has no local form; the message names the part.
        """

        def typed(sql: str, scope: Scope, kind: Kind) -> Typed:
            try:
                return _typed(sql, scope, kind)
            except NotLocal as exc:
                if refused is None:
                    raise
                refused.append(str(exc))
                return Typed("NULL", kind)

        if definition.engine is not None:
            raise NotLocal(f"the engine {definition.spec.engine}")
        spec, layout = definition.spec, definition.layout
        columns = {name: kind_of(kind) for name, kind in spec.read_types}
        if ours := [name for name in columns if name.lower().startswith(OURS)]:
            raise NotLocal(f"a column whose name begins with {OURS!r}: {ours[0]}")
        partials = {name: kind_of(kind) for name, kind in definition.partial_columns}
        outputs = {name: kind_of(kind) for name, kind in definition.output_columns}
        raw, rows = Scope(columns), Scope(columns, are_rows=True)
        stored = Scope(partials, are_rows=True)
        named = {key.name: partials[key_column(key.name)] for key in spec.keys}
        named |= {name: partials[SLICE] for name in (spec.bucket_start, spec.bucket_end) if name}
        taken = {name.lower() for name in partials}
        final = Scope(partials | {n: k for n, k in named.items() if n.lower() not in taken})
        keys = {}
        for key in spec.keys:
            kind = partials[key_column(key.name)]
            if kind.name not in GROUPED:
                raise NotLocal(f"the key {key.name} of type {kind.text}")
            keys[key_column(key.name)] = same_zero(typed(key.sql, raw, kind))
        return cls(
            columns,
            partials,
            typed(spec.where, raw, BOOLEAN).sql if spec.where else "",
            keys,
            {p.name: typed(p.build, rows, partials[p.name]).sql for p in layout.partials},
            {p.name: typed(p.merge, stored, partials[p.name]).sql for p in layout.partials if p.merge is not None}
            if layout.is_mergeable
            else {},
            {name: typed(sql, final, outputs[name]).sql for name, sql in layout.finals},
            typed(layout.having, final, BOOLEAN).sql if layout.having else "",
        )


def _typed(sql: str, scope: Scope, kind: Kind) -> Typed:
    found = compiled(sql, scope)
    if found.kind != kind:  # the declared type is Spark's, so the local one is wrong
        raise NotLocal(f"{sql!r}, whose type {kind.text} was taken for {found.kind.text}")
    return found


def same_zero(key: Typed) -> str:
    """Return a key as Spark groups by it: the two zeros of floating-point numbers are one."""
    return f"CASE WHEN {key.sql} = 0 THEN 0 ELSE {key.sql} END" if key.kind.is_fraction else key.sql


def obstacles(definition: Definition) -> tuple[str, ...]:
    """Return what of a definition has no local form."""
    refused: list[str] = []
    try:
        Forms.of(definition, refused)
    except NotLocal as exc:
        refused.append(str(exc))
    return tuple(dict.fromkeys(refused))
