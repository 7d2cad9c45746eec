"""Find the rows that are in some spans."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from materializer.core.time.spans import Span, SpanSet

_INT64: Final = SpanSet.of(Span(-(1 << 63), 1 << 63))


def inside(instants: Any, spans: SpanSet) -> Any:
    """Return which instants are in *spans*, as an array of booleans.

    Args:
        instants: Array of 64-bit instants without nulls.
        spans: The spans.
    """
    values = np.asarray(instants, dtype=np.int64)
    spans &= _INT64
    if not spans:
        return np.zeros(len(values), dtype=bool)
    starts = np.array([s.start for s in spans], dtype=np.int64)
    lasts = np.array([s.end - 1 for s in spans], dtype=np.int64)
    index = np.searchsorted(starts, values, side="right") - 1
    return (index >= 0) & (values <= lasts[np.maximum(index, 0)])
