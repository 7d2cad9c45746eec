"""The application: all commands, and the one place where the process's exit status is decided."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import typer

from materializer.adapters.cli import completion
from materializer.adapters.cli.arrow import load_without_pandas
from materializer.adapters.cli.conversion import PlainGroup
from materializer.adapters.cli.output import JsonOutput, Output, Pipe, TextOutput, show_logs
from materializer.errors import StorageError, UsageError

_NAMES: Final = {
    "starting": ("new",),
    "defining": ("apply", "test", "drop"),
    "versions": ("build", "switch", "rollback", "abandon"),
    "refreshing": ("plan", "refresh", "backfill", "invalidate"),
    "retaining": ("expire", "thaw"),
    "looking": ("status", "history", "show", "export", "changes", "verify", "diff", "check", "doctor"),
    "reporting": ("report", "watch"),
    "maintaining": ("maintain",),
    "mending": ("repair", "backup", "restore"),
    "engines": ("engines",),
    "explaining": ("explain",),
    "completing": ("completion",),
    "about": ("demo", "setup", "version"),
    "policies": ("policy",),
    "running": ("run",),
}
"""The commands of each module, in the order of the help."""
_OTHERWISE: Final = {
    **dict.fromkeys(("list", "ls"), "'materializer status' lists the aggregates"),
    **dict.fromkeys(("--version", "-V", "-v"), "'materializer version' prints what is installed"),
}
"""What other programs call a command, and which one it is here."""
_OF_EVERY_COMMAND: Final = ("--lake", "--config", "--json", "--progress", "--strict-exit")
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}


class Commands(Mapping[str, Any]):
    """All commands by name. The module of a command is imported when the command is asked for, because most calls run only one."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            module = import_module(f"materializer.adapters.cli.commands.{_MODULES[name]}")
            own = typer.Typer()
            module.register(own)
            self._built |= typer.main.get_group(own).commands
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class Application(PlainGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]


app = typer.Typer(
    name="materializer",
    cls=Application,
    help="Continuous aggregates over Delta tables: declared once, kept true at a cost that follows what changed.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: Arguments without the program's name; the process's own by default.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own pool keeps what two threads have freed
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads, which no command needs
    gc.set_threshold(
        100_000, 20, 100
    )  # a command makes many values, which live until it ends: to look for circles costs a quarter of it
    load_without_pandas()
    show_logs()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if completion.is_asked():
        completion.begin()
    run: Any = typer.main.get_command(app)
    try:
        status = run.main(arguments, prog_name=completion.PROGRAM, standalone_mode=False)
    except typer.TyperException as exc:
        output: Output = JsonOutput() if _wants_json(arguments) else TextOutput()
        words = ["materializer", *(a for a in arguments[:1] if a in run.commands)]
        hint = _OTHERWISE.get(arguments[0]) if arguments else None
        hint = hint or _behind_command(arguments, run.commands) or f"'{' '.join(words)} --help' lists what can be given"
        output.fail(UsageError(_message(exc), hint=hint))
        return UsageError.exit_status
    except OSError as exc:
        if exc.errno is None or exc.filename is not None:
            raise
        return _unwritten(exc, JsonOutput() if _wants_json(arguments) else TextOutput())
    if argv is None:
        gc.freeze()  # the process ends, and to look for circles once more takes a tenth of a short command
    return int(status or 0)


def _unwritten(why: OSError, output: Output) -> int:
    """Say that help could not be written, which no command writes, and return the exit status."""
    out = Pipe(sys.stdout)
    out.lose(why)
    try:
        out.check()
    except StorageError as exc:
        output.fail(exc)
    return StorageError.exit_status


def _behind_command(arguments: Sequence[str], commands: Mapping[str, Any]) -> str:
    """Return the call with its options behind the command, where they stand before it; or ""."""
    at = next((at for at, word in enumerate(arguments) if word in commands), 0)
    if not at or arguments[0].partition("=")[0] not in _OF_EVERY_COMMAND:
        return ""
    import shlex  # noqa: PLC0415 - only for this

    moved = [arguments[at], *arguments[at + 1 :], *arguments[:at]]
    return f"options stand behind the command: '{shlex.join(['materializer', *moved])}'"


def _message(exc: Exception) -> str:
    message = exc.format_message() if hasattr(exc, "format_message") else str(exc)
    text = str(message).rstrip(".")
    return text[:1].lower() + text[1:]


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments or os.environ.get("MATERIALIZER_JSON", "").lower() in {"1", "true", "yes"}
