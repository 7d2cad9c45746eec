"""What is wrong with a call is said as all other errors are, and names what was meant."""

from __future__ import annotations

import pytest

from materializer.adapters.cli.app import main

HELP = "'materializer {} --help' lists what can be given"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("refresh x --executor foo", "--executor: 'foo' is not one of auto, local, spark", HELP.format("refresh")),
        ("refresh x --executor=lokal", "--executor: 'lokal' is not one of auto, local, spark", "did you mean 'local'?"),
        ("export x --format parqet", "--format: 'parqet' is not one of parquet, csv, arrow", "did you mean 'parquet'?"),
        ("backfill x --order newst", "--order: 'newst' is not one of newest, oldest", "did you mean 'newest'?"),
        ("completion zsch", "SHELL: 'zsch' is not one of bash, zsh, fish", "did you mean 'zsh'?"),
        ("history x --limit many", "--limit: 'many' is no whole number", HELP.format("history")),
        ("history x --limit=1.5", "--limit: '1.5' is no whole number", HELP.format("history")),
        ("show x --startt 1", "there is no option '--startt'", "did you mean '--start'?"),
        ("refresh x --limit 1", "there is no option '--limit'", HELP.format("refresh")),
        ("show x --since 1", "there is no option '--since'", "'--since' is '--start' here"),
        ("refrsh x", "there is no command 'refrsh'", "did you mean 'refresh'?"),
        ("policy ad", "there is no command 'ad'", "did you mean 'add'?"),
    ],
)
def test_a_call_that_cannot_be_read(capsys: pytest.CaptureFixture[str], words: str, message: str, hint: str) -> None:
    """
    Choices, numbers, options and commands; the hint is what was meant, where one is near.
    """
    status = main(words.split())

    assert 64 == status
    assert [
        f"error: {message}",
        f"  hint: {hint}",
        "  nothing was written (usage)",
    ] == capsys.readouterr().err.splitlines()
