"""Aggregates over aggregates: what may stand on what.

The parent's published rows are the child's source; of an engine's output only final rows count. Any engine may feed any
other. A continuous aggregate over another's output is allowed only where the finalised value aggregates again: a sum of sums
or counts, the smallest of minima, the first of firsts. An average of averages is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from materializer.core.aggregates.parts import group
from materializer.core.spec import AggregateSpec, Call, Formula
from materializer.errors import Problem
from materializer.journal.fold import AggregateState, States

AGAIN: Final[Mapping[str, frozenset[str]]] = {
    "sum": frozenset({"sum", "count", "count_if"}),
    "min": frozenset({"min"}),
    "max": frozenset({"max"}),
    "first": frozenset({"first"}),
    "last": frozenset({"last"}),
    "bool_and": frozenset({"bool_and"}),
    "bool_or": frozenset({"bool_or"}),
    "bit_and": frozenset({"bit_and"}),
    "bit_or": frozenset({"bit_or"}),
    "bit_xor": frozenset({"bit_xor"}),
}
"""Aggregate → those whose finalised values it may aggregate."""


def parent_of(path: str, root: Path, states: States) -> AggregateState | None:
    """Return the aggregate whose output lies at *path*, or None."""
    return next((s for s in states.values() if str((root / s.name / "output").resolve()) == path), None)


def parents_first(root: Path, states: States) -> list[str]:
    """Return the names of all aggregates, those that others read before these."""
    outputs = {str(root / s.name / "output"): s.name for s in states.values()}
    parents = {s.name: outputs.get(str(s.source.path)) for s in states.values()}

    def depth(name: str) -> int:
        found, at = 0, parents.get(name)
        while at is not None and found < len(parents):
            found, at = found + 1, parents.get(at)
        return found

    return sorted(parents, key=lambda name: (depth(name), name.lower()))


def over_final_rows(spec: AggregateSpec, path: str, root: Path, states: States) -> AggregateSpec:
    """Return *spec*, which reads the table at *path*, so that open windows of an engine do not count."""
    parent = parent_of(path, root, states)
    if parent is None or not AggregateSpec.from_json(parent.spec).is_engine:
        return spec
    where = "is_final" if spec.where is None else f"{group(spec.where)} AND is_final"
    return replace(spec, where=where, reads=tuple(sorted({*spec.reads, "is_final"})))


def problems_of(spec: AggregateSpec, path: str, root: Path, states: States) -> list[Problem]:
    """Return why *spec* may not read the table at *path*, if that is an aggregate's output."""
    parent = parent_of(path, root, states)
    if parent is None:
        return []
    if _leads_to(parent, spec.name, root, states):
        message = f"{spec.name}: it would read '{parent.name}', which reads '{spec.name}'"
        return [Problem("definition.cycle", message, "name another source")]
    made = AggregateSpec.from_json(parent.spec)
    if spec.is_engine or made.is_engine:
        return []
    formulas = {m.name.lower(): m.formula for m in made.measures}
    calls = [(m.name, call) for m in spec.measures for call in m.formula.calls]
    return [p for name, call in calls if (p := _again(spec, name, call, formulas))]


def _leads_to(state: AggregateState, name: str, root: Path, states: States) -> bool:
    at: AggregateState | None = state
    for _ in range(len(states) + 1):
        if at is None:
            return False
        if at.name.lower() == name.lower():
            return True
        at = parent_of(at.source.path, root, states)
    return True


def _again(spec: AggregateSpec, name: str, call: Call, formulas: Mapping[str, Formula]) -> Problem | None:
    """Return why a call may not aggregate the parent's measures, or None."""
    for arg in (*call.args, call.where or "", call.order_by or ""):
        for word in re.findall(r"[A-Za-z_]\w*", arg):
            formula = formulas.get(word.lower())
            if formula is None:
                continue
            inner = formula.calls[0].function if len(formula.pieces) == 1 and formula.calls else "an expression"
            is_bare = arg.strip().strip("`").lower() == word.lower() and arg in call.args
            if is_bare and not call.distinct and inner in AGAIN.get(call.function, ()):
                continue
            message = f"{spec.name}: measure '{name}': {call.function} of '{word}', which is {inner} already"
            hint = "read the raw source, or aggregate sums and counts of the parent and divide them"
            return Problem("definition.not-again", message, hint)
    return None
