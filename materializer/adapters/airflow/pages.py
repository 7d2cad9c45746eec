"""The page of a DAG, in Markdown: its definition, its policies, where it reads."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.adapters.airflow.catalog import Entry
from materializer.core.policies import MAX_STALENESS, Policy, describe_offset
from materializer.core.spec import AggregateSpec


def page(entry: Entry, spec: AggregateSpec, policies: Sequence[Policy], *, tells_last: bool) -> str:
    """Return the page of an aggregate.

    Args:
        entry: What is known of it.
        spec: Its definition.
        policies: Its policies.
        tells_last: Whether to say what the last refresh did, which makes the page differ after each.
    """
    rows = [
        f"| {p.name} | {describe_offset(p.start_offset)} | {describe_offset(p.end_offset)} | {_when(p)} | {p.order} "
        f"| {p.max_runs or 'no limit'} | {'yes' if p.catch_dirt else 'no'} |"
        for p in policies
    ]
    promise = spec.property_map.get(MAX_STALENESS)
    parts = [
        spec.comment,
        f"Reads `{entry.source or spec.source}`." + (f" At most {promise} stale." if promise else ""),
        "\n".join(
            [
                "| policy | from, ago | to, ago | runs | order | runs each time | takes dirt elsewhere |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                *rows,
            ]
        ),
        f"```sql\n{spec.sql.strip()}\n```" if spec.sql else f"Defined in Python; columns: {', '.join(spec.columns)}.",
        f"Last: {entry.last}." if tells_last and entry.last else "",
        "What a run planned and did is in the log of its task, its XCom, and the events of its asset.",
    ]
    return "\n\n".join(part for part in parts if part)


def broken_page(name: str, problem: str) -> str:
    """Return the page of an aggregate whose definition cannot be read."""
    return (
        f"**{name} is not refreshed: its definition cannot be read.**\n\n```\n{problem}\n```\n\n"
        "Mend the definition; this DAG gets its schedule back when Airflow next reads the file it comes from."
    )


def _when(policy: Policy) -> str:
    return f"`{policy.schedule}` UTC" if policy.schedule else "when its source changes"
