"""Random histories of scattered changes: rows are right and costs within the law; the long run is ``python -m tests.histories_of_spans``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories_of_spans.__main__ import PAGE, made
from tests.histories_of_spans.history import History


@pytest.mark.parametrize("seed", [31])
def test_work_follows_the_spans_in_a_history_of_many(tmp_path: Path, seed: int) -> None:
    """
    Thousands of spans in the log cost calls in proportion to them, as often as they are added to, folded, planned and cut.
    """
    assert "" == History(seed, tmp_path, counts_calls=True).run(), f"python -m tests.histories_of_spans --only {seed}"


def test_a_refresh_costs_what_changed_in_every_history(tmp_path: Path, fresh_seed: int) -> None:
    """
    Outputs equal a loop over the raw rows, and no refresh reads, writes, calls, commits or opens more than the law allows.
    """
    for seed in range(fresh_seed, fresh_seed + 3):
        (tmp_path / str(seed)).mkdir()
        history = History(seed, tmp_path / str(seed))
        assert "" == history.run(), f"python -m tests.histories_of_spans --only {seed}"


def test_the_page_has_the_histories_on_record() -> None:
    """
    `python -m tests.histories_of_spans --summary` writes the table.
    """
    assert PAGE.read_text(encoding="utf-8") == made()
