"""What of a result its readers see, and where two values count as the same."""

from __future__ import annotations

from typing import Final

from materializer.core.compiled.definition import Definition, EngineDefinition

SAME_SHARE: Final = 1e-9
"""Doubles of which another order of the rows makes others are the same if they differ by this share of the larger one at most.
`verify` allows at least as much."""
_FRACTIONS: Final = ("double", "float")


def inexact(definition: Definition) -> frozenset[str]:
    """Return the output columns whose doubles depend on the order in which rows are added."""
    kinds = dict(definition.output_columns)
    return frozenset(n for n, law in definition.layout.tolerances if law == "float" and kinds.get(n) in _FRACTIONS)


def shown_values(definition: Definition, engine: EngineDefinition) -> dict[str, bool]:
    """Return the stored columns of an engine's results that its output shows beside their place, and whether each is inexact."""
    loose = inexact(definition)
    names = [name for name, _ in definition.layout.tolerances]
    more = [stored for _, stored in engine.params.EXTRA_OUTPUTS]
    return {f"v_{name}": name in loose for name in names} | dict.fromkeys([*more, "is_final"], False)
