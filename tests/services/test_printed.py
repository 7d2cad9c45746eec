"""What Python and a notebook print of the values that the API returns: times, and no raw integers."""

from __future__ import annotations

import pickle
import re
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, Final, cast

from materializer.adapters.cli.render.diff import DiffResult
from materializer.core.printed import PrintedRows, PrintedSpan
from materializer.core.refresh.plan import Estimate
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.instants import Epoch
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import RetryableError
from materializer.services.quality.verify import Difference, VerifyReport
from materializer.services.refresh.fresh import FreshView
from materializer.services.schedule.following import Failed
from tests.adapters.cli import samples
from tests.services.no_spark import LocalLake, each, view

FIRST: Final = int(datetime(2026, 8, 1, tzinfo=UTC).timestamp()) * 1_000_000
HOUR: Final = 3_600_000_000
RAW: Final = re.compile(r"\d{13,}|\d{1,3}(,\d{3}){4,}|Span|NEG_INF| at 0x")
"""An instant as a number, with or without separators, and names of our classes."""
DIFF: Final = cast("DiffResult", samples.RESULTS["diff"]).report
SAMPLES: Final = {
    "plan": samples.PREVIEW,
    "new": samples.NEW,
    "column": samples.DEPARTED,
    "proposal": samples.PROPOSAL,
    "nothing to do": samples.IDLE_PREVIEW,
    "run": samples.RUN,
    "refresh": samples.REFRESH,
    "status": samples.STATUS,
    "aborted": samples.ABORTED,
    "policy": samples.POLICY,
    "switch": samples.SWITCH,
    "build": samples.HALF_BUILT,
    "lateness": samples.SOURCE,
    "expire": samples.EXPIRY,
    "thaw": samples.THAW,
    "check": samples.CHECKED,
    "verify": samples.VERIFIED,
    "restore": samples.RESTORED,
    "repair": samples.REPAIRED,
    "maintain": samples.MAINTAIN,
    "diff": DIFF,
    "side": DIFF.here,
    "view": FreshView("global_temp.hourly", 3, SpanSet.of(EVERYTHING), "recompute", Estimate(1, 2, 3), 0.5),
    "failed": Failed("hourly", RetryableError("the store did not answer", hint="wait"), 5.0),
}
"""What needs Spark, another lake or a failure."""


def printed(lake: LocalLake) -> dict[str, Any]:
    """Return a value of each kind, as a lake without Spark gives it."""
    opened = lake.opened
    lake.add((FIRST, 1), (FIRST + HOUR, 2))
    policy = (
        "CREATE MATERIALIZED VIEW {}\nTBLPROPERTIES ('refresh.end_offset' = '1 hour', 'refresh.schedule' = '* * * * *')"
    )
    changes = lake.apply(
        *(
            view(n, each("1 hour")).replace(f"CREATE MATERIALIZED VIEW {n}", policy.format(n))
            for n in ("hourly", "other")
        )
    )
    found: dict[str, Any] = {"apply": changes[0], "plan": opened.plan("hourly")}
    found["refresh"] = opened.refresh("hourly")
    lake.add((FIRST, 5))
    found["plan of late rows"] = opened.plan("hourly")
    found["part"] = opened.refresh("hourly", start="2026-08-01T01:00:00Z")
    stop, steps = Event(), []
    for step in opened.follow("other", every=0.0, stop=stop):
        steps.append(step)
        stop.set()
    found |= {"run": found["refresh"].runs[0], "followed": steps[0], "policy run": opened.run_policy("hourly")}
    found |= {"fresh": opened.fresh("hourly"), "fetched": opened.fresh("hourly").fetch()}
    found |= {"rows": opened.show("hourly"), "dirty": opened.invalidate("other")}
    found |= {"history": opened.history("hourly"), "past refresh": opened.history("hourly")[0]}
    found |= {"policies": opened.policies(), "policy": opened.policies("hourly")[0]}
    found |= {"all": opened.status(), "status": opened.status("hourly")[0], "lake": opened}
    found |= {"doctor": opened.doctor(), "finding": opened.doctor()[0]}
    found |= {"maintained": opened.maintain("hourly"), "repair": opened.repair("hourly", dry_run=True)}
    return found


def test_nothing_is_printed_as_a_raw_integer(tmp_path: Path) -> None:
    """
    Text, the form in a list and HTML of every value name times, never instants as integers or our classes.
    """
    for name, value in [*printed(LocalLake(tmp_path)).items(), *SAMPLES.items()]:
        texts = [str(value), repr(value)] if type(value) is list else [str(value), repr(value), value._repr_html_()]
        assert [] == [text for text in texts if RAW.search(text)], name
        assert all(texts), name


def test_values_are_pickled(tmp_path: Path) -> None:
    """
    A notebook caches them, and other processes give them back: equal, and printed as before. What is bound to a lake is not.
    """
    for name, value in printed(LocalLake(tmp_path)).items():
        if name in {"lake", "fresh"}:
            continue
        back = pickle.loads(pickle.dumps(value))
        assert (type(value), value, repr(value)) == (type(back), back, repr(back)), name
        assert (value, repr(value)) == (deepcopy(value), repr(deepcopy(value))), name


def test_times_are_printed_as_commands_print_them() -> None:
    """
    A span is half-open and in ISO texts, an end that is open is a word, and values of rows are no markup.
    """
    verified = VerifyReport(
        "hourly",
        3,
        SpanSet.of(Span(FIRST, FIRST + HOUR)),
        SpanSet.of(Span(NEG_INF, FIRST)),
        2,
        1,
        (Difference("differs", {"at": "2026-08-01T00:00:00Z"}, {"v": ("3", "<4>\x1b")}),),
        {"v": "exact"},
        0.5,
    )

    assert [
        "hourly: 1 of 2 rows differ from plain Spark",
        "  source version  3",
        "  rows            2",
        "  compared        [2026-08-01T00:00:00Z, 2026-08-01T01:00:00Z)",
        "  left out        [the beginning, 2026-08-01T00:00:00Z)",
        "  took            0.50 s",
        "  row                               column  published  plain Spark",
        "  at=2026-08-01T00:00:00Z  differs  v       3          <4>\\x1b",
    ] == str(verified).splitlines()
    assert "&lt;4&gt;" in verified._repr_html_()


def test_integer_time_with_a_resolution_is_printed_as_times() -> None:
    """
    As the command line shows it.
    """
    kind = Epoch(TimeType.BIGINT, Resolution.MS)
    report = VerifyReport("ms", 3, SpanSet.of(Span(0, 3_600_000)), SpanSet(), 2, 0, (), {}, 0.5, time_type=kind)

    assert "[1970-01-01T00:00:00Z, 1970-01-01T01:00:00Z)" in str(report)


def test_lists_stay_lists(tmp_path: Path) -> None:
    """
    A history is equal to the list of its items, and prints one row for each.
    """
    lake = LocalLake(tmp_path)
    lake.add((FIRST, 1))
    lake.apply(view("hourly", each("1 hour")))
    lake.opened.refresh("hourly")

    history = lake.opened.history("hourly")

    assert list(history) == history
    assert 3 == len(str(history).splitlines())
    assert 2 == history._repr_html_().count("<tr>")


def test_values_are_printed_in_the_words_of_the_commands(tmp_path: Path) -> None:
    """
    Ends that do not exist in words, bytes in a unit, one run, seconds, and rows as a table of times.
    """
    values = printed(LocalLake(tmp_path))

    assert "[the beginning, open)" == str(values["dirty"]) == repr(values["dirty"])
    assert EVERYTHING == values["dirty"]
    assert "about 1 run\n" in str(values["plan"])
    assert re.search(r"reads at most 2 rows, [\d.]+ k?B in (2 files|1 file)", str(values["plan"]))
    assert not re.search(r"\d\.\d+Z", str(values["policies"])), values["policies"]
    columns, rows = values["rows"]
    assert (["at", "v"], 2) == (columns, len(rows))
    for name in ("rows", "fetched"):
        assert "2026-08-01T01:00:00Z  2" in str(values[name]), values[name]
    assert "2 rows; read " in str(values["fetched"])


def test_rows_of_integer_time_are_printed_as_times() -> None:
    """
    The buckets; other numbers are printed as they are, as `show` prints them.
    """
    kind = Epoch(TimeType.BIGINT, Resolution.MS)
    rows = PrintedRows.of(["tag", "n", "x"], [(3_600_000, 1_234_567, None)], {"tag": kind})

    assert ["  tag                   n        x", "  1970-01-01T01:00:00Z  1234567  null"] == str(rows).splitlines()
    assert "[1970-01-01T00:00:00Z, open)" == str(PrintedSpan(0, POS_INF, kind))
