"""The JVM of a command dies, and not its Python: one aggregate fails with a clear error, the others are refreshed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

UNENDED = "refresh 1 has not ended: what it wrote is finished or undone by the next command"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpoint", "rows", "wrote", "recovered"),
    [
        ("compute", 200_000, "nothing was written", None),
        ("writing_partials", 0, UNENDED, "aborted"),
        ("writing_output", 0, UNENDED, ("aborted", "finished")),  # the partials are written at the same time
    ],
)
def test_a_dead_jvm_stops_one_refresh(
    tmp_path: Path, checkpoint: str, rows: int, wrote: str, recovered: str | tuple[str, ...] | None
) -> None:
    """
    Of three aggregates the first loses its JVM: its error has a code and says what is left, the others are refreshed in a
    session that is started anew, and the next command in the same process makes the first one true.
    """
    ran = subprocess.run(
        [sys.executable, "-m", "tests.system.processes.dying", tmp_path, checkpoint, str(rows)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (0, "") == (ran.returncode, ran.stderr), "nothing but what the commands tell, no traceback of the bridge"
    first, again, verified = map(json.loads, ran.stdout.splitlines())

    [error] = first["errors"]
    assert ("spark.died", 71, wrote) == (error["code"], error["exit_status"], error["wrote"])
    assert "was ended by signal 9 (SIGKILL)" in error["message"]
    assert "short of memory" in error["hint"]
    assert 71 == first["status"]
    assert [("b", "refreshed"), ("c", "refreshed")] == [(r["name"], r["outcome"]) for r in first["done"]["refreshes"]]

    assert (0, []) == (again["status"], again["errors"])
    mine, *others = again["done"]["refreshes"]
    assert [("b", "up-to-date"), ("c", "up-to-date")] == [(r["name"], r["outcome"]) for r in others]
    assert all(how["outcome"] in recovered for how in mine["recovered"]) if recovered else not mine["recovered"]
    assert 0 == verified["status"]
    assert [(n, 5, 0) for n in "abc"] == [(v["name"], v["rows"], v["differing"]) for v in verified["done"]["verified"]]
