from __future__ import annotations

import pytest

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.output_feed import Reason, reason_of, reasons_as_json
from materializer.core.time.spans import Span


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("inserts", [True, False])
def test_rows_that_only_came_are_late_by_versions_and_by_files(cause, inserts):
    """
    What was never materialised is new. What changed versions or files that came only add to is late; all else is corrected.
    """
    late = inserts and cause in {Cause.CHANGE, Cause.FILES}
    expected = Reason.NEW if cause is Cause.NEW else Reason.LATE if late else Reason.CORRECTION
    assert reason_of(Entry(Span(0, 1), 7, cause, is_insert_only=inserts)) is expected


@pytest.mark.parametrize(
    ("reaches", "corrects", "beyond"),
    [(True, False, "late"), (True, True, "correction"), (False, False, "correction"), (False, True, "correction")],
)
def test_beyond_dirt_a_row_is_late_where_it_could_change_and_nothing_was_corrected(reaches, corrects, beyond):
    """
    The result of an engine outside the dirt follows from all of it: one correction makes it a correction.
    """
    late = Entry(Span(0, 5), 7, Cause.CHANGE, is_insert_only=True)
    corrected = Entry(Span(5, 9), 7, Cause.CHANGE, is_insert_only=not corrects)
    assert reasons_as_json([late, corrected], reaches_beyond=reaches)["else"] == beyond
