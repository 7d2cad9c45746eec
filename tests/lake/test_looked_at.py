"""Checkpoints are looked at once by each user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.paths import ROOT

CODE = """
import sys
from materializer.lake.hostile import refuse_deep_file
table, name = sys.argv[1:]
refuse_deep_file(table, name, 100)
print("pyarrow" in sys.modules)
"""


def loads_arrow(table: Path, name: str, environ: Mapping[str, str]) -> bool:
    """Look at a file of a log in a process of its own; return whether it was read."""
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(table), name],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)} | dict(environ),
    )  # fmt: skip
    return ran.stdout.strip() == "True"


@pytest.fixture
def table(trades) -> Path:
    """A table with a checkpoint of version 1."""
    made = trades()
    made.append((0, "a", 1))
    made.append((1, "a", 1))
    from deltalake import DeltaTable

    DeltaTable(made.path).create_checkpoint()
    return Path(made.path)


def test_a_checkpoint_is_read_once_by_a_user(table: Path, tmp_path: Path) -> None:
    """
    The next process knows it; one that was written again, with the size and the time of the old one, is read again, and by another
    user, too.
    """
    name = "00000000000000000002.checkpoint.parquet"
    own, others = ({"XDG_CACHE_HOME": str(tmp_path / who)} for who in ("own", "others"))

    assert [True, False, True] == [loads_arrow(table, name, who) for who in (own, own, others)]

    file = table / "_delta_log" / name
    stat, content = file.stat(), file.read_bytes()
    file.write_bytes(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert loads_arrow(table, name, own)


def test_who_has_no_cache_looks_each_time(table: Path, tmp_path: Path) -> None:
    """
    A folder that cannot be made is no error.
    """
    (tmp_path / "file").write_text("")
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "file")}

    assert [True, True] == [loads_arrow(table, "00000000000000000002.checkpoint.parquet", nowhere) for _ in range(2)]
