from __future__ import annotations

from sqlglot import parse_one
from sqlglot.expressions import Column

from materializer.core.spec.table_names import quoted


def test_a_column_may_have_any_name() -> None:
    """
    A quoted name is one name to a parser of Spark SQL, back-quotes and all.
    """
    for name in ("a", "a b", "a`b", "`", "``", "a.b", "it's", "a\\b"):
        found = parse_one(quoted(name), dialect="spark")
        assert isinstance(found, Column)
        assert found.name == name
