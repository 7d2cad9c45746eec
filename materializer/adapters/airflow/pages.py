"""The page of a DAG, in Markdown: its definition, its policies, its gate, where it reads.

Airflow shows it in a narrow window, so there are lists and no tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from materializer.adapters.airflow.catalog import Entry
from materializer.adapters.airflow.settings import Settings
from materializer.core.policies import MAX_STALENESS, Policy, describe_offset
from materializer.core.spec import AggregateSpec


def page(entry: Entry, spec: AggregateSpec, policies: Sequence[Policy], settings: Settings) -> str:
    """Return the page of an aggregate.

    Args:
        entry: What is known of it.
        spec: Its definition.
        policies: Its policies.
        settings: Say the pool, and whether to tell the last refresh, which makes the page differ after each.
    """
    promise = spec.property_map.get(MAX_STALENESS)
    parts = [
        spec.comment,
        f"Reads `{entry.source or spec.source}`." + (f" At most {promise} stale." if promise else ""),
        "\n".join(f"* {line}" for line in [*map(_policy, policies), *_gate(spec)]),
        f"```sql\n{spec.sql.strip()}\n```" if spec.sql else f"Defined in Python; columns: {', '.join(spec.columns)}.",
        f"Last: {entry.last}." if settings.tells_last and entry.last else "",
        "What a run planned and did is in the log of its task, its XCom, and the events of its asset.",
        f"The task waits for a slot of the pool `{settings.pool}`: without that pool, for ever.",
    ]
    return "\n\n".join(part for part in parts if part)


def broken_page(name: str, problem: str) -> str:
    """Return the page of an aggregate whose definition cannot be read."""
    return (
        f"**{name} is not refreshed: its definition cannot be read.**\n\n```\n{problem}\n```\n\n"
        "Mend the definition; this DAG gets its schedule back when Airflow next reads the file it comes from."
    )


def _policy(p: Policy) -> str:
    start = "the beginning" if p.start_offset is None else f"{describe_offset(p.start_offset)} ago"
    end = "the newest bucket" if p.end_offset is None else f"{describe_offset(p.end_offset)} ago"
    parts = [
        f"**{p.name}**: {f'at `{p.schedule}` UTC' if p.schedule else 'when its source changes'}, from {start} to {end}",
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
        yield f"**gate**: `{suite['name']}`, {many} expectation{'s' * (many != 1)} of {of}, before anything is published"
