"""Passes over ordered rows in Python: what DuckDB would add in another order than Spark, and what no SQL says.

Sums, averages and deviations of fractions over a window add the values from the first row of the window to its last one, as Spark
does, so that their last digits are equal, too.
"""

# ruff: noqa: PLC0415 - Arrow and numpy are imported when rows are computed

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from materializer.core.query.nodes import Folded, Frame

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Values: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

FUNCTIONS: Final = frozenset({"sum", "avg", "stddev_samp"})


class OverDoubles(Struct, frozen=True):
    """A function of the last rows, or of all rows so far, of each row.

    Args:
        name: The column that it makes.
        function: One of :data:`FUNCTIONS`.
        of: The column of doubles.
        frame: Rows around each row, of which it is the last; without a bound only those of a sum.
    """

    name: str
    function: str
    of: str
    frame: Frame

    def made(self, values: Values, is_there: Values, places: Values) -> tuple[Values, Values]:
        """Return the values, and where there is one.

        Args:
            values: The doubles.
            is_there: Where there is one.
            places: Position of each row among those of its key, from 0.
        """
        import numpy as np

        with np.errstate(all="ignore"):
            if self.frame[1] is None:
                return _so_far(values, is_there, places)
            back = range(-self.frame[1], -1, -1)
            if self.function == "stddev_samp":
                return _deviation(values, is_there, places, back)
            total, count = np.zeros(len(values)), np.zeros(len(values))
            for n in back:
                x, counts = _before(values, is_there, places, n)
                total += np.where(counts, x, 0.0)
                count += counts
            return total / count if self.function == "avg" else total, count > 0


def _so_far(values: Values, is_there: Values, places: Values) -> tuple[Values, Values]:
    import numpy as np

    added, count = np.where(is_there, values, 0.0), np.zeros(len(values))
    edges = [*np.flatnonzero(places == 0).tolist(), len(values)]
    for first, last in pairwise(edges):
        np.add.accumulate(added[first:last], out=added[first:last])
        np.add.accumulate(is_there[first:last], out=count[first:last], dtype=count.dtype)
    return added, count > 0


def _deviation(values: Values, is_there: Values, places: Values, back: range) -> tuple[Values, Values]:
    """Return standard deviations of samples, moved on from value to value as Spark does."""
    import numpy as np

    count, mean, squares = (np.zeros(len(values)) for _ in range(3))
    for n in back:
        x, counts = _before(values, is_there, places, n)
        more = count + counts
        delta = x - mean
        step = delta / more
        squares = np.where(counts, squares + delta * (delta - step), squares)
        mean, count = np.where(counts, mean + step, mean), more
    return np.sqrt(squares / (count - 1.0)), count > 1


def _before(values: Values, is_there: Values, places: Values, n: int) -> tuple[Values, Values]:
    """Return the value *n* rows before each row, and whether its key has such a row with a value."""
    import numpy as np

    if n == 0:
        return values, is_there
    x, counts = np.zeros(len(values)), np.zeros(len(values), bool)
    x[n:], counts[n:] = values[:-n], is_there[:-n] & (places[n:] >= n)
    return x, counts


class Passed(Struct, frozen=True):
    """Rows that are made by a pass, before the statement that takes them.

    Args:
        name: What they are called there.
        sql: SQL of the rows that it takes, those of a key one after the other in their order.
        place: The column that numbers the rows of a key, from 1.
        columns: The columns of the rows that are made, in order.
        doubles: Functions over windows.
        folds: Functions of all rows of a key.
    """

    name: str
    sql: str
    place: str
    columns: tuple[str, ...]
    doubles: tuple[OverDoubles, ...] = ()
    folds: tuple[Folded, ...] = ()

    def made(self, rows: pa.Table) -> pa.Table:
        """Return the rows with what the pass makes of them."""
        import numpy as np
        import pyarrow as pa

        places = rows[self.place].to_numpy() - 1
        columns = {name: rows[name] for name in rows.column_names}
        for of in self.doubles:
            doubles = rows[of.of].combine_chunks()
            values, is_there = doubles.fill_null(0.0).to_numpy(), doubles.is_valid().to_numpy(zero_copy_only=False)
            found, has_one = of.made(values, is_there, places)
            columns[of.name] = pa.array(found, pa.float64(), mask=~has_one)
        edges = [*np.flatnonzero(places == 0).tolist(), len(places)]
        for fold in self.folds:
            columns |= _folded(fold, rows, edges)
        return pa.table({name: columns[name] for name in self.columns})


def _folded(fold: Folded, rows: pa.Table, edges: list[int]) -> dict[str, pa.Array]:
    import pyarrow as pa

    kinds = {"double": pa.float64(), "bigint": pa.int64()}
    code, taken = fold.fold.code(), [rows[name].to_pylist() for name in fold.takes]
    found: list[list[Any]] = [[] for _ in fold.makes]
    for first, last in pairwise(edges):
        for values, more in zip(found, code(*(of[first:last] for of in taken)), strict=True):
            values.extend(more)
    return {name: pa.array(values, kinds[kind]) for (name, kind), values in zip(fold.makes, found, strict=True)}
