"""Names in the file of a test that are no columns, and which ones were meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from materializer.core.language.unit_tests import UnitTest, WrittenRow
from materializer.core.spec.spec import AggregateSpec
from materializer.core.sql.functions import nearest
from materializer.errors import Problem


def unknown_columns(test: UnitTest, rows: Sequence[WrittenRow], columns: Sequence[str], what: str) -> list[Problem]:
    """Return a problem for each name in some rows that is no column."""
    known = {name.lower() for name in columns}
    return [
        test.problem(
            name,
            "test.unknown-column",
            f"{what} has no column `{name.text}`",
            nearest(name.text, tuple(columns)) or f"the columns are {', '.join(columns)}",
        )
        for row in rows
        for name, _ in row.values
        if name.text.lower() not in known
    ]


def misspelled_columns(test: UnitTest, spec: AggregateSpec, problems: Iterable[Problem]) -> list[Problem]:
    """Return a problem for each column that the file says and the definition does not read, where it reads one of nearly that name."""
    read = {name.lower() for name in spec.reads}
    lacks = tuple(problem.about for problem in problems if problem.about)
    return [
        test.problem(name, "test.unknown-column", f"`{spec.name}` reads no column `{name.text}`", hint)
        for name, _ in test.columns
        if name.text.lower() not in read and (hint := nearest(name.text, lacks))
    ]
