"""Messages of commits: what the hook and CI refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

CHECK = ROOT / ".ci" / "messages.py"
BODY = "\n\nIt was needed.\n"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (f"Add a check{BODY}", ""),
        (f"Journal: fold plans once{BODY}", ""),
        (f"Bring the rows home{BODY}", ""),
        (f"Add a check{BODY}# a comment of git's own\n", ""),
        (f"{'Add ' + 'x' * 69}{BODY}", "73 characters"),
        (f"Added a check{BODY}", "as a command"),
        (f"Journal: folds plans{BODY}", "as a command"),
        (f"add a check{BODY}", "capital letter"),
        (f"Add a check.{BODY}", "full stop"),
        ("Add a check\nIt was needed.\n", "empty line"),
        ("Add a check\n", "body"),
        ("Add a check\n\nSigned-off-by: A <a@b.c>\n", "body"),
        ("", "as a command"),
    ],
)
def test_a_message_has_a_subject_that_commands_and_a_body(tmp_path: Path, message: str, problem: str) -> None:
    """
    What is wrong is said on a line each, and the hook then refuses the commit.
    """
    file = tmp_path / "message"
    file.write_text(message)
    done = subprocess.run([sys.executable, CHECK, file], capture_output=True, text=True, check=False)

    assert bool(problem) == bool(done.returncode)
    assert problem in done.stderr
    assert bool(problem) == bool(done.stderr)


def test_commits_are_checked_from_a_commit_on(tmp_path: Path) -> None:
    """
    Merges and what came before are left alone; a folder without history has nothing to check.
    """

    def git(*arguments: str) -> str:
        named = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(named, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    def check(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, CHECK, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert 0 == check().returncode
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "wrong from the start.")
    since = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", f"Add one{BODY}")
    assert 0 == check("--since", since).returncode
    git("commit", "-q", "--allow-empty", "-m", "Added two")
    found = check("--since", since)

    assert 1 == found.returncode
    assert {git("rev-parse", "--short", "HEAD")} == {line.partition(":")[0] for line in found.stderr.splitlines()}
