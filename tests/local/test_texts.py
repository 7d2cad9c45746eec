"""How long the texts are that the embedded engine has to read: it binds each anew in every refresh."""

from __future__ import annotations

import pytest

from materializer.local.connection import opened
from materializer.local.expressions import compiled
from materializer.local.kinds import kind_of
from materializer.local.scope import Scope


def first_of(columns: int) -> tuple[str, Scope]:
    """Return the partial of a `first` over rows that only all of their columns tell apart, as it is laid out."""
    order = ", ".join(f"'o{i}', c{i}" for i in range(columns))
    kinds = {f"c{i}": "double" if i % 2 else "int" for i in range(columns)}
    return f"min(named_struct('y', c1, {order}, 'v', c0))", Scope(
        {n: kind_of(k) for n, k in kinds.items()}, are_rows=True
    )


def test_a_text_grows_with_the_columns_and_not_with_their_square() -> None:
    """
    Of twice as many columns the text of a first value is at most a little more than twice as long.
    """
    ten, twenty = (len(compiled(*first_of(n)).sql) for n in (10, 20))

    assert twenty < 2.5 * ten


@pytest.mark.parametrize("columns", [2, 30])
def test_a_first_value_is_that_of_the_least_row(columns: int) -> None:
    """
    Null comes first, then the least number; of no row there is no value.
    """
    rows = [[3, 2.0], [4, None], [5, None]]
    text = compiled(*first_of(columns)).sql
    names = ", ".join(f"c{i}" for i in range(columns))
    values = ", ".join(f"({', '.join(str(row[i % 2] or 'NULL') for i in range(columns))})" for row in rows)
    with opened() as connection:
        [found] = connection.query(f"SELECT {text} AS it FROM (VALUES {values}) AS t({names})").to_pylist()
        [none] = connection.query(f"SELECT {text} AS it FROM (VALUES {values}) AS t({names}) WHERE false").to_pylist()

    assert (None, 4) == (found["it"]["y"], found["it"]["v"])
    assert none["it"] is None
