"""Metrics of one process that stays, as Prometheus scrapes them: counters begin at zero with each process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import Lock

from prometheus_client import generate_latest

from materializer.adapters.metrics.catalogue import HEALTHY, Sample
from materializer.adapters.metrics.series import Series, add, registry


class Scraped:
    """What a process counted so far, in memory.

    Args:
        lake: Root of the lake.
    """

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._by_aggregate: dict[str, Series] = {}
        self._lock = Lock()

    def take(self, _lake: str, aggregate: str, samples: Sequence[Sample]) -> None:
        """Add samples of an aggregate."""
        with self._lock:
            series = self._by_aggregate.setdefault(aggregate, {})
            for sample in samples:
                add(series, sample)

    def text(self, aggregates: Collection[str], is_healthy: bool) -> bytes:  # noqa: FBT001 - a callable of two values
        """Return the metrics in Prometheus' text format.

        Args:
            aggregates: The aggregates that there are; others are forgotten.
            is_healthy: Whether the process does its work.
        """
        every: Series = {}
        add(every, Sample(HEALTHY, {"lake": self._lake}, float(is_healthy)))
        with self._lock:
            for gone in self._by_aggregate.keys() - set(aggregates):
                del self._by_aggregate[gone]
            for series in self._by_aggregate.values():
                every |= series
        return bytes(generate_latest(registry(every)))
