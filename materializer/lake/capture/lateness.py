"""The lateness of the rows of a change feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from materializer.core.refresh.lateness import LAST, STEPS, Lateness

_SECOND = 1_000_000


def lateness_of(instants: Any, versions: Any, commit_times: Mapping[int, int]) -> Lateness:
    """Return how late inserted rows arrived.

    Args:
        instants: Event times in microseconds since the epoch, an Arrow column without nulls.
        versions: The version that inserted each row, an Arrow column.
        commit_times: Commit time of each version in microseconds since the epoch.
    """
    if not len(instants):
        return Lateness()
    order = np.array(sorted(commit_times), dtype=np.int64)
    times = np.array([commit_times[v] for v in order.tolist()], dtype=np.float64)
    committed = times[np.searchsorted(order, np.asarray(versions.to_numpy(), dtype=np.int64))]
    return histogram(committed - np.asarray(instants.to_numpy(), dtype=np.float64))


def histogram(micros: Any, rows: Any = None) -> Lateness:
    """Return the histogram of durations.

    Args:
        micros: A numpy array of microseconds; negative values count as zero.
        rows: Number of rows behind each value; None for one each.
    """
    seconds = np.maximum(micros / _SECOND, 1.0)
    steps = np.minimum(np.ceil(STEPS * np.log2(seconds)), LAST).astype(np.int64)
    counts = np.bincount(steps, weights=rows)
    return Lateness({int(step): int(counts[step]) for step in np.flatnonzero(counts)})
