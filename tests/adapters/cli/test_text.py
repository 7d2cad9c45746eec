from __future__ import annotations

import io
import json

import pytest
from msgspec.structs import replace

from materializer.adapters.cli.output import TextOutput
from materializer.adapters.cli.render.apply import ApplyResult
from materializer.adapters.cli.render.new import LookResult
from materializer.adapters.cli.render.plan import PlanResult
from materializer.adapters.cli.render.policy import PolicyListResult
from materializer.adapters.cli.render.refresh import RefreshResult
from materializer.adapters.cli.render.result import DONE, FOUND, IDLE
from materializer.adapters.cli.render.show import ShowResult
from materializer.adapters.cli.render.status import StatusResult
from materializer.adapters.cli.render.verify import VerifyResult
from materializer.adapters.cli.words import spans, wrapped
from materializer.core.language.new_text import Answers
from materializer.core.language.suggest import ColumnFacts, SourceFacts
from materializer.core.policy.policies import Policy
from materializer.core.refresh.lateness import advice
from materializer.core.refresh.plan import Estimate, ReadCost
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import DefinitionError, StorageError
from materializer.services.definitions.starting import NewDefinition
from tests.adapters.cli import samples

ALL = {**samples.RESULTS, **samples.OTHERS, **{f"{k} idle": v for k, v in samples.IDLE.items()}}


def text_of(result, width: int = 100) -> str:
    return "\n".join(result.lines(width))


@pytest.mark.parametrize("kind", ALL)
def test_text_keeps_to_100_columns_and_cuts_nothing_off(kind):
    """
    Lines fit, without escape sequences and without an ellipsis.
    """
    shown = list(ALL[kind].lines(100))

    assert shown
    assert [line for line in shown if len(line) > 100 or line != line.rstrip()] == []
    assert not {"\x1b", "…"} & set("".join(shown))


@pytest.mark.parametrize(
    "fact",
    [
        "[the beginning, 2013-12-08T00:00:00Z)",
        "version 341",
        "dirty by it: 1 span",
        "6 spans: [2013-12-01T03:00:00Z, 2013-12-01T05:00:00Z)",
        "2 more up to 2013-12-06T05:00:00Z",
        "step 1: merge",
        "rows were only inserted since version 339",
        "not recompute",
        "would read 1,512,000 raw rows",
        "at most 2,400 rows, 310.0 kB in 2 files",
        "not merge",
        "rows were updated or deleted, not only inserted",
        "by the driver",
        "about 3; the first takes",
        "outside the window",
        "refresh 11 has not ended",
    ],
)
def test_a_plan_says_everything_it_decided(fact):
    """
    Each decision and each reason can be read, also across a line's end.
    """
    told = " ".join(text_of(PlanResult(samples.PREVIEW, is_why=True)).split())

    assert " ".join(fact.split()) in told


def test_only_the_chosen_strategy_is_explained_without_why() -> None:
    """
    The reason of the chosen strategy is always there, those against the others with ``--why``, in `plan` and `refresh`; JSON has both.
    """
    plans, refreshes = [], []
    for is_why in (False, True):
        plans.append(" ".join(text_of(PlanResult(samples.PREVIEW, is_why=is_why)).split()))
        out = io.StringIO()
        with TextOutput(out, io.StringIO()).watch("flights_hourly", samples.TS, is_long=False, is_why=is_why) as watch:
            watch.on_plan(samples.PLAN, None)
        refreshes.append(" ".join(out.getvalue().split()))

    against = "rows were updated or deleted, not only inserted"
    assert [False, True] == [against in text for text in plans] == [against in text for text in refreshes]
    assert all("rows changed" in text for text in (*plans, *refreshes))
    assert against in json.dumps(PlanResult(samples.PREVIEW).form())


def test_a_step_that_was_not_needed_is_no_news_in_a_refresh():
    """
    The short plan leaves out what is settled without reading.
    """
    out = io.StringIO()
    with TextOutput(out, io.StringIO()).watch("flights_hourly", samples.TS, is_long=False) as watch:
        watch.on_plan(samples.PLAN, None)
        watch.on_run(samples.RUN)

    assert "settle" not in out.getvalue()
    assert "read 2,416 rows, wrote 236 in 12 buckets, 4 Spark jobs, 5 commits, 2 files" in out.getvalue()


def test_a_backfill_without_a_terminal_writes_a_line_for_each_run():
    """
    Runs, rows, buckets and the time left stand on one line each, without carriage returns.
    """
    out = io.StringIO()
    with TextOutput(out, io.StringIO()).watch("flights_hourly", samples.TS, is_long=True) as watch:
        watch.on_plan(samples.PLAN, None)
        watch.on_run(samples.RUN)

    first, run = out.getvalue().splitlines()
    assert first == "flights_hourly: backfilling at source version 341"
    assert run == "  run 1/3: [the beginning, 2013-12-08T00:00:00Z), 2,416 rows, 12 buckets, 0.62 s, 1.24 s left"


@pytest.mark.parametrize(
    ("executor", "line"),
    [
        ("local", "  run 2/2 (not 3: the rest was estimated anew): "),
        ("", "  run 2/2 (not 3: Spark takes more rows in a run): "),
    ],
)
def test_another_number_of_runs_is_explained(executor: str, line: str) -> None:
    """
    Of a backfill that ends earlier than its first line said, the last line says how many were expected and why.
    """
    out = io.StringIO()
    with TextOutput(out, io.StringIO()).watch("flights_hourly", samples.TS, is_long=True) as watch:
        for left, by in ((2, "local"), (0, executor)):
            watch.on_run(replace(samples.RUN, runs_left=left, report=replace(samples.RUN.report, executor=by)))

    assert out.getvalue().splitlines()[1].startswith(line)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_a_backfill_on_a_terminal_draws_a_bar_on_standard_error():
    """
    The bar has rows, buckets and the time left, and leaves standard output alone.
    """
    out, err = Terminal(), Terminal()
    with TextOutput(out, err).watch("flights_hourly", samples.TS, is_long=True) as watch:
        watch.on_run(samples.RUN)

    assert out.getvalue() == ""
    assert "2,416 rows" in err.getvalue()
    assert "12 buckets" in err.getvalue()


def test_a_fresh_read_says_what_it_cost_and_what_it_was_to_cost():
    """
    After the rows comes what was measured, then what was planned; where nothing is dirty nothing was planned.
    """
    shown = samples.RESULTS["show"]
    clean = replace(shown.fresh, strategy="nothing", pieces=0, estimate=Estimate(), measured=ReadCost(0, 1, 0.05))

    assert [
        "as of source version 341: 2 dirty spans by merge, 236 source rows aggregated, 4 Spark jobs, 0.62 s",
        "planned in 0.12 s: at most 1,200 rows, 45.0 kB in 3 files",
    ] == text_of(shown).splitlines()[-2:]
    assert text_of(replace(shown, fresh=clean)).endswith(
        "as of source version 341: nothing is dirty, 1 Spark job, 50 ms"
    )


def test_rows_too_wide_for_the_terminal_are_shown_one_below_the_other():
    """
    A wide table becomes records; no value is lost.
    """
    wide = ShowResult("wide", ("bucket", "text"), (("b", "x" * 150), ("c", "y" * 150)))

    told = text_of(wide)
    assert "x" * 150 in told
    assert told.count("bucket") == 2
    assert told.startswith("one row below the other: 2 columns need ")


def test_the_slice_of_an_engine_is_not_shown():
    """
    It divides the work; JSON has it as before, and a bucket of that name is shown.
    """
    rows = ShowResult("windows", ("slice", "time", "v"), (("2024-03-01", "2024-03-01T05", 1),), has_slice=True)

    assert text_of(rows).split() == ["time", "v", "2024-03-01T05", "1"]
    assert ["slice", "time", "v"] == rows.form()["columns"]
    assert text_of(replace(rows, has_slice=False)).startswith("slice")


def test_epoch_milliseconds_of_a_source_are_shown_as_times():
    """
    `new` names the first and the last day of the time column; other integers are counted.
    """
    columns = tuple(
        ColumnFacts(name, "bigint", distinct=2, least=1_795_132_800_000, most=1_796_947_200_000)
        for name in ("at", "id")
    )
    answers = Answers("days", "events", "at", "ms", "1 day", (), ("count(*) AS n",))
    told = text_of(LookResult(NewDefinition(answers, "events", 1, SourceFacts(columns, 2, 2), (), "", "")))

    assert "2026-11-20 to 2026-12-11" in told
    assert "2 values" in told


def test_spans_are_never_broken_at_their_blank():
    """
    A span stays on one line when text around it is wrapped.
    """
    told = spans(SpanSet.of(*(Span(i * 10, i * 10 + 5) for i in range(4))), TimeType.BIGINT)

    assert all(line.count("[") == line.count(")") for line in wrapped(told, width=40))


def test_a_definition_error_names_every_place():
    """
    Each problem has file, line, column, code and hint, and the end says that nothing was written.
    """
    err = io.StringIO()
    TextOutput(io.StringIO(), err).fail(DefinitionError([samples.PROBLEM]))

    assert "sql/flights.sql:4:12: definition.unknown-column" in err.getvalue()
    assert "hint: the nearest is 'dep_delay'" in err.getvalue()
    assert "nothing was written (definition.invalid)" in err.getvalue()
    assert "\x1b" not in err.getvalue()


def test_a_command_of_a_hint_is_one_line():
    """
    The sentence before it is wrapped; the command is not, because it is copied, and a line break inside it would change it.
    """
    command = f"python -c '{'x = 1; ' * 20}'"
    err = io.StringIO()
    TextOutput(io.StringIO(), err, width=60).fail(
        StorageError("the disk is full", hint=f"{'make room ' * 9}by this:\n{command}")
    )
    lines = err.getvalue().splitlines()

    assert f"    {command}" in lines
    assert all(len(line) <= 60 for line in lines if "python" not in line)


def test_an_error_says_what_was_written_before_it():
    """
    What is written is said in the error's own words.
    """
    err = io.StringIO()
    TextOutput(io.StringIO(), err).fail(
        StorageError("the disk is full", hint="make room", wrote="the partials were written")
    )

    assert "the partials were written (storage.failed)" in err.getvalue()


@pytest.mark.parametrize("kind", samples.IDLE)
def test_idle_results_are_told_apart(kind):
    """
    What changes nothing counts as nothing to do, and what does something does not.
    """
    assert IDLE == samples.IDLE[kind].exit_status
    assert DONE == samples.RESULTS[kind].exit_status


def test_a_doctor_that_finds_an_error_ends_with_1():
    """
    A warning alone leaves the exit status at 0.
    """
    warned = samples.RESULTS["doctor"]
    error = replace(warned.findings[1], level="error")

    assert DONE == warned.exit_status
    assert FOUND == replace(warned, findings=(*warned.findings, error)).exit_status


def test_a_run_of_a_policy_says_which_and_when():
    """
    The policy and its now come before what the refresh did.
    """
    first, *_ = RefreshResult(samples.REFRESH, samples.TS, "history", "2013-12-08T00:00:00Z").lines(100)

    assert first == "flights_hourly: policy history at 2013-12-08T00:00:00Z"


@pytest.mark.parametrize(
    "fact",
    [
        "default, 1 week to 1 h ago, due 2013-12-08T01:00:00Z",
        "1 span: [2013-12-01T00:00:00Z, 2013-12-02T00:00:00Z): outside every policy",
        "broken: at most 2 h stale, and it is 24 h 00 min",
    ],
)
def test_a_status_says_what_no_policy_covers_and_whether_the_promise_is_kept(fact):
    """
    Policies, dirt outside every one of them, and the promise stand in the status of an aggregate.
    """
    told = " ".join(text_of(samples.RESULTS["status NAME"]).split())

    assert fact in told


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({}, "due 2013-12-08T01:00:00Z"),
        ({"is_due": True}, "due now"),
        ({"next_due": None}, "due never"),
        ({"last_now": None}, "last run never"),
        ({"window": None}, "window no whole bucket now"),
        ({"policy": Policy("old")}, "covers from none to none ago"),
        ({"policy": Policy("old")}, "schedule none; by hand, or when data arrives"),
    ],
)
def test_a_policy_says_what_it_does_and_when(changes, fact):
    """
    Each policy is told with its window, its schedule and when it is due.
    """
    assert fact in " ".join(text_of(PolicyListResult((replace(samples.POLICY, **changes),))).split())


def test_a_refresh_that_was_stopped_says_how_to_go_on():
    """
    With runs left the summary does not claim that the window is true.
    """
    report = samples.RefreshReport("x", "refreshed", samples.WINDOW, 341, (samples.RUN,), seconds=1.0)

    told = text_of(RefreshResult(report, samples.TS))
    assert "about 2 runs left" in told
    assert "true" not in told


def test_a_refresh_that_moved_the_frozen_bound_names_the_command_with_the_statement():
    """
    The bound moves with nearly each refresh, so the statement that deletes raw rows is printed for who asks: by `status`.
    """
    told = text_of(samples.RESULTS["refresh"])
    asked = list(StatusResult((samples.STATUS,), is_detailed=True).lines(60))

    assert "DELETE FROM" not in told
    moved = (
        "raw rows history is frozen below 2013-12-01T00:00:00Z now; 'materializer status flights_hourly' says whether"
    )
    assert moved in " ".join(told.split())
    assert "raw rows" not in text_of(samples.IDLE["refresh"])
    assert f"    {samples.STATUS.delete}" in asked  # on one line, however narrow the terminal


def test_an_apply_says_what_an_added_measure_copies():
    """
    Stored partials are copied and the output is written from them, and no row of the source is read; what cannot be read is
    not counted.
    """
    added = samples.OTHERS["apply measures started"]
    unread = ApplyResult((replace(added.changes[0], kept=None),))

    assert (
        "made from stored partials: 5,040 rows (1.2 MB in 3 files) to copy, and its output to write from them; no row of the "
        "source is read but what changed since the last refresh; what is published is refreshed and read meanwhile"
    ) in " ".join(text_of(added).split())
    assert "made from stored partials; no row of the source is read" in " ".join(text_of(unread).split())


CLEAN = replace(samples.STATUS.canaries, differed_n=0, differed=SpanSet())


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        (
            {},
            (
                "29 of 29 random published buckets equal since refresh 12 31 buckets about to be published sampled clean refresh 12 found a difference in 1 span: "
                "[2013-12-02T00:00:00Z, 2013-12-03T00:00:00Z)"
            ),
        ),
        (
            {"canaries": replace(CLEAN, clean=1_000, touched=0)},
            (
                "1,000 random published buckets sampled clean: at most 0.30% of all as they were then are wrong, with 95 % "
                "confidence lateness"
            ),
        ),
        (
            {"canaries": replace(CLEAN, clean=0, touched=1)},
            "no published bucket sampled clean yet: nothing is bounded 1 bucket about to be published sampled clean lateness",
        ),
        (
            {},
            (
                "lateness of 1,000 rows half were known within 1 second, 99 % within 37 hours this suggests start_offset 38 hours, "
                "end_offset 1 second, retention of the source's log and feed >= 24 hours last check"
            ),
        ),
        (
            {"advice": advice(samples.LATENESS, 86_400.0, None)},
            "this suggests start_offset 3 days, end_offset 1 second last check",
        ),
    ],
)
def test_a_status_says_what_canaries_bound_and_what_follows_from_how_late_rows_are(changes, fact):
    """
    Buckets sampled clean bound the share of wrong ones, those about to be published do not; how late rows were suggests
    windows, and a retention where a refresh had to wait.
    """
    told = text_of(StatusResult((replace(samples.STATUS, **changes),), is_detailed=True))

    assert fact in " ".join(told.split())


def test_a_status_without_canaries_and_advice_says_nothing_of_them():
    """
    Where no canaries are asked for, and before enough rows came, neither has a line.
    """
    told = text_of(StatusResult((replace(samples.STATUS, canaries=None, advice=None),), is_detailed=True))

    assert not {"canaries", "lateness", "suggests"} & set(told.split())


def test_a_status_says_where_the_last_check_looked():
    """
    The window of a check stands with its answer; a check of everything has none.
    """
    window = "version 12 in [2013-12-01T00:00:00Z, 2013-12-08T00:00:00Z): 1 expectation not met"
    everything = replace(samples.STATUS, last_check={**samples.STATUS.last_check, "window": None})

    assert window in " ".join(text_of(samples.RESULTS["status NAME"]).split())
    assert "version 12: 1 expectation not met" in " ".join(
        text_of(StatusResult((everything,), is_detailed=True)).split()
    )


def test_the_history_names_the_policy_of_each_refresh():
    """
    A refresh that ran for a policy says so, one that was asked for by hand does not.
    """
    told = " ".join(text_of(samples.RESULTS["history"]).split())

    assert 1 == told.count("policy history, [the beginning")


def test_a_plan_says_what_starting_spark_takes() -> None:
    """
    Where Spark has to be started first, the price says so; where it runs, or nothing needs it, there is no word of it.
    """
    told = [" ".join(text_of(PlanResult(replace(samples.PREVIEW, starting=s))).split()) for s in (3.5, 0.0)]

    assert ["starting Spark first takes about 3.50 s" in text for text in told] == [True, False]


def test_changes_that_are_built_are_shown_before_the_builds() -> None:
    """
    Once: afterwards the builds alone are. No change advises to build what is being built; the document has both.
    """
    change = replace(samples.RESULTS["apply"].changes[0], name="bars", kind="data", next="started")
    before = ApplyResult((change,), building=("bars",))
    after = replace(before, is_announced=True)

    assert "bars: changed in its data" in text_of(before)
    assert "materializer build bars" not in text_of(before)
    assert "bars" not in text_of(after)
    assert ["bars"] == [c["name"] for c in after.form()["changes"]]


def test_verify_names_columns_of_another_type():
    """
    Beside rows that differ, and where all are equal: that is not equal either.
    """
    types = (("flights", "int", "bigint"),)
    alone = replace(samples.EQUAL, types=types)
    told = [" ".join(text_of(VerifyResult(r, samples.TS)).split()) for r in (samples.EQUAL, alone, samples.VERIFIED)]

    assert not alone.is_equal
    assert "types" not in told[0]
    assert "336,776 rows, but for the types of columns, 4.25 s" in told[1]
    assert "types of columns differ from plain Spark" in str(alone)
    assert all("types flights is int, and bigint by plain Spark" in text for text in told[1:])
