"""What values have beyond a ``Struct``: comparison and text in part, signatures, dictionaries."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from abc import abstractmethod
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import pytest
from msgspec import Struct
from msgspec.structs import replace

from materializer.config import Config, MetricsConfig, OpenLineageConfig, SparkConfig
from materializer.core.spec.spec import AggregateSpec
from materializer.core.sql.tokens import Script
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.report.diff import DiffReport
from materializer.structs import AbstractStruct, ComparedInPart, as_dict

SECRETS = (
    SparkConfig(remote="sc://host/;token=hidden", options={"spark.key": "hidden"}),
    OpenLineageConfig(url="http://a:hidden@b"),
    MetricsConfig(endpoint="http://a:hidden@b"),
    Config(storage={"key": "hidden"}, spark=SparkConfig(options={"spark.key": "hidden"})),
)


class Noted(ComparedInPart, Struct, frozen=True):
    """A value with a note that does not count."""

    _UNCOMPARED: ClassVar = frozenset({"note"})

    name: str
    note: str = ""


class Pair(NamedTuple):
    """A pair."""

    left: Any
    right: Any


class Other(Struct, frozen=True):
    """A value of another class with the same fields."""

    name: str
    note: str = ""


def test_a_field_that_does_not_count() -> None:
    """
    Neither equality nor the hash looks at it; other classes are never equal.
    """
    assert Noted("a", "x") == Noted("a", "y")
    assert hash(Noted("a", "x")) == hash(Noted("a", "y"))
    assert Noted("a") != Noted("b")
    assert Noted("a") != Other("a")
    assert {Noted("a", "x"): 1} == {Noted("a", "y"): 1}


def test_texts_of_definitions_do_not_count() -> None:
    """
    Definitions and scripts that say the same are equal, however they were parsed or written.
    """
    assert "sql" in AggregateSpec._UNCOMPARED
    assert Script("SELECT 1") == replace(Script("SELECT 1"), trees={(0, 1): None})


@pytest.mark.parametrize("settings", SECRETS, ids=lambda s: type(s).__name__)
def test_settings_print_no_secret(settings: Any) -> None:
    """
    Not as text, not by a library that draws values, not as a part of another value.
    """
    rich = pytest.importorskip("rich.pretty")

    for text in (
        repr(settings),
        str(settings),
        f"{settings}",
        rich.pretty_repr(settings),
        repr([settings]),
        repr(Noted(settings)),
    ):
        assert "hidden" not in text


@pytest.mark.parametrize("settings", SECRETS, ids=lambda s: type(s).__name__)
def test_values_are_copied_and_pickled(settings: Any) -> None:
    """
    As any value of Python.
    """
    assert settings == copy.copy(settings) == copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings))


@pytest.mark.parametrize("cls", [RefreshReport, RunDone, DiffReport])
def test_help_of_reports_names_types_that_are_not_loaded(cls: type) -> None:
    """
    Their modules are loaded when they are needed, which is not to be helped.
    """
    assert list(cls.__struct_fields__) == list(inspect.signature(cls).parameters)  # type: ignore[attr-defined]
    assert cls.__name__ in pydoc.render_doc(cls)


def test_values_inside_become_dictionaries() -> None:
    """
    In lists, tuples, named tuples and dictionaries; everything else stays what it is.
    """

    class Kind(Enum):
        ONE = 1

    value = Noted([Other("a"), (Other("b"),), {"k": Other("c")}, Pair(Other("d"), 2), Kind.ONE, {3}])  # type: ignore[arg-type]

    found = as_dict(value)["name"]

    made = [{"name": name, "note": ""} for name in "abcd"]
    assert [made[0], (made[1],), {"k": made[2]}, Pair(made[3], 2), Kind.ONE, {3}] == found
    assert isinstance(found[3], Pair)


def test_a_value_with_abstract_methods_is_not_made() -> None:
    """
    As an abstract class.
    """

    class Shape(AbstractStruct, frozen=True):
        @abstractmethod
        def area(self) -> int: ...

    class Square(Shape, frozen=True):
        side: int

        def area(self) -> int:
            return self.side**2

    assert Square(3).area() == 9
    with pytest.raises(TypeError, match="abstract"):
        Shape()
