"""A sample of a source, after any changes of it, is what plain Spark says of the user's own text over these rows, in both executors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.system import verifying
from tests.system.builders import DAY, Site

ROWS = [(at, "AaB"[at % 3], at % 7) for at in range(0, 4320, 30)]
LATE = [(2870, "A", 100), (2885, "A", 50), (4300, None, 3), (5000, "B", 1), (-90, "A", 100)]
STATEMENTS = {
    "hours": "window.start AS at, sym, count(*) AS n, sum(price) AS total FROM trades GROUP BY window(ts, '1 hour'), sym",
    "where": "window.start AS at, avg(price) AS mean FROM trades WHERE price > 1 OR sym = 'a' -- some\nGROUP BY window(ts, '2 hours')",
    "bucket": "time_bucket('1 hour', ts, 'Asia/Kolkata') AS at, sym, max(price) AS top FROM trades "
    "GROUP BY 1, sym HAVING count(*) > 0",
    "bursts": "session_window.start AS at, sym, count(*) AS n FROM trades GROUP BY session_window(ts, '20 minutes'), sym",
}
SPARKS = {name: text for name, text in STATEMENTS.items() if name in ("hours", "where")}


@pytest.fixture(scope="module", params=["spark", "auto"])
def site(request, tmp_path_factory, spark) -> Site:
    """A lake of samples that Spark or the process computes."""
    folder = tmp_path_factory.mktemp("samples")
    return Site(folder, spark, executor=request.param, sample="1 day")


def rows(given: list[tuple[int, str | None, int | None]]) -> list[dict[str, object]]:
    """Return rows at minutes of a day."""
    return [{"ts": DAY + timedelta(minutes=at), "sym": sym, "price": price} for at, sym, price in given]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", STATEMENTS)
def test_it_is_what_plain_spark_says_of_these_rows(site: Site, name: str) -> None:
    """
    At first, after rows on both sides of the first instant, after corrections that move rows over it, and after rows are gone.

    What plain Spark can say is compared with it each time, and `verify` says so once, at a time that is drawn.
    """
    source = f"src_{name}"
    table = site.table(source)
    table.write(rows(ROWS))
    text = f"SELECT {STATEMENTS[name]}".replace("FROM trades", f"FROM {source}")
    site.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    changes = [
        lambda: None,
        lambda: table.write(rows(LATE)),
        lambda: table.update("price = 50", ts=DAY + timedelta(hours=1)),
        lambda: table.update("price = 100", price=7),
        lambda: table.delete("sym = 'B'"),
    ]
    for at, change in enumerate(changes):
        change()
        site.lake.refresh(name)
        if name in SPARKS:
            sampled = f"(SELECT * FROM {table.plain_sql(site.spark)} WHERE ts >= TIMESTAMP '{DAY + timedelta(days=2)}')"
            assert site.rows(text.replace(f"FROM {source}", f"FROM {sampled}")) == site.published(name)
        if name not in SPARKS or verifying.is_turn(f"{site.config.executor} {name}", at, len(changes)):
            assert site.lake.verify(name).is_equal
    assert () == site.lake.refresh(name).runs
