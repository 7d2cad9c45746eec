"""Whether a definition asks for a gate: a suite, the checks that need none, or canaries."""

from __future__ import annotations

from collections.abc import Mapping

from materializer.core.quality.canaries import is_due
from materializer.core.spec.spec import AggregateSpec


def has_gate(spec: AggregateSpec, n: int = 0) -> bool:
    """Whether a definition asks for a gate of refresh *n*; for 0, of any."""
    asked = spec.property_map
    return bool(spec.suites) or is_on(asked, "quality.checks") or is_due(asked, n)


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Whether a property is ``true``."""
    return properties.get(name, "false").lower() == "true"
