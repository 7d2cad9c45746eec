"""The order of rows, which gives ``first``, ``last``, ties and lists one meaning.

Rows are ordered by time, then by the declared sequence column, then by every column that the definition reads, by name.
Rows that are equal in all these columns are interchangeable, so results never depend on files, commits or partitions.
"""

from __future__ import annotations

from msgspec import Struct

from materializer.core.aggregates.parts import column_of, is_orderable
from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.table_names import quoted


class RowOrder(Struct, frozen=True):
    """The columns that order rows inside a group.

    Args:
        columns: Column names, the most significant first.
        constants: Columns that are equal for all rows of a group, in lower case.
        unorderable: Columns that are read and have no order, when no sequence column decides instead of them.
    """

    columns: tuple[str, ...]
    constants: frozenset[str]
    unorderable: tuple[str, ...] = ()

    def before(self, column: str | None, *, without: str | None = None) -> tuple[str, ...]:
        """Return the columns that come before *column* in the order; all of them when it is None or not among them.

        Args:
            column: The column whose value is selected, in lower case.
            without: A column that already comes earlier in the comparison, in lower case.
        """
        if column is not None and (column in self.constants or column == without):
            return ()
        names = [c.casefold() for c in self.columns]
        end = names.index(column) if column in names else len(names)
        return tuple(c for c in self.columns[:end] if c.casefold() != without)


def row_order(spec: AggregateSpec) -> RowOrder:
    """Return the order of rows of *spec*, from the columns that it reads and from its sequence column."""
    constants = frozenset(c for c in (column_of(k.sql) for k in spec.keys) if c is not None)
    first = [spec.time_column] + ([spec.sequence] if spec.sequence else [])
    types = dict(spec.read_types)
    leading = {c.casefold() for c in first}
    rest = [c for c in sorted(spec.reads) if c.casefold() not in leading | constants]
    loose = tuple(c for c in rest if not is_orderable(types.get(c, "")))
    return RowOrder(
        columns=(*first, *(c for c in rest if c not in loose)),
        constants=constants - {spec.time_column.casefold()},
        unorderable=() if spec.sequence else loose,
    )


def order_struct(columns: tuple[str, ...], *, by: str | None = None, value: str | None = None) -> str:
    """Return a struct whose order is that of the rows: *by* first, then *columns*, then *value*.

    Examples:
        >>> order_struct(("ts",), value="(price)")
        "named_struct('o0', `ts`, 'v', (price))"
    """
    fields = ([f"'y', {by}"] if by else []) + [f"'o{i}', {quoted(c)}" for i, c in enumerate(columns)]
    fields += [f"'v', {value}"] if value else []
    return f"named_struct({', '.join(fields)})"
