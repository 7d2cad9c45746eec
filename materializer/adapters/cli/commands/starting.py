"""``new``: from a source to a definition, by questions with proposed answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import (
    BucketWidth,
    Into,
    KeyColumns,
    MeasureTexts,
    NewName,
    NoPolicy,
    Source,
    TimeColumnName,
    WithoutQuestions,
)
from materializer.errors import DefinitionError, UsageError

if TYPE_CHECKING:
    from materializer.services.definitions.starting import NewDefinition

PANEL = "Define"
NONE = "none"
THESE = "these"


def new(
    call: CommandCall,
    source: Source = None,
    *,
    name: NewName = None,
    time: TimeColumnName = None,
    bucket: BucketWidth = None,
    key: KeyColumns = None,
    measure: MeasureTexts = None,
    no_policy: NoPolicy = False,
    into: Into = "sql",
    yes: WithoutQuestions = False,
) -> None:
    """Look at a table, propose a definition with a suite and a policy, and write them; asks at a terminal."""
    from materializer.adapters.cli.render.new import LookResult, NewResult, ProposedResult

    decided: dict[str, Any] = {
        "name": name,
        "time": time,
        "bucket": bucket,
        "measures": measure,
        "policy": not no_policy,
    }
    decided["keys"] = None if key is None else [k for k in key if k.lower() != NONE]
    asks = call.only_asks = call.output.can_ask and not yes
    if source is None:
        if not asks:
            raise UsageError("name the table that is to be aggregated", hint="give SOURCE, a name or a path")
        source = call.output.answer("table to aggregate, a name or a path", "")
    found = call.lake.new(source, **decided)
    if asks:
        call.output.show(LookResult(found))
        found = _asked(call, source, decided, found)
        call.output.show(ProposedResult(found))
        if not call.output.ask("write it?"):
            raise UsageError("the definition was not wanted", hint="give options, or answer otherwise")
    call.only_asks = False
    call.show(NewResult(found, tuple(call.lake.write_new(found, into))))


def _asked(call: CommandCall, source: str, decided: dict[str, Any], found: NewDefinition) -> NewDefinition:
    """Return the definition after questions about all that was not decided; each answer changes the proposals after it."""
    from materializer.adapters.cli.render.new import MeasuresResult

    for part, question, proposal, read in _QUESTIONS:
        while decided[part] is None:
            if part == "measures":
                call.output.show(MeasuresResult(found))
            answer = call.output.answer(question, proposal(found))
            decided[part] = list(found.answers.measures) if answer == THESE else read(answer)
            try:
                found = call.lake.new(source, **decided)
            except (UsageError, DefinitionError) as exc:
                call.output.fail(exc)
                decided[part] = None
    return found


def _keys(text: str) -> list[str]:
    return [k for k in _split(text) if k.lower() != NONE]


def _split(text: str) -> list[str]:
    """Return the parts of a list between commas; those in parentheses and quotes separate nothing.

    Examples:
        >>> _split("count(*) AS n, percentile(x, 0.5) AS p, listagg(s, ',') AS l")
        ['count(*) AS n', 'percentile(x, 0.5) AS p', "listagg(s, ',') AS l"]
    """
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        else:
            depth += (char == "(") - (char == ")")
        if char == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


_Question: TypeAlias = tuple[str, str, Callable[[Any], str], Callable[[str], Any]]
_QUESTIONS: Final[Sequence[_Question]] = (
    ("time", "time column", lambda n: n.answers.time, str),
    ("keys", "keys, with commas between, or none", lambda n: ", ".join(n.answers.keys) or NONE, _keys),
    ("bucket", "width of the buckets", lambda n: n.answers.bucket, str),
    ("measures", "measures, with commas between", lambda _: THESE, _split),
    ("name", "name of the aggregate", lambda n: n.answers.name, str),
)
"""What is asked: the part, the question, the proposed answer, and how an answer is read."""


COMMANDS: Final = listed(PANEL, new)
