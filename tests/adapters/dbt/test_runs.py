"""The project of docs/dbt.md, run by dbt itself: models are defined, refreshed, changed, tested and documented."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.adapters.dbt import environment
from tests.docs.blocks import blocks
from tests.paths import ROOT

SUMS = "SELECT window(ts, '1 hour').start, symbol, sum(size), max(price), count(*) FROM bronze.trades GROUP BY 1, 2"
PUBLISHED = "SELECT hour, symbol, size, top, trades FROM gold.bars_1h"


def files_of_the_page() -> dict[str, str]:
    """Return the files that docs/dbt.md shows, by the comment in their first line."""
    found = {}
    for block in blocks("docs/dbt.md"):
        first, _, rest = block.text.partition("\n")
        if block.language in {"yaml", "jinja"} and first.startswith(("# ", "-- ")):
            found[first[2:].strip().lstrip("- ")] = rest
    return found


def done(project: Path, *steps: dict[str, Any]) -> list[Any]:
    """Return what steps came to, done in one process with dbt."""
    python = environment.python()
    if python is None:
        pytest.skip(environment.MISSING)
    for name, text in files_of_the_page().items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [str(python), "-m", "tests.adapters.dbt.driver"],
        cwd=project, input=json.dumps(steps), capture_output=True, text=True, check=False, timeout=400,
        env=os.environ | {"PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return json.loads((project / "answers.json").read_text(encoding="utf-8"))


def trade(time: str, symbol: str, size: int, price: int) -> dict[str, str]:
    """Return the step that commits a trade."""
    return {"sql": f"INSERT INTO bronze.trades VALUES (TIMESTAMP'2024-01-{time}', '{symbol}', {size}, {price})"}


SOURCE = [
    {"sql": "CREATE SCHEMA bronze"},
    {
        "sql": "CREATE TABLE bronze.trades (ts TIMESTAMP, symbol STRING, size BIGINT, price BIGINT) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    },
    trade("01 00:10:00", "A", 1, 5),
    trade("01 01:10:00", "B", 2, 7),
    trade("02 01:20:00", "B", 3, 6),
]
MODEL = "models/bars_1h.sql"


def test_dbt_knows_the_adapter(tmp_path: Path) -> None:
    """
    It finds the adapter of the profile, and reads a model of the materialization; no connection is opened.
    """
    python = environment.python()
    if python is None:
        pytest.skip(environment.MISSING)
    for name, text in files_of_the_page().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [str(python.with_name("dbt")), "parse"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1"},
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stdout
    manifest = json.loads((tmp_path / "target" / "manifest.json").read_text(encoding="utf-8"))

    assert "Registered adapter: materializer" in ran.stdout
    assert "materializer" == manifest["metadata"]["adapter_type"]
    assert "macro.dbt_materializer.materialization_continuous_aggregate_materializer" in manifest["macros"]
    assert "continuous_aggregate" == manifest["nodes"]["model.trading.bars_1h"]["config"]["materialized"]


@pytest.mark.spark
def test_the_first_build_of_the_page(tmp_path: Path) -> None:
    """
    The project finds the folder of its source by itself; the catalog is empty before.
    """
    table = tmp_path / "data" / "trades"
    rows = pa.table({"ts": [datetime(2024, 1, 1, tzinfo=UTC)], "symbol": ["A"], "size": [1], "price": [5]})
    write_deltalake(table, rows, configuration={"delta.enableChangeDataFeed": "true"})
    project = files_of_the_page()["dbt_project.yml"]
    assert "'/data/trades'" in project
    _, built, published = done(
        tmp_path,
        {"file": "dbt_project.yml", "text": project.replace("'/data/trades'", f"'{table}'")},
        {"dbt": ["build"]},
        {"sql": PUBLISHED},
    )

    assert built["success"], built
    assert ["success", "OK defined, refreshed, 1 rows read, 1 written"] == built["models"]["bars_1h"]
    assert [["2024-01-01 00:00:00", "A", "1", "5", "1"]] == published


@pytest.mark.spark
def test_the_project_of_the_page(tmp_path: Path) -> None:
    """
    Built, refreshed after a late trade, computed anew, and documented; at each moment the output is what the SELECT says.
    """
    answers = done(
        tmp_path,
        *SOURCE,
        {"dbt": ["build"]},
        {"sql": SUMS},
        {"sql": PUBLISHED},
        trade("01 00:30:00", "A", 4, 9),
        {"dbt": ["run"]},
        {"sql": SUMS},
        {"sql": PUBLISHED},
        {"sql": "SELECT symbol, top FROM gold.tops"},
        {"dbt": ["run"]},
        {"dbt": ["run", "--full-refresh", "--select", "bars_1h"]},
        {"sql": PUBLISHED},
        {"dbt": ["docs", "generate"]},
        {"sql": "DESCRIBE DETAIL gold.bars_1h"},
    )
    built, first, published, _, late, again, then, tops, idle, full, anew, _, detail = answers[len(SOURCE) :]

    assert built["success"], built
    assert ["success", "OK defined, refreshed, 3 rows read, 3 written"] == built["models"]["bars_1h"]
    assert ["pass", ""] == built["models"]["not_null_bars_1h_symbol"]
    assert sorted(first) == sorted(published)
    assert ["success", "OK refreshed, 1 rows read, 1 written"] == late["models"]["bars_1h"]
    assert sorted(again) == sorted(then) != sorted(first)
    assert [["A", "9"], ["B", "7"]] == sorted(tops)
    assert {"OK up-to-date, 0 rows read, 0 written"} == {idle["models"][name][1] for name in ("bars_1h", "bars_1d")}
    assert ["success", "OK backfilled anew, 4 rows read, 3 written"] == full["models"]["bars_1h"]
    assert sorted(then) == sorted(anew)
    assert any("Trades by hour, as the trader's screen shows them" in cell for cell in detail[0])
    catalog = json.loads((tmp_path / "target" / "catalog.json").read_text(encoding="utf-8"))
    node = catalog["nodes"]["model.trading.bars_1h"]
    assert ["hour", "symbol", "size", "top", "trades"] == list(node["columns"])


@pytest.mark.spark
def test_a_changed_model(tmp_path: Path) -> None:
    """
    It is built and switched, or left alone, or refused, as the model says; --full-refresh applies it in any case.
    """
    text = files_of_the_page()[MODEL]
    wider = text.replace("'1 hour'", "'2 hours'")
    more = {f"bars_{hours}h": text.replace("'1 hour'", f"'{hours} hours'") for hours in (3, 4, 6)}
    answers = done(
        tmp_path,
        *SOURCE,
        *({"file": f"models/{name}.sql", "text": model} for name, model in more.items()),
        {"dbt": ["run", "--select", "bars_1h", *more, "--threads", "4"]},
        *({"sql": f"SELECT symbol, sum(size), sum(trades) FROM gold.{name} GROUP BY 1"} for name in more),
        {"file": MODEL, "text": wider.replace("config(", "config(on_configuration_change='fail', ")},
        {"dbt": ["run", "--select", "bars_1h"]},
        {"file": MODEL, "text": wider.replace("config(", "config(on_configuration_change='continue', ")},
        {"dbt": ["run", "--select", "bars_1h"]},
        {"sql": PUBLISHED},
        {"file": MODEL, "text": wider},
        {"dbt": ["run", "--select", "bars_1h"]},
        {"sql": PUBLISHED},
        {"sql": SUMS.replace("1 hour", "2 hours")},
        {"file": MODEL, "text": text.replace("config(", "config(on_configuration_change='fail', ")},
        {"dbt": ["run", "--select", "bars_1h", "--full-refresh"]},
        {"sql": PUBLISHED},
        {"sql": SUMS},
    )
    first, *sums = answers[len(SOURCE) + len(more) :][: 1 + len(more)]
    rest = answers[len(SOURCE) + 2 * len(more) + 1 :]
    _, refused, _, left, before, _, applied, after, expected, _, full, back, as_before = rest

    assert {"OK defined, refreshed, 3 rows read, 3 written"} == {line for _, line in first["models"].values()}
    assert 4 == len(first["models"])
    assert all([["A", "1", "1"], ["B", "5", "2"]] == sorted(found) for found in sums)
    assert not refused["success"]
    assert "changes its data" in refused["models"]["bars_1h"][1]
    assert "nothing was written" in refused["models"]["bars_1h"][1]
    assert ["success", "OK changed definition not applied, up-to-date, 0 rows read, 0 written"] == left["models"][
        "bars_1h"
    ]
    assert sorted(as_before) == sorted(before)
    assert "built and switched" in applied["models"]["bars_1h"][1]
    assert sorted(expected) == sorted(after)
    assert "built and switched" in full["models"]["bars_1h"][1]
    assert sorted(as_before) == sorted(back)


@pytest.mark.spark
def test_what_is_no_aggregate(tmp_path: Path) -> None:
    """
    Errors have code and hint; a name that a view has is refused, and given up by --full-refresh.
    """
    text = files_of_the_page()[MODEL]
    answers = done(
        tmp_path,
        *SOURCE,
        {"file": MODEL, "text": text.replace("max(price)", "median_of(price)")},
        {"dbt": ["run", "--select", "bars_1h"]},
        {"file": MODEL, "text": text.replace("continuous_aggregate", "view")},
        {"dbt": ["run", "--select", "bars_1h"]},
        {"file": MODEL, "text": text},
        {"dbt": ["run", "--select", "bars_1h"]},
        {"dbt": ["run", "--select", "bars_1h", "--full-refresh"]},
        {"sql": PUBLISHED},
        {"sql": SUMS},
    )
    _, wrong, _, view, _, taken, full, published, expected = answers[len(SOURCE) :]

    assert "definition.invalid" in wrong["models"]["bars_1h"][1]
    assert "median_of" in wrong["models"]["bars_1h"][1]
    assert view["success"]
    assert "catalog.name-taken" in taken["models"]["bars_1h"][1]
    assert full["success"], full
    assert sorted(expected) == sorted(published)
