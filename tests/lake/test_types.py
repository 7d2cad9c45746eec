from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.lake.types import columns_of, json_of, schema_of, text_of

PLAIN = ("bigint", "int", "smallint", "tinyint", "string", "double", "float", "boolean", "binary", "date", "timestamp")
NAMES = st.text("abcXYZ_1 `:<>,é", min_size=1, max_size=8).filter(lambda s: s == s.strip())


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quoted = NAMES.map(lambda n: n if re.fullmatch(r"\w+", n) else "`" + n.replace("`", "``") + "`")
    fields = st.lists(st.tuples(quoted, inner), min_size=1, max_size=3)
    return st.one_of(
        inner.map("array<{}>".format),
        st.tuples(inner, inner).map(lambda p: f"map<{p[0]},{p[1]}>"),
        fields.map(lambda fs: f"struct<{','.join(f'{n}:{t}' for n, t in fs)}>"),
    )


TYPES = st.recursive(st.sampled_from([*PLAIN, "timestamp_ntz", "decimal(38,5)"]), nested, max_leaves=6)


@given(TYPES)
def test_text_and_json_say_the_same(text: str) -> None:
    """
    A type that is read and written again is the same text.
    """
    assert text == text_of(json_of(text))


@pytest.mark.parametrize("text", ["", "nope", "array<int", "array<int>>", "struct<a int>", "map<int>", "int int"])
def test_what_is_no_type(text: str) -> None:
    """
    A text that is no type is refused.
    """
    with pytest.raises(ValueError, match="no type"):
        json_of(text)


def test_a_schema_keeps_names_and_order() -> None:
    """
    Columns come back as they went in, and may be null.
    """
    columns = [("b c", "decimal(10,2)"), ("A", "array<struct<x:int>>")]

    assert columns == columns_of(schema_of(columns))
    assert all(f["nullable"] for f in json.loads(schema_of(columns))["fields"])
