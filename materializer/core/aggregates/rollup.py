"""Roll-ups: measures of another aggregate at a coarser grid or by fewer keys, merged from its partials.

``rollup(mean)`` merges the partials behind the measure ``mean`` and finalises them again, so it gives the right average,
percentile, distinct count, first or last value, where an average of averages would be wrong. Its reference form is the measure
over the raw rows of the other aggregate's source. HAVING of the other aggregate does not count: the partials of all its groups
are merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from materializer.core.aggregates.layout import Layout, PartialColumn
from materializer.core.aggregates.parts import CallError, Parts, Tolerance, column_of, partial_name
from materializer.core.aggregates.registry import ROLLUP
from materializer.core.spec.spec import AggregateSpec, Call, Measure

_NAME: Final = re.compile(r"\bp_[0-9a-f]{12}\w*")
_TOLERANCES: Final[dict[str, Tolerance]] = {"exact": "exact", "float": "float", "rank": "rank"}


def is_rollup(spec: AggregateSpec) -> bool:
    """Whether a definition calls ``rollup``."""
    return any(call.function == ROLLUP for call in calls_of(spec))


def calls_of(spec: AggregateSpec) -> Iterator[Call]:
    """Yield the calls of all measures and of HAVING."""
    formulas = [*(m.formula for m in spec.measures), *([spec.having] if spec.having else [])]
    return (call for formula in formulas for call in formula.calls)


def measure_of(call: Call, spec: AggregateSpec) -> Measure | None:
    """Return the measure of *spec* that a call of ``rollup`` names, None if it names none."""
    name = column_of(call.args[0]) if call.args else None
    return next((m for m in spec.measures if m.name.casefold() == name), None)


def row_count() -> PartialColumn:
    """Return the partial that counts the partial rows behind a group, which are the source rows of a roll-up."""
    name = partial_name("rows rolled up")
    return PartialColumn(name, "count(*)", f"sum({name})")


def parts_of(call: Call, spec: AggregateSpec, layout: Layout) -> Parts:
    """Return the parts of ``rollup(measure)``.

    Args:
        call: The call.
        spec: The definition of the aggregate that is rolled up.
        layout: Its layout.

    Raises:
        CallError: If the call names no measure, or the measure has no partials that merge.
    """
    shown = call.text or f"{ROLLUP}({', '.join(call.args)})"
    if call.where is not None:
        hint = f"give '{spec.name}' a measure with that FILTER, or write WHERE"
        raise CallError("definition.rollup-filter", f"{shown} cannot have a FILTER", hint)
    measure = measure_of(call, spec)
    if measure is None:
        known = ", ".join(m.name for m in spec.measures)
        message = f"{shown} names no measure of '{spec.name}', which has {known}"
        raise CallError("definition.rollup-measure", message, "write the name of one of its measures")
    final = dict(layout.finals)[measure.name]
    partials = behind(final, layout)
    if any(p.merge is None for p in partials):
        message = f"{shown}: the measure has no partials that can be merged: {'; '.join(layout.not_mergeable)}"
        raise CallError("definition.no-partials", message, "read the raw source")
    brackets = {name: (low, high) for name, low, high in layout.brackets}
    return Parts(
        tuple(replace(p, build=str(p.merge), pick=None) for p in partials),
        final,
        dict(layout.reference)[measure.name],
        _TOLERANCES[dict(layout.tolerances)[measure.name]],
        bracket=brackets.get(measure.name),
    )


def refuse(call: Call) -> Parts:
    """Refuse a ``rollup`` over rows that are no aggregate's.

    Raises:
        CallError: Always.
    """
    message = f"{call.text or call.function} merges partials, and the source is no aggregate of this lake"
    raise CallError(
        "definition.rollup-source", message, "name an aggregate as the source, or write the aggregate itself"
    )


def names_in(text: str) -> list[str]:
    """Return the partial columns that an expression reads."""
    return _NAME.findall(text)


def behind(text: str, layout: Layout) -> list[PartialColumn]:
    """Return the partials that an expression reads, and those that are needed to merge these."""
    every = {p.name: p for p in layout.partials}
    found: dict[str, PartialColumn] = {}
    todo = names_in(text)
    while todo:
        name = todo.pop(0)
        if name in every and name not in found:
            found[name] = every[name]
            todo += names_in(every[name].merge or "")
    return list(found.values())
