"""The one command that runs the benchmarks: which processes it would start."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import trades
from tests.benchmarks.__main__ import QUICK, commands
from tests.paths import ROOT


def named(arguments: list[str]) -> dict[str, list[str]]:
    """Return the options that each benchmark would be given, in their order."""
    return {command[2].removeprefix("tests.benchmarks."): command[3:] for command in commands(arguments)}


def test_each_benchmark_of_the_page_has_a_process() -> None:
    """
    All of them and as they come, in the order of the page, which has those that were kept; some when these are named, in the
    same order.
    """
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    all_of_them = [line.split("`")[1] for line in page.splitlines() if line.startswith("## `")]

    every = [" ".join(["python", *command[1:3]]) for command in commands([])]

    assert all_of_them == [command for command in every if command in all_of_them]
    assert {f"python -m tests.benchmarks.{name}" for name in QUICK} == set(every)
    assert {sys.executable} == {command[0] for command in commands([])}
    assert [["--keep"]] * 2 == list(named(["--only", "process", "growth"]).values())
    assert ["growth", "process"] == list(named(["--only", "process", "growth"]))


def test_options_are_passed_on() -> None:
    """
    Each keeps what it finds, as JSON if that is asked for; what the command does not know is given as it stands, after the
    sizes of a first look.
    """
    assert {name: ["--json"] for name in QUICK} == named(["--json"])
    assert {"trades": ["--keep", "--memory", "3g"]} == named(["--only", "trades", "--memory", "3g"])
    assert {"trades": []} == named(["--only", "trades", "--unkept"])
    assert ["--refreshes", "300", "--refreshes", "5"] == named(["--only", "journal", "--quick", "--refreshes", "5"])[
        "journal"
    ]


@pytest.mark.parametrize("name", QUICK)
def test_the_sizes_of_a_first_look_are_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each benchmark takes the sizes that it would be given, and they are no larger than its own.
    """
    module, read = importlib.import_module(f"tests.benchmarks.{name}"), []
    monkeypatch.setattr(module, "report", lambda options, *_: read.append(options))
    for given in ([], named(["--quick"])[name]):
        monkeypatch.setattr(sys, "argv", [name, *given])
        module.main()
    usual, quick = (vars(options) for options in read)

    sizes = {key for key in usual if usual[key] != quick[key]}
    assert sizes
    assert all(quick[key] < usual[key] for key in sizes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "trade"], "invalid choice: 'trade' (choose from"),
        (["--only", "trades", "trade"], "invalid choice: 'trade' (choose from"),
        (["--only"], "expected at least one argument"),
        (["--quick", "--json"], "give one of them"),
        (["--unkept", "--json"], "give one of them"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A benchmark that is not there, beside those that are; figures of a first look that would be kept.
    """
    with pytest.raises(SystemExit) as refused:
        commands(arguments)

    assert 2 == refused.value.code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("given", "is_kept"), [([], False), (["--keep"], True), (["--json"], True)])
def test_what_is_found_is_kept_if_that_is_asked_for(
    given: list[str], is_kept: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Under the name of its module; printed it is in any case.
    """
    kept: list[tuple[str, dict[str, int]]] = []
    monkeypatch.setattr(trades.history, "keep", lambda *entry: kept.append(entry))
    monkeypatch.setattr(sys, "argv", ["benchmark", *given])

    def run(options: argparse.Namespace, folder: Path) -> dict[str, int]:
        return {"seconds": 3}

    trades.report(trades.reporting(argparse.ArgumentParser()), run, lambda found: print(f"{found['seconds']} s"))

    assert ([("test_command", {"seconds": 3})] if is_kept else []) == kept
    assert "3" in capsys.readouterr().out


def test_one_that_fails_does_not_keep_the_others_from_running() -> None:
    """
    Each says what it does not know, and the command says which failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--only", "journal", "process", "--no-such-option"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert 1 == done.returncode
    assert 2 == done.stderr.count("unrecognized arguments: --no-such-option")
    for name in ("journal", "process"):
        assert f"$ python -m tests.benchmarks.{name} --keep --no-such-option\n" in done.stderr
        assert f"tests.benchmarks.{name} ended with status 2\n" in done.stderr
