"""The pages name every property and every aggregate, and the expressions on them are what the code compares with."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from materializer.core.aggregates import registry
from materializer.core.language.properties import KNOWN
from tests.docs import pages, reference

DOCS = pages.FOLDER.parent


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_says_what_the_registries_say(name: str) -> None:
    """
    Whoever changes a registry makes the pages anew: `python -m tests.docs.draw --texts`.
    """
    assert reference.made(name) == pages.blocks(page(name))


def test_every_property_is_on_the_page() -> None:
    """
    Each once, and none that a definition would be refused for.
    """
    rows = re.findall(r"^\| `([\w.]+)` \|", pages.blocks(page("definitions.md"))["properties"], flags=re.MULTILINE)

    assert sorted(KNOWN) == sorted(rows)


def test_every_name_of_an_aggregate_is_on_the_page() -> None:
    """
    Aliases beside the aggregate that they stand for.
    """
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", pages.blocks(page("aggregates.md"))["aggregates"], re.MULTILINE)
    found = {alias: name.lower() for name, others in rows for alias in re.findall(r"`(\w+)`", others)}

    assert {name: registry.find(name).name for name in registry.names()} == found | {
        n.lower(): n.lower() for n, _ in rows
    }


def test_the_short_list_says_what_is_merged() -> None:
    """
    The table under Aggregates in docs/definitions.md has every aggregate, on the right side.
    """
    section = page("definitions.md").split("\n## Aggregates\n")[1].split("What each one *means*")[0]
    sides: dict[str, str] = {}
    for cells, merged in re.findall(r"^\| (`.*) \| (yes|no)[^|]*\|$", section, flags=re.MULTILINE):
        for name in re.findall(r"`(\w+\*?)`", cells):
            wanted = [n for n in registry.BY_NAME if re.fullmatch(name.lower().replace("*", r"\w+"), n)]
            assert wanted, name
            sides |= dict.fromkeys(wanted, merged)

    assert {n: "yes" if a.is_mergeable else "no" for n, a in registry.BY_NAME.items()} == sides


def test_parentheses_are_taken_away_where_they_change_nothing() -> None:
    """
    Around a word and around other parentheses; not those of a call, and not those that hold an operator.
    """
    given = "sum(((a))) + f((a + b)) * (a + (b)) - g(`c`, (0.5)) FILTER (WHERE ((x) IS NULL))"

    assert "sum(a) + f(a + b) * (a + b) - g(c, 0.5) FILTER (WHERE (x IS NULL))" == reference.plain(given)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or math.isclose(left, right, rel_tol=1e-9)
    return left == right


@pytest.mark.slow
def test_an_aggregate_equals_its_expression(spark) -> None:
    """
    What the page shows, what the code compares with, and what is finalised from partials that are merged from each row alone,
    or stored as the value, are one; a sketch of four rows has no error.
    """
    spark.sql(reference.SAMPLE)
    found = list(reference.meanings())
    partials = {p.name: p for m in found for p in m.parts.partials}
    stored = ", ".join(f"{p.build} AS {p.name}" for p in partials.values())
    once = {name for name, p in partials.items() if p.merge is None}
    merged = ", ".join(f"{p.merge} AS {p.name}" for p in partials.values() if p.name not in once)
    alone = f"SELECT {merged} FROM (SELECT {stored} FROM sample GROUP BY seq)"
    kept = f"SELECT {', '.join(f'{partials[name].build} AS {name}' for name in once)} FROM sample"

    shown = spark.sql(f"SELECT {', '.join(m.shown for m in found)} FROM sample").first()
    plain = spark.sql(f"SELECT {', '.join(m.parts.reference for m in found)} FROM sample").first()
    final = spark.sql(f"SELECT {', '.join(m.parts.final for m in found)} FROM ({alone}) CROSS JOIN ({kept})").first()

    assert [] == [m.call for m, a, b in zip(found, shown, plain, strict=True) if a != b]
    assert [] == [(m.call, a, b) for m, a, b in zip(found, plain, final, strict=True) if not same(a, b)]
