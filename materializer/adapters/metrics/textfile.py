"""Metrics in files for the textfile collector of Prometheus' node_exporter, written by `prometheus_client`.

Each aggregate of a lake has one file, which every process that works on the aggregate continues: a counter and a histogram grow from
what the file has, so they survive the end of a batch job. A file is replaced as a whole, under a lock beside it.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from materializer.adapters.metrics.catalogue import METRICS, SECONDS, Metric, Sample

Series: TypeAlias = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by name and labels."""


class Textfile:
    """The files in one folder.

    Args:
        folder: The folder that node_exporter reads.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self, lake: str, aggregate: str, samples: Sequence[Sample]) -> None:
        """Add samples of an aggregate to its file.

        Raises:
            OSError: If the folder does not exist, or cannot be written.
            ValueError: If the file holds something else than metrics.
        """
        path = self.folder / file_name(lake, aggregate)
        with _locked(path):
            series = _read(path)
            for sample in samples:
                _add(series, sample)
            registry = CollectorRegistry()
            registry.register(_Families(series))
            write_to_textfile(str(path), registry)


def file_name(lake: str, aggregate: str) -> str:
    """Return the name of the file of an aggregate; aggregates of the same name in two lakes have different ones."""
    return f"materializer_{re.sub(r'[^A-Za-z0-9_]', '_', aggregate)}_{sha256(lake.encode()).hexdigest()[:8]}.prom"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> Series:
    if not path.exists():
        return {}
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8"))
        for sample in family.samples
    }


def _add(series: Series, sample: Sample) -> None:
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
