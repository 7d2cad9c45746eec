"""The metrics: their names, meanings and labels. Both ways out have the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of the buckets of every histogram; all of them are of seconds."""


class Metric(Struct, frozen=True):
    """One metric.

    Args:
        name: Its name without the suffixes of Prometheus.
        kind: A counter and a histogram only grow, a gauge is replaced.
        text: What it says.
        labels: Its labels besides ``lake`` and ``aggregate``.
        unit: Its unit, in the notation of OpenTelemetry.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    unit: str = "1"


class Sample(Struct, frozen=True):
    """One value: what a counter grows by, what a histogram counts, what a gauge is now; None if the gauge has no value now."""

    metric: Metric
    labels: Mapping[str, str]
    value: float | None


REFRESHES: Final = Metric(
    "materializer_refreshes",
    "counter",
    "Refreshes, backfills and builds that ended, by what they came to.",
    ("kind", "outcome", "strategy", "executor"),
)
SECONDS_TAKEN: Final = Metric(
    "materializer_activity_seconds", "histogram", "Wall time of activities.", ("kind", "outcome"), "s"
)
RUNS: Final = Metric(
    "materializer_run_seconds", "histogram", "Wall time of single runs of refreshes.", ("strategy", "executor"), "s"
)
PREDICTED: Final = Metric(
    "materializer_predicted_seconds",
    "counter",
    "Seconds that the plans of runs predicted; runs without a prediction do not count.",
    ("executor",),
    "s",
)
TAKEN: Final = Metric(
    "materializer_taken_seconds", "counter", "Seconds that the runs with a prediction took.", ("executor",), "s"
)
ROWS_READ: Final = Metric("materializer_rows_read", "counter", "Rows that runs aggregated.", ("kind",), "{row}")
ROWS_WRITTEN: Final = Metric(
    "materializer_rows_written", "counter", "Rows that runs wrote to the output.", ("kind",), "{row}"
)
BUCKETS: Final = Metric(
    "materializer_buckets_written", "counter", "Buckets that runs replaced in the output.", ("kind",), "{bucket}"
)
CHECKS: Final = Metric(
    "materializer_checks", "counter", "Checks of published rows, by the worst finding.", ("outcome",)
)
SWITCHES: Final = Metric("materializer_switches", "counter", "Switches to a next version.", ("outcome",))
UNMET: Final = Metric(
    "materializer_expectations_unmet", "counter", "Expectations that were not met.", ("by", "severity")
)
ENDED: Final = Metric(
    "materializer_last_end_timestamp_seconds", "gauge", "When the last activity ended.", ("kind",), "s"
)
SUCCEEDED: Final = Metric(
    "materializer_last_success_timestamp_seconds", "gauge", "When the last activity did its work.", ("kind",), "s"
)
DIRTY: Final = Metric(
    "materializer_dirty_buckets",
    "gauge",
    "Dirty buckets below the newest row, after the last activity.",
    (),
    "{bucket}",
)
UNCOMPUTABLE: Final = Metric(
    "materializer_uncomputable_buckets", "gauge", "Dirty buckets that cannot be computed.", (), "{bucket}"
)
WITHHELD: Final = Metric(
    "materializer_withheld_buckets", "gauge", "Buckets that a gate withholds from the output.", (), "{bucket}"
)
STALENESS: Final = Metric(
    "materializer_staleness_seconds", "gauge", "Age of the oldest change that the output does not show.", (), "s"
)
PROMISE: Final = Metric(
    "materializer_promised_staleness_seconds", "gauge", "The promise refresh.max_staleness.", (), "s"
)
FULFILLED: Final = Metric(
    "materializer_promise_kept",
    "gauge",
    "1 if the aggregate is as fresh as it promises, 0 if not; absent if not known.",
)
HEALTHY: Final = Metric(
    "materializer_healthy",
    "gauge",
    "1 while `materializer run` does its work, else 0; only at its `/metrics`, without the label `aggregate`.",
)

METRICS: Final = (
    REFRESHES,
    SECONDS_TAKEN,
    RUNS,
    PREDICTED,
    TAKEN,
    ROWS_READ,
    ROWS_WRITTEN,
    BUCKETS,
    CHECKS,
    SWITCHES,
    UNMET,
    ENDED,
    SUCCEEDED,
    DIRTY,
    UNCOMPUTABLE,
    WITHHELD,
    STALENESS,
    PROMISE,
    FULFILLED,
    HEALTHY,
)
"""All metrics, in the order of the page."""
