"""The application: all commands, and the one place where the process's exit status is decided."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from materializer.adapters.cli.commands import (
    about,
    defining,
    engines,
    looking,
    maintaining,
    mending,
    policies,
    refreshing,
    retaining,
    versions,
)
from materializer.adapters.cli.output import JsonOutput, Output, TextOutput
from materializer.errors import UsageError

app = typer.Typer(
    name="materializer",
    help="Continuous aggregates over Delta tables: declared once, kept true at a cost that follows what changed.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _module in (defining, versions, refreshing, retaining, policies, looking, maintaining, mending, engines, about):
    _module.register(app)


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: Arguments without the program's name; the process's own by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    run: Any = typer.main.get_command(app)
    try:
        status = run.main(arguments, prog_name="materializer", standalone_mode=False)
    except typer.TyperException as exc:
        output: Output = JsonOutput() if _wants_json(arguments) else TextOutput()
        words = ["materializer", *(a for a in arguments[:1] if a in run.commands)]
        hint = f"'{' '.join(words)} --help' lists what can be given"
        output.fail(UsageError(_message(exc), hint=hint))
        return UsageError.exit_status
    return int(status or 0)


def _message(exc: Exception) -> str:
    message = exc.format_message() if hasattr(exc, "format_message") else str(exc)
    text = str(message).rstrip(".")
    return text[:1].lower() + text[1:]


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments or os.environ.get("MATERIALIZER_JSON", "").lower() in {"1", "true", "yes"}
