"""Reads a suite: plain Great Expectations JSON in, immutable values out, all problems at once.

A parameter, ``{"$PARAMETER": "name"}`` in place of an argument, is filled in by :meth:`Suite.bound` before anything runs. So
compiled checks and Great Expectations use the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.compiled.trusted import why_not_asked
from materializer.core.quality.catalog import KNOWN, Known
from materializer.core.quality.verdict import Severity
from materializer.core.sql.functions import nearest
from materializer.errors import DefinitionError, Problem

PARAMETER: Final = "$PARAMETER"
_SUITE_KEYS: Final = ("name", "expectations", "meta", "notes", "id", "suite_parameters")
_ENTRY_KEYS: Final = (
    "type", "kwargs", "severity", "meta", "notes", "id", "description", "rendered_content", "windows",
)  # fmt: skip
_NEEDS_A_BOUND: Final = ("expect_column_values_to_be_between", "expect_column_value_lengths_to_be_between")


class Expectation(Struct, frozen=True):
    """One expectation of a suite.

    Args:
        index: Its position in the suite, from 0.
        type: A key of :data:`~materializer.core.quality.catalog.KNOWN`.
        kwargs: Its arguments.
        severity: How much a failure matters.
        meta: Data that the author stores with it.
    """

    index: int
    type: str
    kwargs: Mapping[str, Any]
    severity: Severity = Severity.CRITICAL
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> Known:
        """The catalog entry of its type."""
        return KNOWN[self.type]

    @property
    def parameters(self) -> dict[str, str]:
        """The parameter that fills each argument, for the arguments that have one."""
        return {k: v[PARAMETER] for k, v in self.kwargs.items() if isinstance(v, Mapping) and PARAMETER in v}

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> Expectation:
        """Return the expectation with other arguments."""
        return replace(self, kwargs=MappingProxyType(dict(kwargs)))

    def as_json(self) -> dict[str, Any]:
        """Return the expectation in the JSON form of Great Expectations."""
        return {"type": self.type, "kwargs": dict(self.kwargs), "severity": str(self.severity), "meta": dict(self.meta)}


class Suite(Struct, frozen=True):
    """A checked suite.

    Args:
        name: Its name.
        expectations: Its expectations, in the order of the file.
    """

    name: str
    expectations: tuple[Expectation, ...]

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the parameters that it needs."""
        return frozenset(p for e in self.expectations for p in e.parameters.values())

    def filled(self, parameters: Mapping[str, Any]) -> Suite:
        """Return the suite with the parameters filled in that have a value in *parameters*; the others stay open."""
        filled = []
        for e in self.expectations:
            values = {arg: parameters[name] for arg, name in e.parameters.items() if name in parameters}
            filled.append(e.with_kwargs({**e.kwargs, **values}) if values else e)
        return Suite(self.name, tuple(filled))

    def bound(self, parameters: Mapping[str, Any]) -> Suite:
        """Return the suite with all its parameters filled in.

        Raises:
            DefinitionError: If a parameter has no value, or a value that does not fit.
        """
        suite = self.filled(parameters)
        problems = [p for e in suite.expectations for p in _unfilled(e) or wrong_values(e)]
        if problems:
            raise DefinitionError(problems)
        return suite


Further: TypeAlias = Callable[[Sequence[Expectation]], Iterable[tuple[int, Problem]]]
"""A function that finds further problems of expectations: each with the expectation's position in the suite."""


def read(
    text: str,
    *,
    file: str = "",
    columns: Collection[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    further: Further | None = None,
) -> Suite:
    """Read a suite.

    Args:
        text: JSON in the form of Great Expectations.
        file: Name of the file that holds the text, shown in problems.
        columns: Names of the table's columns; not checked when None.
        parameters: Values for its parameters; they stay open when None.
        further: Function that checks the expectations without problems so far.

    Returns:
        The suite, with its parameters filled in when *parameters* are given.

    Raises:
        DefinitionError: With all problems.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as exc:
        hint = r"JSON writes a backslash twice, as in '\\d'" if exc.msg.startswith("Invalid \\escape") else ""
        problem = Problem("suite.syntax", f"this is not JSON: {exc.msg}", hint, file, exc.lineno, exc.colno)
        raise DefinitionError([problem]) from None
    except RecursionError:
        raise DefinitionError([Problem("suite.syntax", "this is nested too deeply", "", file)]) from None
    problems = list(_shape(data))
    entries = data["expectations"] if not problems else []
    places = _places(text, entries)
    expectations: list[Expectation] = []
    found: list[tuple[int, Problem]] = []
    for i, entry in enumerate(entries):
        wrong = list(_entry(entry, columns))
        if not wrong:
            expectation = _expectation(i, entry)
            wrong = list(wrong_values(expectation))
            if parameters is not None:
                wrong += _unfilled(expectation, parameters)
            if not wrong:
                expectations.append(expectation)
        found += [(i, p) for p in wrong]
    found += further(expectations) if further else ()
    problems += [
        replace(p, line=places[i][0], column=places[i][1]) for i, p in sorted(found, key=lambda placed: placed[0])
    ]
    if problems:
        raise DefinitionError([replace(p, file=file) for p in problems])
    suite = Suite(data["name"], tuple(expectations))
    return suite if parameters is None else suite.bound(parameters)


def _shape(data: Any) -> Iterator[Problem]:
    code = "suite.shape"
    if not isinstance(data, dict):
        yield Problem(code, f"a suite is a JSON object, not {_kind(data)}", 'write {"name": …, "expectations": […]}')
        return
    if not isinstance(data.get("name"), str) or not data["name"]:
        yield Problem(code, "a suite has a name", 'add "name": "…"')
    if not isinstance(data.get("expectations"), list):
        yield Problem(code, "a suite has a list of expectations", 'add "expectations": []')
    for key in data:
        if key not in _SUITE_KEYS:
            yield Problem(code, f"a suite has no `{key}`", nearest(key, _SUITE_KEYS))


def _entry(entry: Any, columns: Collection[str] | None) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        yield Problem("suite.shape", f"an expectation is a JSON object, not {_kind(entry)}")
        return
    for name in entry:
        if name not in _ENTRY_KEYS:
            yield Problem("suite.shape", f"an expectation has no `{name}`", nearest(name, _ENTRY_KEYS))
    severity = entry.get("severity", Severity.CRITICAL)
    if severity not in tuple(Severity):
        names = ", ".join(Severity)
        yield Problem("suite.severity", f"there is no severity {severity!r}", f"write one of {names}")
    for key in ("kwargs", "meta"):
        if not isinstance(entry.get(key) or {}, dict):
            yield Problem("suite.shape", f"`{key}` is a JSON object, not {_kind(entry[key])}")
            return
    named = entry.get("type")
    known = KNOWN.get(named) if isinstance(named, str) else None
    if known is None:
        hint = nearest(str(named), list(KNOWN)) or "the names are those of Great Expectations 1.24"
        yield Problem("suite.unknown-expectation", f"there is no expectation {named!r}", hint)
        return
    if not known.is_on_spark:
        hint = "write it as unexpected_rows_expectation, whose query is Spark SQL"
        yield Problem("suite.not-on-spark", f"Great Expectations does not offer `{named}` on Spark", hint)
    yield from _arguments(known, entry.get("kwargs") or {}, columns)


def _arguments(known: Known, kwargs: dict[str, Any], columns: Collection[str] | None) -> Iterator[Problem]:
    for arg in known.required:
        if kwargs.get(arg) is None:
            yield Problem("suite.missing-argument", f"`{known.name}` needs `{arg}`")
    for arg in kwargs:
        if arg not in known.arguments:
            hint = nearest(arg, known.arguments) or f"it takes {', '.join(known.arguments[:-1])}"
            yield Problem("suite.unknown-argument", f"`{known.name}` has no `{arg}`", hint)
    for arg in known.columns:
        named = kwargs.get(arg)
        if named is None or isinstance(named, dict):
            continue
        names = named if isinstance(named, list) else [named]
        if (arg == "column_list") != isinstance(named, list) or not all(isinstance(n, str) for n in names):
            what = "a list of columns" if arg == "column_list" else "a column"
            yield Problem("suite.value", f"`{arg}` of `{known.name}` is {what}, not {named!r}")
        elif columns is not None:
            for name in names:
                if name not in columns:
                    hint = nearest(name, list(columns)) or f"the columns are {', '.join(columns)}"
                    yield Problem("suite.unknown-column", f"`{known.name}`: there is no column `{name}`", hint)


def wrong_values(e: Expectation) -> Iterator[Problem]:
    """Yield the problems of values that are wrong whatever the rows are; an open parameter has no value yet."""
    kwargs = {k: v for k, v in e.kwargs.items() if k not in e.parameters}
    is_sql = not str(kwargs.get("condition_parser", "spark")).startswith(
        "great_expectations"
    )  # which has its own grammar
    for arg in [a for a in kwargs if a.endswith("query") or (is_sql and a == "row_condition")]:
        for why in why_not_asked(str(kwargs[arg]), is_query=arg != "row_condition"):
            yield Problem("suite.value", f"`{arg}` of `{e.type}`: {why}", "read with Spark's own functions")
    mostly = kwargs.get("mostly")
    if mostly is not None and not (_is_number(mostly) and 0 <= mostly <= 1):
        yield Problem("suite.value", f"`mostly` of `{e.type}` lies between 0 and 1, and is {mostly!r}")
    if e.type in _NEEDS_A_BOUND and e.kwargs.get("min_value") is None and e.kwargs.get("max_value") is None:
        yield Problem("suite.missing-argument", f"`{e.type}` needs `min_value` or `max_value`")
    for arg in ("strict_min", "strict_max"):
        if arg in kwargs and not isinstance(kwargs[arg], bool):
            yield Problem("suite.value", f"`{arg}` of `{e.type}` is true or false, and not {kwargs[arg]!r}")
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if _is_number(low) and _is_number(high) and low > high:
        yield Problem("suite.value", f"`{e.type}`: min_value {low!r} lies above max_value {high!r}")


def _unfilled(e: Expectation, parameters: Mapping[str, Any] = MappingProxyType({})) -> list[Problem]:
    return [
        Problem("suite.parameter", f"the parameter `{name}` of `{e.type}` has no value", f"give a value for {name}")
        for name in e.parameters.values()
        if name not in parameters
    ]


def _expectation(index: int, entry: dict[str, Any]) -> Expectation:
    kwargs = MappingProxyType({k: v for k, v in (entry.get("kwargs") or {}).items() if v is not None})
    severity = Severity(entry.get("severity", Severity.CRITICAL))
    return Expectation(index, entry["type"], kwargs, severity, MappingProxyType(entry.get("meta") or {}))


def _places(text: str, entries: list[Any]) -> list[tuple[int, int]]:
    """Return line and column of each entry; zeros when the list cannot be located in the text."""
    decoder, nowhere = json.JSONDecoder(), [(0, 0)] * len(entries)
    for begin in re.finditer(r'"expectations"\s*:\s*\[', text):
        at, found, places = begin.end(), [], []
        try:
            for _ in entries:
                at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
                places.append((text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)))
                entry, at = decoder.raw_decode(text, at)
                found.append(entry)
        except json.JSONDecodeError:
            continue
        if found == entries:
            return places
    return nowhere


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    kinds = {list: "a list", dict: "an object", str: "a text", type(None): "null"}
    return kinds.get(type(value), f"{value!r}")
