"""What the SQL library says to itself reaches nobody: a process that compiles every function prints nothing of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.paths import ROOT

SCRIPT = """
import itertools
from materializer.core.sql.functions import AGGREGATES, SCALARS, UNSUPPORTED_AGGREGATES
from materializer.local.expressions import compiled
from materializer.local.scope import Scope
from materializer.local.kinds import Kind, NotLocal, bugs_left_to_spark, kind_of

COLUMNS = {"i": "int", "d": "double", "x": "string", "ts": "timestamp"}
scope = Scope({n: kind_of(k) for n, k in COLUMNS.items()} | {"a": Kind("array", element=kind_of("int"))}, are_rows=False)
rows = Scope(scope.columns, are_rows=True)
names = sorted({*AGGREGATES, *SCALARS, *UNSUPPORTED_AGGREGATES})
calls = ["{}(a)", "{}(x)", "{}(a, false)", "{}(x, '$.a[')", "{}(i, d)", "{}(x) FILTER (WHERE i > 0)", "{}(DISTINCT x)", "{} + 1"]
more = ["show + 1", "execute.x", "x LIKE ANY ('a', 'b')", "sort_array(collect_list(i))", "array_sort(array_agg(i), (p, q) -> p - q)"]
answers = 0
for text in [*(call.format(name) for name in names for call in calls), *more]:
    for each in (scope, rows):
        try:
            with bugs_left_to_spark():
                compiled(text, each)
        except NotLocal:
            answers += 1
assert answers > len(names), answers
"""


def test_nothing_of_the_sql_library_reaches_the_terminal() -> None:
    """
    Whatever is refused or compiled, both streams of the process stay empty: no warning of what a dialect lacks is printed.
    """
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, env=env)

    assert (0, "", "") == (ran.returncode, ran.stdout, ran.stderr[:2_000])
