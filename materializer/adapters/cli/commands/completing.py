"""``completion``: lets a shell complete commands, options and the names of aggregates."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.completion import PROGRAM, VARIABLE
from materializer.adapters.cli.listed import Argument, listed

PANEL = "Learn"
ShellName: TypeAlias = Annotated[
    Literal["bash", "zsh", "fish"], Argument(help="The shell.", metavar="SHELL", show_default=False)
]


def completion(call: CommandCall, shell: ShellName) -> None:
    """Print what lets a shell complete commands, options and names of aggregates."""
    from typer.completion import (  # type: ignore[attr-defined]
        get_completion_script,
    )

    from materializer.adapters.cli.render.completion import CompletionResult

    script = get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell)
    call.show(CompletionResult(shell, script))


COMMANDS: Final = listed(PANEL, completion)
