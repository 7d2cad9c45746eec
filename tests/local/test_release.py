"""The release of DuckDB: the proven set was compared with one, and another is not taken unseen."""

from __future__ import annotations

import re
import tomllib

import duckdb

from tests.paths import ROOT


def test_the_release_is_the_one_that_was_compared() -> None:
    """
    What is installed is what the constraints name; the package takes patches of it, and no later minor release.
    """
    [pinned] = re.findall(r"^duckdb==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [bounds] = [need for need in project["dependencies"] if need.startswith("duckdb")]
    major, minor, _ = (int(part) for part in pinned.split("."))

    assert pinned == duckdb.__version__
    assert f"duckdb>={pinned},<{major}.{minor + 1}" == bounds
