"""Columns of texts that Spark would cast to numbers unasked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from materializer.core.aggregates.parts import column_of
from materializer.core.aggregates.registry import find
from materializer.core.spec.spec import AggregateSpec, Call
from materializer.errors import Problem

_OF_NUMBERS: Final = frozenset(
    [
        "sum",
        "avg",
        "variance",
        "comoment",
        "try_sum",
        "try_avg",
        "shape",
        "percentile",
        "sem",
        "powers",
        "weighted_sum",
        "weighted_average",
        "product",
    ]
)
"""The families of aggregates whose arguments Spark casts to numbers."""
_TEXTS: Final = ("string", "varchar", "char")


def texts_as_numbers(spec: AggregateSpec) -> Iterator[Problem]:
    """Yield a problem for each column of texts that Spark would cast to numbers unasked: the first text that is none fails every refresh."""
    for name, call in _calls(spec):
        place = f"measure '{name}'" if name else "HAVING"
        function = find(call.function)
        for arg, kind in zip(call.args, call.types, strict=False):
            column = column_of(arg)
            if function is None or function.family not in _OF_NUMBERS or column is None or not kind.startswith(_TEXTS):
                continue
            shown = call.text or f"{call.function}({arg})"
            message = (
                f"{place}: `{shown}` takes `{arg}`, a {kind}, for a number, and a text that is none fails the refresh"
            )
            hint = f"write CAST({arg} AS DOUBLE) in its place, or try_cast, with which a text that is no number counts as null"
            yield Problem("definition.wrong-type", message, hint, about=name)


def _calls(spec: AggregateSpec) -> Iterator[tuple[str, Call]]:
    """Yield the calls of each measure with its name, then those of HAVING."""
    for name, formula in (*((m.name, m.formula) for m in spec.measures), *([("", spec.having)] if spec.having else ())):
        yield from ((name, call) for call in formula.calls)
