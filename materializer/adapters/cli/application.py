"""All commands as an application of Typer, which reads the calls that :mod:`.plain` does not, and shows help and errors of them.

Its commands and groups convert only those values of their parameters that are not yet what they have to be: Typer converts every value
with pydantic, even None and a text where text is asked for, and importing pydantic takes as long as a refresh without work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from inspect import Signature
from typing import Annotated, Any, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from materializer.adapters.cli import completion, examples
from materializer.adapters.cli.call import run
from materializer.adapters.cli.commands import MODULES, named
from materializer.adapters.cli.listed import ListedCommand, ListedGroup, Option
from materializer.adapters.cli.options import parameters
from materializer.adapters.cli.output import JsonOutput, Output, Pipe, TextOutput
from materializer.errors import StorageError, UsageError

_OTHERWISE: Final = {
    **dict.fromkeys(("list", "ls"), "'materializer status' lists the aggregates"),
    **dict.fromkeys(("--version", "-V", "-v"), "'materializer version' prints what is installed"),
    "help": "'materializer --help' lists the commands, and 'materializer refresh --help' the options of one",
}
"""What other programs call a command, and which one it is here."""
_OPTIONS: Final = {
    **dict.fromkeys(("--since", "--from", "--begin", "--after"), "--start"),
    **dict.fromkeys(("--until", "--before", "--upto"), "--end"),
    **dict.fromkeys(("-n", "--n", "--rows", "--head"), "--limit"),
}
"""What other programs call an option, and which one it is here."""
_OF_EVERY_COMMAND: Final = ("--lake", "--config", "--json", "--progress", "--strict-exit")


class Conversion:
    """The conversion of what is given for a parameter: none for None, for a default, and for texts where texts are asked for.

    Args:
        parameter: The parameter.
    """

    def __init__(self, parameter: Any) -> None:
        self._wanted = parameter.type_descriptor.annotation
        self._takes_many = parameter.nargs == -1 or getattr(parameter, "multiple", False)
        self._other = parameter.get_runtime_param

    def coerce(self, value: Any, **context: Any) -> Any:
        """Return a value as the parameter's type wants it."""
        if value is None:
            return () if self._takes_many else None
        if self._takes_many and self._wanted == list[str] and isinstance(value, tuple) and all(map(_is_plain, value)):
            return list(value)
        is_right = _is_plain(value) if self._wanted is str else type(value) is self._wanted
        return value if is_right else self._other().coerce(value, **context)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and value.isascii()


def _lazily(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if "get_runtime_param" not in vars(parameter):
            conversion = Conversion(parameter)
            parameter.get_runtime_param = lambda conversion=conversion: conversion
    return parameters


class PlainCommand(TyperCommand):
    """A command with such parameters, whose help ends with examples that are shown as they are typed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        ending, self.epilog = self.epilog, None  # as an epilog its lines would be joined and cut
        super().format_help(ctx, formatter)
        self.epilog = ending
        if ending:
            typer.echo(f"{ending}\n")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _lazily(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group with such parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _lazily(super().get_params(ctx))


class Commands(Mapping[str, Any]):
    """All commands by name; each is made when it is asked for, because most calls run only one."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            own = typer.Typer()
            _add(own, name, named(name))
            self._made |= typer.main.get_group(own).commands
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


def _add(to: typer.Typer, name: str, listed: ListedCommand | ListedGroup, before: str = "") -> None:
    """Add a command, or a group with its commands."""
    if isinstance(listed, ListedGroup):
        group = typer.Typer()
        for inner, each in listed.commands.items():
            _add(group, inner, each, f"{name} ")
        to.add_typer(group, name=name, help=listed.help, rich_help_panel=listed.panel)
        return

    def command(**given: Any) -> int:
        return run(listed.body, **given)

    taken = [each.replace(annotation=_of_typer(each.annotation)) for each in parameters(listed.body)]
    command.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in taken}
    command.__doc__ = listed.body.__doc__
    ending = "\n".join(examples.lines(f"{before}{name}"))
    to.command(name, cls=PlainCommand, rich_help_panel=listed.panel, epilog=ending)(command)


def _of_typer(annotation: Any) -> Any:
    kind, taken = get_args(annotation)
    if isinstance(taken, Option):
        return Annotated[kind, typer.Option(taken.name, envvar=taken.envvar or None, **taken.settings)]
    return Annotated[kind, typer.Argument(**taken.settings)]


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


def read(arguments: Sequence[str]) -> int:
    """Read a call and run its command, or show help, or say what is wrong; return the exit status."""
    if completion.is_asked():
        completion.begin()
    command: Any = typer.main.get_command(app)
    try:
        status = command.main(list(arguments), prog_name=completion.PROGRAM, standalone_mode=False)
    except typer.TyperException as exc:
        output: Output = JsonOutput() if _wants_json(arguments) else TextOutput()
        words = ["materializer", *(a for a in arguments[:1] if a in MODULES)]
        otherwise = f"'{' '.join(words)} --help' lists what can be given"
        known = _OTHERWISE.get(arguments[0], "") if arguments else ""
        known = known or _behind_command(arguments) or _other_option(arguments)
        from materializer.adapters.cli.misread import usage_error  # noqa: PLC0415 - only for this

        output.fail(usage_error(exc, arguments, known, otherwise))
        return UsageError.exit_status
    except OSError as exc:
        if exc.errno is None or exc.filename is not None:
            raise
        return _unwritten(exc, JsonOutput() if _wants_json(arguments) else TextOutput())
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


def _behind_command(arguments: Sequence[str]) -> str:
    """Return the call with its options behind the command, where they stand before it; or ""."""
    at = next((at for at, word in enumerate(arguments) if word in MODULES), 0)
    if not at or arguments[0].partition("=")[0] not in _OF_EVERY_COMMAND:
        return ""
    import shlex  # noqa: PLC0415 - only for this

    moved = [arguments[at], *arguments[at + 1 :], *arguments[:at]]
    return f"options stand behind the command: '{shlex.join(['materializer', *moved])}'"


def _other_option(arguments: Sequence[str]) -> str:
    """Return what an option that the command lacks is called here, if the command has that one; or ""."""
    listed = named(arguments[0]) if arguments and arguments[0] in MODULES else None
    if not isinstance(listed, ListedCommand):
        return ""
    known = {get_args(each.annotation)[1].name for each in parameters(listed.body) if _is_option(each.annotation)}
    words = [word.partition("=")[0] for word in arguments[1:]]
    found = next((word for word in words if word not in known and _OPTIONS.get(word) in known), "")
    return f"'{found}' is '{_OPTIONS[found]}' here" if found else ""


def _is_option(annotation: Any) -> bool:
    return isinstance(get_args(annotation)[1], Option)


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments or os.environ.get("MATERIALIZER_JSON", "").lower() in {"1", "true", "yes"}
