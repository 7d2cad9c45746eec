"""Metrics in files for the textfile collector of Prometheus' node_exporter, written by `prometheus_client`.

Each aggregate of a lake has one file, which every process that works on the aggregate continues: a counter and a histogram grow from
what the file has, so they survive the end of a batch job. A file is replaced as a whole, under a lock beside it.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from prometheus_client import write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from materializer.adapters.metrics.catalogue import Sample
from materializer.adapters.metrics.series import Series, add, registry


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
                add(series, sample)
            write_to_textfile(str(path), registry(series))


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
