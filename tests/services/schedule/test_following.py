"""A process that stays: what it refreshes, when, and what it does about failures. Real tables, without a JVM."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.config import Config
from materializer.errors import QualityGateError, SparkDiedError
from materializer.lake.table import DeltaFolder
from materializer.services.activity import Listeners
from materializer.services.schedule.following import Failed, Followed
from materializer.services.schedule.health import OFTEN
from materializer.spark.run.executor import Executor
from tests.counting import calls_to
from tests.services.no_spark import LocalLake, NoSpark, Opened, each, view

HOUR = 3_600_000_000
OPEN = {"refresh.start_offset": "none"}


def defined(name: str, source: str = "raw", **properties: str) -> str:
    """Return a definition of hours with a policy: without a start, or with the properties that are given of it."""
    given = {f"refresh.{key}": value for key, value in properties.items()} or OPEN
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    bucket, measure = ("1 hour", "sum(v) AS v") if source == "raw" else ("1 day", "rollup(v) AS v")
    return view(name, each(bucket), source, measure).replace("\nAS", f"\nTBLPROPERTIES ({listed})\nAS", 1)


class Dying(NoSpark):
    """Stands for Spark, whose process ends whenever it is to compute."""

    def compute(self, *_args: Any, **_options: Any) -> None:
        """End."""
        raise SparkDiedError("its process ended")


class Watched(Executor):
    """An executor that counts how often it is let start Spark again."""

    again: int = 0

    def start_again(self) -> None:
        """Count."""
        self.again += 1


class Looks(Event):
    """Ends a follower after some looks, and does something after each of them."""

    def __init__(self, *after: Callable[[], object]) -> None:
        super().__init__()
        self.after = list(after)

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - nothing waits here
        """Stand between two looks."""
        if self.after:
            self.after.pop(0)()
        else:
            self.set()
        return self.is_set()


def names(found: list[Followed | Failed]) -> list[str]:
    """Return the aggregates that were refreshed; none failed."""
    assert [] == [f for f in found if isinstance(f, Failed)]
    return [f.aggregate for f in found]


def followed(lake: LocalLake, *after: Callable[[], object], name: str | None = None) -> list[Followed | Failed]:
    """Follow a lake for one look more than there is to do between them."""
    return list(lake.opened.follow(name, every=0.0, stop=Looks(*after)))


def test_what_became_dirty_is_refreshed_with_what_reads_it(tmp_path: Path) -> None:
    """
    The first look computes everything, one without a change nothing, and one after a late row its aggregate and then the roll-up.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (HOUR, 2))
    lake.apply(defined("hourly"), defined("daily", "hourly"), view("other", each("1 hour")))

    found = followed(lake, lambda: None, lambda: lake.add((1, 5)), lambda: None)

    assert ["hourly", "daily", "hourly", "daily"] == names(found)
    assert [{"v": 8}] == [{"v": row["v"]} for row in lake.rows_of("daily")]
    assert [] == lake.opened.history("other"), "it has no policy"


def test_one_aggregate_can_be_followed(tmp_path: Path) -> None:
    """
    Others are left alone.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("a"), defined("b"))

    assert ["b"] == names(followed(lake, name="b"))


def test_a_schedule_says_when(tmp_path: Path) -> None:
    """
    A policy with a schedule runs when it is due and not at each change; one that never ran is due.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("yearly", start_offset="none", schedule="0 0 1 1 *"))

    assert ["yearly"] == names(followed(lake, lambda: lake.add((1, 1)), lambda: lake.add((2, 1))))


def test_a_look_without_news_writes_nothing(tmp_path: Path) -> None:
    """
    However often it looks, the journal and the tables stay as they are.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("hourly"))
    assert ["hourly"] == names(followed(lake))
    version = lake.opened.journal.view().version

    assert [] == followed(lake, *[lambda: None] * 20)
    assert version == lake.opened.journal.view().version


def test_a_commit_that_changes_nothing_delays_no_row(tmp_path: Path) -> None:
    """
    After a compaction there is nothing to do, and the late row behind it is refreshed in the next look.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.add((1, 1))
    lake.apply(defined("hourly"))
    assert ["hourly"] == names(followed(lake))

    def compact() -> None:
        DeltaTable(str(tmp_path / "raw")).optimize.compact()

    assert ["hourly"] == names(followed(lake, compact, lambda: lake.add((2, 5))))
    assert [7] == [row["v"] for row in lake.rows_of("hourly")]


def test_a_look_asks_each_source_once(tmp_path: Path) -> None:
    """
    However many aggregates read it.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(*(defined(f"v{i}") for i in range(5)))
    assert 5 == len(followed(lake))

    assert 1 == calls_to(DeltaFolder.head, lambda: followed(lake))


def test_spark_is_let_start_again(tmp_path: Path) -> None:
    """
    Its death fails what needed it, and that is tried again.
    """
    lake = LocalLake(tmp_path, config=Config(executor="spark"), engine=Dying())
    lake.add((0, 1))
    lake.apply(defined("hourly"))
    executor = Watched(Config(), None, {}, started=Dying())  # type: ignore[arg-type]

    (failed,) = Opened(lake.wired, executor).follow(every=0.0, stop=Looks())

    assert isinstance(failed, Failed)
    assert ("spark.died", 1) == (failed.error.code, executor.again)


def test_a_source_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    """
    It is reported, tried again later, and stops no other; when it is there again, the row that came meanwhile is computed.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("hourly"))
    assert ["hourly"] == names(followed(lake))
    shutil.move(tmp_path / "raw", tmp_path / "away")

    lost = followed(lake, lambda: None, lambda: None)

    (failed,) = lost
    assert isinstance(failed, Failed)
    assert ("hourly", "table.not-found") == (failed.aggregate, failed.error.code)
    assert failed.again >= 1, "and it is not tried again at each look"

    shutil.move(tmp_path / "away", tmp_path / "raw")
    lake.add((1, 5))
    assert ["hourly"] == names(followed(lake))
    assert [6] == [row["v"] for row in lake.rows_of("hourly")]


def test_a_table_that_takes_the_place_of_a_source_is_noticed(tmp_path: Path) -> None:
    """
    Its version may be the one that was seen; who it is tells.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("hourly"))
    assert ["hourly"] == names(followed(lake))
    rows = DeltaTable(str(tmp_path / "raw")).to_pyarrow_table()
    version = DeltaTable(str(tmp_path / "raw")).version()
    shutil.rmtree(tmp_path / "raw")
    for _ in range(version + 1):
        write_deltalake(str(tmp_path / "raw"), rows, mode="append")

    (failed,) = followed(lake)

    assert isinstance(failed, Failed)
    assert "source.replaced" == failed.error.code


def test_what_another_process_works_on_is_left_to_it(tmp_path: Path) -> None:
    """
    Its lease is taken: that is no failure, and when it is free the work is done.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("hourly"))

    with lake.wired.lease("hourly"):
        assert [] == followed(lake)
    assert ["hourly"] == names(followed(lake))


def test_a_follower_that_is_to_end_does_not_begin_more(tmp_path: Path) -> None:
    """
    What runs ends; the next aggregate is not begun.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("a"), defined("b"))
    stop = Looks()

    done = []
    for each_ in lake.opened.follow(every=0.0, stop=stop):
        done.append(each_)
        stop.set()

    assert 1 == len(names(done))
    assert all(state.lease is None for state in lake.opened.journal.view().states.values())


def test_definitions_that_change_are_followed(tmp_path: Path) -> None:
    """
    One that is applied, one whose next version is published, a policy that is removed and added, and one that is dropped.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("a"))

    def build() -> None:
        lake.apply(defined("a").replace("sum(v)", "max(v)"))
        lake.opened.build("a")

    done = followed(
        lake,
        lambda: lake.apply(defined("b")),
        build,
        lambda: lake.add((1, 5)),
        lambda: lake.opened.remove_policy("a"),
        lambda: lake.add((2, 7)),
        lambda: lake.opened.add_policy("a", start_offset="none"),
        lambda: lake.opened.drop("b"),
        lambda: lake.add((3, 9)),
    )

    assert ["a", "b", "a", "b", "b", "a", "a"] == names(done)
    assert [9] == [row["v"] for row in lake.rows_of("a")]


def test_what_is_dropped_while_it_fails_is_forgotten(tmp_path: Path) -> None:
    """
    It fails again and again, until it is dropped; then the process is well, and the name is gone.
    """
    lake = LocalLake(tmp_path)
    lake.listen(Listeners())
    lake.add((0, 1))
    lake.apply(defined("hourly"))
    server: Any = lake.opened.follow_server()
    answers = []

    class Dropping(Event):
        """Drops the aggregate when it has failed often enough."""

        def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - it looks as often as it can
            """Stand between two looks."""
            answers.append(server.answer("/healthz")[2])
            if b"failing" in answers[-1]:
                lake.opened.drop("hourly")
            elif b'"follows": 0' in answers[-1]:
                self.set()
            return super().wait(0.05)

    shutil.move(tmp_path / "raw", tmp_path / "away")
    failed = list(lake.opened.follow(every=0.0, stop=Dropping()))
    server.server_close()

    assert ["table.not-found"] * 3 == [one.error.code for one in failed if isinstance(one, Failed)]
    assert b'"healthy": true' in answers[0], "once is a disturbance"
    assert b'"healthy": true' in answers[-1]
    assert b"hourly" not in answers[-1]


def test_a_source_that_is_put_back_as_it_was_is_well(tmp_path: Path) -> None:
    """
    Nothing came meanwhile, so nothing is refreshed; what failed is forgotten all the same.
    """
    lake = LocalLake(tmp_path)
    lake.listen(Listeners())
    lake.add((0, 1))
    lake.apply(defined("hourly"))
    server: Any = lake.opened.follow_server()
    answers = []

    class Returning(Event):
        """Puts the source back when it was missed often enough."""

        def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - it looks as often as it can
            """Stand between two looks."""
            answers.append(server.answer("/healthz")[2])
            if len(answers) == 1:
                shutil.move(tmp_path / "raw", tmp_path / "away")
            elif b"failing" in answers[-1] and (tmp_path / "away").exists():
                shutil.move(tmp_path / "away", tmp_path / "raw")
            elif (b"failing" in answers[-2] and b"failing" not in answers[-1]) or len(answers) > 200:
                self.set()
            return super().wait(0.05)

    done = list(lake.opened.follow(every=0.0, stop=Returning()))
    server.server_close()

    assert ["Followed", "Failed", "Failed", "Failed"] == [type(one).__name__ for one in done]
    assert b'"healthy": true' in answers[-1]


def test_a_refresh_that_runs_when_it_is_to_end_ends(tmp_path: Path) -> None:
    """
    It is published, and its lease is given back.
    """
    lake, stop = LocalLake(tmp_path), Event()
    lake.add((0, 1))
    lake.apply(defined("a"), defined("b"))
    lake.at["writing_output"] = stop.set

    assert ["a"] == names(list(lake.opened.follow(every=0.0, stop=stop)))
    assert [1] == [row["v"] for row in lake.rows_of("a")]
    assert not [s for s in lake.opened.journal.view().states.values() if s.lease is not None or s.plan is not None]


def test_an_output_that_is_lost_while_it_runs(tmp_path: Path) -> None:
    """
    The next row finds it out: it is reported with what to do, nothing is published in its place, and the other aggregate goes on. When it
    is there again both are true.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(defined("a"), defined("b"))

    def lose() -> None:
        shutil.move(tmp_path / "a" / "output", tmp_path / "away")
        lake.add((1, 5))

    done = followed(lake, lose)

    assert ["a", "b", "a", "b"] == [one.aggregate for one in done]
    failed = done[2]
    assert isinstance(failed, Failed)
    assert "materializer repair a" in failed.error.hint
    assert not (tmp_path / "a" / "output").exists()
    shutil.move(tmp_path / "away", tmp_path / "a" / "output")
    assert {"a"} >= set(names(followed(lake)))
    assert [[6], [6]] == [[row["v"] for row in lake.rows_of(name)] for name in ("a", "b")]


def gated(lake: LocalLake, most: int) -> None:
    """Apply an hourly aggregate whose gate withholds hours with more than *most*."""
    folder = lake.root / "expectations"
    folder.mkdir(exist_ok=True)
    expected = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "v", "max_value": most}}
    (folder / "hourly.json").write_text(json.dumps({"name": "few", "expectations": [expected]}))
    given = {"refresh.start_offset": "none", "quality.on_failure": "buckets"}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    lake.apply(view("hourly", each("1 hour")).replace("\nAS", f"\nTBLPROPERTIES ({listed})\nAS", 1))


def test_what_a_gate_withholds_is_looked_at_when_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Other looks compute nothing and write nothing; a row of another hour is published by the next look, and what is withheld after the
    suite has changed.
    """
    monkeypatch.chdir(tmp_path)
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (HOUR, 7), (2 * HOUR, 2))
    gated(lake, most=5)
    idle = [lambda: None] * 5

    found = followed(lake, *idle, lambda: lake.add((2 * HOUR, 1)), *idle)

    assert ["hourly"] * 2 == names(found)
    assert [1, 3] == [row["v"] for row in lake.rows_of("hourly")]
    assert 2 == len(lake.opened.history("hourly"))

    found = followed(lake, *idle, lambda: gated(lake, most=9), *idle)

    refused, published = found
    assert isinstance(refused, Failed)  # a new process asks the gate once
    assert isinstance(refused.error, QualityGateError)
    assert refused.again is None
    assert "when something changes" in str(refused)
    assert isinstance(published, Followed)
    assert [1, 7, 3] == [row["v"] for row in lake.rows_of("hourly")]


def test_a_gate_that_refuses_delays_no_other_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is told once, and the next look publishes a row of another hour.
    """
    monkeypatch.chdir(tmp_path)
    lake = LocalLake(tmp_path)
    lake.add((0, 7))
    gated(lake, most=5)

    found = list(
        lake.opened.follow("hourly", every=60.0, stop=Looks(lambda: None, lambda: None, lambda: lake.add((HOUR, 1))))
    )

    assert [Failed, Followed] == [type(each) for each in found]
    assert [1] == [row["v"] for row in lake.rows_of("hourly")]


def test_it_is_well_while_a_gate_withholds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    `/healthz` answers 200 after each look, however often the same gate refused rows that came.
    """
    monkeypatch.chdir(tmp_path)
    lake = LocalLake(tmp_path)
    lake.listen(Listeners())
    lake.add((0, 7))
    gated(lake, most=5)
    server: Any = lake.opened.follow_server()
    answers: list[tuple[int, Any]] = []

    def ask() -> None:
        with suppress(HTTPError), urlopen(urljoin(server.url, "/healthz"), timeout=10) as said:
            answers.append((said.status, json.load(said)))

    def add_and_ask() -> None:
        ask()
        lake.add((0, 7))

    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        found = list(lake.opened.follow("hourly", every=0.0, stop=Looks(*[add_and_ask] * (OFTEN + 1), ask)))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert [Failed] * (OFTEN + 2) == [type(each) for each in found]
    assert [(200, True, [])] * (OFTEN + 2) == [(status, said["healthy"], said["reasons"]) for status, said in answers]
