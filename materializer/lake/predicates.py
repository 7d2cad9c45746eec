"""Find the rows that are in some spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from materializer.core.time.spans import Span, SpanSet

_INT64: Final = Span(-(1 << 63), 1 << 63)


def inside(instants: Any, spans: SpanSet) -> Any:
    """Return which instants are in *spans*, as an array of booleans.

    Args:
        instants: Array of 64-bit instants without nulls.
        spans: The spans.
    """
    return containing(instants, spans)[1]


def containing(instants: Any, spans: Iterable[Span]) -> tuple[Any, Any]:
    """Return the start of the span that holds each instant, and whether there is one; without one, the start means nothing.

    Args:
        instants: Array of 64-bit instants without nulls.
        spans: Sorted and disjoint spans; an end that is no 64-bit number is the last one.
    """
    values = np.asarray(instants, dtype=np.int64)
    known = [s & _INT64 for s in spans]
    starts = np.array([s.start for s in known if s], dtype=np.int64)
    if not len(starts):
        return values, np.zeros(len(values), dtype=bool)
    lasts = np.array([s.end - 1 for s in known if s], dtype=np.int64)
    index = np.searchsorted(starts, values, side="right") - 1
    return starts[np.maximum(index, 0)], (index >= 0) & (values <= lasts[np.maximum(index, 0)])
