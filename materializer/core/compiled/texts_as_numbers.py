"""Arguments of text that Spark would cast to numbers or conditions unasked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from materializer.core.aggregates.parts import column_of
from materializer.core.aggregates.registry import find
from materializer.core.spec.spec import AggregateSpec, Call
from materializer.core.sql.tokens import fragment_of, text_of
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
_OF_CONDITIONS: Final = frozenset(["bool_and", "bool_or", "every", "some", "any", "count_if"])
"""The aggregates whose argument Spark casts to a boolean."""
_TEXTS: Final = ("string", "varchar", "char")


def texts_as_numbers(spec: AggregateSpec) -> Iterator[Problem]:
    """Yield a problem for each text that Spark would cast unasked: the first text that cannot be cast fails every refresh."""
    columns = {name.casefold(): kind for name, kind in spec.read_types}
    for name, call in _calls(spec):
        place = f"measure '{name}'" if name else "HAVING"
        target = _target(call)
        for arg, kind in zip(call.args, call.types, strict=False):
            text, kind_of_text = _bare(arg, kind, columns)
            if not target or not kind_of_text.startswith(_TEXTS) or _is_literal(text):
                continue  # a literal is the same text in each row: Spark casts it, or fails at once
            shown = call.text or f"{call.function}({arg})"
            what = "a number" if target == "DOUBLE" else "true or false"
            message = f"{place}: `{shown}` takes `{text}`, a {kind_of_text}, for {what}, and a text that is not {what} fails the refresh"
            hint = f"write CAST({text} AS {target}) in its place, or try_cast, with which a text that is not {what} counts as null"
            yield Problem("definition.wrong-type", message, hint, about=name)


def _target(call: Call) -> str:
    """Return the type to which Spark casts the arguments of a call; "" if it casts none."""
    function = find(call.function)
    if function is None:
        return ""
    if function.name in _OF_CONDITIONS:
        return "BOOLEAN"
    return "DOUBLE" if function.family in _OF_NUMBERS else ""


def _bare(arg: str, kind: str, columns: Mapping[str, str]) -> tuple[str, str]:
    """Return an argument and its type; of a column in brackets or with a sign, which makes a number of a text, the column and its type."""
    bare = arg.strip()
    while bare[:1] in ("+", "-") or (bare.startswith("(") and bare.endswith(")")):
        bare = (bare[1:] if bare[0] != "(" else bare[1:-1]).strip()
    column = column_of(bare)
    return (bare, columns.get(column, kind)) if column is not None else (arg, kind)


def _is_literal(text: str) -> bool:
    return text_of(fragment_of(text, "an argument")) is not None


def _calls(spec: AggregateSpec) -> Iterator[tuple[str, Call]]:
    """Yield the calls of each measure with its name, then those of HAVING."""
    for name, formula in (*((m.name, m.formula) for m in spec.measures), *([("", spec.having)] if spec.having else ())):
        yield from ((name, call) for call in formula.calls)
