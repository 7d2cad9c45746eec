"""A journal in which somebody else wrote: names, paths, expressions and suites; no JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from materializer.core.quality.suite import read
from materializer.errors import DefinitionError
from materializer.journal.store import JournalStore
from tests.attacks.poison import in_spec, named, rewrite
from tests.attacks.table import attack
from tests.hints.world import HOURLY, World

COMMANDS = (
    "status", "refresh --all", "refresh hourly", "plan hourly", "verify hourly", "show hourly", "drop ../victim --yes", "drop hourly --yes",
    "report --out out", "maintain --all", "repair --all", "repair ../victim", "policy run --due", "expire hourly --before 2024-03-01",
)  # fmt: skip
CALL = "reflect('java.lang.System', 'setProperty', 'a', 'b')"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with two aggregates, beside a folder of somebody else."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "precious").write_text("x")
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path / "lake")
    world.apply(HOURLY)
    world.apply(HOURLY.replace("hourly", "other"))
    world.works("refresh --all")
    return world


def found_outside(world: World) -> list[str]:
    """Return what lies beside the lake."""
    beside = world.root.parent
    return sorted(str(p.relative_to(beside)) for p in beside.rglob("*") if world.root not in (p, *p.parents))


def expect_refused(world: World, command: str) -> None:
    """Expect that a command over a poisoned lake touches nothing outside, and does not end well for what is poisoned."""
    before = [p for p in found_outside(world) if not p.startswith("out")]
    ran = world.run(command)
    after = [p for p in found_outside(world) if not p.startswith("out")]

    assert before == after
    assert 0 != ran.status
    assert {"journal.corrupt", "aggregate.unknown", "journal.lost"} >= {e["code"] for e in ran.errors}
    assert ran.errors


@pytest.mark.parametrize("name", ["../victim", "/etc", "a/b", "..", "", "a\x1b[2Jb", "x" * 200, "ä"])
@attack(
    "The journal",
    "an aggregate has the name of a folder outside of the lake",
    "`journal.corrupt`; nothing is written or removed there",
)
def test_a_name_leads_nowhere(world: World, name: str) -> None:
    """
    Whatever asks for everything reports the aggregate, and nothing outside is touched.
    """
    rewrite(world.root, named(name))
    for command in COMMANDS if name == "../victim" else ("status", "report --out out"):
        expect_refused(world, command)
    assert {"data", "index.html"} & {p.name for p in Path("out").iterdir()}


@pytest.mark.parametrize("version", ["../../../victim", "a/b", "", "."])
@attack(
    "The journal",
    "a version of the data has the name of a folder outside of the lake",
    "`journal.corrupt`; nothing is written or removed there",
)
def test_a_version_leads_nowhere(world: World, version: str) -> None:
    """
    Ids of versions are those of folders, too.
    """

    def change(payload: dict[str, Any]) -> None:
        if "data_version" in payload:
            payload["data_version"] = version

    rewrite(world.root, change)
    for command in ("status", "refresh --all", "maintain --all", "drop hourly --yes"):
        expect_refused(world, command)


def _key(spec: dict[str, Any]) -> None:
    spec["keys"] = [{"name": "k", "sql": CALL}]


def _where(spec: dict[str, Any]) -> None:
    spec["where"] = f"{CALL} IS NULL"


def _argument(spec: dict[str, Any]) -> None:
    spec["measures"][0]["formula"]["calls"][0]["args"] = [CALL]


def _filter(spec: dict[str, Any]) -> None:
    spec["measures"][0]["formula"]["calls"][0]["where"] = f"{CALL} = 'x'"


def _order(spec: dict[str, Any]) -> None:
    spec["measures"][0]["formula"]["calls"][0]["order_by"] = CALL


def _function(spec: dict[str, Any]) -> None:
    spec["measures"][0]["formula"]["calls"][0] |= {
        "function": "reflect",
        "args": ["'java.lang.System'", "'lineSeparator'"],
    }


def _around(spec: dict[str, Any]) -> None:
    spec["measures"][0]["formula"]["pieces"] = [f"coalesce({CALL}, ", 0, ")"]


def _having(spec: dict[str, Any]) -> None:
    spec["having"] = {"pieces": [f"{CALL} IS NULL"], "calls": []}


def _type(spec: dict[str, Any]) -> None:
    spec["read_types"] = [["v", f"bigint) + {CALL} + CAST(1 AS bigint"]]


@pytest.mark.parametrize("edit", [_key, _where, _argument, _filter, _order, _function, _around, _having, _type])
@attack(
    "The journal",
    "a definition calls a function that `apply` refuses (`reflect`)",
    "`journal.corrupt` for that aggregate; nothing is called, others are refreshed",
)
def test_a_definition_calls_no_code(world: World, edit: Callable[[dict[str, Any]], None]) -> None:
    """
    What is read is checked like what is applied, wherever in a definition it stands.
    """

    def only(spec: dict[str, Any]) -> None:
        if spec["name"] == "hourly":
            edit(spec)

    rewrite(world.root, in_spec(only))
    for command in ("status", "refresh hourly", "plan hourly", "verify hourly"):
        expect_refused(world, command)
    world.works("refresh other")


HIDDEN = (
    "reflect ('a', 'b')", "REFLECT('a')", "`reflect`('a')", "reflect/**/('a')", "reflect -- x\n('a')", "try_reflect('a')", "java_method('a')",
    "x + (reflect('a'))", "f('(' || reflect('a'))", "cat.db.udf(1)", "udf(1)", "`u d f`(1)", "http_request('http://x')", "(SELECT 1)",
    "x); DROP TABLE t", "ai_query('m', 'p')", "sum(v) OVER (ORDER BY v) + udf(v)", "CAST(reflect('a') AS int)", "case when udf (x) then 1 end",
)  # fmt: skip
"""Texts that call, or are, what no definition has."""
PLAIN = (
    "v", "v + 1", "(v + 1) * 2", "coalesce(v, 0)", "upper (k)", "k IN ('a', 'reflect(')", "CAST(v AS decimal(10, 2))", "`odd (name`",
    "CASE WHEN (v > 1) THEN (2) ELSE -(v) END", "k LIKE '%(%'", "date_trunc('hour', ts)", "transform(xs, x -> x + 1)", "v BETWEEN (1) AND (2)",
)  # fmt: skip


@pytest.mark.parametrize("text", HIDDEN)
@attack("The journal", "a call is hidden behind quotes, comments, spaces, brackets and texts", "`journal.corrupt`")
def test_a_hidden_call_is_found(world: World, text: str) -> None:
    """
    Deny by default: only functions that are known may be called, however the call is written.
    """
    rewrite(world.root, in_spec(lambda spec: spec.update(where=f"({text}) IS NULL")))

    expect_refused(world, "status")


@pytest.mark.parametrize("text", PLAIN)
def test_what_people_write_passes(world: World, text: str) -> None:
    """
    Ordinary expressions are read, also with brackets and names of functions in texts.
    """
    rewrite(world.root, in_spec(lambda spec: spec.update(where=f"({text}) IS NOT NULL")))

    world.works("status")


TYPES = (
    "bigint", "decimal(10,2)", "struct<p (q):bigint,u:decimal(10,2)>", "struct<`p (q)`:bigint>", "struct<r;s:int>", "map<string,struct<z(z):int>>",
    "array<int>", "interval day to second", "string collate UTF8_LCASE", "time(6)", "struct<reflect(:int>", "struct<--c:int>", "timestamp_ntz", "char(5)",
)  # fmt: skip
"""Types of columns of other people, whose structs have fields of any name."""
NO_TYPES = (
    "bigint) + reflect('a') + CAST(1 AS bigint", "struct<a:int>) + reflect('x') + CAST(1 AS struct<b:int>", "int; DROP TABLE x", "struct<a:int",
    "struct<`a<`:int>) + reflect('x') + CAST(1 AS struct<b:int>>", "struct<a:int /* < */>) + x() + CAST(1 AS struct<b:int>", "int(1) + f(2)",
)  # fmt: skip


@pytest.mark.parametrize("kind", [*TYPES, *NO_TYPES])
@attack(
    "The journal", "a type ends early, and code follows it", "`journal.corrupt`; types with fields of any name pass"
)
def test_a_type_is_one_type(world: World, kind: str) -> None:
    """
    Behind the last bracket of a type nothing stands.
    """
    rewrite(world.root, in_spec(lambda spec: spec["read_types"].append(["s", kind])))

    assert (0 if kind in TYPES else 69) == world.run("status").status


def test_what_was_dropped_stays_dropped(world: World) -> None:
    """
    An aggregate whose first event cannot be read, and which was dropped, breaks nothing any more.
    """
    store = JournalStore(world.root)
    now = store.read()
    first = next(row for row in now.rows if row.kind == "defined")
    poisoned = replace(
        first, aggregate="f" * 32, payload=first.payload.replace('"hourly"', '"../x"').replace('"other"', '"../x"')
    )
    store.append([poisoned], expected_version=now.version)
    assert 69 == world.run("status").status
    store.append([replace(poisoned, kind="dropped", payload="{}")], expected_version=now.version + 1)

    world.works("status")


def suite(query: str, kind: str = "unexpected_rows_expectation", arg: str = "unexpected_rows_query") -> str:
    """Return a suite of one expectation."""
    more = {} if arg != "row_condition" else {"column": "k", "condition_parser": "spark"}
    kwargs = {arg: query, **more}
    return json.dumps({"name": "s", "expectations": [{"type": kind, "kwargs": kwargs}]})


QUERIES = (
    "SELECT reflect('a', 'b') FROM {batch}", "DROP TABLE x", "INSERT INTO t SELECT * FROM {batch}", "WITH a AS (SELECT 1) INSERT INTO t SELECT 1",
    "SELECT TRANSFORM (k) USING 'sh -c id' AS (x) FROM {batch}", "SELECT 1; DROP TABLE x", "SELECT db.udf(k) FROM {batch}", "CREATE TABLE x AS SELECT 1",
    "SELECT * FROM {batch} WHERE http_request('http://x') = 1", "FROM {batch} INSERT OVERWRITE t SELECT k", "SET x = 1",
)  # fmt: skip
READS = (
    "SELECT * FROM {batch} WHERE n < 0", "WITH a (x) AS (SELECT n FROM {batch}) SELECT * FROM a WHERE x < 0",
    "SELECT k, count(*) FROM {batch} GROUP BY k HAVING count(*) > 1", "SELECT *, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM {batch}",
    "SELECT * FROM {batch} WHERE EXISTS (SELECT 1 FROM other JOIN more USING (k))", "SELECT * FROM {batch} WHERE at > current_timestamp()",
    "SELECT * FROM {batch} JOIN (VALUES (1), (2)) t(a) ON n = a", "SELECT * FROM {batch} MINUS (SELECT * FROM x)", "TABLE {batch}",
    "SELECT * FROM {batch} TABLESAMPLE (10 ROWS) REPEATABLE (3)", "(SELECT explode(array(1, 2)) AS x FROM {batch})", "SELECT * FROM {batch} WHERE note = 'INSERT INTO x'",
)  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
@attack(
    "Suites",
    "a query of a suite writes, runs a program, or calls code",
    "`suite.value` in `apply`; a gate that has it from a journal stops the refresh",
)
def test_a_query_of_a_suite_only_reads(query: str) -> None:
    """
    A suite is checked each time it is read, from a file or from the journal.
    """
    with pytest.raises(DefinitionError, match=r"suite\.value"):
        read(suite(query))


@pytest.mark.parametrize("query", READS)
def test_queries_that_people_write_pass(query: str) -> None:
    """
    Common tables, windows, sub-queries, generators and the clock are what checks are made of.
    """
    assert read(suite(query))


@attack("Suites", "the condition of an expectation calls code", "`suite.value`")
def test_a_condition_of_a_suite_calls_no_code() -> None:
    """
    A condition is an expression like one of a definition.
    """
    kind = "expect_column_values_to_not_be_null"
    with pytest.raises(DefinitionError, match=r"suite\.value"):
        read(suite(CALL, kind, "row_condition"))
    for condition in ("n > 0 AND k IS NOT NULL", "bucket > current_date()"):
        assert read(suite(condition, kind, "row_condition"))
    assert read(suite('col("n") > 3', kind, "row_condition").replace('"spark"', '"great_expectations"'))


@pytest.mark.parametrize("place", ["hourly", "hourly/output", "hourly/output/_delta_log", "hourly/partials"])
@attack(
    "The lake's folders",
    "a folder of an aggregate is a symbolic link out of the lake",
    "`lake.outside` before anything is written or removed",
)
def test_a_link_is_not_followed(world: World, place: str) -> None:
    """
    What would be removed or written through a link stays; reading is no harm.
    """
    folder, victim = world.root / place, world.root.parent / "victim"
    folder.rename(victim / "moved")
    folder.symlink_to(victim / "moved")
    before = found_outside(world)
    world.add([50])

    world.run("maintain hourly")
    for command in ("refresh hourly", "drop hourly --yes"):
        assert ["lake.outside"] == [e["code"] for e in world.run(command).errors], command
        assert before == found_outside(world)
    world.works("refresh other")


@attack(
    "The lake's folders",
    "the folder of the journal is a symbolic link out of the lake",
    "`lake.outside` before anything is written",
)
def test_the_journal_is_not_written_through_a_link(world: World) -> None:
    """
    The journal of another lake gets no commit.
    """
    state = world.root / "_materializer"
    state.rename(world.root.parent / "victim" / "state")
    state.symlink_to(world.root.parent / "victim" / "state")
    before = found_outside(world)
    world.add([50])

    assert ["lake.outside"] == [e["code"] for e in world.run("refresh hourly").errors]
    assert before == found_outside(world)


def _of_spec(part: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(payload: dict[str, Any]) -> None:
        payload["spec"][part] = value

    return change


def _of_state(part: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(payload: dict[str, Any]) -> None:
        payload[part] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _of_state("spec", {}),
        _of_spec("grid", None),
        _of_spec("grid", {"width": {}}),
        _of_spec("measures", [{"name": "n"}]),
        _of_spec("engine", "nosuch"),
        _of_state("threshold", []),
        _of_state("cursor", "1"),
        _of_state("cursor", 1e30),
        _of_state("tables", None),
        _of_state("verdict", "x"),
        _of_state("mark", {"columns": {}, "commits": -1}),
    ],
)
@attack(
    "The journal",
    "a value of an aggregate is of another kind, or of a release that this one does not know",
    "`journal.corrupt` or `journal.too-new` for that aggregate; others are shown and refreshed",
)
def test_a_value_of_another_kind_stops_no_other_aggregate(
    world: World, change: Callable[[dict[str, Any]], None]
) -> None:
    """
    It is named, and can be repaired or dropped; nothing is called a mistake of ours.
    """

    def only(payload: dict[str, Any]) -> None:
        if payload.get("name") == "hourly" and "data_version" in payload:
            change(payload)

    rewrite(world.root, only)
    for command in ("status", "refresh --all", "doctor", "history hourly", "plan hourly"):
        ran = world.run(command)
        assert {"journal.corrupt", "journal.too-new"} >= {e["code"] for e in ran.errors}, (command, ran)
        assert ran.status not in (0, 70), (command, ran)
    assert 0 == world.run("refresh other").status
