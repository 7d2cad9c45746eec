"""A source that somebody made to end, stall or mislead the process that reads it; no JVM."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.core.spec.spec import TimeType
from materializer.errors import ConfigError, SourceDamagedError, StorageError
from materializer.lake import places, store_settings
from materializer.lake.extent import files
from materializer.lake.hostile import MOST_BYTES, MOST_DEPTH, depth_of, is_outside, refuse_deep
from materializer.lake.rows import refuse_unfit_changes, refuse_unfit_files
from materializer.lake.table import DeltaFolder, open_table
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
        assert time.monotonic() - began < 60  # Spark may have to be started, beside other work
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


def checkpoint_with(table: Path, stats: str) -> Path:
    """Make a checkpoint of the newest version, with other statistics in it; what came before it is cleaned up."""
    log = table / "_delta_log"
    DeltaTable(table).create_checkpoint()
    file = next(log.glob("*.checkpoint.parquet"))
    rows = pq.read_table(file)
    changed = [row | {"add": row["add"] and row["add"] | {"stats": stats}} for row in rows.to_pylist()]
    pq.write_table(pa.Table.from_pylist(changed, schema=rows.schema), file)
    newest = int(file.name[:20])
    for each in log.glob("*.json"):
        if int(each.stem) < newest:
            each.unlink()
    return file


def nested(depth: int) -> str:
    """Return statistics of a file, with so many brackets open at once."""
    return '{"numRecords":1,"minValues":' + '{"a":' * depth + "1" + "}" * depth + "}"


@attack(
    "A source",
    "statistics in a checkpoint are nested without end, where a library parses them",
    "`source.damaged` with the file; the process goes on",
)
def test_a_deep_checkpoint_ends_no_process(tmp_path: Path) -> None:
    """
    A checkpoint is looked at as commits are: in one file, in parts, and beside one with ordinary statistics.
    """
    table = tmp_path / "table"
    for each in range(3):
        write_deltalake(table, pa.table({"a": [each]}), mode="append")
    file = checkpoint_with(table, nested(3))
    assert 2 == open_table(str(table)).version()
    checkpoint_with(table, nested(100_000))
    with pytest.raises(SourceDamagedError, match=r"2\.checkpoint\.parquet.*nested deeper"):
        open_table(str(table))

    file.rename(file.with_name(file.name.replace(".parquet", ".0000000001.0000000001.parquet")))
    with pytest.raises(SourceDamagedError, match="nested deeper"):
        open_table(str(table))


@attack(
    "A source",
    "a deep commit stands before a checkpoint that is not whole, or before the newest one while an older version is read",
    "`source.damaged`",
)
def test_a_deep_commit_does_not_hide_behind_a_checkpoint(tmp_path: Path) -> None:
    """
    A library passes over a checkpoint of which a part is missing, and reads what came before it.
    """
    table = tmp_path / "table"
    for each in range(4):
        write_deltalake(table, pa.table({"a": [each]}), mode="append")
    log = table / "_delta_log"
    deep = log / f"{2:020d}.json"
    right = deep.read_text()
    DeltaTable(table).create_checkpoint()
    deep.write_text(
        right + json.dumps({"x": nested(100_000)}).replace('\\"', '"').replace('"{', "{").replace('}"}', "}}") + "\n"
    )
    assert 3 == open_table(str(table)).version()
    with pytest.raises(SourceDamagedError, match="nested deeper"):
        open_table(str(table), 2)

    whole = next(log.glob("*.checkpoint.parquet"))
    whole.rename(log / f"{3:020d}.checkpoint.0000000001.0000000002.parquet")
    (log / "_last_checkpoint").unlink()
    with pytest.raises(SourceDamagedError, match="nested deeper"):
        open_table(str(table))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize(
    "name", ["{:020d}.json", "{:020d}.checkpoint.parquet", "_last_checkpoint", "{:020d}.checkpoint.x.json"]
)
@attack(
    "A source",
    "a file of its log is a pipe: a commit, a checkpoint, the name of the newest one",
    "`source.damaged` at once",
)
def test_a_pipe_in_a_log_is_not_read(world: World, name: str) -> None:
    """
    A command that would wait for ever says what is there.
    """
    log = source(world) / "_delta_log"
    version = max(int(f.stem) for f in log.glob("*.json"))
    os.mkfifo(log / name.format(version + (name == "{:020d}.json")))
    with pytest.raises(SourceDamagedError, match="no regular file"):
        open_table(str(log.parent))
    for command in COMMANDS:
        assert {e["code"] for e in world.run(command).errors} <= {"source.damaged"}


@attack("A source", "a commit has the size of a disk", "`source.damaged` at once; it is not read")
def test_a_commit_without_end_is_not_read(world: World) -> None:
    """
    Its bytes are not counted by reading them.
    """
    commit(world, "")
    newest = max((source(world) / "_delta_log").glob("*.json"))
    os.truncate(newest, MOST_BYTES + 1)
    expect_refused(world, "source.damaged")


@attack(
    "A source on a store",
    "a commit is nested without end",
    "`source.damaged`; the listing of the log tells which files are worth a look",
)
def test_a_store_is_looked_at_too(bucket: str) -> None:
    """
    The same rules as on a path: when a table is opened, when an open one has a new commit, and for an older version.
    """
    table = f"{bucket}/table"
    options = places.options_of(table)
    write_deltalake(table, pa.table({"a": [1]}), storage_options=options)
    opened = DeltaFolder(table)
    assert 0 == opened.opened().version()
    deep = b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    places.put(f"{table}/_delta_log/{1:020d}.json", deep)
    for each in (lambda: open_table(table), opened.opened):
        with pytest.raises(SourceDamagedError, match=r"1\.json.*nested deeper"):
            each()
    assert 0 == open_table(table, 0).version()


@attack(
    "A source on a store",
    "the store takes the connection and never answers",
    "`storage.failed`: a request ends after `aws_timeout` (30 s), and is made again ten times, for three minutes at most",
)
def test_a_store_that_never_answers_ends(request: pytest.FixtureRequest) -> None:
    """
    `[storage] aws_timeout` holds for both clients of a store; a setting that they do not know is an error with its name.
    """
    request.addfinalizer(lambda: store_settings.configure({}))
    store_settings.configure({"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_nonsense": "1"})
    with pytest.raises(ConfigError, match="aws_nonsense"):
        places.names("s3://box/table")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store_settings.configure(
            {
                "aws_access_key_id": "a",
                "aws_secret_access_key": "b",
                "aws_region": "x",
                "aws_endpoint_url": url,
                "aws_timeout": "20ms",
            }
        )
        with pytest.raises(StorageError, match=r"error sending request|timed out|timeout"):
            open_table("s3://box/table")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("maxValues", "1970-01-01T00:00:00.000Z", "'ts' has values above the largest one"),
        ("minValues", "2999-01-01T00:00:00.000Z", "'ts' has values below the smallest one"),
        ("nullCount", 3, "'ts' is null in 0 rows, not 3"),
        ("numRecords", 7_000, "not 7,000"),
    ],
)
@attack(
    "A source",
    "statistics of a file lie: fewer or more rows, other ends of its times, rows without a time",
    "believed by refreshes; `doctor --deep` reads the files and names this one (`doctor.statistics`), and `verify` finds the difference",
)
def test_statistics_that_lie_are_found_by_reading(world: World, name: str, value: Any, words: str) -> None:
    """
    Rows outside of what the log says of their file are found; a lake without a lie is told to be right.
    """
    assert "hold what the log says of them" in world.works("doctor --deep")
    body = json.loads(added(world))["add"]
    stats = json.loads(body["stats"])
    stats[name] = value if name == "numRecords" else (stats.get(name) or {}) | {"ts": value}
    removed = json.dumps({"remove": {"path": body["path"], "dataChange": True, "deletionTimestamp": 1}})
    commit(world, removed)
    commit(world, json.dumps({"add": body | {"stats": json.dumps(stats)}}))

    assert words not in world.run("doctor").text
    found = world.run("doctor --deep")
    assert (1, True) == (found.status, words in found.text), found.text


@pytest.mark.parametrize("count", ["x", -5, 1.5, True, 10**30, [1]])
@attack("A source", "statistics count rows that cannot be: a text, fewer than none, a fraction", "`source.damaged`")
def test_a_count_that_is_none_is_refused(world: World, count: Any) -> None:
    """
    Before anything is computed with it.
    """
    stats = json.loads(json.loads(added(world))["add"]["stats"]) | {"numRecords": count}
    commit(world, added(world, path="count.parquet", stats=json.dumps(stats)))

    assert ["source.damaged"] == [e["code"] for e in world.run("refresh hourly").errors]


@attack("A source", "a file has a size below zero, or none that is a number", "`source.damaged`")
def test_a_size_that_is_none_is_refused(world: World) -> None:
    """
    In a commit that is read, and where a library read it.
    """
    commit(world, added(world, path="size.parquet", size=-5))
    assert ["source.damaged"] == [e["code"] for e in world.run("refresh hourly").errors]
    with pytest.raises(SourceDamagedError, match="the size -5"):
        files(str(source(world)), open_table(str(source(world))).version(), "ts", TimeType.TIMESTAMP)
    commit(world, added(world, path="text.parquet", size="5"))
    assert {"source.damaged"} == {e["code"] for e in world.run("refresh hourly").errors}


def nested_type(depth: int) -> Any:
    """Return the type of arrays of arrays."""
    return "long" if not depth else {"type": "array", "elementType": nested_type(depth - 1), "containsNull": True}


SCHEMAS = {
    "two hundred arrays": json.dumps(
        {"type": "struct", "fields": [{"name": "deep", "type": nested_type(200), "nullable": True, "metadata": {}}]}
    ),
    "nothing": "",
    "no fields": '{"type": "struct"}',
    "a number": "5",
    "a list": "[]",
    "too many digits": '{"type": "struct", "fields": [{"name": "a", "type": "decimal(99,1)", "nullable": true, "metadata": {}}]}',
    "a name that is none": '{"type": "struct", "fields": [{"name": 5, "type": "long", "nullable": true, "metadata": {}}]}',
}


@pytest.mark.parametrize("name", SCHEMAS)
@attack(
    "A source", "its schema is none, or a column has a type of two hundred arrays in each other", "`source.damaged`"
)
def test_a_schema_that_is_none_is_refused(world: World, name: str) -> None:
    """
    What a library cannot parse is damage of the log, and no failure of a disk.
    """
    first = (source(world) / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in first if '"metaData"' in line)
    metadata["metaData"]["schemaString"] = SCHEMAS[name]
    commit(world, json.dumps(metadata))
    assert ["source.damaged"] == [e["code"] for e in world.run("refresh hourly").errors]


@attack(
    "A source",
    "its log names files of other folders by whole paths, as that of a shallow clone does",
    "read, because Delta allows it; `doctor` lists the folders (`doctor.files-elsewhere`)",
)
def test_files_elsewhere_are_listed(world: World, tmp_path: Path) -> None:
    """
    A folder is named once, however many files lie there.
    """
    assert "doctor.files-elsewhere" not in {f.code for f in world.lake.opened.doctor("hourly")}
    body = json.loads(added(world))["add"]
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    for each, before in (("a", ""), ("b", "file://")):
        shutil.copy(source(world) / body["path"], elsewhere / f"{each}.parquet")
        commit(world, added(world, path=before + quote(f"{elsewhere}/{each}.parquet")))

    (found,) = [f for f in world.lake.opened.doctor("hourly") if f.code == "doctor.files-elsewhere"]
    assert 1 == found.message.count(str(elsewhere))
    assert "hold what the log says of them" in world.works("doctor --deep")


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


def test_counting_ends_where_a_text_is_too_deep() -> None:
    """
    Whoever writes a long commit must not make a process count for minutes.
    """
    assert MOST_DEPTH + 1 == depth_of(b'{"a":' * 100_000)
    assert 100_000 == depth_of(b'{"a":' * 100_000, enough=100_000)


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
@attack(
    "A source",
    "a data file is a pipe, which never ends, named by its name, its whole path or its address (`file:///…`)",
    "`source.damaged` at once; `doctor` finds it, too",
)
def test_a_pipe_is_not_read(world: World) -> None:
    """
    A command that would wait for ever says what is there, and so does what is asked before Spark reads a version or changes.
    """
    folder = str(source(world))
    os.mkfifo(f"{folder}/pipe.parquet")
    for form in (
        "pipe.parquet",
        "{}/pipe.parquet",
        "file:{}/pipe.parquet",
        "FILE://localhost{}/%70ipe.parquet",
        "file://{}/pipe.parquet",
    ):
        commit(world, added(world, path=form.format(folder)))
        version = open_table(folder).version()
        for refuse in (lambda v: refuse_unfit_files(folder, v), lambda v: refuse_unfit_changes(folder, v - 1, v)):
            with pytest.raises(SourceDamagedError, match="no regular file"):
                refuse(version)
        removed = json.dumps({"remove": {"path": form.format(folder), "dataChange": True, "deletionTimestamp": 1}})
        commit(world, *([removed] if "///" not in form.format(folder) else []))
    expect_refused(world, "source.damaged")
    assert "source.damaged" in {f.code for f in world.lake.opened.doctor("hourly") if f.level == "error"}


@pytest.mark.parametrize("path", ["folder.parquet", "file:///dev/zero"])
@attack("A source", "a data file is a folder or a device", "`source.damaged` at once, also by `doctor`")
def test_a_device_is_not_read(world: World, path: str) -> None:
    """
    Nothing but regular files is read, however it is named.
    """
    (source(world) / "folder.parquet").mkdir()
    commit(world, added(world, path=path))
    assert ["source.damaged"] == [e["code"] for e in world.run("refresh hourly").errors]
    assert "source.damaged" in {f.code for f in world.lake.opened.doctor("hourly") if f.level == "error"}


@attack(
    "A source",
    "a file of it, or a folder, is a symbolic link that leads out of the table",
    "read, as the files of a shallow clone are; `doctor` lists the folders (`doctor.files-elsewhere`)",
)
def test_links_out_of_a_source_are_listed(world: World, tmp_path: Path) -> None:
    """
    A link that stays inside is no news, nor is that the table itself is reached by one.
    """
    first = next(source(world).glob("*.parquet"))
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    shutil.copy(first, outside / "outside.parquet")
    (source(world) / "inner").mkdir()
    for link, to in (
        ("lnk.parquet", outside / "outside.parquet"),
        ("sub", outside),
        ("inner/sub", outside),
        ("own.parquet", first),
    ):
        (source(world) / link).symlink_to(to)
    commit(world, added(world, path="own.parquet"))
    assert "doctor.files-elsewhere" not in {f.code for f in world.lake.opened.doctor("hourly")}

    for path in ("lnk.parquet", "sub/outside.parquet", "inner/sub/outside.parquet"):
        commit(world, added(world, path=path))
        (found,) = [f for f in world.lake.opened.doctor("hourly") if f.code == "doctor.files-elsewhere"]
        assert found.message.endswith(f"lie in {outside}")
        commit(world, json.dumps({"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}}))


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
        ended = world.run(command)
        assert 70 != ended.status
        assert "bug" not in {e["code"] for e in ended.errors}


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
