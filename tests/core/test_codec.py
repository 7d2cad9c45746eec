from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import pytest
from msgspec import Struct, field

from materializer.core.codec import JsonForm, as_json, from_json, json_fields, json_list, parsed


class Colour(StrEnum):
    RED = "red"


@json_list
class Point(Struct, frozen=True):
    x: int
    y: int = 0


class Shape(Struct, frozen=True):
    name: str
    points: tuple[Point, ...] = ()
    colour: Colour | None = None
    pair: tuple[int, str] = (1, "a")
    runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    angle: Annotated[int, JsonForm(str, int)] = 0
    extra: Any = None


@json_fields(order=("last", ...), names={"first": "1st"}, later=["note"], omits=["note"])
class Listed(Struct, frozen=True):
    first: int
    last: int = 9
    note: str = ""


@json_fields(later=["note"])
class Plain(Struct, frozen=True):
    first: int
    last: int = 9
    note: str = ""


SHAPE = Shape("square", (Point(1, 2), Point(3)), Colour.RED, (2, "b"), {"old": (4, 5)}, 90, [{"a": None}])
STORED = {
    "name": "square",
    "points": [[1, 2], [3, 0]],
    "colour": "red",
    "pair": [2, "b"],
    "runs": {"old": [4, 5]},
    "angle": "90",
    "extra": [{"a": None}],
}


def test_a_value_is_written_by_its_fields_and_read_again() -> None:
    """
    Each type of a field has its form, nested ones too; what has no form is JSON already.
    """
    assert STORED == as_json(SHAPE)
    assert SHAPE == from_json(Shape, STORED)


def test_fields_with_a_default_may_be_missing_and_others_may_not_be_more() -> None:
    """
    Without a word of its class a value is read as its constructor takes it.
    """
    assert Shape("dot") == from_json(Shape, {"name": "dot"})
    for wrong in ({}, {"name": "dot", "more": 1}, {"name": "dot", "pair": [1]}, {"name": "dot", "colour": "no"}, 3):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            from_json(Shape, wrong)


def test_a_class_says_what_it_writes_and_what_came_later() -> None:
    """
    Only fields that came later may be missing, whatever their default; unknown ones are passed over.
    """
    assert [("last", 2), ("1st", 1)] == list(as_json(Listed(1, 2)).items())
    assert {"last": 2, "1st": 1, "note": "x"} == as_json(Listed(1, 2, "x"))
    assert Listed(1, 2) == from_json(Listed, {"1st": 1, "last": 2, "more": 3})
    with pytest.raises(KeyError):
        from_json(Listed, {"1st": 1})
    assert (
        Plain(1, 2) == from_json(Plain, {"first": 1, "last": 2}) == from_json(Plain, {"first": 1, "last": 2, "more": 3})
    )
    with pytest.raises(KeyError):
        from_json(Plain, {"first": 1})


def test_a_list_may_be_short_where_its_class_has_defaults() -> None:
    """
    A list that was written before a field came has the field's default.
    """
    assert Point(4) == from_json(Point, [4])


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "-Infinity",
        "1e999",
        '"\\ud800"',
        '"\ud800"',
        "-4722366482869645213696",
        '{"a": 1, "a": 2}',
        "[1.50, -0.0]",
    ],
)
def test_a_text_is_read_as_by_the_standard_library(text: str) -> None:
    """
    What the quick decoder refuses, too; the journal has had such texts.
    """
    assert repr(json.loads(text)) == repr(parsed(text))


@pytest.mark.parametrize("text", ["", "{", "[1,]", "\ufeff1", "nul"])
def test_a_text_that_is_none_is_refused_as_by_the_standard_library(text: str) -> None:
    """
    With its words, which name the place.
    """
    with pytest.raises(ValueError) as wanted:  # noqa: PT011 - its text is what is compared
        json.loads(text)

    with pytest.raises(ValueError, match=re.escape(str(wanted.value))):
        parsed(text)
