"""The page of a DAG in Markdown: its definition, its policies, its gate and its source.

Airflow shows the page in a narrow window, so it has lists and no tables. Airflow silently drops HTML, but renders Markdown,
even pictures from other hosts. So all text from outside is escaped and shown as plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from materializer.adapters.airflow.dags.catalog import CatalogEntry
from materializer.adapters.airflow.dags.settings import Settings
from materializer.core.policy.policies import MAX_STALENESS, Policy, describe_offset
from materializer.core.spec.spec import AggregateSpec

_MARKUP: Final = re.compile(r"[!-/:-@\[-`{-~]")
"""ASCII punctuation: Markdown allows to escape each of these, and no other character has a meaning within a line."""
_HTML: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def page(entry: CatalogEntry, spec: AggregateSpec, policies: Sequence[Policy], settings: Settings) -> str:
    """Return the page of an aggregate.

    Args:
        entry: The aggregate's entry in the catalog.
        spec: Its definition.
        policies: Its policies.
        settings: The settings, with the pool, and whether to show the last refresh (the page then changes after each one).
    """
    promise = spec.property_map.get(MAX_STALENESS)
    parts = [
        "\n".join(map(_text, spec.comment.splitlines())),
        f"Reads {_code(entry.source or spec.source)}." + (f" At most {_text(promise)} stale." if promise else ""),
        "\n".join(f"* {line}" for line in [*map(_policy, policies), *_gate(spec)]),
        _fenced(spec.sql.strip(), "sql")
        if spec.sql
        else f"Defined in Python; columns: {', '.join(map(_text, spec.columns))}.",
        f"Last: {_text(entry.last)}." if settings.tells_last and entry.last else "",
        "What a run planned and did is in the log of its task, its XCom, and the events of its asset.",
        f"The task waits for a slot of the pool {_code(settings.pool)}: without that pool, for ever.",
    ]
    return "\n\n".join(part for part in parts if part)


def broken_page(name: str, problem: str) -> str:
    """Return the page of an aggregate whose definition cannot be read."""
    return (
        f"**{_text(name)} is not refreshed: its definition cannot be read.**\n\n{_fenced(problem)}\n\n"
        "Mend the definition; this DAG gets its schedule back when Airflow next reads the file it comes from."
    )


def _policy(p: Policy) -> str:
    start = "the beginning" if p.start_offset is None else f"{describe_offset(p.start_offset)} ago"
    end = "the newest bucket" if p.end_offset is None else f"{describe_offset(p.end_offset)} ago"
    when = f"at {_code(p.schedule)} UTC" if p.schedule else "when its source changes"
    parts = [
        f"**{_text(p.name)}**: {when}, from {start} to {end}",
        f"{p.order} first",
        f"at most {p.max_runs} runs each time" if p.max_runs else "",
        "with what is dirty outside every policy" if p.catch_dirt else "",
    ]
    return ", ".join(part for part in parts if part)


def _gate(spec: AggregateSpec) -> Iterator[str]:
    for kind, text in spec.suites:
        suite = json.loads(text)
        of = "its rows" if kind == "output" else "the source rows that it aggregates"
        many = len(suite["expectations"])
        yield f"**gate**: {_code(suite['name'])}, {many} expectation{'s' * (many != 1)} of {of}, before anything is published"


# -- what others wrote ---------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Return *text* as plain words on one line."""
    return _MARKUP.sub(lambda found: _HTML.get(found[0], f"\\{found[0]}"), " ".join(text.split()))


def _code(text: str) -> str:
    """Return *text* as code on one line."""
    line, ticks = " ".join(text.split()), _ticks(text)
    space = " " if "`" in (line[:1], line[-1:]) else ""  # one at either end is not shown
    return f"{ticks}{space}{line}{space}{ticks}"


def _fenced(text: str, language: str = "") -> str:
    """Return *text* as a block of code."""
    fence = _ticks(text, least=3)
    return f"{fence}{language}\n{text}\n{fence}"


def _ticks(text: str, *, least: int = 1) -> str:
    """Return more backticks than any run of backticks in *text*."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))
