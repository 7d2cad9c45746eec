"""Completion in a real bash, with the script that the command prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from materializer.adapters.cli.app import main
from materializer.adapters.cli.completion import aggregates
from tests.hints.world import HOURLY, World
from tests.paths import ROOT
from tests.terminal import Terminal

BASH = shutil.which("bash") or ""
pytestmark = pytest.mark.skipif(not BASH, reason="there is no bash")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with the aggregate `hourly`, and a folder with the program."""
    world = World(tmp_path)
    world.apply(HOURLY)
    program = tmp_path / "bin" / "materializer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m materializer "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("MATERIALIZER_LAKE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("materializer ref", ["refresh"]),
        ("materializer policy a", ["add"]),
        ("materializer refresh --sta", ["--start"]),
        ("materializer refresh ho", ["hourly"]),
        ("materializer show x", []),
        ("materializer backfill hourly --order o", ["oldest"]),
        ("materializer completion f", ["fish"]),
    ],
)
def test_a_line_is_completed(lake: Path, line: str, words: list[str]) -> None:
    """
    Commands, those of a group, options, their values and names of aggregates; by what `complete` has registered.
    """
    script = f"""
        source <(materializer completion bash)
        COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        $(complete -p materializer | sed -n 's/.*-F \\([^ ]*\\) .*/\\1/p') materializer
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run([BASH, "--norc", "-c", script], capture_output=True, text=True, check=True)

    assert ("", words) == (done.stderr, done.stdout.split())


def test_the_key_of_completion_works(lake: Path) -> None:
    """
    In a terminal: a tabulator after the beginning of a name, and the command runs with the whole name.
    """
    terminal = Terminal(BASH, "--norc", "-i", PS1="> ")
    terminal.wait("> ")
    terminal.type("source <(materializer completion bash); echo do''ne")
    terminal.wait("done")
    terminal.type("materializer history ho", end="\t")
    terminal.wait("hourly")
    terminal.type("")
    assert "error" not in terminal.wait("> ")
    terminal.type("exit")

    assert 0 == terminal.end()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """
    Which asks the program by its variable; another shell is refused.
    """
    assert 0 == main(["completion", shell])
    assert "_MATERIALIZER_COMPLETE" in capsys.readouterr().out
    assert 64 == main(["completion", "tcsh"])


def test_a_lake_that_cannot_be_read_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nor does a configuration that is wrong: a shell gets no error in the middle of a line.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATERIALIZER_LAKE", str(tmp_path / "nothing"))
    assert [] == aggregates("")
    (tmp_path / "materializer.toml").write_text("nonsense = 1")
    assert [] == aggregates("")
