"""Canaries: some buckets are computed again from raw rows; without a difference they bound the share of wrong buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from materializer.core.time.spans import SpanSet

CONFIDENCE: Final = 0.95
"""Probability that the bound holds."""
COUNT: Final = "quality.canaries"
EVERY: Final = "quality.canaries.every"
TELLING: Final = 0.05
"""A bound from this share on says too little to be shown."""


class Canaries(Struct, frozen=True):
    """The results of the canaries of one data version, and how often they are checked.

    Args:
        count: Number of buckets of each kind (about to be published, published) that one refresh checks.
        every: Every how many-th refresh checks canaries.
        clean: Published buckets without a difference, drawn from all published buckets, since the last difference or the start
            of this data version.
        touched: Buckets about to be published without a difference, since the same moment. They are drawn from the changed
            buckets, so they prove nothing about the others.
        n: The last refresh that checked canaries; 0 for none.
        at: When its verdict was recorded, ISO text.
        differed_n: The last refresh that found a difference; 0 for none.
        differed: The buckets that differed in that refresh.
    """

    count: int
    every: int
    clean: int = 0
    touched: int = 0
    n: int = 0
    at: str = ""
    differed_n: int = 0
    differed: SpanSet = field(default_factory=SpanSet)

    @property
    def at_most(self) -> float | None:
        """Upper bound of the share of wrong buckets; None where too few were sampled to say something."""
        share = highest_share(self.clean) if self.clean else 1.0
        return share if share < TELLING else None


def highest_share(clean: int) -> float:
    """Return the share of wrong buckets above which *clean* random buckets would have shown a wrong one in 95 of 100 cases.

    With a share p of wrong buckets, *clean* independent draws contain none with probability (1 - p) ** clean. That is 5 % at
    the returned share, about 3 / *clean* (the rule of three).

    Args:
        clean: Number of random buckets of which none was wrong, at least one.

    Examples:
        >>> [round(highest_share(n), 3) for n in (1, 10, 100, 1_000)]
        [0.95, 0.259, 0.03, 0.003]
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / clean))


def is_due(properties: Mapping[str, str], n: int) -> bool:
    """Whether refresh *n* checks canaries.

    Examples:
        >>> [n for n in range(1, 8) if is_due({"quality.canaries": "2", "quality.canaries.every": "3"}, n)]
        [3, 6]
    """
    return int(properties.get(COUNT, "0")) > 0 and n % int(properties.get(EVERY, "1")) == 0


def after_sample(before: Mapping[str, Any], sampled: Mapping[str, Any], n: int, at: str) -> dict[str, Any]:
    """Return the canary results that the journal stores after refresh *n* checked canaries.

    Args:
        before: The results that it stored before; empty at first.
        sampled: How many buckets were ``clean`` and ``touched``, and which ``differed``.
        n: The refresh.
        at: When it checked them, ISO text.
    """
    seen = {"n": n, "at": at}
    if sampled["differed"]:
        return {"clean": 0, "touched": 0, **seen, "differed_n": n, "differed": sampled["differed"]}
    kept = {k: before[k] for k in ("differed_n", "differed") if k in before}
    counts = {kind: before.get(kind, 0) + sampled.get(kind, 0) for kind in ("clean", "touched")}
    return {**counts, **seen, **kept}


def canaries_of(properties: Mapping[str, str], known: Mapping[str, Any]) -> Canaries | None:
    """Return the canary results of an aggregate; None when its definition has no canaries."""
    count = int(properties.get(COUNT, "0"))
    if not count:
        return None
    differed = SpanSet.from_json(known.get("differed", []))
    plain = {k: v for k, v in known.items() if k != "differed"}
    return Canaries(count, int(properties.get(EVERY, "1")), differed=differed, **plain)
