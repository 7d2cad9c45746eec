"""`window_time`, the last instant of a window, is what plain Spark says of the user's own text, in both executors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from materializer.errors import DefinitionError
from tests.system import verifying
from tests.system.builders import DAY, Site

ROWS = [(10, "A", 1), (20, "a", 2), (59, "A", 3), (60, None, 4), (1500, "B", 5), (1510, "A", None)]
LATE = [(30, "A", 7), (1439, "B", 8), (2900, "c", 9)]
STATEMENTS = {
    "alone": "window_time(window(ts, '1 hour')) AS t, count(*) AS n FROM trades GROUP BY 1",
    "keyed": "window_time(window(ts, '1 hour')) AS t, sym, sum(price) AS total FROM trades GROUP BY t, sym",
    "repeated": "sym, window_time(window(t.ts, '2 hours')) AS at, max(price) AS top FROM trades t GROUP BY sym, WINDOW_TIME(window(ts, '2 hours'))",
    "every": "window(ts, '1 hour').start AS b, window(ts, '1 hour').end AS e, window_time(window(ts, '1 hour')) AS t, sym, avg(price) AS mean "
    "FROM trades GROUP BY ALL",
    "both": "window.start AS b, window_time(window(ts, '30 minutes', '30 minutes', '10 minutes')) AS t, count(*) AS n FROM trades "
    "GROUP BY window(ts, '30 minutes', '30 minutes', '10 minutes'), 2",
    "named": "window.end AS e, window_time(window) AS t, count(*) AS n FROM trades GROUP BY window(ts, '1 day'), window_time(window)",
    "unshown": "window.start AS b, count(*) AS n FROM trades GROUP BY window(ts, '1 hour'), window_time(window)",
    "filtered": "window_time(window(ts, '1 hour')) AS t, sym, min(ts) AS first FROM trades GROUP BY 1, 2 "
    "HAVING t > TIMESTAMP '2024-03-01 01:00:00' AND max(ts) < t",
    "distinct": "DISTINCT window_time(window(ts, '1 hour')) AS t, sym FROM trades",
}
FEED = "TBLPROPERTIES ('output.change_feed' = 'true')"


@pytest.fixture(scope="module", params=["spark", "auto"])
def site(request, tmp_path_factory, spark) -> Site:
    """A lake that Spark or the process computes."""
    return Site(tmp_path_factory.mktemp("window_time"), spark, executor=request.param)


def rows(given: list[tuple[int, str | None, int | None]]) -> list[dict[str, object]]:
    """Return rows at minutes of a day."""
    return [{"ts": DAY + timedelta(minutes=at), "sym": sym, "price": price} for at, sym, price in given]


def with_trades(site: Site) -> None:
    """Let the lake have a source: which tests of it run is drawn."""
    if "trades" not in site.tables:
        site.table("trades")


def test_it_is_what_plain_spark_says(site: Site) -> None:
    """
    At first, after late rows, after a correction and after rows are gone; `verify` runs each text and agrees, at one of these, which is drawn.
    """
    table = site.table("trades")
    table.write(rows(ROWS))
    for name, text in STATEMENTS.items():
        site.lake.apply(f"CREATE MATERIALIZED VIEW {name} {FEED} AS SELECT {text}")
    changes = [
        lambda: None,
        lambda: table.write(rows(LATE)),
        lambda: table.update("price = 7", price=70),
        lambda: table.delete("sym = 'B'"),
    ]
    for at, change in enumerate(changes):
        change()
        plain = table.plain_sql(site.spark)
        for name, text in STATEMENTS.items():
            site.lake.refresh(name)
            assert site.rows(f"SELECT {text}".replace("FROM trades", f"FROM {plain}")) == site.published(name), name
            if verifying.is_turn(f"{site.config.executor} {name}", at, len(changes)):
                assert site.lake.verify(name).is_equal, name
    for name in STATEMENTS:
        assert () == site.lake.refresh(name).runs, name


def test_in_a_zone_it_is_before_the_end_there(site: Site) -> None:
    """
    A day of a zone with a jump of its clock ends an hour sooner; `verify` runs the text over these buckets.
    """
    site.table("zoned").write(rows([(30 * 1440 + at, sym, price) for at, sym, price in ROWS]))
    site.lake.apply(
        "CREATE MATERIALIZED VIEW days TBLPROPERTIES ('time.timezone' = 'Europe/Berlin') AS SELECT window(ts, '1 day').end AS e, "
        "window_time(window(ts, '1 day')) AS t, count(*) AS n FROM zoned GROUP BY 1, 2"
    )
    site.lake.refresh("days")

    found = site.published("days")
    assert len(found) > 1
    assert all(end - last == timedelta(microseconds=1) for end, last, _ in found)
    assert 23 == found[0][0].hour
    assert site.lake.verify("days").is_equal


REFUSED = {
    "ungrouped": (
        "window_time(window(ts, '1 hour')) AS t, count(*) AS n FROM trades GROUP BY window(ts, '1 hour')",
        "add it to GROUP BY",
    ),
    "window": (
        "window.start AS b, count(*) AS n FROM trades GROUP BY window_time(window(ts, '1 hour'))",
        "add the window to GROUP BY",
    ),
    "other": (
        "window.start AS b, window_time(window(ts, '1 day')) AS t, count(*) AS n FROM trades GROUP BY window(ts, '1 hour'), 2",
        "",
    ),
    "inside": (
        "window.start AS b, max(window_time(window(ts, '1 hour'))) AS t FROM trades GROUP BY window(ts, '1 hour')",
        "",
    ),
    "named": (
        "window_time(window(ts, '1 hour')) AS t FROM trades GROUP BY 1 HAVING window_time(window(ts, '1 hour')) > t",
        "",
    ),
    "column": ("window_time(ts) AS t, window.start AS b FROM trades GROUP BY window(ts, '1 hour'), 1", ""),
    "twice": ("window_time(window(ts, '1 hour'), 2) AS t, count(*) AS n FROM trades GROUP BY 1", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_spark_refuses_is_refused(site: Site, name: str) -> None:
    """
    Before anything is written, and with a hint that is about GROUP BY where that is what lacks.
    """
    with_trades(site)
    text, hint = REFUSED[name]
    with pytest.raises(DefinitionError) as caught:
        site.lake.apply(f"CREATE MATERIALIZED VIEW refused_{name} AS SELECT {text}")

    assert any(p.hint.startswith(hint) for p in caught.value.problems)
    assert not (site.lake.root / f"refused_{name}").exists()


def test_a_date_and_a_number_have_no_last_microsecond(site: Site) -> None:
    """
    Their buckets end, and no value of their type lies a microsecond before.
    """
    site.table("typed").write(rows(ROWS))
    with pytest.raises(DefinitionError, match="`price` has type bigint"):
        site.lake.apply(
            "CREATE MATERIALIZED VIEW typed_1 AS SELECT window_time(window(price, '10')) AS t, count(*) AS n FROM typed GROUP BY 1"
        )


SESSIONS = {
    "position": "window_time(session_window(ts, '30 minutes')) AS t, sym, count(*) AS n FROM trades GROUP BY 1, 2",
    "named": "session_window.start AS b, window_time(session_window) AS t, count(*) AS n FROM trades "
    "GROUP BY session_window(ts, '30 minutes'), window_time(session_window)",
    "unshown": "session_window.start AS b, count(*) AS n FROM trades GROUP BY session_window(ts, '30 minutes'), window_time(session_window)",
}


@pytest.mark.parametrize("name", SESSIONS)
def test_spark_joins_no_sessions_of_which_it_groups_the_last_instant(site: Site, name: str) -> None:
    """
    Rows a minute apart are two sessions to it, so the statement is refused, and the hint leads to the end of a session.
    """
    with_trades(site)
    table = site.table(f"rows_{name}")
    table.write(rows([(10, "A", 1), (11, "A", 2)]))
    text = f"SELECT {SESSIONS[name]}".replace("FROM trades", f"FROM {table.sql}")
    assert 2 == len(site.rows(text)), "Spark has mended it: accept these statements"
    with pytest.raises(DefinitionError, match=r"select session_window\.end"):
        site.lake.apply(f"CREATE MATERIALIZED VIEW sessions_{name} AS SELECT {SESSIONS[name]}")


def test_other_engines_say_what_to_select(site: Site) -> None:
    """
    No other engine has such a label; nothing is written.
    """
    site.table("series_of")
    with pytest.raises(DefinitionError, match=r"select window\.end"):
        site.lake.apply(
            "CREATE MATERIALIZED VIEW series TBLPROPERTIES ('engine' = 'time_series') AS SELECT window_time(window(ts, '1 hour')) AS t, "
            "sum(price) AS v FROM series_of GROUP BY 1"
        )


HAVING = {
    "start": "window.start AS b, count(*) AS n FROM given GROUP BY window(ts, '1 hour') HAVING b > TIMESTAMP '2024-03-01 00:30:00' AND max(ts) > b",
    "end": "window.end AS e, sym, count(*) AS n FROM given GROUP BY window(ts, '1 hour'), sym HAVING e < TIMESTAMP '2024-03-02' OR count(*) > 1",
    "truncated": "date_trunc('day', ts) AS day, max(price) AS top FROM given GROUP BY 1 HAVING day > TIMESTAMP '2024-03-01' AND top > 2",
}


@pytest.mark.parametrize("name", HAVING)
def test_having_may_name_the_bucket(site: Site, name: str) -> None:
    """
    By the alias of its start or end, as Spark does, also beside aggregates.
    """
    if "given" not in site.tables:
        site.table("given").write(rows(ROWS))
    site.lake.apply(f"CREATE MATERIALIZED VIEW having_{name} AS SELECT {HAVING[name]}")
    site.lake.refresh(f"having_{name}")

    plain = site.rows(f"SELECT {HAVING[name]}".replace("FROM given", f"FROM {site.tables['given'].sql}"))
    assert plain == site.published(f"having_{name}")
    assert 0 < len(plain)
    assert site.lake.verify(f"having_{name}").is_equal
