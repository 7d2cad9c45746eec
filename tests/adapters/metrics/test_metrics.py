"""Metrics of real refreshes: in files for node_exporter, and by OTLP to a server on this machine."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from materializer.adapters.metrics.catalogue import DIRTY, METRICS, REFRESHES, SECONDS_TAKEN, STALENESS, Sample
from materializer.config import Config, MetricsConfig
from materializer.errors import QualityGateError
from materializer.wiring import listeners
from tests.servers.receiver import receiving
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000


def measured(root: Path, **settings) -> LocalLake:
    """Return a lake with one aggregate of hours, whose activities are measured."""
    lake = LocalLake(root)
    config = Config(metrics=MetricsConfig(**settings), listener_seconds=settings.pop("seconds", 5))
    lake.listen(listeners(config, lake.opened.journal))
    lake.apply(view("hourly", each("1 hour")))
    return lake


def series(folder: Path) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of everything in the files of a folder, as Prometheus reads them."""
    parser = pytest.importorskip("prometheus_client.parser", reason="needs the extra `metrics`")
    for path in folder.glob("*.prom"):
        for family in parser.text_string_to_metric_families(path.read_text(encoding="utf-8")):
            for sample in family.samples:
                yield sample.name, dict(sample.labels), sample.value


def value(folder: Path, name: str, **labels: str) -> float | None:
    """Return the one value with these labels."""
    found = [v for n, own, v in series(folder) if n == name and labels.items() <= own.items()]
    assert len(found) <= 1, found
    return found[0] if found else None


def test_files_say_what_refreshes_did(tmp_path: Path) -> None:
    """
    How many there were, of which kind, what they read and wrote, and that nothing is dirty.
    """
    pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")
    (tmp_path / "prom").mkdir()
    lake = measured(tmp_path, textfile=tmp_path / "prom")
    lake.add(*((h * HOUR, h) for h in range(4)))
    lake.opened.refresh("hourly")
    lake.add((HOUR, 1))
    lake.opened.refresh("hourly")
    lake.opened.refresh("hourly")
    folder = tmp_path / "prom"

    assert 1 == value(
        folder, "materializer_refreshes_total", strategy="rebuild+settle", executor="local", outcome="refreshed"
    )
    assert 1 == value(folder, "materializer_refreshes_total", outcome="up-to-date", strategy="nothing")
    assert 3 == sum(v for n, _, v in series(folder) if n == "materializer_refreshes_total")
    assert 5 <= (value(folder, "materializer_rows_read_total", kind="refresh") or 0)
    assert 5 == value(folder, "materializer_rows_written_total", kind="refresh")
    assert 0 == value(folder, "materializer_dirty_buckets", aggregate="hourly", lake=str(tmp_path))
    assert 2 == value(folder, "materializer_activity_seconds_count", outcome="refreshed")
    assert 2 == value(folder, "materializer_activity_seconds_bucket", outcome="refreshed", le="+Inf")
    assert abs(time.time() - (value(folder, "materializer_last_success_timestamp_seconds", kind="refresh") or 0)) < 60


def test_what_failed_is_counted(tmp_path: Path) -> None:
    """
    With the time of the last success left as it was.
    """
    pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")
    (tmp_path / "prom").mkdir()
    lake = measured(tmp_path, textfile=tmp_path / "prom")
    lake.add((0, 1))
    lake.opened.refresh("hourly")
    before = value(tmp_path / "prom", "materializer_last_success_timestamp_seconds", kind="refresh")

    def refuse(*_: object) -> None:
        raise QualityGateError("refused")

    lake.add((0, 1))
    with pytest.raises(QualityGateError):
        lake.opened.refresh("hourly", on_plan=refuse)

    assert 1 == value(tmp_path / "prom", "materializer_refreshes_total", outcome="failed")
    assert before == value(tmp_path / "prom", "materializer_last_success_timestamp_seconds", kind="refresh")


def test_a_broken_promise_is_seen(tmp_path: Path) -> None:
    """
    An aggregate whose dirt is older than it promises; one without a promise says nothing of it.
    """
    pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")
    (tmp_path / "prom").mkdir()
    lake = measured(tmp_path, textfile=tmp_path / "prom")
    promised = view("promised", each("1 hour")).replace(
        "\nAS", " TBLPROPERTIES ('refresh.max_staleness' = '1 day')\nAS"
    )
    lake.apply(promised)
    lake.add(*((h * HOUR, h) for h in range(4)))
    for name in ("hourly", "promised"):
        lake.opened.refresh(name)
        lake.opened.invalidate(name, "1970-01-01T01:00:00Z", "1970-01-01T03:00:00Z")
        lake.opened.refresh(name, "1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z")
    folder = tmp_path / "prom"

    assert 1 == value(folder, "materializer_dirty_buckets", aggregate="promised")
    assert 86_400 == value(folder, "materializer_promised_staleness_seconds", aggregate="promised")
    assert 0 == value(folder, "materializer_promise_kept", aggregate="promised")
    assert 86_400 < (value(folder, "materializer_staleness_seconds", aggregate="promised") or 0)
    assert value(folder, "materializer_promise_kept", aggregate="hourly") is None


def _take(folder: str, times: int, together: Barrier) -> None:
    from materializer.adapters.metrics.textfile import Textfile

    labels = {"lake": "/lake", "aggregate": "a", "kind": "refresh", "outcome": "done"}
    together.wait(60)
    for _ in range(times):
        Textfile(Path(folder)).take("/lake", "a", [Sample(SECONDS_TAKEN, labels, 0.2)])


def test_processes_continue_one_file(tmp_path: Path) -> None:
    """
    Also at the same time: nothing that one of them counted is lost.
    """
    pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    processes = [context.Process(target=_take, args=(str(tmp_path), 100, together)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert 200 == value(tmp_path, "materializer_activity_seconds_count")
    assert 200 == value(tmp_path, "materializer_activity_seconds_bucket", le="0.25")
    assert 0 == value(tmp_path, "materializer_activity_seconds_bucket", le="0.1")
    assert 40 == pytest.approx(value(tmp_path, "materializer_activity_seconds_sum"))


def test_labels_may_hold_anything(tmp_path: Path) -> None:
    """
    Quotes, backslashes and line ends come back as they were, and are continued.
    """
    textfile = pytest.importorskip("materializer.adapters.metrics.textfile", reason="needs the extra `metrics`")
    labels = {"lake": 'C:\\la"ke\n', "aggregate": "a", "kind": "k", "outcome": "o", "strategy": "s", "executor": "e"}
    for _ in range(2):
        textfile.Textfile(tmp_path).take("x", "a", [Sample(REFRESHES, labels, 1)])

    assert [("materializer_refreshes_total", labels, 2.0)] == list(series(tmp_path))


def test_a_folder_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    """
    And the refresh is done.
    """
    pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")
    lake = measured(tmp_path, textfile=tmp_path / "nowhere")
    lake.add((0, 1))
    report = lake.opened.refresh("hourly")

    assert "refreshed" == report.outcome
    assert ["the textfile of metrics"] == [w.split(" was not notified")[0] for w in report.warnings]


def received(body: bytes) -> dict[str, list]:
    """Return the data points of a request by the names of the metrics."""
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    request = service.ExportMetricsServiceRequest.FromString(body)
    found: dict[str, list] = {}
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                data = getattr(metric, metric.WhichOneof("data"))
                found[metric.name] = list(data.data_points)
    return found


def test_a_collector_gets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One request for each activity, and each has only what was counted since the last one.
    """
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra `metrics`")
    with receiving() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        lake = measured(tmp_path, otlp=True)
        for day in range(2):
            lake.add((day * 24 * HOUR, 1))
            assert () == lake.opened.refresh("hourly").warnings

    assert ["/v1/metrics"] * 2 == server.paths
    for body in server.bodies:
        points = received(body)["materializer.refreshes"]
        assert [1] == [p.as_int or p.as_double for p in points if p.as_int or p.as_double]
    first = received(server.bodies[0])
    assert {m.name.replace("materializer_", "materializer.", 1) for m in METRICS} >= set(first)
    assert {"hourly"} == {
        a.value.string_value for p in first["materializer.dirty_buckets"] for a in p.attributes if a.key == "aggregate"
    }


@pytest.mark.parametrize(("status", "delay"), [(503, 0.0), (200, 30.0)], ids=["refuses", "hangs"])
def test_a_broken_collector_is_waited_for_once(tmp_path: Path, status: int, delay: float) -> None:
    """
    At most as long as the settings say, and each refresh is done.
    """
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra `metrics`")
    with receiving(status=status, delay=delay) as server:
        lake = LocalLake(tmp_path)
        config = Config(metrics=MetricsConfig(endpoint=f"{server.url}/v1/metrics"), listener_seconds=1)
        lake.listen(listeners(config, lake.opened.journal))
        lake.apply(view("hourly", each("1 hour")))
        began = time.monotonic()
        warnings = []
        for hour in range(3):
            lake.add((hour * HOUR, 1))
            report = lake.opened.refresh("hourly")
            assert "refreshed" == report.outcome
            warnings += report.warnings
        took = time.monotonic() - began
        server.delay = 0

    assert ["OTLP of metrics"] == [w.split(" was not notified")[0] for w in warnings]
    assert took < 6


def test_a_gauge_that_is_not_known_is_absent(tmp_path: Path) -> None:
    """
    The value of the last time does not stay.
    """
    textfile = pytest.importorskip("materializer.adapters.metrics.textfile", reason="needs the extra `metrics`")
    labels = {"lake": "/lake", "aggregate": "a"}
    file = textfile.Textfile(tmp_path)
    file.take("/lake", "a", [Sample(STALENESS, labels, 7.0), Sample(DIRTY, labels, 2.0)])
    file.take("/lake", "a", [Sample(STALENESS, labels, None), Sample(DIRTY, labels, 3.0)])

    assert [("materializer_dirty_buckets", labels, 3.0)] == list(series(tmp_path))
