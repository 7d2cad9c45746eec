"""Find the rows that are in some spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from materializer.core.time.spans import Span, SpanSet


class SpanIndex(Struct, frozen=True):
    """Sorted and disjoint spans by bisection, for many arrays of instants.

    Args:
        starts: The first instant of each, an array of 64-bit instants.
        lasts: The last instant of each.
    """

    starts: Any
    lasts: Any

    @classmethod
    def of(cls, spans: Iterable[Span]) -> SpanIndex:
        """Return the index of some spans; an end that is no 64-bit number is the least or the last one."""
        least, most = -(1 << 63), (1 << 63) - 1
        known = [s for s in spans if s.end > least and s.start <= most]
        starts = np.array([max(s.start, least) for s in known], dtype=np.int64)
        return cls(starts, np.array([min(s.end - 1, most) for s in known], dtype=np.int64))

    def inside(self, instants: Any) -> Any:
        """Return which of some 64-bit instants without nulls are in a span, as an array of booleans."""
        return self.containing(instants)[1]

    def holds(self, least: int, most: int) -> bool:
        """Return whether one span holds all instants from *least* to *most*."""
        starts, is_inside = self.containing([least, most])
        return bool(is_inside.all() and starts[0] == starts[1])

    def containing(self, instants: Any) -> tuple[Any, Any]:
        """Return the start of the span that holds each instant, and whether there is one; without one, the start means nothing."""
        values = np.asarray(instants, dtype=np.int64)
        if not len(self.starts):
            return values, np.zeros(len(values), dtype=bool)
        index = np.searchsorted(self.starts, values, side="right") - 1
        return self.starts[np.maximum(index, 0)], (index >= 0) & (values <= self.lasts[np.maximum(index, 0)])


def inside(instants: Any, spans: SpanSet) -> Any:
    """Return which of some 64-bit instants without nulls are in *spans*, as an array of booleans."""
    return SpanIndex.of(spans).inside(instants)
