"""Whether two tables of output rows are equal; where they seem not to be, Spark is asked, which knows what may differ."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from materializer.core.aggregates.layout import PartialColumn
from materializer.core.compiled.definition import Definition
from materializer.core.spec.table_names import quoted as spark_quoted
from materializer.local.forms import OURS
from materializer.local.kinds import Kind, kind_of, quoted

AT: Final = f"{OURS}at"
TOLERANCE: Final = 1e-9
"""Largest difference of doubles, as a share of the result or of 1. Spark compares with the magnitudes behind a result, which
are at least as large."""
_LOW, _HIGH = f"{OURS}low_", f"{OURS}high_"


def bounded(definition: Definition) -> Definition:
    """Return a definition whose rows have two more columns for each quantile of a sketch: the bounds between which it lies.

    Two sketches of the same many values say different quantiles, and both are right.
    """
    layout, spec = definition.layout, definition.spec
    if definition.engine is not None or not layout.brackets:
        return definition
    kinds = dict(definition.output_columns)
    bounds = [
        (before + name, sql, kinds[name])
        for name, *sqls in layout.brackets
        for before, sql in zip((_LOW, _HIGH), sqls, strict=True)
    ]
    columns = tuple((name, kind) for name, _, kind in bounds)
    return replace(
        definition,
        spec=replace(spec, columns=(*spec.columns, *(name for name, _ in columns))),
        layout=replace(
            layout,
            partials=(*layout.partials, *(PartialColumn(name, sql, None) for name, sql, _ in bounds)),
            finals=(*layout.finals, *((name, spark_quoted(name)) for name, _ in columns)),
            not_mergeable=("its bounds are computed anew",),
        ),
        partial_columns=(*definition.partial_columns, *columns),
        output_columns=(*definition.output_columns, *columns),
    )


def are_equal(definition: Definition, expected: pa.Table, found: pa.Table, beside: Collection[str] = ()) -> bool:
    """Return whether two tables have the same groups, with equal measures in each.

    Args:
        definition: The definition of the rows.
        expected: Output rows, with bounds or without; see :func:`bounded`.
        found: Other output rows of the same buckets.
        beside: Columns that do not count.

    Raises:
        NotLocal: If they cannot be compared here.
    """
    from materializer.local.connection import opened  # noqa: PLC0415 (most refreshes compare nothing)

    if expected.num_rows != found.num_rows:
        return False
    tolerances = dict(definition.layout.tolerances)
    groups, tests = [], ["true"]
    for name, kind in definition.output_columns:
        if name in beside:
            continue
        e, f = (f"{side}.{quoted(name)}" for side in "ef")
        test = f"{e} IS NOT DISTINCT FROM {f}"
        if name not in tolerances:
            groups.append(test)
            continue
        if tolerances[name] == "float" and kind_of(kind).is_number:
            a, b = f"CAST({e} AS DOUBLE)", f"CAST({f} AS DOUBLE)"
            close = f"isfinite({a}) AND isfinite({b}) AND abs({a} - {b}) <= {TOLERANCE} * greatest(abs({a}), 1)"
            test = f"{test} OR coalesce({close}, false)"
        if _LOW + name in expected.column_names:
            low, high = (f"e.{quoted(before + name)}" for before in (_LOW, _HIGH))
            test = f"{test} OR coalesce({_is_within(f, low, high, kind_of(kind))}, false)"
        tests.append(f"({test})")
    pairs = f"FROM expected e JOIN found f ON {' AND '.join(groups)} WHERE {' AND '.join(tests)}"
    with opened() as connection:
        numbers = pa.array(range(expected.num_rows), pa.int64())
        connection.register("expected", expected.append_column(AT, numbers))
        connection.register("found", found)
        # distinct, because a repeated row may stand where another is missing
        counted = connection.query(f"SELECT count(DISTINCT {AT}) AS n {pairs}")
    return bool(counted["n"][0].as_py() == expected.num_rows)


def _is_within(found: str, low: str, high: str, kind: Kind) -> str:
    """Return SQL that tells whether a quantile, or each of an array of them, lies between its bounds."""
    if kind.element is None:
        return f"{found} BETWEEN {low} AND {high}"
    each = f"list_filter(list_zip({found}, {low}, {high}), lambda x: x[1] BETWEEN x[2] AND x[3])"
    return f"len({found}) = len({low}) AND len({each}) = len({found})"
