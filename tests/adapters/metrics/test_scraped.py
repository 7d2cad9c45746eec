"""Metrics that Prometheus scrapes from a process that stays."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from materializer.adapters.metrics.catalogue import DIRTY, REFRESHES, Sample
from materializer.adapters.metrics.listener import scraped

pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")


def read(text: bytes) -> dict[tuple[str, str], float]:
    """Return values by name and aggregate, as Prometheus reads them."""
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(text.decode())
    return {(s.name, s.labels.get("aggregate", "")): s.value for family in families for s in family.samples}


def test_counters_grow_and_what_is_gone_is_forgotten() -> None:
    """
    An aggregate that was dropped has no series any more; one that comes back begins anew, so many names take no memory.
    """
    made = scraped("/lake")

    def take(*names: str) -> None:
        for name in names:
            labels = {"lake": "/lake", "aggregate": name}
            made.take("/lake", name, [Sample(REFRESHES, labels, 1), Sample(DIRTY, labels, 0)])

    def found(names: Collection[str]) -> dict[tuple[str, str], float]:
        return read(made.text(names, True))

    assert {("materializer_healthy", ""): 1} == found(())
    take("a", "b", "b")
    both = found(["a", "b"])
    assert (1, 2) == (both["materializer_refreshes_total", "a"], both["materializer_refreshes_total", "b"])
    assert 0 == both["materializer_dirty_buckets", "a"]

    assert {"", "a"} == {name for _, name in found(["a"])}
    take("b")
    assert 1 == found(["a", "b"])["materializer_refreshes_total", "b"]


def test_it_says_whether_the_process_is_well() -> None:
    """
    So one alarm tells a process that hangs from one that has nothing to do.
    """
    assert {("materializer_healthy", ""): 0} == read(scraped("/lake").text((), False))
