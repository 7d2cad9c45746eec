from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import defining, looking, policies, refreshing, versions
from materializer.adapters.cli.output import JsonOutput, TextOutput
from materializer.api import Materializer
from materializer.config import Config
from tests.paths import ROOT
from tests.tables import append_trades

DEFINITION = """
CREATE MATERIALIZED VIEW trades_1h
AS SELECT time_bucket('1 hour', ts) AS hour, sym, count(*) AS n, sum(volume) AS volume
FROM trades WHERE volume > 0 GROUP BY time_bucket('1 hour', ts), sym;
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory, spark) -> Materializer:
    """A lake with one source of three days and one aggregate, not refreshed yet."""
    root = tmp_path_factory.mktemp("lake")
    for day in (1, 2, 3):
        append_trades(root, day)
    (root / "trades.sql").write_text(DEFINITION)
    return Materializer(root, spark=spark, config=Config(expectations=str(root / "expectations")))


def told(lake: Materializer, body, *arguments, status: int = 0, **options) -> str:
    out, err = io.StringIO(), io.StringIO()
    call = CommandCall(TextOutput(out, err), opened=lake)
    assert guarded(call, lambda: body(call, *arguments, **options)) == status, err.getvalue()
    return out.getvalue() + err.getvalue()


def formed(lake: Materializer, body, *arguments, **options):
    out = io.StringIO()
    call = CommandCall(JsonOutput(out, io.StringIO()), opened=lake)
    assert guarded(call, lambda: body(call, *arguments, **options)) == 0
    return json.loads(out.getvalue())


def command(lake: Materializer, *arguments: str) -> subprocess.CompletedProcess:
    code = (
        f"import sys; from materializer.adapters.cli import main; s = main({list(arguments)!r});"
        "print('imported:', 'pyspark' in sys.modules); sys.exit(s)"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT), "MATERIALIZER_LAKE": str(lake.root)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)


def test_the_main_job_by_its_commands(lake):
    """
    Apply, plan, refresh, look, late data, refresh again, verify, drop: each says what it did.
    """
    path = lake.root / "trades.sql"
    assert "would be created" in told(lake, defining.apply, [path], dry_run=True)
    assert formed(lake, looking.status) == {"aggregates": [], "sources": []}
    assert "trades_1h: created" in told(lake, defining.apply, [path])
    assert "trades_1h: unchanged" in told(lake, defining.apply, [path])
    assert "step 1: rebuild" in told(lake, refreshing.plan, "trades_1h")

    first = formed(lake, refreshing.backfill, "trades_1h", buckets_per_run=24)["refreshes"][0]
    assert [r["rows_read"] for r in first["runs"]] == [72, 72, 72]

    for arguments in (["refresh", "trades_1h"], ["plan", "trades_1h"]):
        idle = command(lake, *arguments, "--strict-exit")
        assert idle.returncode == 3, idle.stderr
        assert "imported: False" in idle.stdout
    for arguments in (["status"], ["history", "trades_1h"], ["show", "trades_1h"]):
        quiet = command(lake, *arguments)
        assert quiet.returncode == 0, quiet.stderr
        assert "imported: False" in quiet.stdout

    append_trades(lake.root, 2, volume=5)
    assert formed(lake, looking.status)["aggregates"][0]["state"] == "behind"
    plan = formed(lake, refreshing.plan, "trades_1h")
    assert plan["dirty"] == [{"start": "2013-12-02T00:00:00Z", "end": "2013-12-03T00:00:00Z"}]
    refreshed = told(lake, refreshing.refresh, "trades_1h")
    assert "read 72 rows" in refreshed or "read 144 rows" in refreshed  # merged, or computed anew, as their prices say
    rows = formed(lake, looking.show, "trades_1h", start="2013-12-02", end="2013-12-02T01:00:00Z")["rows"]
    assert sorted(rows) == [["2013-12-02T00:00:00Z", "A", 4, 12], ["2013-12-02T00:00:00Z", "B", 2, 6]]

    assert "equal to plain Spark" in told(lake, looking.verify, every=True)
    assert "is dirty now" in told(lake, refreshing.invalidate, "trades_1h", start="2013-12-01", end="2013-12-02")
    assert formed(lake, looking.status, "trades_1h")["aggregates"][0]["state"] == "dirty"
    fresh = formed(lake, looking.show, "trades_1h", limit=1, fresh=True)
    assert fresh["rows"][0][0] == "2013-12-03T23:00:00Z"
    assert fresh["fresh"]["rows_read"] == 72
    assert "nothing stands in the way" in told(lake, looking.doctor)

    assert len(formed(lake, looking.history, "trades_1h")["refreshes"]) == 4
    assert "dropped" in told(lake, defining.drop, "trades_1h", yes=True)
    assert "no aggregate" in told(lake, looking.history, "trades_1h", status=64)


def test_building_a_definition_builds_what_rolls_it_up(lake):
    """
    Of a folder in which only the parent's text changed, one command builds the parent and then the roll-up over its new data.
    """
    folder = lake.root / "rolled"
    folder.mkdir()
    hours = DEFINITION.replace("trades_1h", "hours")
    (folder / "a.sql").write_text(hours)
    (folder / "b.sql").write_text(
        "CREATE MATERIALIZED VIEW days AS SELECT time_bucket('1 day', hour) AS day, rollup(volume) AS volume "
        "FROM hours GROUP BY time_bucket('1 day', hour);"
    )
    told(lake, defining.apply, [folder])
    told(lake, refreshing.refresh, every=True)
    before = formed(lake, looking.show, "days")["rows"]
    (folder / "a.sql").write_text(hours.replace("sum(volume)", "sum(2 * volume)"))

    applied = formed(lake, defining.apply, [folder], build=True)

    assert ["hours", "days"] == [build["name"] for build in applied["builds"]]
    assert [[day, 2 * volume] for day, volume in before] == formed(lake, looking.show, "days")["rows"]
    assert "equal to plain Spark" in told(lake, looking.verify, "days")
    for name in ("days", "hours"):
        told(lake, defining.drop, name, yes=True)


def test_policies_by_their_commands(lake):
    """
    Add, list, run, run again, run what is due, remove: each says what it did, and a quiet run starts no JVM.
    """
    path = lake.root / "trades.sql"
    told(lake, defining.apply, [path])
    name, now = "trades_1h", "2013-12-04T00:30:00Z"
    added = formed(lake, policies.add, name, start_offset="1 day", end_offset="1 hour", schedule="@hourly")
    assert [("metadata", 3)] == [(c["kind"], len(c["differences"])) for c in added["changes"]]
    assert "policy-overlap" in told(lake, policies.add, name, policy="old", end_offset="2 hours", status=65)
    assert "changed in its metadata" in told(lake, policies.add, name, policy="old", end_offset="1 day")

    first, second = formed(lake, policies.show, name, now=now)["policies"]
    assert ("default", "1 day", True, None) == (first["policy"], first["start_offset"], first["due"], first["last_now"])
    assert {"start": "2013-12-03T01:00:00Z", "end": "2013-12-03T23:00:00Z"} == first["window"]
    assert {"start": None, "end": "2013-12-03T01:00:00Z"} == second["window"]

    for _ in range(2):
        (run,) = formed(lake, policies.run, name, now=now)["refreshes"]
        assert ("default", now, first["window"]) == (run["policy"], run["now"], run["window"])
    assert ("up-to-date", []) == (run["outcome"], run["runs"])
    for arguments in (["policy", "run", name, "--now", now], ["policy", "run", "--due", "--now", now]):
        idle = command(lake, *arguments, "--strict-exit")
        assert idle.returncode == 3, idle.stderr
        assert "imported: False" in idle.stdout
    assert formed(lake, policies.run, due=True, now="2013-12-04T01:00:00Z")["refreshes"][0]["outcome"] == "refreshed"

    (status,) = formed(lake, looking.status, name, now=now)["aggregates"]
    assert ([], 2) == (status["outside_policies"], len(status["policies"]))
    assert "policy old at" in told(lake, policies.run, name, policy="old", now=now)
    assert "changed in its metadata" in told(lake, policies.remove, name, policy="old")
    assert "known: default" in told(lake, policies.remove, name, policy="old", status=64)
    told(lake, defining.drop, name, yes=True)


def test_a_definition_with_problems_writes_nothing(lake):
    """
    The problem is told with its code and hint, and the lake is as it was.
    """
    path = lake.root / "bad.sql"
    path.write_text(DEFINITION.replace("sum(volume)", "sum(volum)").replace("trades_1h", "bad"))
    before = sorted(p.name for p in lake.root.iterdir())

    text = told(lake, defining.apply, [path], status=65)
    assert "definition.unknown-column" in text
    assert "did you mean `volume`" in text
    assert before == sorted(p.name for p in lake.root.iterdir())


def test_a_definition_is_changed_and_taken_back(lake):
    """
    Apply says what kind of change it is and what it costs; build publishes it, rollback takes it back, status tells.
    """
    path = lake.root / "trades.sql"
    told(lake, defining.apply, [path])
    formed(lake, refreshing.refresh, "trades_1h")
    path.write_text(path.read_text().replace("1 hour", "2 hours"))

    change = told(lake, defining.apply, [path])
    assert "changed in its data; is the next version" in change
    assert "building it reads about" in change
    assert "'materializer build trades_1h' builds and publishes it" in change
    assert "0% built, about" in told(lake, looking.status, "trades_1h")
    assert "the next version is published" in told(lake, versions.build, "trades_1h")
    assert "1 version kept" in told(lake, looking.status, "trades_1h")
    assert 0 == sum(r["rows_read"] for r in formed(lake, versions.rollback, "trades_1h")["runs"])
    again = formed(lake, defining.apply, [path], build=True)
    assert ["data", "started"] == [again["changes"][0][key] for key in ("kind", "next")]
    assert again["builds"][0]["switch"]["previous"]
    assert "no next version" in told(lake, versions.switch, "trades_1h", status=64)
