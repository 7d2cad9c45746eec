"""A source that somebody made to end, stall or mislead the process that reads it; no JVM."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from materializer.errors import SourceDamagedError
from materializer.lake.hostile import MOST_DEPTH, depth_of, is_outside, refuse_deep
from materializer.lake.table import open_table
from tests.attacks.table import attack
from tests.hints.world import World

COMMANDS = ("plan hourly", "refresh hourly", "verify hourly", "status hourly")


def source(world: World) -> Path:
    """Return the folder of the source."""
    return Path(world.state().source.path)


def commit(world: World, *actions: str) -> None:
    """Write the next commit of the source."""
    log = source(world) / "_delta_log"
    version = max(int(f.stem) for f in log.glob("*.json")) + 1
    (log / f"{version:020d}.json").write_text("\n".join(actions) + "\n")


def added(world: World, **changed: Any) -> str:
    """Return an action that adds the first file of the source again."""
    first = (source(world) / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    body = next(json.loads(line)["add"] for line in first if line.startswith('{"add"'))
    return json.dumps({"add": body | changed})


def expect_refused(world: World, *codes: str) -> None:
    """Expect an error with a code of each command, quickly."""
    for command in COMMANDS:
        began = time.monotonic()
        found = {e["code"] for e in world.run(command).errors}
        assert found <= set(codes), (command, found)
        assert time.monotonic() - began < 10
    assert {e["code"] for e in world.run("refresh hourly").errors}


@pytest.mark.parametrize("depth", [2_000, MOST_DEPTH + 1, 100_000, 1_000_000])
@attack(
    "A source",
    "a commit has as many nested brackets as end the process of a library",
    "`source.damaged` with the version; the process goes on",
)
def test_a_deep_commit_ends_no_process(world: World, depth: int) -> None:
    """
    In statistics, where a library meets them, and in an action of an unknown name.
    """
    stats = '{"numRecords":1,"minValues":' + '{"a":' * depth + "1" + "}" * depth + "}"
    commit(world, added(world, path="deep.parquet", stats=stats))
    expect_refused(world, "source.damaged")


@attack("A source", "an action of an unknown name is nested without end", "`source.damaged`")
def test_a_deep_action_is_refused(world: World) -> None:
    """
    Also where nothing of it is needed.
    """
    commit(world, '{"x": ' + "[" * 200_000 + "]" * 200_000 + "}")
    expect_refused(world, "source.damaged")


def test_ordinary_depth_passes(world: World) -> None:
    """
    Brackets of values count only while they are open at once; a table of them is opened.
    """
    log = source(world) / "_delta_log"
    text = json.dumps({"commitInfo": {"note": "{[" * 1_000 + "]}" * 500, "more": [{"a": [1]}] * 5_000}})
    version = max(int(f.stem) for f in log.glob("*.json")) + 1
    (log / f"{version:020d}.json").write_text(text + "\n")
    refuse_deep(str(log.parent))

    assert version == open_table(str(log.parent)).version()
    assert 4 == depth_of(b'[[{"a": "["}]]')


@pytest.mark.parametrize(
    "path",
    ["../../outside.parquet", "a/../../outside.parquet", "%2e%2e/%2E%2E/outside.parquet", "x/%2e./../../o.parquet"],
)
@attack("A source", "a commit adds a file outside of the table (`../../…`)", "`source.damaged`; the file is not read")
def test_a_file_outside_is_not_read(world: World, path: str) -> None:
    """
    However the path is written.
    """
    commit(world, added(world, path=path))
    expect_refused(world, "source.damaged")
    assert is_outside(path)


@pytest.mark.parametrize(
    "path",
    ["a..b.parquet", "day=../../x".replace("../../", ".."), "..a/b.parquet", "/abs/x.parquet", "s3://bucket/x.parquet"],
)
def test_names_that_only_look_so_pass(path: str) -> None:
    """
    Dots in names, and the absolute paths of shallow clones.
    """
    assert not is_outside(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@attack("A source", "a data file is a pipe, which never ends", "`source.damaged` at once")
def test_a_pipe_is_not_read(world: World) -> None:
    """
    A command that would wait for ever says what is there.
    """
    os.mkfifo(source(world) / "pipe.parquet")
    commit(world, added(world, path="pipe.parquet"))
    expect_refused(world, "source.damaged")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"add": null}',
        '{"add": {}}',
        '{"add": []}',
        '{"metaData": 1}',
        '{"txn": {}}',
        '{"commitInfo": 3}',
        "\x00",
        '{"add": {"path": 5}}',
    ],
)
@attack("A source", "a commit is no commit", "`source.damaged`")
def test_a_commit_of_a_wrong_form_is_an_error(world: World, text: str) -> None:
    """
    Whatever stands there, a command ends with a code.
    """
    commit(world, text)
    for command in COMMANDS:
        assert 70 != world.run(command).status
        assert "bug" not in {e["code"] for e in world.run(command).errors}


def test_the_errors_say_that_nothing_was_written(world: World) -> None:
    """
    They carry what was written, as each error does.
    """
    commit(world, added(world, path="../x"))
    with pytest.raises(SourceDamagedError) as refused:
        world.lake.opened.refresh("hourly")
    assert refused.value.wrote


@attack(
    "A source",
    "statistics of a file reach over ten thousand years",
    "planned at once; the refresh says what is wrong with the file",
)
def test_statistics_of_all_times_cost_nothing(world: World) -> None:
    """
    What is dirty is one span, however many buckets it has.
    """
    ends = {"minValues": {"ts": "0001-01-01T00:00:00.000Z"}, "maxValues": {"ts": "9999-12-31T23:59:59.999Z"}}
    stats = json.dumps({"numRecords": 1, **ends, "nullCount": {"ts": 0}})
    commit(world, added(world, path="far.parquet", stats=stats))
    began = time.process_time()
    world.works("plan hourly")
    world.works("status hourly")

    assert time.process_time() - began < 5
