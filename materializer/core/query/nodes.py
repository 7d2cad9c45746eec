"""A query as a value: a small relational algebra whose leaves are texts of Spark SQL.

A node says which rows it takes and what it makes of them. It knows no executor, no table and no path: :class:`Named` stands for the
rows that an executor gives. A node knows the names of its columns; their types are those that Spark infers.

Spark is the meaning of a query. Two rules are written out, because engines of SQL differ in them: a window orders nulls before all
values, and equality of keys is that of grouping, for which null equals null and both zeros are one. Executors agree bit by bit, but
for the sign of zero and for the last digits of sums of fractions.

The methods of a node build the next one. Nodes are equal if they were built alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from materializer.core.spec.table_names import quoted

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""(name, text of Spark SQL) of each column, in order."""
On: TypeAlias = tuple[tuple[str, str, str], ...]
"""(left column, operator, right column) of each condition of a join; ``<=>`` is equality of keys."""
Frame: TypeAlias = tuple[Literal["rows", "range"], int | None, int | None]
"""Kind, first and last offset from the current row; None is without bound."""
EQUAL: Final = "<=>"


class PassFunction(Protocol):
    """A function of the ordered rows of a key, which no text says; a value, of which equal ones do the same."""

    def code(self) -> Callable[..., tuple[list[Any], ...]]:
        """Return a function of a list for each column that is taken; it returns one for each column that is made.

        Spark's workers run it, which may not have this package: the function refers to nothing in it.
        """


class Folded(Struct, frozen=True):
    """What a fold takes, and what it makes.

    Args:
        fold: The function.
        takes: Columns, of types that Python has.
        makes: Name and type of each column, ``double`` or ``bigint``.
    """

    fold: PassFunction
    takes: tuple[str, ...]
    makes: Columns


class Query(Struct, frozen=True):
    """Rows that are made of other rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Query, ...]:
        """The queries whose rows this one takes."""
        return ()

    def select(self, *columns: tuple[str, str], **more: str) -> Query:
        """Return rows with these columns alone; each is a name and its text."""
        return Project(self, (*columns, *more.items()))

    def add(self, *columns: tuple[str, str], **more: str) -> Query:
        """Return rows with further columns; a name that exists is replaced in its place."""
        new = dict(columns) | more
        same = [(name, new.pop(name, quoted(name))) for name in self.names]
        return Project(self, (*same, *new.items()))

    def only(self, *names: str) -> Query:
        """Return rows with some of the columns."""
        return Project(self, tuple((name, quoted(name)) for name in names))

    def without(self, *names: str) -> Query:
        """Return rows without some columns."""
        return self.only(*(name for name in self.names if name not in names))

    def where(self, test: str) -> Query:
        """Return the rows of which a condition is true."""
        return Filter(self, test)

    def group(
        self,
        by: Sequence[str | tuple[str, str]],
        columns: Sequence[tuple[str, str]] = (),
        foreign: frozenset[str] = frozenset(),
    ) -> Query:
        """Return a row for each group of rows with equal keys.

        Args:
            by: The keys: each a column, or a name and its text; such a name hides no column from the aggregates.
            columns: Name and aggregate of each further column; without one the rows are the distinct keys.
            foreign: Texts of calls in *columns* that only a session of Spark knows.
        """
        keys = ((key, quoted(key)) if isinstance(key, str) else key for key in by)
        return GroupBy(self, tuple(keys), tuple(columns), foreign)

    def over(
        self,
        by: Sequence[str],
        order: Sequence[str] = (),
        *columns: tuple[str, str],
        frame: Frame | None = None,
        **more: str,
    ) -> Query:
        """Return rows with further columns, each a function of the rows with the same keys.

        Args:
            by: The columns of the keys.
            order: The columns that order these rows, ascending, nulls first.
            columns: The name and the text of each column.
            frame: Which of these rows count around each row; None for all, or as the function says.
            more: Further columns.
        """
        return Over(self, tuple(by), tuple(order), frame, (*columns, *more.items()))

    def fold(self, by: Sequence[str], place: str, folds: Sequence[Folded]) -> Query:
        """Return rows with further columns that Python makes in a pass over the ordered rows with the same keys.

        Args:
            by: The columns of the keys.
            place: The column that numbers the rows of a key.
            folds: What is made of them.
        """
        return Pass(self, tuple(by), place, tuple(folds))

    def explode(self, name: str, values: str, *, outer: bool = False) -> Query:
        """Return a row for each element of an array, which is a further column.

        Args:
            name: The column.
            values: The text of the array.
            outer: Whether a row whose array is null or empty stays, with null in the column.
        """
        return Explode(self, name, values, outer)

    def join(self, right: Query, on: Sequence[tuple[str, str, str]], *, is_small: bool = False) -> Query:
        """Return each pair of rows for which all conditions hold, with the columns of both, whose names differ.

        Args:
            right: The other rows.
            on: The conditions; at least one.
            is_small: Whether *right* has so few rows that each worker of an executor can have them.
        """
        return Join(self, right, tuple(on), is_small)

    def same(
        self, right: Query, pairs: Sequence[tuple[str, str]], *, is_small: bool = False, outer: bool = False
    ) -> Query:
        """Return rows with the other columns of *right* where each (left, right) pair of columns is equal.

        Args:
            right: The other rows.
            pairs: The columns.
            is_small: Whether *right* has so few rows that each worker of an executor can have them.
            outer: Whether a row that has no equal one stays, with nulls in these columns.
        """
        others = [name for name in right.names if name not in {theirs for _, theirs in pairs}]
        found, on = _renamed(right, pairs, others)
        return Join(self, found, on, is_small, "left" if outer else "inner").only(*self.names, *others)

    def matched(self, right: Query, pairs: Sequence[tuple[str, str]], *, is_small: bool = False) -> Query:
        """Return the rows for which *right* has a row where each (left, right) pair of columns is equal."""
        return Join(self, *_renamed(right, pairs), is_small, "semi")

    def unmatched(self, right: Query, pairs: Sequence[tuple[str, str]], *, is_small: bool = False) -> Query:
        """Return the other rows than :meth:`matched` does."""
        return Join(self, *_renamed(right, pairs), is_small, "anti")


class Named(Query, frozen=True):
    """Rows that an executor gives.

    Args:
        name: What they are called.
        columns: Name and Spark type of each column.
    """

    name: str
    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(name for name, _ in self.columns)


class _OfOne(Query, frozen=True):
    """Rows that are made of those of one query.

    Args:
        input: That query.
    """

    input: Query

    @property
    def inputs(self) -> tuple[Query, ...]:
        """That query."""
        return (self.input,)


class Project(_OfOne, frozen=True):
    """Rows with other columns; see :meth:`Query.select`."""

    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(name for name, _ in self.columns)


class Filter(_OfOne, frozen=True):
    """Some of the rows; see :meth:`Query.where`."""

    test: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return self.input.names


class GroupBy(_OfOne, frozen=True):
    """Rows in groups; see :meth:`Query.group`."""

    by: Columns
    columns: Columns
    foreign: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(name for name, _ in (*self.by, *self.columns))


class Over(_OfOne, frozen=True):
    """Rows with what others of their keys say; see :meth:`Query.over`."""

    by: tuple[str, ...]
    order: tuple[str, ...]
    frame: Frame | None
    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return (*self.input.names, *(name for name, _ in self.columns))


class Pass(_OfOne, frozen=True):
    """Rows with what a pass over those of their keys makes; see :meth:`Query.fold`."""

    by: tuple[str, ...]
    place: str
    folds: tuple[Folded, ...]

    @property
    def made(self) -> Columns:
        """Name and type of each column that is made."""
        return tuple(column for of in self.folds for column in of.makes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return (*self.input.names, *(name for name, _ in self.made))


class Explode(_OfOne, frozen=True):
    """A row for each element; see :meth:`Query.explode`."""

    name: str
    values: str
    outer: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return (*self.input.names, self.name)


class Join(Query, frozen=True):
    """Pairs of rows, or rows of the left side that have some or none; see :meth:`Query.join`, :meth:`Query.same` and :meth:`Query.matched`."""

    left: Query
    right: Query
    on: On
    is_small: bool
    how: Literal["inner", "left", "semi", "anti"] = "inner"

    @property
    def has_both(self) -> bool:
        """Whether its rows have the columns of both sides."""
        return self.how in {"inner", "left"}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return (*self.left.names, *(self.right.names if self.has_both else ()))

    @property
    def inputs(self) -> tuple[Query, ...]:
        """Both queries."""
        return (self.left, self.right)


class Union(Query, frozen=True):
    """The rows of several queries, by the names of their columns; a column that one lacks is null in its rows.

    Args:
        parts: The queries; the first has all columns.
    """

    parts: tuple[Query, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return self.parts[0].names

    @property
    def inputs(self) -> tuple[Query, ...]:
        """The queries."""
        return self.parts


def _renamed(right: Query, pairs: Sequence[tuple[str, str]], others: Sequence[str] = ()) -> tuple[Query, On]:
    """Return the columns of *right* that are compared, under names that the left side lacks, with *others*; and the conditions."""
    names = [f"materializer r{i}" for i in range(len(pairs))]
    compared = ((name, quoted(theirs)) for name, (_, theirs) in zip(names, pairs, strict=True))
    on = tuple((mine, EQUAL, name) for name, (mine, _) in zip(names, pairs, strict=True))
    return right.select(*((name, quoted(name)) for name in others), *compared), on


def hidden_in(query: Query) -> set[str]:
    """Return the names, in lower case, that stand for other columns in a step of a query than in the rows that it takes."""
    found: set[str] = set()
    seen: set[int] = set()

    def look(node: Query) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        match node:
            case Project():
                made = {name for name, text in node.columns if text not in {name, quoted(name)}}
            case Over():
                made = {name for name, _ in node.columns}
            case Pass():
                made = {name for name, _ in node.made}
            case Explode():
                made = {node.name}
            case Join() if node.has_both:
                made = set(node.right.names)
            case _:
                made = set()
        taken = {name.lower() for name in node.inputs[0].names} if node.inputs else set()
        found.update({name.lower() for name in made} & taken)
        for of in node.inputs:
            look(of)

    look(query)
    return found
