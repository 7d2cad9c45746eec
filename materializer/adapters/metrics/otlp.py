"""Metrics by OTLP over HTTP, sent by the SDK of OpenTelemetry at the end of each activity.

The SDK collects nothing in the background: a batch job may end at any time, and without its own exit. Counters are sent as *deltas*
unless the environment says otherwise, so the receiver adds up the jobs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Counter as AnyCounter
from opentelemetry.metrics import Histogram as AnyHistogram
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource

from materializer.adapters.metrics.catalogue import METRICS, SECONDS, Sample

TEMPORALITY: Final = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
"""The standard variable that says whether counters are sent as deltas."""


class Otlp:
    """The instruments of one process, and what sends them.

    Args:
        endpoint: The URL that gets the metrics; "" for what the standard variables say.
        seconds: How long one export may take.
        version: Version of this package.
    """

    def __init__(self, endpoint: str, seconds: float, version: str) -> None:
        self.exporter = OTLPMetricExporter(endpoint=endpoint or None, timeout=seconds)
        self.seconds = seconds
        choice = os.environ.get(TEMPORALITY, "delta").strip().lower()
        delta, cumulative = AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE
        grows = delta if choice in {"delta", "lowmemory"} else cumulative
        self.reader = InMemoryMetricReader(preferred_temporality={Counter: grows, Histogram: grows})
        resource = Resource.create(
            {"service.name": os.environ.get("OTEL_SERVICE_NAME", "materializer"), "service.version": version}
        )
        self.provider = MeterProvider([self.reader], resource=resource, shutdown_on_exit=False)
        meter = self.provider.get_meter("materializer", version)
        self.instruments: dict[str, object] = {}
        for metric in METRICS:
            name = metric.name.replace("materializer_", "materializer.", 1)
            if metric.kind == "counter":
                self.instruments[metric.name] = meter.create_counter(name, metric.unit, metric.text)
            elif metric.kind == "histogram":
                self.instruments[metric.name] = meter.create_histogram(
                    name, metric.unit, metric.text, explicit_bucket_boundaries_advisory=SECONDS
                )
            else:
                self.instruments[metric.name] = meter.create_gauge(name, metric.unit, metric.text)

    def take(self, samples: Sequence[Sample]) -> None:
        """Record samples and send them.

        Raises:
            ConnectionError: If they could not be sent.
        """
        for sample in samples:
            instrument, labels = self.instruments[sample.metric.name], dict(sample.labels)
            if sample.value is None:
                continue
            match instrument:
                case AnyCounter():
                    instrument.add(sample.value, labels)
                case AnyHistogram():
                    instrument.record(sample.value, labels)
                case _:
                    instrument.set(sample.value, labels)  # type: ignore[attr-defined]
        data = self.reader.get_metrics_data()
        if data is not None and self.exporter.export(data, self.seconds * 1_000) is not MetricExportResult.SUCCESS:
            raise ConnectionError("the metrics could not be sent by OTLP")
