"""The lateness of the rows of a change feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from materializer.core.refresh.lateness import HISTORY, LAST, STEPS, Lateness
from materializer.core.spec.spec import TimeType
from materializer.lake.extent import instants_of

_SECOND = 1_000_000


def known_column(columns: Iterable[tuple[str, str]], name: str) -> tuple[str, TimeType] | None:
    """Return the column that says when a row was known, with its type; None if there is none that can say it.

    Args:
        columns: Names and Spark types of the columns of the source.
        name: Its name in any letters, or "".
    """
    kinds = (TimeType.TIMESTAMP, TimeType.TIMESTAMP_NTZ, TimeType.DATE)
    found = ((column, kind) for column, kind in columns if name and column.lower() == name.lower())
    return next(((column, TimeType(kind)) for column, kind in found if kind in kinds), None)


def lateness_by(instants: Any, known: Any, kind: TimeType) -> Lateness:
    """Return how late rows were known, where a column says when; rows without that time do not count.

    Args:
        instants: Event times in microseconds since the epoch, an Arrow column without nulls.
        known: When each row was known, an Arrow column of type *kind*.
        kind: Its type.
    """
    times = instants_of(known, kind)
    is_known = pc.is_valid(times)
    micros = pc.subtract(times.filter(is_known), instants.filter(is_known))
    return histogram(np.asarray(micros.to_numpy(), dtype=np.float64)) if len(micros) else Lateness()


def lateness_of(instants: Any, versions: Any, commit_times: Mapping[int, int]) -> Lateness:
    """Return how late inserted rows arrived; a commit that loads history says nothing of it.

    Args:
        instants: Event times in microseconds since the epoch, an Arrow column without nulls.
        versions: The version that inserted each row, an Arrow column.
        commit_times: Commit time of each version in microseconds since the epoch.
    """
    if not len(instants):
        return Lateness()
    order = np.array(sorted(commit_times), dtype=np.int64)
    times = np.array([commit_times[v] for v in order.tolist()], dtype=np.float64)
    index = np.searchsorted(order, np.asarray(versions.to_numpy(), dtype=np.int64))
    late = times[index] - np.asarray(instants.to_numpy(), dtype=np.float64)
    return histogram(late[is_news(late, index)])


def is_news(late: Any, commits: Any) -> Any:
    """Return for each duration whether the commit of its row does not load history.

    Args:
        late: Microseconds from the event to the commit, a numpy array.
        commits: What tells the commit of each row, a numpy array of small whole numbers.
    """
    least = np.full(int(commits.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, commits, late)
    return least[commits] <= HISTORY * _SECOND


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
