"""docs/quality.md against the code."""

from __future__ import annotations

import re

from materializer.core.quality import builtin
from materializer.core.quality.catalog import KNOWN
from materializer.core.quality.compiled import COMPILABLE
from tests.paths import ROOT

PAGE = ROOT / "docs/quality.md"


def test_the_table_of_expectations_is_the_catalogue():
    """
    Every expectation has a row that says what it is about and who answers it.
    """
    rows = re.findall(r"^\| `(\w*expect\w*)` \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    answered = {
        name: "compiled" if name in COMPILABLE else "Great Expectations" if known.is_on_spark else "not on Spark"
        for name, known in KNOWN.items()
    }

    assert {(n, str(k.domain), answered[n]) for n, k in KNOWN.items()} == set(rows)


def test_every_built_in_check_is_on_the_page():
    """
    By its name.
    """
    assert all(
        f"`{name}`" in PAGE.read_text(encoding="utf-8") for name in (builtin.UNIQUE, builtin.ON_GRID, builtin.ADDS_UP)
    )
