"""The queries of a continuous aggregate, written once for all executors: partials of rows, what is merged and subtracted, the output.

An executor gives the rows that count and the stored partials. It also says by which texts the start and the end of a bucket are
found: in a time zone these depend on the times of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from materializer.core.aggregates.layout import SIGN
from materializer.core.compiled.definition import FROM, KEY, SLICE, Definition, key_column
from materializer.core.query.nodes import Columns, Query, Union
from materializer.core.spec.table_names import quoted

FINAL: Final = "f_"
"""How the columns of the output begin beside partials."""
PASSES: Final = "f_kept"
"""Column beside partials: whether HAVING accepts the group."""
_AT: Final = "materializer at"
"""How the scratch columns of keys begin."""
_TOO_FEW: Final = "more rows went than the stored partials count"
_STORED: Final = re.compile(r"\(?(?:`(?P<quoted>[^`]+)`|(?P<plain>\w+)(?:\.(?P<field>\w+))?)\)?")
"""The text of an output that is a partial column, or a field of one."""


def built(definition: Definition, rows: Query, start: str) -> Query:
    """Return the partials of rows that count.

    Args:
        definition: The definition to compute; a roll-up is one over the partials of another aggregate.
        rows: The rows.
        start: Text of the start of the bucket of a row.
    """
    partials = definition.layout.partials
    keys = [(SLICE, start), *((key_column(key.name), key.sql) for key in definition.spec.keys)]
    foreign = frozenset(p.build for p in partials if p.is_foreign)
    return rows.group(keys, [(p.name, p.build) for p in partials], foreign)


def merged(definition: Definition, came: Sequence[Query], went: Sequence[Query] = ()) -> Query:
    """Return the partials of all rows behind *came*, which are partials of disjoint sets of rows, less those behind *went*.

    Where rows went, the query fails if there are more of them than there were: then the stored partials are not what the change
    feed begins with.
    """
    layout, by = definition.layout, definition.group_columns
    if not went:
        return Union(tuple(came)).group(by, [(p.name, p.merge) for p in layout.partials if p.merge is not None])
    signed = [part.add((SIGN, sign)) for parts, sign in ((came, "1"), (went, "-1")) for part in parts]
    found = Union(tuple(signed)).group(by, [(p.name, p.retract) for p in layout.partials if p.retract is not None])
    count = layout.row_count
    return found.where(f"CASE WHEN {count} < 0 THEN raise_error('{_TOO_FEW}') ELSE {count} > 0 END")


def only_groups(definition: Definition, rows: Query, groups: Query) -> Query:
    """Return the source rows of some groups.

    Args:
        definition: The definition.
        rows: The rows, with :data:`.FROM`.
        groups: The groups, with the columns of :func:`group_columns`.
    """
    keys = [(f"{_AT} {i}", key.sql) for i, key in enumerate(definition.spec.keys)]
    found = rows.add(*keys).matched(groups, _pairs([name for name, _ in keys]), is_small=True)
    return found.only(*(name for name in rows.names if name != FROM))


def other_groups(definition: Definition, partials: Query, groups: Query) -> Query:
    """Return the partials, which have :data:`.FROM`, that are of none of some groups."""
    return partials.unmatched(groups, _pairs(definition.group_columns[1:]), is_small=True).without(FROM)


def group_columns(types: Sequence[str]) -> Columns:
    """Return the columns of groups, the start of their part and their keys.

    Args:
        types: Types of the keys.
    """
    return (FROM, "bigint"), *((f"{KEY}{i}", kind) for i, kind in enumerate(types))


def _pairs(keys: Sequence[str]) -> list[tuple[str, str]]:
    return [(FROM, FROM), *((key, f"{KEY}{i}") for i, key in enumerate(keys))]


def finalised(definition: Definition, partials: Query, ends: Mapping[str, str]) -> Query:
    """Return the output rows of some partials: measures finalised, HAVING applied, columns as in the SELECT.

    Args:
        definition: The definition.
        partials: The partials.
        ends: Texts of the end and of the last instant of a bucket, by output name; see :func:`~.bucket_sql.ends_sql`.
    """
    rows = named(definition, partials, ends)
    if definition.layout.having:
        rows = rows.where(definition.layout.having)
    return rows.select(*outputs(definition, ends))


def beside(definition: Definition, partials: Query, ends: Mapping[str, str], *more: str) -> Query:
    """Return partials and output side by side, so that both are computed and fetched at once.

    Outputs that are a partial column, or a field of one, are not there a second time; see :func:`twice`.

    The arguments are those of :func:`finalised`, and further columns of the partials.
    """
    stored = twice(definition)
    finals = [(FINAL + str(i), sql) for i, (_, sql) in enumerate(outputs(definition, ends)) if i not in stored]
    passes = [(PASSES, definition.layout.having)] if definition.layout.having else []
    return named(definition, partials, ends).select(
        *((name, quoted(name)) for name, _ in definition.partial_columns),
        *finals,
        *passes,
        *((name, quoted(name)) for name in more),
    )


def named(definition: Definition, partials: Query, ends: Mapping[str, str]) -> Query:
    """Return partials with keys and bucket also under their output names, which formulas and HAVING use."""
    taken = {name.lower() for name in partials.names}
    groups = {**ends, **_stored_groups(definition)}
    return partials.add(*((name, sql) for name, sql in groups.items() if name.lower() not in taken))


def outputs(definition: Definition, ends: Mapping[str, str]) -> Columns:
    """Return (output name, text over partial columns) in the order of the SELECT."""
    texts = {**ends, **_stored(definition)}
    return tuple((name, texts[name]) for name in definition.spec.columns)


def twice(definition: Definition) -> Mapping[int, tuple[str, str]]:
    """Return which outputs are stored partials, too: by number, the column and the field in it ("" for all of the column)."""
    types, texts = dict(definition.partial_columns), _stored(definition)
    found = {}
    for i, (name, kind) in enumerate(definition.output_columns):
        match = _STORED.fullmatch(texts.get(name, ""))
        column, field = (match["quoted"] or match["plain"], match["field"] or "") if match else ("", "")
        if types.get(column) == kind if not field else f"{field}:{kind}" in _fields(types.get(column, "")):
            found[i] = column, field
    return found


def _stored(definition: Definition) -> dict[str, str]:
    """Return the texts of the outputs that no span is needed for: all but the end and the last instant of a bucket."""
    return _stored_groups(definition) | dict(definition.layout.finals)


def _stored_groups(definition: Definition) -> dict[str, str]:
    spec = definition.spec
    found = {spec.bucket_start: SLICE} if spec.bucket_start else {}
    return found | {key.name: quoted(key_column(key.name)) for key in spec.keys}


def _fields(kind: str) -> Collection[str]:
    """Return the fields of a struct as Spark writes them, where none has fields of its own.

    Examples:
        >>> _fields("struct<y:timestamp,v:decimal(18,2)>")
        ['y:timestamp', 'v:decimal(18,2)']
        >>> _fields("struct<v:struct<a:int>>"), _fields("double")
        ((), ())
    """
    inside = kind.removeprefix("struct<").removesuffix(">")
    return () if inside == kind or set("<>") & set(inside) else re.split(r",(?!\d+\))", inside)
