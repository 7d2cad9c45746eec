"""Find the rows that are in some spans."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from materializer.core.time.spans import SpanSet

_I64_MIN: Final = -(1 << 63)
_I64_MAX: Final = (1 << 63) - 1


def inside(instants: Any, spans: SpanSet, *, is_end: bool = False) -> Any:
    """Return which instants are in *spans*, as an array of booleans.

    Args:
        instants: Array of 64-bit instants without nulls.
        spans: The spans.
        is_end: Whether the instants are exclusive ends; a span then contains (start, end].
    """
    values = np.asarray(instants, dtype=np.int64)
    if not spans:
        return np.zeros(len(values), dtype=bool)
    starts = np.array([min(max(s.start, _I64_MIN), _I64_MAX) for s in spans], dtype=np.int64)
    lasts = np.array([min(max(s.end - 1, _I64_MIN), _I64_MAX) for s in spans], dtype=np.int64)
    probe = values - 1 if is_end else values
    at = np.searchsorted(starts, probe, side="right") - 1
    return (at >= 0) & (probe <= lasts[np.maximum(at, 0)])
