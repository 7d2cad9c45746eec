"""Whether two tables of output rows are equal; where they seem not to be, Spark is asked, which knows what may differ."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from materializer.core.compiled.definition import Definition
from materializer.local.forms import OURS
from materializer.local.kinds import kind_of, quoted

AT: Final = f"{OURS}at"
TOLERANCE: Final = 1e-9
"""Largest difference of doubles, as a share of the result or of 1. Spark compares with the magnitudes behind a result, which
are at least as large."""


def are_equal(definition: Definition, expected: pa.Table, found: pa.Table, beside: Collection[str] = ()) -> bool:
    """Return whether two tables have the same groups, with equal measures in each.

    Args:
        definition: The definition of the rows.
        expected: Output rows.
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
        tests.append(f"({test})")
    pairs = f"FROM expected e JOIN found f ON {' AND '.join(groups)} WHERE {' AND '.join(tests)}"
    with opened() as connection:
        numbers = pa.array(range(expected.num_rows), pa.int64())
        connection.register("expected", expected.append_column(AT, numbers))
        connection.register("found", found)
        # distinct, because a repeated row may stand where another is missing
        counted = connection.query(f"SELECT count(DISTINCT {AT}) AS n {pairs}")
    return bool(counted["n"][0].as_py() == expected.num_rows)
