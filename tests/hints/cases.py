"""By code: the situation that provokes an error, and its hint, done as it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.adapters.cli.app import main
from materializer.api import Materializer
from materializer.config import Config
from materializer.core.spec.spec import TimeType
from materializer.errors import DefinitionError, JournalConflictError, LeaseLostError, OutOfRangeError, WriteFencedError
from materializer.journal import codec
from materializer.journal.events import Checked
from materializer.journal.journal import Journal
from materializer.journal.store import JournalStore
from materializer.services import processes
from tests.appending import append
from tests.grids import make_grid
from tests.hints.world import DAILY, HOURLY, Hint, World
from tests.services.no_spark import RAW, each, view
from tests.system.lake import Died

Case = Callable[[World, pytest.MonkeyPatch], None]
CASES: Final[dict[str, Case]] = {}
"""By code."""
BY_SPARK: Final[set[str]] = set()
"""Those in which Spark computes something."""


def of(code: str, *, by_spark: bool = False) -> Callable[[Case], Case]:
    """Register the case of a code."""

    def register(case: Case) -> Case:
        assert code not in CASES
        CASES[code] = case
        if by_spark:
            BY_SPARK.add(code)
        return case

    return register


# -- requests ------------------------------------------------------------------------------------------------------------


@of("usage")
def _usage(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("refresh", "usage")
    assert "hourly" in world.works(hint.command())
    unknown = world.fails("refresh hourly --nonsense", "usage")
    world.works(unknown.command())
    early = world.fails("--strict-exit status", "usage")
    assert "options stand behind the command" in early.text
    world.works(early.command())


@of("config.invalid")
def _config(world: World, _: pytest.MonkeyPatch) -> None:
    file = world.root / "materializer.toml"
    file.write_text("run_rowz = 5\n")
    hint = world.fails("status", "config.invalid")
    assert "named above" in hint.text
    [near] = re.findall(r"the nearest known one is '(\w+)'", hint.message)
    file.write_text(f"{near} = 5000\n")
    world.works("status")


@of("aggregate.unknown")
def _unknown(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("refresh hurly", "aggregate.unknown")
    [known] = re.findall(r"known: (\w+)", hint.message)
    world.works(f"refresh {known}")


@of("aggregate.has-readers")
def _readers(world: World, _: pytest.MonkeyPatch) -> None:
    world.apply(DAILY)
    hint = world.fails("drop hourly --yes", "aggregate.has-readers")
    world.works(hint.command())
    assert "hourly" not in world.works("status")


@of("window.invalid")
def _invalid(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("refresh hourly --start 2024-03-02 --end 2024-03-01", "window.invalid")
    assert "swap" in hint.text
    world.works("refresh hourly --start 2024-03-01 --end 2024-03-02")


@of("window.too-small")
def _too_small(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("refresh hourly --start 2024-03-01T00:10:00Z --end 2024-03-01T00:20:00Z", "window.too-small")
    [(start, end)] = re.findall(r"\[(\S+), (\S+)\)", hint.text)
    world.works(f"refresh hourly --start {start} --end {end}")


@of("diff.incomparable")
def _incomparable(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.copy(".", "other")
    world.fails("diff hourly --against nowhere", "diff.incomparable")
    world.works("invalidate hourly --all-time")
    hint = world.fails("diff hourly --against other", "diff.incomparable")
    for command in hint.commands:
        assert 0 == main(shlex.split(command))
    world.works("diff hourly --against other")


@of("diff.too-large")
def _too_many_to_compare(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.copy(".", "other")
    monkeypatch.setenv("MATERIALIZER_LOCAL_MEMORY", "4k")
    hint = world.fails("diff hourly --against other", "diff.too-large")
    assert "--start and --end" in hint.text
    world.works("diff hourly --against other --start 2024-03-02 --end 2024-03-03")
    monkeypatch.setenv("MATERIALIZER_LOCAL_MEMORY", "1m")
    world.works("diff hourly --against other")


@of("window.frozen")
def _frozen(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.works("expire hourly --before 2024-03-02 --yes")
    hint = world.fails("refresh hourly --end 2024-03-01T05:00:00Z --force", "window.frozen")
    world.works("refresh hourly --start 2024-03-02 --force")
    world.works(hint.command())


@of("window.retired")
def _retired(world: World, _: pytest.MonkeyPatch) -> None:
    world.apply(world.properties(HOURLY, output__retention="5 hours"))
    world.works("refresh hourly")
    hint = world.fails("refresh hourly --end 2024-03-01T05:00:00Z --force", "window.retired")
    world.apply(world.properties(HOURLY, output__retention="20 days"))
    world.works(hint.command())
    world.works("refresh hourly")
    assert 48 == len(world.lake.rows_of("hourly"))


@of("policy.unknown")
def _no_policy(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("policy run hourly --policy weekly --now 2024-03-03", "policy.unknown")
    world.works(hint.command(LENGTH="'7 days'"))
    world.works("policy run hourly --policy weekly --now 2024-03-03")
    known = world.fails("policy run hourly --policy daily", "policy.unknown")
    assert "weekly" in known.message


@of("policy.exists")
def _policy_exists(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("policy add hourly --policy weekly --start-offset '7 days'")
    hint = world.fails("policy add hourly --policy weekly --start-offset '9 days'", "policy.exists")
    world.works(hint.command())
    world.works("policy add hourly --policy weekly --start-offset '9 days'")


@of("policy.now")
def _policy_now(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("policy add hourly --start-offset '7 days'")
    hint = world.fails("policy run hourly --now yesterday", "policy.now")
    [instant] = re.findall(r"\d{4}-\d\d-\d\dT[\d:]+Z|\d{4}-\d\d-\d\d", hint.text)[:1]
    world.works(f"policy run hourly --now {instant}")


@of("expire.bound")
def _expire_bound(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("expire hourly --before 2024-03-02", "expire.bound")
    world.works(hint.command())
    world.works("expire hourly --before 2024-03-02")


@of("version.none")
def _no_version(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    hint = world.fails("build hourly", "version.none")
    assert "apply a changed definition" in hint.text
    world.apply(view("hourly", each("2 hours")))
    world.works("build hourly")


# -- definitions ---------------------------------------------------------------------------------------------------------


@of("definition.invalid")
def _definition(world: World, _: pytest.MonkeyPatch) -> None:
    wrong = HOURLY.replace("sum(v)", "smu(v)")
    with pytest.raises(DefinitionError) as caught:
        world.apply(wrong)
    [problem] = caught.value.problems
    [near] = re.findall(r"did you mean `(\w+)`", problem.hint)
    world.apply(wrong.replace("smu", near))


@of("version.not-covered")
def _not_covered(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.apply(view("hourly", each("2 hours")))
    hint = world.fails("switch hourly", "version.not-covered")
    world.works(hint.command())


@of("history.frozen")
def _history(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.works("expire hourly --before 2024-03-02 --yes")
    hint = world.lake.opened.plan_definitions([view("hourly", each("2 hours"))]).problems[0].hint
    [command] = re.findall(r"'materializer ([^']+)'", hint)
    world.works(command)
    world.apply(view("hourly", each("2 hours")))


@of("history.building")
def _building(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.apply(view("hourly", each("2 hours")))
    hint = world.fails("expire hourly --before 2024-03-02 --yes", "history.building")
    assert ["build hourly", "abandon hourly"] == hint.commands
    world.works(hint.commands[1])
    world.works("expire hourly --before 2024-03-02 --yes")


# -- sources -------------------------------------------------------------------------------------------------------------


@of("expire.dirty")
def _expire_dirty(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.works("invalidate hourly --start 2024-03-01 --end 2024-03-02")
    hint = world.fails("expire hourly --before 2024-03-02 --yes", "expire.dirty")
    world.works(hint.commands[0])
    world.works("expire hourly --before 2024-03-02 --yes")


@of("table.not-found")
def _not_found(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("new rows --yes", "table.not-found")
    assert "[sources]" in hint.text
    (world.root / "materializer.toml").write_text('[sources]\nrows = "raw"\n')
    world.works("new rows --yes --time ts")


@of("table.not-delta")
def _not_delta(world: World, _: pytest.MonkeyPatch) -> None:
    (world.root / "outer").mkdir()
    world.copy("raw", "outer/table")
    hint = world.fails("new outer --yes", "table.not-delta")
    assert "the folder that holds '_delta_log'" in hint.text
    [folder] = {p.parent.relative_to(world.root) for p in (world.root / "outer").rglob("_delta_log")}
    world.works(f"new {folder} --yes")


@of("source.replaced")
def _replaced(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    shutil.rmtree(world.root / "raw")
    DeltaTable.create(str(world.root / "raw"), RAW, configuration={"delta.enableChangeDataFeed": "true"})
    world.add(range(3))
    hint = world.fails("refresh hourly", "source.replaced")
    assert "apply the definition of 'hourly' again" in hint.text
    world.apply(HOURLY)
    world.works("build hourly --no-switch")


@of("source.rolled-back")
def _rolled_back(world: World, _: pytest.MonkeyPatch) -> None:
    world.copy("raw", "before")
    world.add([50])
    world.works("refresh hourly")
    shutil.rmtree(world.root / "raw")
    shutil.move(world.root / "before", world.root / "raw")
    hint = world.fails("refresh hourly", "source.rolled-back")
    assert "apply the definition of 'hourly' again" in hint.text
    world.apply(HOURLY)
    world.works("build hourly --no-switch")


@of("source.damaged", by_spark=True)
def _damaged(world: World, _: pytest.MonkeyPatch) -> None:
    [file] = (world.root / "raw").glob("*.parquet")
    aside = world.root / "aside.parquet"
    file.rename(aside)
    world.fails("refresh hourly", "source.damaged")
    aside.rename(file)
    world.works("refresh hourly")


@of("plan.not-incremental")
def _strict(world: World, _: pytest.MonkeyPatch) -> None:
    hint = world.fails("refresh hourly --strict", "plan.not-incremental")
    assert "without --strict" in hint.text
    world.works("refresh hourly")


@of("data.failed", by_spark=True)
def _data(world: World, _: pytest.MonkeyPatch) -> None:
    world.add([3], 2**62)
    world.add([3], 2**62)
    hint = world.fails("refresh hourly", "data.failed")
    assert hint.text
    DeltaTable(str(world.root / "raw")).delete(f"v = {2**62}")
    world.works("refresh hourly")


# -- the lake's own state ------------------------------------------------------------------------------------------------


@of("journal.lost")
def _lost(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("backup saved")
    shutil.move(world.root / "_materializer", world.root / "moved")
    ran = world.run("repair --all")
    assert ["journal.lost"] == [e["code"] for e in ran.errors]
    assert "restore a backup" in ran.errors[0]["hint"]
    world.works("restore saved --yes")
    world.works("refresh hourly")


@of("lake.outside")
def _outside(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    shutil.move(world.root / "hourly", world.root / "elsewhere")
    (world.root / "hourly").symlink_to(world.root / "elsewhere")
    world.add([50])
    hint = world.fails("refresh hourly", "lake.outside")
    assert "put what it names in its place" in hint.text
    (world.root / "hourly").unlink()
    shutil.move(world.root / "elsewhere", world.root / "hourly")
    world.works("refresh hourly")


@of("tables.foreign", by_spark=True)
def _foreign(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    shutil.rmtree(world.root / "hourly" / "output")
    DeltaTable.create(str(world.root / "hourly" / "output"), RAW)
    world.add([50])
    hint = world.fails("refresh hourly", "tables.foreign")
    world.works(f"{hint.commands[0]} --yes")
    world.works("refresh hourly")


@of("tables.ahead")
def _ahead(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.copy("_materializer", "older")
    world.add([50])
    world.works("refresh hourly")
    shutil.rmtree(world.root / "_materializer")
    shutil.move(world.root / "older", world.root / "_materializer")
    world.add([51])
    hint = world.fails("refresh hourly --executor local", "tables.ahead")
    world.works(f"{hint.commands[0]} --yes")
    world.works("refresh hourly")


@of("tables.foreign-history")
def _other_history(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    for folder in ("_materializer", "hourly"):
        world.copy(folder, f"copies/{folder}")
    world.add([50])
    world.works("refresh hourly")
    shutil.move(world.root / "_materializer", world.root / "replaced")
    shutil.copytree(world.root / "copies" / "_materializer", world.root / "_materializer")
    shutil.move(world.root / "hourly", world.root / "went on")
    shutil.copytree(world.root / "copies" / "hourly", world.root / "hourly")
    world.works("refresh hourly")
    shutil.rmtree(world.root / "hourly")
    shutil.move(world.root / "went on", world.root / "hourly")
    world.add([51])
    hint = world.fails("refresh hourly", "tables.foreign-history")
    world.works(f"{hint.commands[0]} --yes")
    world.works("refresh hourly")


# -- the environment -----------------------------------------------------------------------------------------------------


@of("storage.failed")
def _storage(world: World, _: pytest.MonkeyPatch) -> None:
    file = world.root / "backups"
    file.write_text("in the place of a folder")
    hint = world.fails("backup backups/monday", "storage.failed")
    assert "run the same command again" in hint.text
    file.unlink()
    world.works("backup backups/monday")


@of("output.handler", by_spark=True)
def _handler(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = world.root / "handlers_of_hints.py"
    module.write_text("def take(rows, version):\n    raise ValueError('not yet')\n")
    monkeypatch.syspath_prepend(str(world.root))
    (world.root / "materializer.toml").write_text('output_handlers = ["handlers_of_hints:take"]\n')
    world.apply(world.properties(HOURLY, output_handler="take", msg_as_table="false"))
    hint = world.fails("refresh hourly", "output.handler")
    assert "refresh again" in hint.text
    module.write_text("seen = []\ndef take(rows, version):\n    seen.append(rows)\n")
    os.utime(module, (time.time() + 5, time.time() + 5))
    monkeypatch.delitem(sys.modules, "handlers_of_hints")
    world.works("refresh hourly")


# -- again ---------------------------------------------------------------------------------------------------------------


@of("lease.held")
def _lease(world: World, _: pytest.MonkeyPatch) -> None:
    with world.lake.wired.lease("hourly"):
        hint = world.fails("refresh hourly", "lease.held")
    assert "wait" in hint.text or "again" in hint.text
    world.works("refresh hourly")


# -- what was found ------------------------------------------------------------------------------------------------------


@of("quality.gate")
def _gate(world: World, _: pytest.MonkeyPatch) -> None:
    folder = world.root / "expectations"
    folder.mkdir()
    suite = '{{"name": "s", "expectations": [{{"type": "expect_column_values_to_be_between", "kwargs": {{"column": "v", "max_value": {most}}}}}]}}'
    (folder / "hourly.json").write_text(suite.format(most=0))
    world.apply(HOURLY)
    hint = world.fails("refresh hourly", "quality.gate")
    assert "--publish-anyway REASON" in hint.text
    world.works("refresh hourly --publish-anyway 'known'")
    world.apply(view("hourly", each("2 hours")))
    world.works("build hourly --publish-anyway 'known'")
    world.add([47])
    hint = world.fails("rollback hourly", "quality.gate")
    assert "--publish-anyway REASON" in hint.text
    world.works("rollback hourly --publish-anyway 'known'")


@of("quality.check", by_spark=True)
def _check(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    file = world.root / "suite.json"
    suite = '{{"name": "s", "expectations": [{{"type": "expect_column_values_to_be_between", "kwargs": {{"column": "v", "max_value": {most}}}}}]}}'
    file.write_text(suite.format(most=0))
    hint = world.fails("check hourly --suite suite.json", "quality.check")
    world.works(hint.command())
    world.works("refresh hourly")
    file.write_text(suite.format(most=9))
    world.works("check hourly --suite suite.json")


@of("history.fewer-rows")
def _fewer(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    table = DeltaTable(str(world.root / "raw"))
    table.delete("v = 1")
    state = world.state()
    world.lake.put(replace(state, cursor=table.version()))  # as if a capture had taken the change for none
    hint = world.fails("refresh hourly --force --executor local", "history.fewer-rows")
    assert "--accept-fewer-rows" in hint.text
    world.works("refresh hourly --force --accept-fewer-rows")


@of("source.schema-changed")
def _schema(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    rows = DeltaTable(str(world.root / "raw")).to_pyarrow_table().rename_columns(["ts", "w"])
    write_deltalake(str(world.root / "raw"), rows, mode="overwrite", schema_mode="overwrite")
    hint = world.fails("refresh hourly --executor local", "source.schema-changed")
    assert "apply a definition of 'hourly' that fits" in hint.text
    world.apply(view("hourly", each("1 hour"), measure="sum(w) AS v"))
    world.works("build hourly")


@of("journal.corrupt")
def _corrupt(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    state = world.state()
    journal = str(world.root / "_materializer" / "journal")
    row = DeltaTable(journal).to_pyarrow_table().slice(0, 1).to_pylist()[0]
    damaged = row | {"seq": 10**6, "aggregate": state.id, "payload": "{", "kind": "done"}
    write_deltalake(
        journal, pa.Table.from_pylist([damaged], DeltaTable(journal).to_pyarrow_table().schema), mode="append"
    )
    hint = world.fails("refresh hourly", "journal.corrupt")
    world.works(f"{hint.commands[0]} --yes")
    world.works("refresh hourly")


@of("java.missing")
def _java(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.is_apart = True
    (world.root / "daily.sql").write_text(DAILY)
    hint = world.fails("apply daily.sql", "java.missing")
    assert "JAVA_HOME" in hint.text
    assert '"doctor.java"' not in world.works("doctor", 1)
    monkeypatch.delenv("JAVA_HOME")
    assert '"doctor.java"' in world.run("doctor").text


@of("java.too-old")
def _old_java(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.is_apart = True
    program = world.root / "old" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(world.root / "old"))
    (world.root / "daily.sql").write_text(DAILY)
    hint = world.fails("apply daily.sql", "java.too-old")
    assert "17" in hint.text + hint.message
    monkeypatch.delenv("JAVA_HOME")
    assert '"doctor.java"' in world.run("doctor").text


@of("spark.unsafe-setting")
def _unsafe(world: World, _: pytest.MonkeyPatch) -> None:
    world.is_apart = True
    (world.root / "daily.sql").write_text(DAILY)
    settings = world.root / "materializer.toml"
    settings.write_text('[spark.options]\n"spark.sql.files.ignoreMissingFiles" = "true"\n')
    hint = world.fails("apply daily.sql", "spark.unsafe-setting")
    assert "unset spark.sql.files.ignoreMissingFiles" in hint.text
    settings.write_text("")
    world.fails("apply daily.sql", "java.missing")  # the next thing that is needed, which this machine has not


@of("plan.not-local", by_spark=True)
def _not_local(world: World, _: pytest.MonkeyPatch) -> None:
    (world.root / "materializer.toml").write_text("local_rows = 10\n")
    hint = world.fails("refresh hourly --executor local", "plan.not-local")
    assert "'auto'" in hint.text
    world.works("refresh hourly --executor auto")


@of("verify.differs", by_spark=True)
def _differs(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    output = DeltaTable(str(world.root / "hourly" / "output"))
    output.update(updates={"v": "v + 1"}, predicate="v = 1")
    hint = world.fails("verify hourly", "verify.differs")
    world.works(hint.command())
    world.works("refresh hourly")
    world.works("verify hourly")


@of("rollup.changed")
def _rollup(world: World, _: pytest.MonkeyPatch) -> None:
    rolled = view("daily", each("1 day"), "hourly", "rollup(v) AS v")
    world.works("refresh hourly")
    world.apply(rolled)
    world.works("refresh daily")
    world.apply(view("hourly", each("1 hour"), measure="max(v) AS v"))
    world.works("build hourly")
    hint = world.fails("refresh daily", "rollup.changed")
    assert "apply the definition of 'daily' again" in hint.text
    world.apply(rolled)
    world.works("build daily")
    world.works("refresh daily")


@of("connect.not-installed")
def _connect(world: World, _: pytest.MonkeyPatch) -> None:
    (world.root / "daily.sql").write_text(DAILY)
    (world.root / "materializer.toml").write_text('[spark]\nremote = "sc://127.0.0.1:1"\n')
    world.hide("grpc")
    hint = world.fails("apply daily.sql", "connect.not-installed")
    assert "pip install 'delta-materializer[connect]'" in hint.text
    shutil.rmtree(world.hidden)  # as if it had been installed
    world.fails("apply daily.sql", "spark.unreachable")


@of("quality.not-installed", by_spark=True)
def _no_library(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("great_expectations", reason="needs the extra `quality`")
    world.works("refresh hourly")
    (world.root / "suite.json").write_text(
        '{"name": "s", "expectations": [{"type": "expect_column_distinct_values_to_be_in_set",'
        ' "kwargs": {"column": "v", "value_set": [1]}}]}'
    )
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    hint = world.fails("check hourly --suite suite.json", "quality.not-installed")
    assert "pip install 'delta-materializer[quality]'" in hint.text
    monkeypatch.delitem(sys.modules, "great_expectations")  # as if it had been installed
    world.works("check hourly --suite suite.json")


@of("calendar.not-installed")
def _no_calendars(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("exchange_calendars", reason="needs the extra `calendars`")
    traded = {"engine": "daily_time_series", "window_size": "1 hour", "step": "1 hour", "calendar": "exchange:XNYS"}

    def define() -> None:
        world.lake.opened.define("traded", "raw", time="ts", measures={"v": "sum(v)"}, **traded)

    monkeypatch.setitem(sys.modules, "exchange_calendars", None)
    with pytest.raises(DefinitionError) as caught:
        define()
    [problem] = caught.value.problems
    assert ("calendar.not-installed", "pip install 'delta-materializer[calendars]'") == (problem.code, problem.hint)
    monkeypatch.undo()  # as if it had been installed
    define()


@of("journal.too-new")
def _too_new(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    with monkeypatch.context() as newer:
        newer.setattr(codec, "FORMAT", 2)
        event = replace(codec.encode(world.state().id, Checked({}), at=""), format=2)
        store = JournalStore(world.root)
        store.append([event], expected_version=store.read().version)
    hint = world.fails("refresh hourly", "journal.too-new")
    assert "newer release" in hint.text
    monkeypatch.setattr(codec, "FORMAT", 2)  # as that release has it
    world.works("refresh hourly")


@of("time.out-of-range")
def _out_of_range(_: World, __: pytest.MonkeyPatch) -> None:
    grid = make_grid("10", TimeType.SMALLINT)
    with pytest.raises(OutOfRangeError) as caught:
        grid.floor(-32_768)
    assert "correct the row" in caught.value.hint
    assert -32_760 == grid.floor(-32_758)


@of("expire.engine", by_spark=True)
def _expire_engine(world: World, _: pytest.MonkeyPatch) -> None:
    sessions = {"engine": "session_window", "session_gap": "30 minutes", "force_trigger_time": "1 hour"}
    world.lake.opened.define("sessions", "raw", time="ts", measures={"v": "sum(v)"}, **sessions)
    world.works("refresh sessions")
    hint = world.fails("expire sessions --before 2024-03-02 --yes", "expire.engine")
    assert "keep" in hint.text
    world.add([60])  # the rows were kept
    world.works("refresh sessions")


def _suites(world: World) -> Path:
    folder = world.root / "expectations"
    folder.mkdir()
    return folder / "totals.json"


def _suite_refused(world: World, code: str) -> str:
    with pytest.raises(DefinitionError) as caught:
        world.apply(world.properties(HOURLY, quality__suite="totals.json"))
    [problem] = caught.value.problems
    assert code == problem.code
    return problem.hint


@of("suite.missing")
def _no_suite(world: World, _: pytest.MonkeyPatch) -> None:
    file = _suites(world)
    assert "correct 'quality.suite', or write 'none'" in _suite_refused(world, "suite.missing")
    world.apply(world.properties(HOURLY, quality__suite="none"))
    file.write_text('{"name": "totals", "expectations": []}')
    world.apply(world.properties(HOURLY, quality__suite="totals.json"))


@of("suite.unreadable")
def _unreadable(world: World, _: pytest.MonkeyPatch) -> None:
    file = _suites(world)
    file.write_bytes(b"\xff\xfe")
    _suite_refused(world, "suite.unreadable")
    file.write_text('{"name": "totals", "expectations": []}')
    world.apply(world.properties(HOURLY, quality__suite="totals.json"))


@of("suite.no-aggregate")
def _suite_of_none(world: World, _: pytest.MonkeyPatch) -> None:
    file = _suites(world).with_name("hourli.json")
    file.write_text('{"name": "hourly", "expectations": []}')
    _, [problem] = world.lake.opened.read_definitions(HOURLY)
    assert ("suite.no-aggregate", "did you mean 'hourly.json'?") == (problem.code, problem.hint)
    file.rename(file.with_name("hourly.json"))
    assert [] == world.lake.opened.read_definitions(HOURLY)[1]


@of("definition.name-twice")
def _twice(world: World, _: pytest.MonkeyPatch) -> None:
    files = [world.root / "a.sql", world.root / "b.sql"]
    for file in files:
        file.write_text(DAILY)
    with pytest.raises(DefinitionError) as caught:
        world.lake.opened.apply(files)
    assert {"definition.name-twice"} == {problem.code for problem in caught.value.problems}
    files[1].write_text(DAILY.replace("daily", "daily_too"))
    world.lake.opened.apply(files)


# -- other processes -----------------------------------------------------------------------------------------------------


def _overtaken(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refresh here; before a step another process takes this one for dead, and does the work."""

    def at(checkpoint: str) -> None:
        if checkpoint == step:
            with monkeypatch.context() as patch:
                patch.setattr(processes, "is_dead", lambda *_: True)
                world.works("refresh hourly")

    Materializer(world.root, config=Config(executor="local"), on_checkpoint=at).refresh("hourly")


@of("lease.lost")
def _lease_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LeaseLostError) as lost:
        _overtaken(world, "plan", monkeypatch)
    assert "run the same command again" in lost.value.hint
    world.works("refresh hourly")


@of("write.fenced")
def _fenced_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WriteFencedError) as fenced:
        _overtaken(world, "write", monkeypatch)
    assert "run the same command again" in fenced.value.hint
    world.works("refresh hourly")


@of("retry", by_spark=True)
def _retry(world: World, _: pytest.MonkeyPatch) -> None:
    world.works("refresh hourly")
    world.apply(view("hourly", each("2 hours")))
    world.works("build hourly --no-switch")

    def die(checkpoint: str) -> None:
        if checkpoint == "switch_write":
            raise Died(checkpoint)

    with pytest.raises(Died):
        Materializer(world.root, config=Config(executor="local"), on_checkpoint=die).switch("hourly")
    hint = world.fails("verify hourly", "retry")
    world.works(hint.command())
    world.works("verify hourly")


@of("journal.conflict")
def _conflict(world: World, _: pytest.MonkeyPatch) -> None:
    mine, other, events = Journal(world.root), Journal(world.root), [(world.state().id, Checked({}))]
    with pytest.raises(JournalConflictError) as conflict:
        mine.transact(lambda _: append(other, *events) or events, attempts=3)
    assert "run the same command again" in conflict.value.hint
    assert events == mine.transact(lambda _: events, attempts=3)


# -- tests of definitions ------------------------------------------------------------------------------------------------

TESTED: Final = """columns: {ts: timestamp, v: bigint}
unit_tests:
  - name: one
    model: hourly
    given: [{input: raw, rows: [{ts: 2024-03-01, v: 1}]}]
    expect: {rows: [{v: 1}]}
"""


def _test(world: World, mistake: tuple[str, str], code: str = "") -> Hint:
    """Run a test with a mistake in it, and then without; return what is hinted at."""
    file = world.root / "one.yml"
    file.write_text(TESTED.replace(*mistake))
    if code:
        (error,) = world.run("test one.yml").errors
        assert error["code"] == "test.invalid-file"
        (problem,) = error["problems"]
        assert problem["code"] == code, problem
        assert mistake[1].splitlines()[0].split(":")[0] in file.read_text().splitlines()[problem["line"] - 1]
        hint = Hint(problem["hint"], problem["message"])
    else:
        hint = world.fails("test one.yml", "test.failed")
    file.write_text(TESTED)
    world.works("test one.yml")
    return hint


@of("test.failed")
def _failed_test(world: World, _: pytest.MonkeyPatch) -> None:
    assert "run the tests again" in _test(world, ("{v: 1}]}\n", "{v: 2}]}\n")).text


@of("test.invalid-file")
def _invalid_tests(world: World, _: pytest.MonkeyPatch) -> None:
    (world.root / "one.yml").write_text(TESTED.replace("expect", "expects"))
    assert "run the tests again" in world.fails("test one.yml", "test.invalid-file").text


@of("test.file")
def _unread_tests(world: World, _: pytest.MonkeyPatch) -> None:
    assert "named above" in _test(world, ("v: 1}]}]", "v: 1}}]"), "test.file").text


@of("test.invalid")
def _misspelt_part(world: World, _: pytest.MonkeyPatch) -> None:
    assert _test(world, ("model", "modle"), "test.invalid").text == "did you mean `model`?"


@of("test.no-types")
def _no_types(world: World, _: pytest.MonkeyPatch) -> None:
    world.apply(view("others", each("1 hour"), "hourly"))
    shutil.move(world.root / "hourly" / "output", world.root / "elsewhere")
    text = TESTED.replace("model: hourly", "model: others").replace("input: raw", "input: hourly").replace("{ts", "{at")
    file = world.root / "one.yml"
    file.write_text(text.partition("\n")[2])
    (error,) = world.run("test one.yml").errors
    (problem,) = error["problems"]
    assert (problem["code"], problem["hint"]) == ("test.no-types", "write `columns: {name: type, …}` into the file")
    file.write_text(text)
    world.works("test one.yml")


@of("test.unknown-aggregate")
def _unknown_model(world: World, _: pytest.MonkeyPatch) -> None:
    assert _test(world, ("hourly", "hurly"), "test.unknown-aggregate").text == "did you mean `hourly`?"


@of("test.unknown-column")
def _unknown_column(world: World, _: pytest.MonkeyPatch) -> None:
    assert _test(world, ("{ts: 2024", "{tss: 2024"), "test.unknown-column").text == "did you mean `ts`?"


@of("test.unknown-source")
def _unknown_input(world: World, _: pytest.MonkeyPatch) -> None:
    assert _test(world, ("input: raw", "input: rows"), "test.unknown-source").text == "write `raw`"


@of("test.wrong-value")
def _wrong_value(world: World, _: pytest.MonkeyPatch) -> None:
    hint = _test(world, ("ts: 2024-03-01", "ts: yesterday"), "test.wrong-value")
    assert "an instant such as 2024-03-01T06:00:00Z" in hint.message
    assert "mend the value" in hint.text
