"""Values of metrics by name and labels: added up from samples, and written as Prometheus reads them, by `prometheus_client`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from materializer.adapters.metrics.catalogue import METRICS, SECONDS, Metric, Sample

Series: TypeAlias = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by name and labels."""


def registry(series: Series) -> CollectorRegistry:
    """Return what `prometheus_client` writes from."""
    made = CollectorRegistry()
    made.register(_Families(series))
    return made


def add(series: Series, sample: Sample) -> None:
    """Add a sample: a counter and a histogram grow, a gauge is replaced."""
    metric, labels, value = sample.metric, sample.labels, sample.value
    if metric.kind == "gauge":
        if value is None:
            series.pop((metric.name, _sorted(labels)), None)
        else:
            series[metric.name, _sorted(labels)] = value
        return
    grown: list[tuple[str, Mapping[str, str], float]] = []
    if metric.kind == "counter":
        grown.append((f"{metric.name}_total", labels, value or 0.0))
    else:
        seconds = value or 0.0
        bounds = [*((str(bound), bound) for bound in SECONDS), ("+Inf", float("inf"))]
        grown += [(f"{metric.name}_bucket", {**labels, "le": text}, float(seconds <= bound)) for text, bound in bounds]
        grown += [(f"{metric.name}_count", labels, 1.0), (f"{metric.name}_sum", labels, seconds)]
    for name, own, more in grown:
        key = name, _sorted(own)
        series[key] = series.get(key, 0.0) + more


def _sorted(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


class _Families(Collector):
    """What `prometheus_client` writes: the known metrics that have a value."""

    def __init__(self, series: Series) -> None:
        self.series = series

    def collect(self) -> Iterable[Family]:
        """Yield the metrics in the order of the catalogue."""
        for metric in METRICS:
            family = Family(metric.name, metric.text, metric.kind)
            for name in _names(metric):
                found = [(labels, value) for (own, labels), value in self.series.items() if own == name]
                for labels, value in sorted(found, key=lambda item: _place(item[0])):
                    family.add_sample(name, dict(labels), value)
            if family.samples:
                yield family


def _names(metric: Metric) -> list[str]:
    endings = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
    return [metric.name + ending for ending in endings[metric.kind]]


def _place(labels: tuple[tuple[str, str], ...]) -> tuple[list[tuple[str, str]], float]:
    """Return where a sample stands: by its labels, and the buckets of a histogram by their bounds."""
    rest = [(name, value) for name, value in labels if name != "le"]
    return rest, float(dict(labels).get("le", "0"))
