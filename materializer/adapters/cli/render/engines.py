"""``engines``: what there is to choose from, and the guide to one engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import labelled, wrapped
from materializer.core.engines.guides import AS_OF, COMMON, Guide, Parameter
from materializer.structs import as_dict


class EnginesResult(Result, frozen=True):
    """Guides to engines; *is_detailed* when one was asked for by name."""

    guides: tuple[Guide, ...]
    is_detailed: bool = False

    def form(self) -> dict[str, Any]:
        return {"engines": [_guide_form(g) for g in self.guides]}

    def lines(self, width: int) -> Iterator[str]:
        if self.is_detailed:
            yield from _guide_lines(self.guides[0], width)
            return
        yield from labelled([(g.name, g.title) for g in self.guides], width=width, indent=0)
        yield "'materializer engines NAME' prints parameters and an example"


def _common(guide: Guide) -> Sequence[Parameter]:
    """Return the parameters that every engine takes, for one that is an engine."""
    return COMMON if guide.name != "continuous_aggregate" else ()


def _guide_form(g: Guide) -> dict[str, Any]:
    return {
        "name": g.name,
        "title": g.title,
        "purpose": g.purpose,
        "follows": g.follows,
        "parameters": [as_dict(p) for p in (*g.parameters, *_common(g))],
        "elsewhere": [{"original": name, "here": here} for name, here in g.elsewhere],
        "sql": g.sql,
        "python": g.python,
    }


def _guide_lines(guide: Guide, width: int) -> Iterator[str]:
    yield from wrapped(f"{guide.name}: {guide.title}", width=width)
    yield ""
    yield from wrapped(guide.purpose, width=width)
    yield from wrapped(f"Follows {guide.follows}.", width=width)
    for title, lines in _sections(guide, width):
        yield ""
        yield title
        yield from lines


def _sections(guide: Guide, width: int) -> Iterator[tuple[str, Iterable[str]]]:
    yield "Parameters", _parameters(guide.parameters, width)
    if common := _common(guide):
        yield "Parameters of every engine", _parameters(common, width)
        yield "Clock", wrapped(AS_OF, "  ", width=width)
    yield "In SQL", _indented(guide.sql)
    yield "In Python", _indented(guide.python)


def _parameters(parameters: Sequence[Parameter], width: int) -> Iterator[str]:
    for p in parameters:
        original = f" ({p.original})" if p.original else ""
        yield f"  {p.name} = {p.default}{original}"
        yield from wrapped(p.meaning, "      ", width=width)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in text.splitlines())
