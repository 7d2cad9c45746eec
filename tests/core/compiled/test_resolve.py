"""What a definition says of the columns of its source."""

from __future__ import annotations

import pytest

from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.errors import DefinitionError

SOURCE = (("ts", "timestamp"), ("Shop Name", "string"), ("qty", "bigint"))
VIEW = "CREATE MATERIALIZED VIEW v COMMENT \"qty\" AS SELECT time_bucket('1 hour', ts) AS at, {} FROM s GROUP BY {}"


@pytest.mark.parametrize(
    ("select", "group", "name"),
    [
        ('"Shop Name" AS shop, count(*) AS n', "1, 2", "Shop Name"),
        ('max("qty") AS most', "1", "qty"),
        ('count(*) FILTER (WHERE "QTY" > 1) AS n', "1", "qty"),
    ],
)
def test_a_column_in_double_quotes_is_refused(select: str, group: str, name: str) -> None:
    """
    Spark reads a text there, the same in every row; the hint has both spellings.
    """
    with pytest.raises(DefinitionError) as raised:
        resolve(parse_definitions(VIEW.format(select, group))[0], SOURCE)

    (problem,) = raised.value.problems
    assert "definition.unknown-column" == problem.code
    assert problem.hint.startswith(f"write `{name}` for the column, '")


@pytest.mark.parametrize("select", ['count(*) FILTER (WHERE `Shop Name` = "Oslo") AS n', "max('qty') AS m"])
def test_other_texts_stay(select: str) -> None:
    """
    A text that no column is called, one in single quotes, and the comment of the definition.
    """
    spec = parse_definitions(VIEW.format(select, "1"))[0]
    resolved = resolve(spec, SOURCE)

    assert resolved.time_type is not None
    assert resolve(resolved, SOURCE) == resolved
