"""``explain``: what the code of an error means."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Final, TypeAlias

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import Argument, listed
from materializer.errors import UsageError
from materializer.errors.explained import all_codes

PANEL = "Learn"
MaybeCode: TypeAlias = Annotated[
    str | None,
    Argument(
        help="Code of an error, such as window.frozen, or its first part; all without it.",
        metavar="CODE",
        show_default=False,
    ),
]


def explain(call: CommandCall, code: MaybeCode = None) -> None:
    """Say what an error means, why it happens, what to do, and whether something was written."""
    from materializer.adapters.cli.render.explain import ExplainResult

    known = all_codes()
    if code is None:
        call.show(ExplainResult(tuple(known.values())))
        return
    asked = code.strip("() ").lower()
    if asked in known:
        call.show(ExplainResult((known[asked],), is_detailed=True))
        return
    below = tuple(e for e in known.values() if e.code.startswith(f"{asked.rstrip('.')}."))
    if not below:
        raise UsageError(f"there is no code '{code}'", hint=_hint(asked, list(known)))
    call.show(ExplainResult(below))


def _hint(asked: str, codes: Sequence[str]) -> str:
    """Return the codes that are most like the one that was asked for."""
    near = get_close_matches(asked, codes, n=3, cutoff=0.6)
    tails = [c for c in codes if asked and c.partition(".")[2] == asked] or near
    if not tails:
        return "'materializer explain' lists all codes"
    return f"did you mean {' or '.join(repr(c) for c in tails)}? 'materializer explain' lists all codes"


COMMANDS: Final = listed(PANEL, explain)
