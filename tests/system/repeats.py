"""Tests of a lake that are not repeated with the second executor, each with the reason; and the repeats that each run has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXCLUDED: Final[Mapping[str, str]] = {
    "test_together.py": "counts how often Spark opens the files of a source",
    "test_statements.py": "its lakes are computed by each of both executors already",
    "test_presence.py": "its lakes are computed by each of both executors already",
    "test_extreme_numbers.py": "its lakes are computed by each of both executors already",
    "test_window_time.py": "its lakes are computed by each of both executors already",
    "test_samples.py": "its lakes are computed by each of both executors already",
    "test_short_times.py": "its lakes are computed by each of both executors already",
    "test_revisions.py": "its lakes are computed by each of both executors already",
    "test_public_suites.py": "its lakes are computed by each of both executors already",
    "processes/test_local_executor.py": "its lake computes with `auto` already, and asks which executor computed",
}
"""Files whose tests are not repeated with the second executor, each with the reason; of single tests `of_spark` has it."""
QUICK: Final = (
    "::test_inserts_of_several_commits_are_merged_once",
    "::test_updates_are_recomputed_beside_merged_inserts",
)
"""Tests that each run has with both executors; of the others it takes one of both."""
