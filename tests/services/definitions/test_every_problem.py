"""All problems of a text are listed at once: those of its words, and those that only the source shows."""

from __future__ import annotations

from pathlib import Path

from tests.hints.world import World

TEXT = """
CREATE MATERIALIZED VIEW right AS SELECT time_bucket('1 day', ts) AS at, sum(v) AS v FROM raw GROUP BY 1;
CREATE MATERIALIZED VIEW no_column AS SELECT time_bucket('1 day', ts) AS at, sum(vv) AS v FROM raw GROUP BY 1;
CREATE MATERIALIZED VIEW no_words AS SELEC 1;
CREATE MATERIALIZED VIEW over_it AS SELECT time_bucket('1 day', at) AS at, sum(v) AS v FROM no_words GROUP BY 1;
CREATE MATERIALIZED VIEW over_that AS SELECT time_bucket('1 day', at) AS at, sum(v) AS v FROM over_it GROUP BY 1;
CREATE MATERIALIZED VIEW no_source AS SELECT time_bucket('1 day', ts) AS at, sum(v) AS v FROM row GROUP BY 1;
CREATE MATERIALIZED VIEW no_end AS SELECT 'x FROM raw;
"""


def test_one_list_has_every_problem(tmp_path: Path) -> None:
    """
    Nothing is said of a definition over one that cannot be read, and nothing is written.
    """
    world = World(tmp_path)
    (tmp_path / "all.sql").write_text(TEXT)

    ran = world.run(f"apply {tmp_path / 'all.sql'}")

    [error] = ran.errors
    found = sorted((p["line"], p["code"]) for p in error["problems"])
    assert found == [
        (3, "definition.unknown-column"),
        (4, "definition.syntax"),
        (7, "table.not-found"),
        (8, "definition.syntax"),
    ]
    assert [] == world.lake.names
