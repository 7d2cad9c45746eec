"""Whether two sketches say the same: executors write other bytes, because rows come to them in other orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from materializer.local.sketches import Kll, SketchError, hll_merged


def same_sketch(a: bytes, b: bytes) -> bool:
    """Return whether two sketches say the same: of distinct values all, of quantiles the values until some of them are dropped."""
    for kind in ("double", "bigint", "float"):
        try:
            one, other = Kll.of(a, kind), Kll.of(b, kind)
        except SketchError:
            continue
        if (one.n, one.least, one.greatest) != (other.n, other.least, other.greatest):
            return False
        return max(len(one.counts), len(other.counts)) > 1 or sorted(one.items) == sorted(other.items)
    try:
        return _distinct(a) == _distinct(b)
    except SketchError:
        return False


def _distinct(sketch: bytes) -> tuple[Any, ...]:
    """Return all that a sketch of distinct values knows of them; what stands before is how it came about."""
    merged = hll_merged([sketch, sketch])
    head, mode = {2: 8, 3: 12, 10: 40}[merged[0]], merged[7] & 3
    return merged[3], mode, merged[head:] if mode == 2 else sorted(np.frombuffer(merged, "<u4", offset=head).tolist())
