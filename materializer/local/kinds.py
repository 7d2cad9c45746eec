"""Spark's types as values: what an expression of the local executor has, and how DuckDB names it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct

from materializer.errors import MaterializerError
from materializer.lake.types import json_of

BUG: Final = "bug: "
"""How the reason begins for which Spark computes something after an unexpected error of this process."""

ASKED: Final = "Spark has to say"
"""The error by which a query of this process leaves a value to Spark."""

CALL: Final = "mz_python_"
"""How the names of DuckDB's functions begin that are ours, in Python."""

SKETCH_ERROR: Final = "SketchError"
"""The error of such a function that says what is wrong by itself."""

INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
"""The integer types, the narrowest first."""
MOST_DIGITS: Final = 38
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_PLAIN: Final = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "void": "INTEGER",
}
_JSON_NAMES: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


class NotLocal(Exception):  # noqa: N818 - it is an answer, and no error of anybody
    """The local executor has no exact form of something; the message says of what."""


class TooLarge(NotLocal):
    """Something does not fit into the memory that this process may take; a smaller run may."""


@contextmanager
def bugs_left_to_spark() -> Iterator[None]:
    """Leave to Spark what raises an unexpected error in the block; the block writes nothing.

    Raises:
        NotLocal: In place of an error that is neither ours nor an answer; its message begins with ``BUG``.
    """
    try:
        yield
    except (NotLocal, MaterializerError):
        raise
    except RecursionError as exc:
        raise NotLocal("an expression that is nested too deeply for this process") from exc
    except Exception as exc:
        logging.getLogger("materializer").debug("left to Spark", exc_info=exc)
        text = str(exc).partition("\n")[0]
        raise NotLocal(f"{BUG}{type(exc).__name__} in this process: {text}") from exc


class Kind(Struct, frozen=True):
    """A Spark type.

    Args:
        name: ``bigint``, ``decimal``, ``struct``, ``array`` …; ``void`` is the type of a bare NULL.
        precision: Digits of a decimal.
        scale: Digits of a decimal after the point.
        fields: Name and type of each field of a struct.
        element: The type of an array's elements.
    """

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[tuple[str, Kind], ...] = ()
    element: Kind | None = None

    @property
    def is_integer(self) -> bool:
        """Whether it is one of the integer types."""
        return self.name in INTEGERS

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal."""
        return self.name == "decimal"

    @property
    def is_fraction(self) -> bool:
        """Whether it is a binary floating-point number."""
        return self.name in {"float", "double"}

    @property
    def is_number(self) -> bool:
        """Whether arithmetic is defined for it."""
        return self.is_integer or self.is_decimal or self.is_fraction

    @property
    def duck(self) -> str:
        """Its name in DuckDB."""
        if self.is_decimal:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.name == "struct":
            return f"STRUCT({', '.join(f'{quoted(n)} {k.duck}' for n, k in self.fields)})"
        if self.element is not None:
            return f"{self.element.duck}[]"
        return _PLAIN[self.name]

    @property
    def text(self) -> str:
        """Its name in Spark."""
        if self.is_decimal:
            return f"decimal({self.precision},{self.scale})"
        if self.name == "struct":
            return f"struct<{','.join(f'{n}:{k.text}' for n, k in self.fields)}>"
        return f"array<{self.element.text}>" if self.element is not None else self.name

    def field(self, name: str) -> tuple[str, Kind] | None:
        """Return the stored name and the type of a field of a struct; None if it has no such field."""
        return next(((n, k) for n, k in self.fields if n.lower() == name.lower()), None)

    def as_decimal(self) -> Kind:
        """Return the decimal type that holds every value of an integer or decimal type."""
        return self if self.is_decimal else Kind("decimal", _DIGITS[self.name])


BIGINT: Final = Kind("bigint")
BINARY: Final = Kind("binary")
BOOLEAN: Final = Kind("boolean")
DATE: Final = Kind("date")
DOUBLE: Final = Kind("double")
INT: Final = Kind("int")
STRING: Final = Kind("string")
TIMESTAMP: Final = Kind("timestamp")
VOID: Final = Kind("void")


def decimal(precision: int, scale: int) -> Kind:
    """Return a decimal type.

    Raises:
        NotLocal: If it would have more than 38 digits: Spark cuts digits then, by rules of its own.
    """
    if precision > MOST_DIGITS or scale > precision:
        raise NotLocal(f"a decimal of {precision} digits, {scale} of them after the point")
    return Kind("decimal", precision, scale)


def kind_of(text: str) -> Kind:
    """Return the type that Spark writes as *text*.

    Raises:
        NotLocal: If the local executor does not know the type.

    Examples:
        >>> kind_of("array<struct<a:decimal(10,2)>>").duck
        'STRUCT("a" DECIMAL(10,2))[]'
    """
    try:
        return _of_json(json_of(text))
    except ValueError as exc:
        raise NotLocal(f"the type {text}") from exc


def _of_json(data: Any) -> Kind:
    if isinstance(data, str):
        name = _JSON_NAMES.get(data, data)
        if name.startswith("decimal("):
            precision, scale = name[len("decimal(") : -1].split(",")
            return decimal(int(precision), int(scale))
        if name not in _PLAIN or name == "void":
            raise NotLocal(f"the type {name}")
        return Kind(name)
    match data["type"]:
        case "struct":
            return Kind("struct", fields=tuple((f["name"], _of_json(f["type"])) for f in data["fields"]))
        case "array":
            return Kind("array", element=_of_json(data["elementType"]))
        case other:
            raise NotLocal(f"the type {other}")


def common(kinds: list[Kind]) -> Kind:
    """Return the type to which Spark brings values that are compared or stand in one column.

    Raises:
        NotLocal: If there is none, or Spark's is not known to be matched.
    """
    found = VOID
    for kind in kinds:
        found = _wider(found, kind)
    return found


def _wider(a: Kind, b: Kind) -> Kind:
    if b in {a, VOID}:
        return a
    if a == VOID:
        return b
    if a.is_integer and b.is_integer:
        return Kind(max(a.name, b.name, key=INTEGERS.index))
    if "double" in {a.name, b.name} and a.is_number and b.is_number:
        return DOUBLE
    if (a.is_decimal or a.is_integer) and (b.is_decimal or b.is_integer):
        left, right = a.as_decimal(), b.as_decimal()
        scale = max(left.scale, right.scale)
        return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    if {a.name, b.name} == {"date", "timestamp"}:
        return TIMESTAMP
    raise NotLocal(f"{a.text} together with {b.text}")


def quoted(name: str) -> str:
    """Return a name as an identifier of DuckDB.

    Examples:
        >>> quoted('a"b')
        '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'
