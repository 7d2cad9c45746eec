"""Commands in processes of their own, on a small lake of trades, with Spark somewhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct

from tests.paths import ROOT
from tests.tables import append_trades

DEFINITION: Final = """
CREATE MATERIALIZED VIEW trades_1h
AS SELECT time_bucket('1 hour', ts) AS hour, sym, count(*) AS n, sum(volume) AS volume
FROM trades WHERE volume > 0 GROUP BY time_bucket('1 hour', ts), sym;
"""
NO_JAVA: Final = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}


class Commands(Struct, frozen=True):
    """A lake, and the commands that work on it.

    Args:
        root: Its folder.
        environ: What says where Spark is.
    """

    root: Path
    environ: dict[str, str]

    def applied(self, definition: str = DEFINITION, days: tuple[int, ...] = (1, 2, 3)) -> Commands:
        """Fill the source and apply a definition; return these commands."""
        for day in days:
            append_trades(self.root, day)
        (self.root / "definition.sql").write_text(definition, encoding="utf-8")
        self.done("apply", "definition.sql")
        return self

    def python(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a script of Python in this environment, with pipes."""
        return subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=self.root,
            env=self._environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command with its result as JSON; nothing it needs lies in this process."""
        return subprocess.run(
            [sys.executable, "-m", "materializer", *arguments, "--json"],
            cwd=self.root,
            env={**self._environ(), **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    def done(self, *arguments: str) -> Any:
        """Run a command that has to succeed; return its document."""
        ran = self.run(*arguments)
        assert 0 == ran.returncode, ran.stderr
        return json.loads(ran.stdout)

    def output(self, name: str = "trades_1h") -> pa.Table:
        """Return the published rows, in order."""
        table = DeltaTable(str(self.root / name / "output")).to_pyarrow_table()
        return table.sort_by([(column, "ascending") for column in table.column_names[:2]])

    def _environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MATERIALIZER_LAKE": str(self.root),
            "MATERIALIZER_EXECUTOR": "spark",
            **self.environ,
        }
