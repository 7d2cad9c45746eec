"""The guides to engines as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from materializer.adapters.cli.words import labelled, wrapped
from materializer.core.engines.guides import AS_OF, COMMON, Guide, Parameter


def list_lines(guides: Sequence[Guide], width: int) -> Iterator[str]:
    """Yield one entry for each engine."""
    yield from labelled([(g.name, g.title) for g in guides], width=width, indent=0)
    yield "'materializer engines NAME' prints parameters and an example"


def guide_lines(guide: Guide, width: int) -> Iterator[str]:
    """Yield everything about one engine."""
    yield from wrapped(f"{guide.name}: {guide.title}", width=width)
    yield ""
    yield from wrapped(guide.purpose, width=width)
    yield from wrapped(f"Follows {guide.follows}.", width=width)
    for title, lines in _sections(guide, width):
        yield ""
        yield title
        yield from lines


def _sections(guide: Guide, width: int) -> Iterator[tuple[str, Iterator[str]]]:
    yield "Parameters", _parameters(guide.parameters, width)
    if guide.name != "continuous_aggregate":
        yield "Parameters of every engine", _parameters(COMMON, width)
        yield "Clock", iter(wrapped(AS_OF, "  ", width=width))
    yield "In SQL", _indented(guide.sql)
    yield "In Python", _indented(guide.python)


def _parameters(parameters: Sequence[Parameter], width: int) -> Iterator[str]:
    for p in parameters:
        original = f" ({p.original})" if p.original else ""
        yield f"  {p.name} = {p.default}{original}"
        yield from wrapped(p.meaning, "      ", width=width)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in text.splitlines())
