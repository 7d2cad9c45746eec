"""Roll-ups in a lake: which partials a definition merges, and what happens when these become another table.

The source of a roll-up is the partials table of the aggregate that it names. That table is another one after each switch,
rollback or repair of that aggregate; :func:`moved` tells so, and everything of the roll-up is computed again.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from materializer.core.aggregates.rollup import is_rollup
from materializer.core.compiled.definition import SLICE, key_column
from materializer.core.quality.canaries import COUNT
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import NOTHING, DefinitionError, MaterializerError, Problem, RollupChangedError
from materializer.journal.events import ParentSwitched, SourceIdentity
from materializer.journal.state import AggregateState, States
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import partials_path
from materializer.services.definitions.lineage import parent_of

__all__ = ["is_rollup", "moved", "over_partials_of", "parents_of", "partials_of", "why_not_over"]


def over_partials_of(spec: AggregateSpec, parent: AggregateState | None) -> AggregateSpec:
    """Return a roll-up over the columns of the partials of its parent.

    Raises:
        DefinitionError: If its source is no aggregate, or cannot be rolled up so.
    """
    if parent is None:
        message = f"{spec.name}: `rollup` merges partials, and '{spec.source}' is no aggregate of this lake"
        hint = "name an aggregate as the source, or write the aggregate itself"
        raise DefinitionError([Problem("definition.rollup-source", message, hint, about=spec.source)])
    if COUNT in spec.property_map:
        message = (
            f"{spec.name}: canaries would compare a roll-up with the partials of '{parent.name}', not with raw rows"
        )
        hint = "leave 'quality.canaries' away here; 'verify' compares with raw rows"
        raise DefinitionError([Problem("definition.rollup-canaries", message, hint, about=COUNT)])
    from materializer.core.compiled.rolled_up import over_partials  # noqa: PLC0415 (only roll-ups)

    return over_partials(spec, AggregateSpec.from_json(parent.spec))


def partials_of(parent: AggregateState, root: str) -> SourceIdentity:
    """Return the partials of an aggregate as a source.

    Raises:
        MaterializerError: If they cannot be read.
    """
    path = places.resolved(partials_path(root, parent.name, parent.data_version))
    return SourceIdentity(path, DeltaFolder.at(path).head().table_id)


def moved(state: AggregateState, root: str, states: States) -> ParentSwitched | None:
    """Return the event by which a roll-up goes on with the partials that its parent has now; None if it reads these.

    Raises:
        RollupChangedError: If the parent no longer has what is rolled up. Nothing was written.
        MaterializerError: If the partials cannot be read.
    """
    if "rolls_up" not in state.spec:
        return None
    parent = parent_of(state.source.path, root, states)
    if parent is None or state.source.path == places.resolved(partials_path(root, parent.name, parent.data_version)):
        return None
    spec, made = AggregateSpec.from_json(state.spec), AggregateSpec.from_json(parent.spec)
    now = _over(spec, made)
    if why := _why_not(spec, now, dict(parent.schemas["partials"])):
        raise RollupChangedError(
            f"'{state.name}' rolls up '{parent.name}', which was changed since: {why}",
            hint=f"apply the definition of '{state.name}' again",
        )
    source = partials_of(parent, root)
    return ParentSwitched(now.as_json(), source, DeltaFolder.at(source.path).head().version)


def why_not_over(state: AggregateState, parent: AggregateSpec, columns: dict[str, Any]) -> str:
    """Return why a roll-up could not go on over another definition of its parent; "" if it could.

    Args:
        state: The roll-up.
        parent: The definition that its parent would have.
        columns: Type of each column of the partials that the parent would have.
    """
    spec = AggregateSpec.from_json(state.spec)
    return _why_not(spec, _over(spec, parent), columns)


def _over(spec: AggregateSpec, parent: AggregateSpec) -> AggregateSpec:
    """Return a roll-up over a definition, without what changes no row of that."""
    return replace(spec, rolls_up=replace(parent, sql="", comment="", properties=(), suites=()))


def _why_not(before: AggregateSpec, now: AggregateSpec, columns: dict[str, Any]) -> str:
    """Return why a roll-up cannot go on with what its parent has now, "" if it can."""
    for name, kind in before.read_types:
        if columns.get(name) != kind:
            return f"it no longer has {_called(before, name, kind)}"
    from materializer.core.aggregates.decompose import decompose  # noqa: PLC0415 - few roll-ups have a parent that changed

    try:
        was, new = decompose(before), decompose(now)
    except DefinitionError as exc:
        return exc.message
    is_same = (was.partials, was.finals, was.having) == (new.partials, new.finals, new.having)
    return "" if is_same else "the measures that are rolled up are computed otherwise"


def _called(spec: AggregateSpec, column: str, kind: str) -> str:
    """Return a column that a roll-up reads in the words of the definition over which it was applied."""
    parent = spec.rolls_up
    if parent is None or column == SLICE:
        return f"buckets of type {kind}"
    of_key = next((key.name for key in parent.keys if key_column(key.name) == column), None)
    if of_key is not None:
        return f"the key `{of_key}` of type {kind}"
    from materializer.core.aggregates.decompose import decompose  # noqa: PLC0415 - as above

    made = ((m.name, decompose(replace(parent, measures=(m,))).partials) for m in parent.measures)
    of_measure = next((name for name, partials in made if any(p.name == column for p in partials)), None)
    return "the count of rows" if of_measure is None else f"what its measure `{of_measure}` was made of"


def parents_of(state: AggregateState, root: str, states: States) -> list[AggregateState]:
    """Return the aggregates below a roll-up, its parent first; the last of them reads raw rows.

    Raises:
        MaterializerError: If one of them is gone.
    """
    found: list[AggregateState] = []
    at = state
    while "rolls_up" in at.spec:
        parent = parent_of(at.source.path, root, states)
        if parent is None:
            msg = f"the aggregate that '{at.name}' rolls up is gone"
            raise MaterializerError(msg, hint=f"apply the definition of '{at.name}' again", wrote=NOTHING)
        found.append(parent)
        at = parent
    return found
