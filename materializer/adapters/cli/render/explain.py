"""``explain``: what a code means, or which codes there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import labelled, wrapped
from materializer.errors.explained import Explanation, plain


class ExplainResult(Result, frozen=True):
    """Explanations of codes; *is_detailed* when one was asked for by its code."""

    explanations: tuple[Explanation, ...]
    is_detailed: bool = False

    def form(self) -> dict[str, Any]:
        return {"codes": [_form(e) for e in self.explanations]}

    def lines(self, width: int) -> Iterator[str]:
        if self.is_detailed:
            yield from _detailed(self.explanations[0], width)
            return
        for group, members in groupby(_grouped(self.explanations), key=lambda e: e.group):
            status, _, meaning = plain(group).rpartition(": ")
            yield from wrapped(meaning, f"{status}: " if status else "", width=width)
            yield from labelled([(e.code, plain(e.when)) for e in members], width=width)
            yield ""
        yield "'materializer explain CODE' says why, what to do, and whether something was written"


def _grouped(explanations: tuple[Explanation, ...]) -> list[Explanation]:
    """Return explanations with those of one group beside each other, groups in the order of their first code."""
    first: dict[str, int] = {}
    for each in explanations:
        first.setdefault(each.group, len(first))
    return sorted(explanations, key=lambda e: first[e.group])


def _form(e: Explanation) -> dict[str, Any]:
    texts = {"means": e.when, "why": e.why, "do": e.do, "wrote": e.wrote}
    head = {"code": e.code, "exit_status": e.exit_status, "group": plain(e.group)}
    return head | {name: plain(text) for name, text in texts.items()}


def _detailed(e: Explanation, width: int) -> Iterator[str]:
    yield e.code
    yield ""
    pairs = [("means", e.when), ("why", e.why), ("do", e.do), ("written", e.wrote), ("exit status", e.group)]
    if not e.group[:1].isdigit():
        pairs[-1:] = [("exit status", str(e.exit_status)), ("among", e.group)]
    yield from labelled([(label, plain(text)) for label, text in pairs], width=width)
