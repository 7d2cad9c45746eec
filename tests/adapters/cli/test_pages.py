from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from materializer import errors
from materializer.adapters.cli.application import app
from materializer.adapters.cli.output import JsonOutput
from tests.adapters.cli import samples
from tests.paths import ROOT

LEAVES = {"window", "span", "last", "row", "columns", "tolerances", "versions", "values", "kwargs", "switch"}
"""Objects that the page describes as one thing."""
DESCRIBED = {
    "aggregates[].policies",
    "aggregates[].last_check.failed",
    "aggregates[].maintained.tables",
    "refreshes[].maintained",
    "refreshes[].gate.suites[].failed",
    "builds",
    "runs",
    "checked[].findings",
}
"""Lists whose objects have a section of their own."""


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    return re.split(r"^## ", text.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def keys_in(text: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))


def paths(value: Any, prefix: str = "", key: str = "") -> Iterator[str]:
    if isinstance(value, dict) and key not in LEAVES and set(value) != {"start", "end"}:
        for k, v in value.items():
            yield from paths(v, f"{prefix}.{k}" if prefix else k, k)
    elif isinstance(value, (list, tuple)):
        inner = [v for v in value if isinstance(v, dict) and set(v) != {"start", "end"}]
        if inner and prefix not in DESCRIBED and key != "steps":
            for v in inner:
                yield from paths(v, f"{prefix}[]", "")
        else:
            yield f"{prefix}[]"
    else:
        yield prefix


def form_of(command: str) -> dict[str, Any]:
    result = samples.RESULTS[command]
    return {result.listing: [result.form()]} if result.listing else result.form()


@pytest.mark.parametrize("command", [c for c in samples.RESULTS if c != "status NAME"])
def test_the_page_lists_the_keys_of_every_form(command):
    """
    docs/json.md and the documents that are printed have the same keys.
    """
    optional = {"captured", "plan"} if command == "plan" else set()

    assert set(paths(form_of(command))) | optional == keys_in(section(page("json.md"), command))


def test_the_page_lists_the_keys_of_a_step():
    """
    A step has the keys of its section, whatever its strategy.
    """
    steps = form_of("plan")["plan"]["steps"]

    assert {"merge", "recompute", "settle"} == {s["strategy"] for s in steps}
    wanted = keys_in(section(page("json.md"), "step"))
    assert [wanted, wanted] == [set(paths(s)) for s in steps if s["rejected"]]


def test_the_page_lists_the_keys_of_a_finding():
    """
    A finding has the keys of its section, wherever it stands.
    """
    checked = form_of("check")["checked"][0]["findings"]
    failed = form_of("history")["refreshes"][0]["gate"]["suites"][0]["failed"]

    wanted = keys_in(section(page("json.md"), "finding"))
    assert [wanted] * 3 == [set(paths(f)) for f in [*checked, *failed]]


def test_the_page_lists_the_keys_of_an_error():
    """
    An error is one line of JSON with the documented keys.
    """
    err = io.StringIO()
    JsonOutput(io.StringIO(), err).fail(errors.DefinitionError([samples.PROBLEM]))

    assert 1 == err.getvalue().count("\n")
    assert keys_in(section(page("json.md"), "error")) == set(paths(json.loads(err.getvalue())))


def classes(root: type[errors.MaterializerError]) -> Iterator[type[errors.MaterializerError]]:
    yield root
    for cls in root.__subclasses__():
        yield from classes(cls)


def test_every_error_code_is_on_its_page_with_its_exit_status():
    """
    docs/errors.md has one row for each class, and none that no class stands behind.
    """
    rows = dict(re.findall(r"^\| `([^`]+)` \| (\d+) \|", page("errors.md"), flags=re.MULTILINE))
    only_in_json = {"bug": "70", "interrupted": "130"}

    assert {c.code: str(c.exit_status) for c in classes(errors.MaterializerError)} | only_in_json == rows


@pytest.mark.parametrize(
    "title", ["Codes of problems in definitions", "Codes of problems in suites", "Codes of findings"]
)
def test_every_code_of_a_problem_is_on_its_page(title):
    """
    Codes that stand in the source are documented, and documented ones stand in the source.
    """
    prefix = {"Codes of findings": "doctor", "Codes of problems in suites": "suite"}.get(title, "definition")
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "materializer").rglob("*.py"))
    found = set(re.findall(rf'"({prefix}\.[a-z-]+)"', source)) - {"definition.invalid", "definition.changed"}

    assert found == keys_in(section(page("errors.md"), title))


def test_every_exit_status_of_an_error_is_explained():
    """
    A status that a class can end with has a row.
    """
    rows = set(re.findall(r"^\| (\d+) \|", section(page("errors.md"), "Exit statuses"), flags=re.MULTILINE))

    assert {str(c.exit_status) for c in classes(errors.MaterializerError)} <= rows


def commands_of(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_and_option_is_on_its_page():
    """
    docs/commands.md names each command with all its options.
    """
    text = page("commands.md")
    shared = {"--lake", "--config", "--env", "--json", "--progress", "--strict-exit", "--help"}
    group: Any = typer.main.get_command(app)
    for name, command in commands_of(group):
        described = re.search(rf"\*\*`{name}\b[^*]*`\*\*(.*?)(?=\n\*\*`|\n## |\Z)", text, flags=re.DOTALL)
        assert described, name
        own = {o for p in command.params for o in p.opts if o.startswith("--")} - shared
        assert own <= set(re.findall(r"--[a-z-]+", described[0])), name
