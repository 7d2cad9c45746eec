"""Arguments of the Python API that make no sense are refused with what is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from materializer.errors import UsageError
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000


@pytest.mark.parametrize("options", [{}, {"fresh": True}])
@pytest.mark.parametrize("given", ["polars", "Pandas", None])
def test_a_format_that_is_not_known_is_refused(tmp_path: Path, given: Any, options: dict[str, bool]) -> None:
    """By `read` and by `changes`; the hint lists the formats."""
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(view("hourly", each("1 hour")))
    for read in (lambda: lake.opened.read("hourly", given, **options), lambda: lake.opened.changes("hourly", given)):
        with pytest.raises(UsageError, match="no rows are returned as") as refused:
            read()
        assert "spark" in refused.value.hint
        assert "pandas" in refused.value.hint
