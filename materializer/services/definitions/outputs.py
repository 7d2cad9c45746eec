"""Names of outputs in catalogs: checked before a definition is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.table_names import OUTPUT, same
from materializer.errors import CatalogRefusedError, DefinitionError, NameTakenError, Problem
from materializer.journal.state import AggregateState, States, spec_of
from materializer.services.aggregate import output_path

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark


def refuse_name(
    spec: AggregateSpec, existing: AggregateState | None, states: States, root: str, engine: Callable[[], Spark]
) -> None:
    """Refuse a definition whose output cannot have the name that it asks for; a name that it has already is not looked at.

    Args:
        spec: The definition.
        existing: The aggregate that it changes, or None.
        states: The aggregates of the lake, and those that the same command makes.
        root: The lake's root folder.
        engine: Starts Spark on first use.

    Raises:
        DefinitionError: If another aggregate or another table has the name, or the catalog has no such schema.
        CatalogUnreachableError: If the catalog does not answer.
    """
    name = spec.property_map.get(OUTPUT, "")
    if not name or (existing is not None and same(existing.table) == same(name)):
        return
    for state in states.values():
        asked = spec_of(state).property_map.get(OUTPUT, "")
        if state.name.lower() != spec.name.lower() and same(name) in (same(asked), same(state.table)):
            message = f"{spec.name}: the output of '{state.name}' has the name '{name}'"
            raise DefinitionError([Problem(NameTakenError.code, message, "choose another name", about=name)])
    try:
        engine().catalogs.refuse_taken(name, output_path(root, spec.name))
    except (NameTakenError, CatalogRefusedError) as exc:
        raise DefinitionError([Problem(exc.code, f"{spec.name}: {exc.message}", exc.hint, about=name)]) from exc
