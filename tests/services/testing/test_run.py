"""Tests of definitions: rows of a file in, rows of the output compared, and no row of the lake read or written."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from materializer.adapters.cli.render.testing import TestsResult
from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import DefinitionError, MaterializerError, NotLocalError, TestFileError, UsageError
from tests import tables
from tests.paths import ROOT

SQL = """CREATE MATERIALIZED VIEW {name} AS SELECT time_bucket('1 {unit}', at) AS start, sym, {measures}
FROM trades WHERE price >= 0 GROUP BY time_bucket('1 {unit}', at), sym;
"""
COLUMNS = "columns: {at: timestamp, sym: string, price: double, size: int, fee: 'decimal(10,2)', day: date, is_buy: boolean}\n"
TEST = """unit_tests:
  - name: {name}
    model: {model}
    given:
      - input: {input}
        rows: {given}
    expect:
      rows: {expect}
"""


class Desk:
    """A folder with definitions and tests, and a lake without rows."""

    def __init__(self, folder: Path, *measures: str) -> None:
        self.folder = folder
        self.lake = Materializer(folder / "lake", config=Config(lake=str(folder / "lake")))
        self.sql = folder / "bars.sql"
        self.sql.write_text(SQL.format(name="bars", unit="hour", measures=", ".join(measures or ("count(*) AS n",))))

    def write(self, given: str, expect: str, *, columns: str = COLUMNS, **more: str) -> Path:
        """Write a file with one test."""
        file = self.folder / "bars.yml"
        parts = {"name": "one", "model": "bars", "input": "trades"} | more
        file.write_text(columns + TEST.format(given=given, expect=expect, **parts))
        return file

    def run(self, given: str, expect: str, **more: Any) -> Any:
        """Run one test, and return its result or raise its error."""
        (outcome,) = self.lake.test(str(self.write(given, expect, **more)), definitions=[str(self.sql)])
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def problems(self, given: str, expect: str, **more: Any) -> list[tuple[str, str, int]]:
        """Return code, hint and line of each problem of one test."""
        with pytest.raises(TestFileError) as caught:
            self.run(given, expect, **more)
        return [(p.code, p.hint, p.line) for p in caught.value.problems]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, "sum(price) AS total", "sum(fee) AS fees", "max(day) AS latest", "bool_or(is_buy) AS any_buy")


ROWS = """
          - {at: 2024-03-01T00:10:00Z, sym: NO, price: 0.1, fee: 1.10, day: 2024-02-29, is_buy: true}
          - {at: 2024-03-01 01:30:00+01:00, sym: NO, price: 0.2, fee: 2}
          - {at: 2024-03-01T00:20:00, sym: null, price: .inf}
          - {at: 2024-03-01T00:20:00, sym: "null", price: -1}
          - {sym: NO, price: 5}"""


def test_rows_that_are_expected_pass(desk: Desk) -> None:
    """
    Values are read as the types of their columns: `NO` is a text, a day a date, an instant without a zone one of UTC. What is left out is
    null, a row without a time is in no bucket, and doubles are equal within 1e-9. Nothing starts Spark, and the lake stays empty.
    """
    outcome = desk.run(
        ROWS,
        """
        - {start: 2024-03-01, sym: NO, total: 0.3, fees: 3.10, latest: 2024-02-29, any_buy: true}
        - {start: 2024-03-01T00:00:00Z, total: .inf}""",
    )

    assert outcome.is_passed
    assert (outcome.expected, outcome.got, outcome.executor) == (2, 2, "local")
    assert not desk.lake.has_started_spark
    assert not (desk.folder / "lake").exists()


def test_a_difference_is_a_row_of_one_side(desk: Desk) -> None:
    """
    Only the columns that are expected are compared, rows in any order; those of one group stand beside each other.
    """
    outcome = desk.run(ROWS, "[{sym: NO, fees: 3.20}, {sym: SE, fees: 1}]")

    assert outcome.columns == ("sym", "fees")
    shown = [(d.side, d.row[0], None if d.row[1] is None else str(d.row[1])) for d in outcome.differences]
    assert shown == [
        ("expected", "NO", "3.20"),
        ("got", "NO", "3.10"),
        ("got", None, None),
        ("expected", "SE", "1"),
    ]


def test_a_row_that_is_there_twice_counts_twice(desk: Desk) -> None:
    """
    Two equal rows are not one, on either side.
    """
    rows = "[{at: 2024-03-01, sym: A, price: 1}, {at: 2024-03-02, sym: A, price: 1}]"

    assert desk.run(rows, "[{sym: A}, {sym: A}]").is_passed
    assert [d.side for d in desk.run(rows, "[{sym: A}]").differences] == ["got"]
    assert [d.side for d in desk.run(rows, "[{sym: A}, {sym: A}, {sym: A}]").differences] == ["expected"]


def test_no_rows_give_no_rows(desk: Desk) -> None:
    """
    An empty source is a test like any other, and `rows: []` expects nothing at all.
    """
    assert desk.run("[]", "[]").is_passed
    assert [d.side for d in desk.run(ROWS, "[]").differences] == ["got", "got"]


def test_rows_may_be_csv(desk: Desk) -> None:
    """
    As in dbt: a header, and a value that is empty is null.
    """
    text = "|\n          at,sym,price\n          2024-03-01,,1.5\n          2024-03-01,A,2\n        format: csv"

    assert desk.run(text, "[{sym: A, total: 2}, {sym: null, total: 1.5}]", input="ref('trades')").is_passed


def test_types_are_those_of_the_source(desk: Desk) -> None:
    """
    A file without `columns` takes the types of the source's table, of which no row is read: its files may be gone.
    """
    path = str(desk.folder / "lake" / "trades")
    kinds = {"price": pa.float64(), "fee": pa.decimal128(10, 2), "day": pa.date32(), "is_buy": pa.bool_()}
    tables.create(path, pa.schema([("at", pa.timestamp("us", "UTC")), ("sym", pa.string()), *kinds.items()]))
    tables.append(path, pa.table({"at": [datetime(2024, 3, 1, tzinfo=UTC)], "sym": ["B"]}), schema_mode="merge")
    for file in (desk.folder / "lake" / "trades").glob("*.parquet"):
        file.unlink()

    assert desk.run("[{at: 2024-03-01, sym: A, price: 1}]", "[{total: 1}]", columns="").is_passed


@pytest.mark.parametrize(
    ("given", "expect", "more", "code", "hint", "line"),
    [
        ("[{att: 2024-03-01}]", "[]", {}, "test.unknown-column", "did you mean `at`?", 7),
        ("[]", "[{totl: 1}]", {}, "test.unknown-column", "did you mean `total`?", 9),
        ("[{at: yesterday}]", "[]", {}, "test.wrong-value", "", 7),
        ("[{at: 2024-03-01, price: many}]", "[]", {}, "test.wrong-value", "", 7),
        ("[{size: 3000000000}]", "[]", {}, "test.wrong-value", "", 7),
        ("[{fee: 1.234}]", "[]", {}, "test.wrong-value", "", 7),
        ("[{is_buy: yes}]", "[]", {}, "test.wrong-value", "", 7),
        ("[{day: 2024-03-01T00:00:00}]", "[]", {}, "test.wrong-value", "", 7),
        ("[{sym: [a]}]", "[]", {}, "test.wrong-value", "", 7),
        ("[]", "[]", {"model": "bar"}, "test.unknown-aggregate", "did you mean `bars`?", 4),
        ("[]", "[]", {"input": "orders"}, "test.unknown-source", "write `trades`", 6),
        ("[]", "[]", {"columns": ""}, "test.no-types", "write `columns: {name: type, …}` into the file", 3),
        ("[]", "[]", {"columns": "columns: {at: timestmp}\n"}, "test.invalid", "", 1),
        ("[]", "[]", {"columns": "colums: {at: date}\n"}, "test.invalid", "did you mean `columns`?", 1),
        ("[]", "[]\n      row: 1", {}, "test.invalid", "did you mean `rows`?", 10),
        ("[1]", "[]", {}, "test.invalid", "", 7),
        ("*x", "[]", {}, "test.file", "", 7),
        ("|\n          a,b\n          1\n        format: csv", "[]", {}, "test.invalid", "", 9),
        ("[{at: 2024-03-01}]", "[]", {"columns": "columns: {at: timestamp, sym: string}\n"}, "definition.unknown-column", "", 1),
        ("[]", "[]", {"columns": "columns: {at: timestamp, sym: string, prise: double}\n"}, "test.unknown-column", "did you mean `price`?", 1),
    ],
)  # fmt: skip
def test_mistakes_are_said_with_their_place(
    desk: Desk, given: str, expect: str, more: dict[str, str], code: str, hint: str, line: int
) -> None:
    """
    A code, the line, and what was meant where something is near.
    """
    (found, *_) = desk.problems(given, expect, **more)

    assert (found[0], found[2]) == (code, line)
    assert not hint or found[1] == hint


def test_every_problem_is_said_at_once(desk: Desk) -> None:
    """
    Of all rows and all tests, those that are expected too, and of the definition.
    """
    short = {"columns": "columns: {at: timestamp, sym: string}\n"}
    found = desk.problems("[{att: 2024-03-01}]", "[{totl: 1}]", **short)

    assert {line for code, _, line in found if code == "test.unknown-column"} == {7, 9}
    assert "definition.unknown-column" in {code for code, *_ in found}
    assert len(desk.problems("[{att: 1}, {at: x, price: y}]", "[]")) == 3


def test_a_large_file_is_not_read(desk: Desk) -> None:
    """
    A test has few rows.
    """
    file = desk.write("[]", "[]")
    file.write_text(file.read_text() + "#" * (1 << 20))

    with pytest.raises(TestFileError, match="at most"):
        desk.lake.test(str(file), definitions=[str(desk.sql)])


@pytest.mark.parametrize("depth", [100, 300, 5_000])
def test_a_type_without_end_is_no_type(desk: Desk, depth: int) -> None:
    """
    Values have a limit of their own; libraries end with tracebacks of many kinds.
    """
    kind = "array<" * depth + "int" + ">" * depth
    columns = COLUMNS.replace("{at", f"{{deep: '{kind}', at", 1)

    assert ["test.invalid"] == [code for code, *_ in desk.problems("[]", "[]", columns=columns)]


@pytest.mark.parametrize("folder", ["tests", "sql"])
def test_a_pipe_in_a_folder_is_not_read(desk: Desk, folder: str) -> None:
    """
    Reading it never ends.
    """
    place = desk.folder / folder
    place.mkdir(exist_ok=True)
    is_test = folder == "tests"
    os.mkfifo(place / ("p.yml" if is_test else "p.sql"))
    which, definitions = (place, desk.sql) if is_test else (desk.write("[]", "[]"), place)
    with pytest.raises(UsageError, match="no regular file"):
        desk.lake.test(str(which), definitions=[str(definitions)])


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash makes the pipes")
def test_tests_and_definitions_may_come_from_commands(desk: Desk) -> None:
    """
    `<(…)` of a shell is a pipe without an ending; a path that is not there is said to be no file, and not the name of a test.
    """
    desk.write("[]", "[]")
    run = f"{shlex.quote(sys.executable)} -m materializer test <(cat bars.yml) --definitions <(cat bars.sql)"
    ran = subprocess.run(
        ["bash", "-c", run],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert (0, "") == (ran.returncode, ran.stderr)
    assert "one" in ran.stdout
    with pytest.raises(UsageError, match="there is no file nowhere/bars"):
        desk.lake.test("nowhere/bars")


@pytest.mark.parametrize(
    ("measure", "error", "words"),
    [
        ("max(reverse(sym)) AS last", NotLocalError, "--executor auto"),
        ("sum(sym) AS total", DefinitionError, "sym"),
    ],
)
def test_what_cannot_be_computed_here_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: str, error: type[MaterializerError], words: str
) -> None:
    """
    What has no local form names the option with which Spark computes it; a text that is summed is wrong in any case.
    """
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        Desk(tmp_path, measure).run(ROWS, "[]")

    assert words in f"{caught.value.message} {caught.value.hint}"


def test_names_select_tests(desk: Desk) -> None:
    """
    By the name of the test or of the aggregate; a name that is neither is refused with the nearest.
    """
    file = str(desk.write("[]", "[]"))

    assert [o.name for o in desk.lake.test(file, "one", definitions=[str(desk.sql)])] == ["one"]
    assert [o.name for o in desk.lake.test(file, "bars", definitions=[str(desk.sql)])] == ["one"]
    with pytest.raises(UsageError) as caught:
        desk.lake.test(file, "bras", definitions=[str(desk.sql)])
    assert caught.value.hint == "did you mean `bars`?"


def test_a_test_is_computed_without_a_table(desk: Desk) -> None:
    """
    A hundred tests take what one takes: no file beside theirs is opened, and no folder is made.
    """
    before = sorted(p.name for p in desk.folder.iterdir())
    file = desk.write(ROWS, "[]")
    text = file.read_text().removeprefix(COLUMNS).removeprefix("unit_tests:\n")
    file.write_text(COLUMNS + "unit_tests:\n" + "".join(text.replace("name: one", f"name: t{i}") for i in range(100)))

    outcomes = desk.lake.test(str(file), definitions=[str(desk.sql)])

    assert len(outcomes) == 100
    assert {o.got for o in outcomes} == {2}
    assert sorted(p.name for p in desk.folder.iterdir()) == sorted([*before, "bars.yml"])


@pytest.mark.parametrize(("unit", "ticks"), [("s", 1), ("ms", 1_000), ("us", 1_000_000)])
def test_times_of_integer_columns_may_be_iso(desk: Desk, unit: str, ticks: int) -> None:
    """
    In given and in expected rows, beside whole numbers; a difference is printed as times. What is no time, or finer than a tick, is refused.
    """
    sql = SQL.format(name="bars", unit="hour", measures="sum(price) AS total")
    desk.sql.write_text(sql.replace(" AS SELECT", f" TBLPROPERTIES ('time.resolution' = '{unit}') AS SELECT", 1))
    of_numbers = COLUMNS.replace("at: timestamp", "at: bigint")
    hour = 1_709_254_800 * ticks  # 2024-03-01T01:00:00Z
    given = f"[{{at: 2024-03-01T02:00:10+01:00, price: 1}}, {{at: {hour}, price: 2}}, {{at: 2024-03-01, price: 4}}]"
    expect = "[{start: 2024-03-01T01:00:00Z, total: 3}, {start: 2024-03-01, total: 4}]"

    assert desk.run(given, expect, columns=of_numbers).is_passed
    assert desk.run(given, expect.replace("2024-03-01T01:00:00Z", str(hour)), columns=of_numbers).is_passed
    text = "\n".join(TestsResult((desk.run(given, "[{start: 2024-03-02, total: 3}]", columns=of_numbers),)).lines(100))
    assert "2024-03-02T00:00:00Z" in text
    assert "2024-03-01T01:00:00Z" in text
    for wrong in ("soon", "inf", "2024-03-01T00:00:00.0000005Z", "1.5"):
        assert [("test.wrong-value", 7)] == [
            (code, line) for code, _, line in desk.problems(f"[{{at: {wrong}}}]", "[]", columns=of_numbers)
        ]
