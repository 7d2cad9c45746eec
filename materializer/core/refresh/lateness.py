"""The lateness of rows: a small histogram of the time between an event and the commit that brings its row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from materializer.core.codec import json_methods

KNOWN_AT: Final = "source.known_at"
"""Property that names the column of the source that says when a row was known."""
STEPS: Final = 4
"""Histogram steps for each doubling of the time: a bound is at most 19 % too large."""
HISTORY: Final = 30 * 86_400
"""Seconds after its newest row from which a commit loads history, and says nothing of lateness."""
LAST: Final = 36 * STEPS
"""The step of all rows that are later than two thousand years."""
ENOUGH: Final = 100
"""Least number of counted rows from which advice is given."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@json_methods
class Lateness(Struct, frozen=True):
    """Counts of inserted rows by how late they were.

    Args:
        rows: Step → rows. Step 0 is up to one second, or before the event; step *k* is up to ``2 ** (k / STEPS)`` seconds.
    """

    rows: Mapping[int, int] = field(default_factory=dict)

    def __add__(self, other: Lateness) -> Lateness:
        steps = sorted({*self.rows, *other.rows})
        return Lateness({s: self.rows.get(s, 0) + other.rows.get(s, 0) for s in steps})

    @property
    def total(self) -> int:
        """Number of counted rows."""
        return sum(self.rows.values())

    def within(self, share: float) -> float | None:
        """Return the seconds within which *share* of the rows arrived, rounded up to a step; None without rows.

        Examples:
            >>> Lateness({0: 90, 8: 9, 40: 1}).within(0.99)
            4.0
        """
        wanted, counted = math.ceil(share * self.total), 0
        for step, rows in sorted(self.rows.items()):
            counted += rows
            if counted >= max(wanted, 1):
                return float(2 ** (step / STEPS))
        return None

    def as_json(self) -> dict[str, int]:
        """Return the counts with text keys."""
        return {str(step): rows for step, rows in sorted(self.rows.items())}

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> Lateness:
        """Return the histogram that :meth:`as_json` wrote."""
        return cls({int(step): rows for step, rows in data.items()})


class Advice(Struct, frozen=True):
    """Settings that suit the measured lateness.

    Args:
        start_offset: A refresh window that reaches this far back contains 99.9 % of the rows.
        end_offset: A refresh window that ends this long before now is complete for 90 % of the rows.
        feed_retention: Shortest retention of log, change feed and removed files that still suffices when a refresh comes
            twice as late as the latest one so far; None when no refresh had to wait.
    """

    start_offset: str
    end_offset: str
    feed_retention: str | None


def advice(lateness: Lateness, bucket_seconds: float, longest_wait: float | None) -> Advice | None:
    """Return settings for a policy and for the source's retention; None before enough rows were counted.

    Args:
        lateness: Lateness of the source's rows.
        bucket_seconds: Length of a bucket; a window needs the whole bucket of its oldest row.
        longest_wait: Longest time from a commit to its capture so far, in seconds.
    """
    late, usual = lateness.within(0.999), lateness.within(0.9)
    if lateness.total < ENOUGH or late is None or usual is None:
        return None
    retention = None if longest_wait is None else max(_DAY, 2 * longest_wait)
    return Advice(in_words(late + bucket_seconds), in_words(usual), None if retention is None else in_words(retention))


def in_words(seconds: float) -> str:
    """Return a length of time as text for a property, rounded up to whole seconds, minutes, hours or days.

    Examples:
        >>> in_words(1.4), in_words(3700), in_words(200_000)
        ('2 seconds', '62 minutes', '3 days')
    """
    for unit, name, upto in ((1, "second", 2 * _MINUTE), (_MINUTE, "minute", 2 * _HOUR), (_HOUR, "hour", 2 * _DAY)):
        if seconds <= upto:
            n = max(1, math.ceil(seconds / unit))
            return f"{n} {name}" + ("s" if n != 1 else "")
    return f"{math.ceil(seconds / _DAY)} days"
