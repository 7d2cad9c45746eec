"""A definition, whole and in parts that a test replaces."""

from __future__ import annotations


def view(
    measures: str = "sum(price) AS total",
    *,
    name: str = "bars",
    options: str = "",
    bucket: str = "window.start AS bucket, sym",
    source: str = "trades",
    where: str = "",
    group: str = "window(ts, '1 minute'), sym",
    rest: str = "",
) -> str:
    return (
        f"CREATE MATERIALIZED VIEW {name} {options}\nAS SELECT {bucket},\n  {measures}\nFROM {source}\n"
        f"{f'WHERE {where}' if where else ''}\nGROUP BY {group}\n{rest}\n"
    )


def by(group: str) -> str:
    """Return a view whose bucket is *group*, selected and grouped by its place."""
    return view(bucket=f"{group} AS bucket, sym", group="1, sym")
