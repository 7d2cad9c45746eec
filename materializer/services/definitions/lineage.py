"""Aggregates over aggregates: what may stand on what.

The parent's published rows are the child's source; of an engine's output only final rows count. Any engine may feed any
other. A continuous aggregate over another's output is allowed only where the finalised value aggregates again: a sum of sums
or counts, the smallest of minima, the first of firsts. An average of averages is refused. Where it divides the parent's
buckets, each of them has to lie in one of its own: :mod:`materializer.core.time.nesting`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.aggregates.parts import column_of, group
from materializer.core.spec.spec import AggregateSpec, Call, Formula, TimeType
from materializer.core.time.grid import Grid, build
from materializer.core.time.instants import DAY, render
from materializer.core.time.spans import NEG_INF
from materializer.core.time.widths import describe_width
from materializer.errors import DefinitionError, Problem
from materializer.journal.state import AggregateState, NamedStates, States, by_name, spec_of
from materializer.lake import places

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

MISFIT: Final = "definition.not-nested"
QUICK: Final = 5.0
"""Seconds of a refresh that does not hold up others."""
RECENT: Final = 5
"""How many ended refreshes tell how long the next one takes."""
NEVER: Final = 64
"""How slow a first materialization counts: slower than every refresh that was seen."""


def maker_of(path: str, root: str) -> str:
    """Return the name of the aggregate of this lake that has its output, or its partials, at *path*; "" without one."""
    if "/output" not in path and "/partials/" not in path:
        return ""
    folder = f"{places.resolved(root)}/"
    name, _, which = path.removeprefix(folder).partition("/")
    return name if path.startswith(folder) and (which == "output" or which.startswith("partials/")) else ""


def parent_of(path: str, root: str, states: States) -> AggregateState | None:
    """Return the aggregate whose output or partials lie at *path*, or None."""
    name = maker_of(path, root)
    found = by_name(states, name) if name else None
    return found if found is not None and found.name == name else None


def readers_of(name: str, root: str, states: States) -> list[AggregateState]:
    """Return the aggregates, and next versions of aggregates, that read an aggregate, by name."""
    folder = json.dumps(f"{places.resolved(root)}/{name}/")[:-1]
    found = states.mentioning(folder) if isinstance(states, NamedStates) else states.values()
    return sorted((s for s in found if maker_of(s.source.path, root) == name), key=lambda s: s.name.lower())


def dropped_with(state: AggregateState, root: str, everything: States) -> list[AggregateState]:
    """Return what reads an aggregate, and what reads that, the last first: aggregates and next versions of aggregates."""
    found: dict[str, AggregateState] = {}
    for reader in readers_of(state.name, root, everything):
        found |= {s.id: s for s in [*dropped_with(reader, root, everything), reader] if s.id not in found}
    return list(found.values()) if not state.builds else []


def is_materialised(state: AggregateState) -> bool:
    """Whether anything of an aggregate was published, so that a changed definition of it becomes a next version."""
    return state.threshold != NEG_INF


def parents_first(root: str, states: States) -> list[str]:
    """Return the names of all aggregates, each after what it reads, and else those first that hold up the others least.

    First come those whose recent refreshes were quick, then slower ones, those of which nothing was computed yet, and engines; of these, short
    buckets come before long ones. An aggregate over the same rows that may be computed from the partials of a finer one comes after it.
    """
    ranks = {s.name: (_slowness(s), s.is_engine, _length(s), s.name.lower()) for s in states.values()}
    waits_for = {s.name: {maker_of(str(s.source.path), root)} & ranks.keys() - {s.name} for s in states.values()}
    for fine, coarse in _slower_and_finer(states, ranks):
        waits_for[coarse].add(fine)
    followers: dict[str, list[str]] = {}
    for name, others in waits_for.items():
        for other in others:
            followers.setdefault(other, []).append(name)
    order: list[str] = []
    free = [(ranks[name], name) for name, others in waits_for.items() if not others]
    heapify(free)
    while free:
        _, name = heappop(free)
        order.append(name)
        for follower in followers.get(name, ()):
            waits_for[follower].discard(name)
            if not waits_for[follower]:
                heappush(free, (ranks[follower], follower))
    return [*order, *sorted(ranks.keys() - set(order), key=ranks.__getitem__)]  # a damaged journal may hold a circle


_Rank: TypeAlias = tuple[int, bool, float, str]
"""Slowness, whether an engine computes it, length of its buckets, and the name of an aggregate."""


def _slower_and_finer(states: States, ranks: Mapping[str, _Rank]) -> Iterator[tuple[str, str]]:
    """Yield (fine, coarse) for aggregates over the same rows of which the fine one is slower, and may have the partials of the other.

    Where it is not slower, it comes first in any case.
    """
    of_rows: dict[tuple[str, str | None], list[tuple[_Rank, AggregateState]]] = {}
    for state in states.values():
        if not state.is_engine:
            of_rows.setdefault((state.source.table_id, state.spec.get("where")), []).append((ranks[state.name], state))
    for siblings in of_rows.values():
        if len({rank[0] for rank, _ in siblings}) == 1:
            continue
        has = {s.name: {str(name) for name, _ in s.schemas["partials"]} for _, s in siblings}
        needs = {s.name: has[s.name] - {key.name for key in spec_of(s).keys} for _, s in siblings}
        for rank, fine in siblings:
            for its, coarse in siblings:
                if its[0] < rank[0] and its[2:] > rank[2:] and needs[coarse.name] <= has[fine.name]:
                    yield fine.name, coarse.name


def _slowness(state: AggregateState) -> int:
    """Return how slow recent refreshes were: 0 below :data:`QUICK` seconds, one more for each doubling.

    Steps, and not seconds, because the order of quick aggregates should be the same in each command.
    """
    if not is_materialised(state):
        return NEVER
    seconds = sorted(e.report.seconds for e in state.ended[-RECENT:] if e.outcome == "done")
    return int(seconds[len(seconds) // 2] / QUICK).bit_length() if seconds else 0


def _length(state: AggregateState) -> float:
    """Return how long the buckets of an aggregate are, about; 0 for an engine, which no other is computed from."""
    if state.is_engine:
        return 0
    width = spec_of(state).grid.width
    return width.micros + width.days * DAY + width.months * 30 * DAY if width.ticks is None else width.ticks


def chain_of(state: AggregateState, root: str, states: States) -> list[AggregateState]:
    """Return an aggregate and what it reads, as far as these are aggregates of the lake; what reads raw rows comes first."""
    found = [state]
    while (parent := parent_of(found[-1].source.path, root, states)) is not None and parent not in found:
        found.append(parent)
    return found[::-1]


def over_final_rows(spec: AggregateSpec, path: str, root: str, states: States) -> AggregateSpec:
    """Return *spec*, which reads the table at *path*, so that open windows of an engine do not count."""
    parent = parent_of(path, root, states)
    if parent is None or not spec_of(parent).is_engine:
        return spec
    where = "is_final" if spec.where is None else f"{group(spec.where)} AND is_final"
    return replace(spec, where=where, reads=tuple(sorted({*spec.reads, "is_final"})))


def problems_of(spec: AggregateSpec, path: str, root: str, states: States) -> list[Problem]:
    """Return why *spec* may not read the table at *path*, if that is an aggregate's output."""
    parent = parent_of(path, root, states)
    if parent is None:
        return []
    if _leads_to(parent, spec.name, root, states):
        message = f"{spec.name}: it would read '{parent.name}', which reads '{spec.name}'"
        return [Problem("definition.cycle", message, "name another source", about=parent.name)]
    made = spec_of(parent)
    if spec.is_engine or made.is_engine or spec.rolls_up is not None:
        return []
    formulas = {m.name.casefold(): m.formula for m in made.measures}
    calls = [(m.name, call) for m in spec.measures for call in m.formula.calls]
    return [p for name, call in calls if (p := _again(spec, name, call, formulas))]


def _leads_to(state: AggregateState, name: str, root: str, states: States) -> bool:
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
    from materializer.core.dialect import words_in  # noqa: PLC0415 (loads the parser, which a refresh does without)

    for arg in (*call.args, call.where or "", call.order_by or ""):
        for word in sorted(words_in(arg)):
            formula = formulas.get(word)
            if formula is None:
                continue
            inner = formula.calls[0].function if len(formula.pieces) == 1 and formula.calls else "an expression"
            is_bare = column_of(arg) == word and arg in call.args
            if is_bare and not call.distinct and inner in AGAIN.get(call.function, ()):
                continue
            message = f"{spec.name}: measure '{name}': {call.function} of '{word}', which is {inner} already"
            hint = f"write rollup({word}), which merges the partials behind it, or read the raw source"
            return Problem("definition.not-again", message, hint, about=name)
    return None


# -- grids ---------------------------------------------------------------------------------------------------------------


class Form(Struct, frozen=True):
    """One of the definitions that an aggregate has at a time.

    Args:
        spec: The definition, resolved.
        which: Which one it is, in words, where another may be meant; else "".
        path: The table that it reads.
    """

    spec: AggregateSpec
    which: str
    path: str = ""

    @classmethod
    def of(cls, state: AggregateState, which: str) -> Form:
        """Return the definition of *state*."""
        return cls(spec_of(state), which, str(state.source.path))


def misfits_of_child(spec: AggregateSpec, parents: Iterable[Form]) -> list[Problem]:
    """Return why *spec* may not divide the buckets of what it reads, of which *parents* are the definitions; at most one."""
    for parent in parents:
        found = _misfit(spec, parent.spec)
        if found is None:
            continue
        name = parent.spec.name
        made = f"'{name}' {parent.which}".rstrip()
        column = parent.spec.bucket_start or spec.time_column if spec.rolls_up else spec.time_column
        message = f"{spec.name}: `{column}` cannot be divided into {found.divided}: the edge {found.edge} lies inside the bucket {found.bucket} of {made}, which is counted whole"
        hint = f"divide it so that each edge is one of '{name}', or read what '{name}' reads"
        return [Problem(MISFIT, message, _in_zone_of(parent.spec, spec, column) or hint, about=column)]
    return []


def _in_zone_of(parent: AggregateSpec, spec: AggregateSpec, column: str) -> str:
    """Return what to write if *spec* fits once it divides the clock of its parent's zone, or ""."""
    zone, grid = parent.grid.timezone, spec.grid
    if zone in {None, grid.timezone} or grid.origin is not None or grid.offset is not None:
        return ""
    in_zone = replace(spec, grid=replace(grid, timezone=zone))
    if _misfit(in_zone, parent) is not None:
        return ""
    return f"divide the clock of '{parent.name}', too: write time_bucket('{describe_width(grid.width)}', {column}, '{zone}')"


def misfits_of_parent(spec: AggregateSpec, children: Iterable[Form]) -> list[Problem]:
    """Return why *spec* may not divide time as it does: one problem for each of its *children* that this does not fit."""
    problems: dict[str, Problem] = {}
    for child in children:
        found = _misfit(child.spec, spec)
        if found is None or child.spec.name in problems:
            continue
        name = child.spec.name
        made = f"'{name}' {child.which}".rstrip()
        message = f"{spec.name}: {made} reads it and divides it into {found.divided}: the edge {found.edge} of that lies inside the bucket {found.bucket} of this definition"
        hint = f"keep a division that fits '{name}', or change or drop '{name}' first"
        problems[name] = Problem(MISFIT, message, hint, about=name)
    return list(problems.values())


class _Misfit(Struct, frozen=True):
    """A child's edge that lies inside a bucket of its parent, as text; *divided* is how the child divides time."""

    divided: str
    edge: str
    bucket: str


def _misfit(child: AggregateSpec, parent: AggregateSpec) -> _Misfit | None:
    from materializer.core.time.nesting import misfit  # noqa: PLC0415 - when definitions are applied

    grids = _grids(child, parent)
    edge = None if grids is None else misfit(*grids)
    if grids is None or edge is None:
        return None
    one, other = grids
    start, end = (render(at, other.shown) for at in (other.edge_at(edge), other.edge_from(edge + 1)))
    return _Misfit(one.describe(), render(edge, one.shown), f"[{start}, {end})")


def _grids(child: AggregateSpec, parent: AggregateSpec) -> tuple[Grid, Grid] | None:
    """Return how a child and its parent divide the same instants; None where no bucket of the parent is divided again.

    The results of engines are windows of their own, and a child may divide time by another column than a bucket's edge.
    """
    edges = {name.lower() for name in parent.edges}
    is_by_edge = child.rolls_up is not None or child.time_column.lower() in edges
    if child.is_engine or parent.is_engine or not is_by_edge or parent.time_type is None:
        return None
    try:
        return _grid(child, parent.time_type), _grid(parent, parent.time_type)
    except DefinitionError:
        return None  # the error is raised where the definition is resolved


def _grid(spec: AggregateSpec, time_type: TimeType) -> Grid:
    return build(spec.grid, time_type, spec.resolution)
