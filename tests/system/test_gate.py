"""The gate: expectations that are checked before anything is published."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.core.time.spans import Span
from materializer.errors import CanaryError, DefinitionError, MaterializerError, QualityGateError
from materializer.services.quality.gate import summary
from tests.system.builders import DAY, MEASURES, Site, in_both_lanes, spark_is_slow
from tests.system.lake import Death, Died, dying, micros

TRADES = [("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 3), ("02:10", "A", 4)]
AT_MOST_10 = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "total", "max_value": 10}}


def gated(
    site: Site, *expectations: dict[str, Any], source: Any = (), measures: Any = MEASURES, **properties: str
) -> None:
    """Define the hourly aggregate with suites and refresh it over four good rows."""
    folder = site.config.expectations
    folder.mkdir()
    for name, suite in (("hourly", expectations), ("hourly.source", source)):
        if suite:
            (folder / f"{name}.json").write_text(json.dumps({"name": name, "expectations": list(suite)}))
    site.table().trade(*TRADES)
    site.hourly(measures=measures, properties={f"quality.{name}": value for name, value in properties.items()})
    site.expect_refresh()


def failing(site: Site) -> list[dict[str, Any]]:
    """Return the failing rows that were kept, each with its row as an object."""
    rows = DeltaTable(str(site.lake.root / "hourly" / "failing")).to_pyarrow_table().to_pylist()
    return [r | {"row": json.loads(r["row"])} for r in rows]


WIDE = "CAST(max(price) AS DECIMAL(38, 37))"
"""Two values of 9 have a sum that no decimal of Spark holds."""
OF_EACH_KIND = [
    ("expect_compound_columns_to_be_unique", {"column_list": ["bucket", "sym"]}),
    ("expect_column_values_to_be_unique", {"column": "total"}),
    ("expect_column_values_to_not_be_null", {"column": "sym"}),
    ("expect_column_values_to_be_between", {"column": "total", "max_value": 10}),
    ("expect_column_values_to_be_in_set", {"column": "sym", "value_set": ["A", "B"]}),
    ("expect_column_values_to_match_regex", {"column": "sym", "regex": "^[AB]$"}),
    ("expect_column_value_lengths_to_equal", {"column": "sym", "value": 1}),
    ("expect_column_min_to_be_between", {"column": "bucket", "min_value": "2024-03-01"}),
    ("expect_column_max_to_be_between", {"column": "top", "max_value": 10}),
    ("expect_column_mean_to_be_between", {"column": "total", "max_value": 9}),
    ("expect_column_sum_to_be_between", {"column": "total", "min_value": 1, "max_value": 20}),
    ("expect_column_stdev_to_be_between", {"column": "total", "max_value": 9}),
    ("expect_table_row_count_to_be_between", {"min_value": 2, "max_value": 4}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "sym", "min_value": 1}),
]


@pytest.mark.of_spark("counts the jobs of Spark")
def test_a_gate_asks_on_the_way_and_answers_as_a_job_of_its_own(site):
    """
    Where rows are fetched a gate that is met takes no Spark job; its verdict, met or not, is the one of a check, which asks
    the published table.
    """
    gated(site, *({"type": t, "kwargs": k} for t, k in OF_EACH_KIND), checks="true")
    site.hourly("plain")
    site.expect_refresh("plain")
    jobs = {name: site.lake.refresh(name, force=True).runs[0].report.jobs for name in ("plain", "hourly")}
    met, checked = site.lake.history("hourly")[0].verdict, summary(site.lake.check("hourly").verdict)
    site.tables["trades"].trade(("00:20", None, 2), ("00:20", "CC", 50), ("01:20", "B", 2), ("02:20", "B", 1))
    site.lake.refresh("hourly", force=True, publish_anyway="it shows what fails")
    failed = site.lake.history("hourly")[0].verdict["output"]

    assert jobs["plain"] == jobs["hourly"]
    assert {"suite": "hourly", "passed": 17, "engines": {"compiled": 17}, "failed": []} == met["output"]
    assert met["output"]["passed"] - 1 == checked["passed"], "only the refresh knows how many rows there were"
    again = summary(site.lake.check("hourly").verdict)
    assert 11 == len(failed["failed"])
    assert again["failed"] == failed["failed"]
    site.expect_true()


@pytest.mark.parametrize(
    ("type_", "kwargs"),
    [
        ("expect_column_values_to_match_regex", {"column": "sym", "regex": "(?<name"}),
        ("expect_column_sum_to_be_between", {"column": "wide", "max_value": 1}),
    ],
)
def test_a_gate_that_cannot_look_says_so(site, type_, kwargs):
    """
    What fails in an expectation, with its first row or when all rows are summed, is the gate's error and nothing is published.
    """
    gated(site, measures={"n": "count(*)", "wide": WIDE})
    (site.config.expectations / "hourly.json").write_text(
        json.dumps({"name": "hourly", "expectations": [{"type": type_, "kwargs": kwargs}]})
    )
    site.hourly(measures={"n": "count(*)", "wide": WIDE})
    site.tables["trades"].trade(("00:20", "A", 9), ("00:20", "B", 9))

    with pytest.raises(MaterializerError, match="auditing"):
        site.lake.refresh("hourly")

    assert "aborted" == site.lake.history("hourly")[0].outcome


@in_both_lanes
def test_what_fails_is_not_published_and_stays_dirty(site):
    """
    A critical failure publishes nothing of the run; once the source is corrected everything is published.
    """
    gated(site, AT_MOST_10)
    before = site.published("hourly")
    site.tables["trades"].trade(("01:20", "A", 50), ("02:20", "B", 1))

    with pytest.raises(QualityGateError) as failed:
        site.lake.refresh("hourly")

    assert "fails for 1 of 3 rows" in failed.value.message
    assert "expect_column_values_to_be_between of total" in failed.value.message
    assert "2024-03-01T01:00:00Z" in failed.value.message
    assert "nothing was published; the buckets stay dirty" == failed.value.wrote
    assert before == site.published("hourly")
    assert [("A", 53)] == [(r["row"]["sym"], r["row"]["total"]) for r in failing(site)]
    assert "aborted" == site.lake.history("hourly")[0].outcome
    assert 1 == len(site.lake.history("hourly")[0].verdict["output"]["failed"])
    assert site.lake.status("hourly")[0].dirty

    site.tables["trades"].update("price = 50", price=5)
    site.expect_refresh()
    site.expect_true()


@spark_is_slow
def test_only_the_failing_buckets_are_held_back(site):
    """
    The other buckets are published; what is held keeps its old rows, is dirty, and comes with the correction.
    """
    gated(site, AT_MOST_10, on_failure="buckets")
    site.tables["trades"].trade(*[("01:40", "A", 0)] * 50)
    site.expect_refresh()
    site.tables["trades"].trade(("01:20", "A", 50), ("02:20", "B", 1))
    report = site.lake.refresh("hourly")

    published = {(row[0].hour, row[1]): row[3] for row in site.published("hourly")}
    assert {(0, "A"): 1, (0, "B"): 2, (1, "A"): 3, (2, "A"): 4, (2, "B"): 1} == published
    assert [1] == [span.start // 3_600_000_000 % 24 for span in site.lake.status("hourly")[0].dirty]
    assert report.left == site.lake.status("hourly")[0].dirty
    assert 3_600_000_000 == sum(end - start for start, end in site.lake.history("hourly")[0].verdict["held"])

    site.tables["trades"].trade(("01:30", "A", -45))
    site.expect_refresh(strategy="merge")
    site.expect_true()


@spark_is_slow
def test_when_every_bucket_fails_nothing_is_published(site):
    """
    Holding all buckets back is the same as refusing the run.
    """
    gated(site, AT_MOST_10, on_failure="buckets")
    site.tables["trades"].trade(("01:20", "A", 50))

    with pytest.raises(QualityGateError):
        site.lake.refresh("hourly")

    assert 3 == dict.fromkeys(row[3] for row in site.published("hourly") if row[0].hour == 1).popitem()[0]


def test_warnings_are_published_and_recorded(site):
    """
    A failure that is not critical stands in the history.
    """
    gated(site, AT_MOST_10 | {"severity": "warning"})
    site.tables["trades"].trade(("01:20", "A", 50))
    site.expect_refresh()

    site.expect_true()
    assert ["warning"] == [f["severity"] for f in site.lake.history("hourly")[0].verdict["output"]["failed"]]


def test_publishing_anyway_needs_a_reason_and_records_it(site):
    """
    What fails is published, and the history says why.
    """
    gated(site, AT_MOST_10)
    site.tables["trades"].trade(("01:20", "A", 50))
    site.lake.refresh("hourly", publish_anyway="the exchange confirmed it")

    site.expect_true()
    verdict = site.lake.history("hourly")[0].verdict
    assert {"reason": "the exchange confirmed it"} == verdict["published_anyway"]
    assert 1 == len(verdict["output"]["failed"])


def test_what_is_published_can_be_checked(site):
    """
    A check sees what was published anyway, in a window of its own, and the journal remembers it.
    """
    gated(site, AT_MOST_10, checks="true")
    site.tables["trades"].trade(("01:20", "A", 50))
    site.lake.refresh("hourly", publish_anyway="the exchange confirmed it")
    found = site.lake.check("hourly")
    assert site.lake.status("hourly")[0].last_check["window"] is None
    before = site.lake.check("hourly", "2024-02-29T23:40:00Z", "2024-03-01T01:20:00Z")

    assert not found.verdict.is_publishable
    assert [("A", 53)] == [(row.values["sym"], row.values["total"]) for row in found.rows]
    assert before.verdict.is_publishable
    assert [1, 0] == [len(check["failed"]) for check in site.lake.journal.view().named("hourly").checks]
    window = Span.from_json(site.lake.status("hourly")[0].last_check["window"])
    assert before.window == window == Span(micros(DAY), micros(DAY + timedelta(hours=1))), "whole buckets"


def test_source_rows_are_checked_too(site):
    """
    A suite of the source sees the rows that a refresh aggregates, columns of no measure included.
    """
    of_note = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "note", "value_set": [""]}}
    gated(site, source=[of_note], on_failure="buckets")
    trades = site.tables["trades"]
    trades.write([{"ts": r, "sym": "A", "price": 1, "note": n} for r, n in _noted()])
    site.lake.refresh("hourly")

    assert [1] == [span.start // 3_600_000_000 % 24 for span in site.lake.status("hourly")[0].dirty]
    assert ["bad"] == [r["row"]["note"] for r in failing(site)]


def test_days_of_a_zone_are_held_back_for_their_source_rows(site):
    """
    A bad source row holds back the local day that it lies in, whatever the hour.
    """
    of_price = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "price", "max_value": 10}}
    site.config.expectations.mkdir()
    (site.config.expectations / "daily.source.json").write_text(json.dumps({"name": "d", "expectations": [of_price]}))
    days = [datetime(2024, 3, day, 12, tzinfo=UTC) for day in (9, 10, 11)]
    site.table().trade(*((day, "A", 1) for day in days))
    parts = {"time": "ts", "width": "1 day", "timezone": "America/New_York", "measures": {"total": "sum(price)"}}
    site.lake.define("daily", "trades", **parts, properties={"quality.on_failure": "buckets"})
    site.expect_refresh("daily")
    night = datetime(2024, 3, 11, 3, 30, tzinfo=UTC)  # still the tenth, which has 23 hours there
    site.tables["trades"].trade(*((night + timedelta(seconds=i), "A", 50) for i in range(9)), (days[2], "A", 1))
    site.lake.refresh("daily")

    assert [1, 1, 2] == [total for _, total in site.published("daily")]
    [held] = site.lake.status("daily")[0].held
    assert Span(micros(datetime(2024, 3, 10, 5, tzinfo=UTC)), micros(datetime(2024, 3, 11, 4, tzinfo=UTC))) == held


def _noted() -> list[tuple[Any, str]]:
    from tests.system.builders import at

    return [(at("01:20"), "bad"), (at("02:20"), "")]


def tell_lies(site):
    """Change kept partials by hand, and insert rows that would be merged into them."""
    site.tables["trades"].trade(*[("01:40", "A", 0)] * 50)
    site.expect_refresh()
    partials = next((site.lake.root / "hourly" / "partials").iterdir())
    column = next(f.name for f in DeltaTable(str(partials)).schema().fields if f.name.startswith("p_"))
    DeltaTable(str(partials)).update({column: f"{column} + 1"}, predicate="slice >= '2024-03-01T01:00:00Z'")
    site.tables["trades"].trade(*[("01:20", "A", 1)] * 2)


@pytest.mark.follows_hint("quality.canary")
def test_canaries_find_partials_that_lie(site):
    """
    Somebody changed kept partials; a merge into them is compared with the raw rows, and not published.
    """
    gated(site, checks="true", canaries="3")
    tell_lies(site)

    with pytest.raises(CanaryError) as failed:
        site.lake.refresh("hourly")

    assert "2024-03-01T01:00:00Z" in failed.value.message
    assert "sym=A differs (n: found 54, expected 53" in failed.value.message
    [evidence] = [r["row"] for r in failing(site) if r["expectation"] == "canaries_touched"]
    assert (54, 53) == (evidence["found"]["n"], evidence["expected"]["n"])
    [status] = site.lake.status("hourly")
    assert 0 == status.canaries.clean
    assert status.canaries.differed == status.dirty
    site.expect_refresh(strategy="recompute")
    site.expect_true()
    assert site.lake.status("hourly")[0].canaries.clean


def test_canaries_find_what_was_published_and_changed(site):
    """
    Rows of the output that somebody changed: the bucket is named, dirty though no change touched it, and mended.
    """
    gated(site, canaries="8")
    output = DeltaTable(str(site.lake.root / "hourly" / "output"))
    output.update({"total": "total + 1"}, predicate="bucket = '2024-03-01T00:00:00Z' AND sym = 'B'")
    site.tables["trades"].trade(("02:20", "B", 1))

    with pytest.raises(CanaryError, match=r"sym=B differs \(total: found 3, expected 2\) \(buckets \[2024-03-01T00"):
        site.lake.refresh("hourly")

    assert [0, 2] == [span.start // 3_600_000_000 % 24 for span in site.lake.status("hourly")[0].dirty]
    site.expect_refresh()
    site.expect_true()


def test_a_difference_that_is_published_anyway_stays_dirty(site):
    """
    Whoever publishes over a difference gets it published and recorded; the bucket is dirty, and the next refresh mends it.
    """
    gated(site, canaries="3")
    tell_lies(site)
    site.lake.refresh("hourly", publish_anyway="the desk waits")

    [done] = site.lake.history("hourly")[:1]
    assert ("done", {"reason": "the desk waits"}) == (done.outcome, done.verdict["published_anyway"])
    assert 54 in [row[2] for row in site.published("hourly")]
    [status] = site.lake.status("hourly")
    assert [1] == [span.start // 3_600_000_000 % 24 for span in status.dirty]
    site.expect_refresh(strategy="recompute")
    site.expect_true()


def test_canaries_look_at_every_nth_refresh(site):
    """
    Only at those whose number can be divided; what was found clean bounds how much is wrong.
    """
    gated(site, **{"canaries": "2", "canaries.every": "2"})
    seen = []
    for minute in (10, 11):
        site.tables["trades"].trade((f"02:{minute}", "B", 1))
        site.lake.refresh("hourly")
        found = site.lake.status("hourly")[0].canaries
        seen.append((site.lake.history("hourly")[0].n, found.n))
    assert [(2, 2), (3, 2)] == seen
    assert found.clean in range(1, 4)
    assert found.at_most is None, "a bound of 60 % says nothing"
    assert replace(found, clean=100).at_most == pytest.approx(1 - 0.05 ** (1 / 100))
    assert {} == site.lake.history("hourly")[0].verdict, "and the others have no gate at all"


@pytest.mark.parametrize(
    "step", ["fence", pytest.param("audit", marks=pytest.mark.slow), pytest.param("aborted", marks=pytest.mark.slow)]
)
def test_a_death_after_a_difference_forgets_nothing(site, step):
    """
    The verdict and the dirt are one commit: a refresh that dies before it is tried again, one that dies later recomputes.
    """
    gated(site, canaries="8")
    output = DeltaTable(str(site.lake.root / "hourly" / "output"))
    output.update({"total": "total + 1"}, predicate="bucket = '2024-03-01T00:00:00Z' AND sym = 'B'")
    site.tables["trades"].trade(("02:20", "B", 1))
    with dying(Death(step, 1, is_kill=False)) as on_checkpoint, pytest.raises(Died):
        site.opened_with(on_checkpoint).refresh("hourly")
    if step == "audit":
        with pytest.raises(CanaryError):
            site.lake.refresh("hourly")

    site.expect_refresh()
    site.expect_true()


@pytest.mark.parametrize("step", ["audit", "write", "wrote_partials", "wrote_output", "done"])
def test_a_death_around_the_gate_publishes_nothing_unchecked(site, step):
    """
    Wherever a refresh dies after its gate, the next one ends with good buckets published and the bad one held.
    """
    gated(site, AT_MOST_10, on_failure="buckets")
    site.tables["trades"].trade(("01:20", "A", 50), ("02:20", "B", 1))
    with dying(Death(step, 1, is_kill=False)) as on_checkpoint, pytest.raises(Died):
        site.opened_with(on_checkpoint).refresh("hourly")
    with suppress(QualityGateError):  # where the good bucket is published already, only the bad one is left to try
        site.lake.refresh("hourly")

    published = {(row[0].hour, row[1]): row[3] for row in site.published("hourly")}
    assert {(0, "A"): 1, (0, "B"): 2, (1, "A"): 3, (2, "A"): 4, (2, "B"): 1} == published
    site.tables["trades"].trade(("01:30", "A", -45))
    site.lake.refresh("hourly")
    site.expect_true()


def test_a_suite_is_checked_when_it_is_applied(site):
    """
    Unknown expectations, those that Spark does not have, unknown columns and parameters: all at once, nothing written.
    """
    wrong = [
        {"type": "expect_column_values_to_be_lovely", "kwargs": {"column": "total"}},
        {"type": "expect_column_values_to_be_increasing", "kwargs": {"column": "total"}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "totl"}},
        AT_MOST_10 | {"kwargs": {"column": "total", "max_value": {"$PARAMETER": "most"}}},
    ]
    with pytest.raises(DefinitionError) as refused:
        gated(site, *wrong)

    text = refused.value.message
    assert all(word in text for word in ("be_lovely", "be_increasing", "totl"))
    assert [] == site.lake.status()


def test_a_lost_file_does_not_open_the_gate(site):
    """
    A refresh uses the suite that was applied; only 'none', or applying without it, takes it away.
    """
    gated(site, AT_MOST_10)
    (site.config.expectations / "hourly.json").unlink()
    site.tables["trades"].trade(("01:20", "A", 50))
    with pytest.raises(QualityGateError):
        site.lake.refresh("hourly")
    changes = site.lake.define(
        "hourly",
        "trades",
        time="ts",
        width="1 hour",
        keys=["sym"],
        measures={"n": "count(*)", "total": "sum(price)", "top": "max(price)"},
    )

    assert "metadata" == changes.kind
    assert changes.differences[0].startswith("- suite of the output")
    site.expect_refresh()


def test_engines_are_held_back_whole(site):
    """
    An engine's result reaches beyond a bucket, so holding single buckets back is refused when it is defined.
    """
    site.table().trade(*TRADES)
    with pytest.raises(DefinitionError, match=r"quality\.on_failure"):
        site.lake.define(
            "sessions",
            "trades",
            engine="session_window",
            time="ts",
            session_gap="5 minutes",
            measures={"total": "sum(price)"},
            properties={"quality.on_failure": "buckets"},
        )


def test_what_a_gate_refuses_is_stale(site):
    """
    New buckets that were computed but not published count for the promise, and so does an aggregate that never published;
    a refresh that moved the threshold and then ended without publishing has shown nothing.
    """

    def kept(now: str) -> bool | None:
        (status,) = site.lake.status("hourly", now=now)
        return status.freshness.is_kept

    gated(site, AT_MOST_10)
    site.lake.add_policy("hourly", start_offset="none", max_staleness="3 hours")
    assert kept("2034-01-01") is True
    site.tables["trades"].trade(("05:20", "A", 50))
    with pytest.raises(QualityGateError):
        site.lake.refresh("hourly")

    assert kept("2024-03-01T05:30:00Z") is True
    assert kept("2024-03-01T09:00:00Z") is False
    site.tables["trades"].update("price = 50", price=5)
    site.expect_refresh()
    assert kept("2034-01-01") is True
