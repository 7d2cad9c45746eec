"""``engines``: what there is to choose from, and the guide to one engine."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import Argument, listed
from materializer.errors import UsageError

PANEL = "Learn"
MaybeEngine: TypeAlias = Annotated[
    str | None, Argument(help="Name of the engine; all without it.", metavar="NAME", show_default=False)
]


def engines(call: CommandCall, name: MaybeEngine = None) -> None:
    """Print the engines, or the parameters and an example of one."""
    from materializer.adapters.cli.render.engines import EnginesResult
    from materializer.core.engines.guides import GUIDES
    from materializer.core.sql.functions import nearest

    if name is None:
        call.show(EnginesResult(tuple(GUIDES.values())))
        return
    found = GUIDES.get(name.lower())
    if found is None:
        hint = nearest(name.lower(), list(GUIDES)) or "'materializer engines' lists them"
        raise UsageError(f"there is no engine '{name}'", hint=hint)
    call.show(EnginesResult((found,), is_detailed=True))


COMMANDS: Final = listed(PANEL, engines)
