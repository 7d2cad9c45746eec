"""Suites of a definition that is applied: what Great Expectations would refuse when a refresh runs is refused here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from materializer.adapters.great_expectations import auditor
from materializer.adapters.memory.library import MemoryLibrary
from materializer.config import Config
from materializer.core.language.parse import parse_definitions
from materializer.core.quality.library import ExpectationLibrary, Library
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.errors import DefinitionError, Problem
from materializer.journal.events import Described
from materializer.services.definitions import suites
from tests.appending import append
from tests.services.no_spark import LocalLake, each, view

COLUMNS: Final = {
    "output": {"hour": "timestamp", "sym": "string", "n": "bigint"},
    "source": {"ts": "timestamp", "sym": "string", "price": "double"},
}
SQL: Final = """CREATE MATERIALIZED VIEW bars AS
SELECT window.start AS hour, sym, count(*) AS n FROM trades GROUP BY window(ts, '1 hour'), sym"""
COMPILED: Final = (
    ("expect_column_values_to_not_be_null", {"column": "sym"}),
    ("expect_column_max_to_be_between", {"column": "hour", "min_value": {"$PARAMETER": "window_start"}}),
    ("expect_column_values_to_be_between", {"column": "n", "max_value": {"$PARAMETER": "most"}}),
)
OUTLIERS: Final = "expect_column_values_to_not_be_outliers"


def found(
    folder: Path, output: Any, source: Any = (), library: Library = lambda: auditor, **parameters: Any
) -> tuple[tuple[str, str], ...]:
    """Return the suites of a definition that has these expectations, each on a line of its own."""
    for name, expectations in (("bars", output), ("bars.source", source)):
        lines = ",\n".join(json.dumps({"type": t, "kwargs": k}) for t, k in expectations)
        (folder / f"{name}.json").write_text(f'{{"name": "{name}", "expectations": [\n{lines}\n]}}')
    return suites.found(spec(parameters), suites.Shelf(str(folder)), COLUMNS, library)


def spec(parameters: dict[str, Any]) -> AggregateSpec:
    """Return the definition, as it is when its suites are looked for."""
    [bars] = parse_definitions(SQL)
    return replace(bars, time_type=TimeType.TIMESTAMP, properties=(("quality.parameters", json.dumps(parameters)),))


def problems(*args: Any, **more: Any) -> list[Problem]:
    """Return what :func:`found` refuses."""
    with pytest.raises(DefinitionError) as refused:
        found(*args, **more)
    return list(refused.value.problems)


def test_what_a_library_refuses_stands_beside_what_we_refuse(tmp_path: Path) -> None:
    """
    Problems of both suites are in one list, each with its file and line; the library is asked for what is not compiled only.
    """
    output = [*COMPILED, (OUTLIERS, {"column": "n", "method": "iqr"}), (COMPILED[0][0], {"column": "sim"})]
    source = [(OUTLIERS, {"column": "price", "method": "iqr"}), *COMPILED[:1]]
    refused = dict.fromkeys((OUTLIERS, COMPILED[0][0]), "too many of them")
    wrong = problems(tmp_path, output, source, library=lambda: MemoryLibrary(refused), most=9)

    assert [
        ("bars.json", 5, "suite.value", True),
        ("bars.json", 6, "suite.unknown-column", False),
        ("bars.source.json", 2, "suite.value", True),
    ] == sorted((Path(p.file).name, p.line, p.code, "too many" in p.message) for p in wrong)


def test_a_library_is_not_asked_for_what_is_compiled(tmp_path: Path) -> None:
    """
    Where everything is compiled, it is not even loaded.
    """

    def load() -> ExpectationLibrary:
        raise AssertionError("the library is loaded")

    assert [kind for kind, _ in found(tmp_path, COMPILED, library=load, most=9)] == ["output", "source"]


@pytest.mark.quality
def test_what_great_expectations_refuses_is_refused_with_everything_else(tmp_path: Path) -> None:
    """
    Problems of both suites, ours and the library's, are in one list, each with its file and line.
    """
    pytest.importorskip("great_expectations", reason="needs the extra `quality`")
    output = [
        ("expect_table_row_count_to_equal", {"value": "many"}),
        ("expect_column_values_to_not_be_null", {"column": "sim"}),
        (OUTLIERS, {"column": "n", "method": "iqr", "multiplier": 2}),
        (OUTLIERS, {"column": "n", "method": "guess", "multiplier": 2}),
    ]
    source = [("expect_column_values_to_match_regex_list", {"column": "sym", "regex_list": "A", "match_on": "any"})]

    wrong = problems(tmp_path, output, source)

    assert [
        ("bars.json", 2, "suite.value"),
        ("bars.json", 3, "suite.unknown-column"),
        ("bars.json", 5, "suite.value"),
        ("bars.source.json", 2, "suite.value"),
    ] == [(Path(p.file).name, p.line, p.code) for p in wrong]
    assert "refused by Great Expectations: value: value is not a valid integer" in wrong[0].message
    assert "permitted: 'iqr', 'std'" in wrong[2].message


@pytest.mark.quality
def test_values_of_parameters_are_refused_too(tmp_path: Path) -> None:
    """
    What the definition gives a parameter is checked like what is written; what a refresh will give stays open.
    """
    pytest.importorskip("great_expectations", reason="needs the extra `quality`")
    one_of = [
        ("expect_column_values_to_not_be_null", {"column": "sym", "mostly": {"$PARAMETER": "share"}}),
        (OUTLIERS, {"column": "n", "method": "iqr", "multiplier": {"$PARAMETER": "times"}}),
        (OUTLIERS, {"column": "n", "method": "iqr", "multiplier": {"$PARAMETER": "refresh"}}),
    ]
    wrong = problems(tmp_path, one_of, share=95, times="some")

    assert 2 == len(wrong)
    assert "between 0 and 1, and is 95" in wrong[0].message
    assert "multiplier: value is not a valid float" in wrong[1].message
    assert found(tmp_path, one_of, share=0.95, times=3)


def test_without_the_library_its_expectations_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Who applies need not be who refreshes: our own checks are made, and a refresh says what to install where it is missing.
    """
    monkeypatch.setitem(sys.modules, "great_expectations", None)

    assert "guess" in found(tmp_path, [(OUTLIERS, {"column": "n", "method": "guess", "multiplier": 2})])[0][1]
    assert "suite.unknown-column" == problems(tmp_path, [(OUTLIERS, {"column": "m", "method": "iqr"})])[-1].code


def test_what_is_compiled_does_not_load_the_library(tmp_path: Path) -> None:
    """
    The library takes seconds to load, and is loaded only for expectations that it will answer.
    """
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.services.definitions.test_suites import COMPILED, found\n"
        "found(Path(sys.argv[1]), COMPILED, most=9)\n"
        "assert 'great_expectations' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


def test_the_case_of_a_file_does_not_matter(tmp_path: Path) -> None:
    """
    A suite that is found only in the case of its aggregate is a gate that is off without a word. Of two files the exact one is taken.
    """
    (tmp_path / "BARS.json").write_text('{"name": "upper", "expectations": []}')
    folder = suites.Shelf(str(tmp_path))

    assert [("output", '{"name":"upper","expectations":[]}')] == list(
        suites.found(spec({}), folder, COLUMNS, lambda: auditor)
    )
    (tmp_path / "bars.json").write_text('{"name": "exact", "expectations": []}')
    [(_, text)] = suites.found(spec({}), suites.Shelf(str(tmp_path)), COLUMNS, lambda: auditor)
    assert "exact" in text


def with_suite(file: str, text: str) -> str:
    """Return a definition that names its suite."""
    return text.replace("\nAS", f"\nTBLPROPERTIES ('quality.suite' = '{file}')\nAS")


def test_a_suite_of_no_aggregate_is_named(tmp_path: Path) -> None:
    """
    Once, with the name that was meant; those that belong to an aggregate of the lake or of the text, by name or property, are not.
    """
    folder = tmp_path / "suites"
    folder.mkdir()
    for name in ("bars", "bars.source", "Klima_TAG", "klima_tag", "saldoo.source", "other", "far_away", "new"):
        (folder / f"{name}.json").write_text("{}")
    (folder / "README.md").write_text("about them")
    lake = LocalLake(tmp_path, config=replace(Config(), expectations=str(folder)))
    hourly = each("1 hour")
    lake.apply(with_suite("none", view("Klima_Tag", hourly)), with_suite("none", view("saldo", hourly)))
    text = view("bars", hourly) + with_suite("other.json", view("daily", each("1 day")))

    _, told = lake.opened.read_definitions(text + view("new", each("1 day")))

    assert {
        f"{folder}/far_away.json": "apply its definition, name the file after an aggregate, or take it out of the folder; a suite "
        "of another lake goes into a folder of that one, which the setting `expectations` names",
        f"{folder}/klima_tag.json": "'Klima_Tag' has another file whose name differs only in case: keep one of them",
        f"{folder}/saldoo.source.json": "did you mean 'saldo.source.json'?",
    } == {problem.message.partition(" ")[0]: problem.hint for problem in told}
    assert {"suite.no-aggregate"} == {problem.code for problem in told}
    assert 4 == len(lake.opened.plan_definitions(text).warnings)  # `new` is not in this text


def test_suites_of_definitions_that_are_applied_later_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Of a folder of which one file is applied: the other files have their names, in any case or as a property. The whole folder says the same.
    """
    (tmp_path / "suites").mkdir()
    for name in ("bars", "Later", "of_all", "far_away"):
        (tmp_path / "suites" / f"{name}.json").write_text('{"name": "x", "expectations": []}')
    defined = tmp_path / "defined"
    defined.mkdir()
    (defined / "bars.sql").write_text(view("bars", each("1 hour")))
    (defined / "later.sql").write_text(view("LATER", each("1 hour")))
    (defined / "third.sql").write_text(with_suite("of_all.json", view("third", each("1 hour"))))
    (defined / "broken.sql").write_bytes(b"\xff")
    (defined / "gone.sql").symlink_to("nowhere")
    os.mkfifo(defined / "pipe.sql")
    lake = LocalLake(tmp_path, config=replace(Config(), expectations=str(tmp_path / "suites")))

    _, told = lake.opened.read_definitions(defined / "bars.sql")
    planned = lake.opened.plan_definitions(str(defined / "bars.sql"))
    _, of_text = lake.opened.read_definitions(view("bars", each("1 hour")))

    assert [f"{tmp_path}/suites/far_away.json"] == [problem.message.partition(" ")[0] for problem in told]
    assert told == list(planned.warnings)
    monkeypatch.chdir(defined)
    assert told == lake.opened.read_definitions("bars.sql")[1] == lake.opened.read_definitions(Path("./bars.sql"))[1]
    assert 3 == len(of_text)


def test_the_doctor_names_suites_of_no_aggregate(tmp_path: Path) -> None:
    """
    As a warning; not those of aggregates of the lake, of what is built next, or of an aggregate that cannot be read.
    """
    folder = tmp_path / "suites"
    folder.mkdir()
    for name in ("bars", "bar", "next", "damaged"):
        (folder / f"{name}.json").write_text('{"name": "x", "expectations": []}')
    lake = LocalLake(tmp_path, config=replace(Config(), expectations=str(folder)))
    lake.add((0, 1))
    lake.apply(view("bars", each("1 hour")))
    lake.apply(view("damaged", each("1 hour")))
    lake.opened.refresh("bars")
    lake.apply(with_suite("next.json", view("bars", each("2 hours"))))
    damaged = lake.opened.journal.view().named("damaged").id
    append(lake.opened.journal, (damaged, Described({})))

    [found] = [each for each in lake.opened.doctor() if each.subject == "suites"]

    assert ("warning", "suite.no-aggregate") == (found.level, found.code)
    assert f"{folder}/bar.json belongs to no aggregate" in found.message
    assert "did you mean 'bars.json'?" == found.hint
    assert [] == [each for each in lake.opened.doctor("bars") if each.subject == "suites"]


def test_of_many_suites_of_no_aggregate_there_is_the_number(tmp_path: Path) -> None:
    """
    As in a new lake, of which the first of many definitions is applied.
    """
    for n in range(1_000):
        (tmp_path / f"of_{n}.json").write_text("{}")
    told = suites.Shelf(str(tmp_path)).left([(f"OF_{n}", {}) for n in range(10)])

    assert suites.SHOWN + 1 == len(told)
    assert f"{tmp_path}: 980 other files belong to no aggregate" in told[-1].message
