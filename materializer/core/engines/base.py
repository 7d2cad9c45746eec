"""One window kind with its parameters: everything that is true of it.

The defaults are those of an engine whose results never reach beyond their own rows. Each window kind overrides in its own file
what is otherwise true of it, and nothing else asks which kind an engine is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct

from materializer.core.engines.params import About, Trouble
from materializer.core.engines.ranges import Range, StoredResult

if TYPE_CHECKING:
    from materializer.core.engines.clock import ClosingClock
    from materializer.core.engines.trading_calendar import Calendar
    from materializer.core.time.grid import Grid


class Excess(Struct, frozen=True):
    """The row that makes the most windows, in words, where a run would make too many.

    Args:
        row: Its key and time.
        time: Its time.
        other: The time up to which it makes windows: the next row of its key, the end of the filling, or an event's end.
        far: The key and time of the row at *other*.
        is_last: Whether it is the last row of its key.
        is_later: Whether the row at *other* is the outlier, and not this one.
        is_by_clock: Whether the clock causes the filling after it.
        is_open: Whether it is an event without an end.
        newest: The key of the newest row of all keys and a space, if that row causes the filling; else "".
    """

    row: str
    time: str
    other: str
    far: str
    is_last: bool
    is_later: bool
    is_by_clock: bool
    is_open: bool
    newest: str


class WindowEngine:
    """An engine with its parameters."""

    __slots__ = ()

    EXTRA_OUTPUTS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(output name, Spark SQL over a result row) of output columns that only this kind has."""

    # -- parameters ------------------------------------------------------------------------------------------------------

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[WindowEngine | None, list[Trouble]]:
        """Return the engine and all problems with its parameters; the engine is None when there is a problem."""
        raise NotImplementedError

    @property
    def end(self) -> str | None:
        """Column that holds the end of an event; None for rows at an instant."""
        return None

    @property
    def default_end(self) -> int | None:
        """End of open events where windows would otherwise be infinitely many, or None."""
        return None

    @property
    def fills(self) -> tuple[tuple[str, str], ...]:
        """What fills windows without rows, for each measure; empty when windows without rows have no result."""
        return ()

    @property
    def use_system_time(self) -> bool:
        """Whether windows lie in ingestion time."""
        return False

    @property
    def accepted_delay(self) -> int:
        """How long after their end windows close."""
        return 0

    @property
    def force_trigger_time(self) -> int | None:
        """How long after its end a row of any key closes a window; None when it does not."""
        return None

    @property
    def lookback(self) -> int:
        """How many rows before its own a result needs."""
        return 0

    @property
    def calendar(self) -> Calendar | None:
        """The calendar of trading days, for an engine that has one."""
        return None

    # -- what opens and closes windows -----------------------------------------------------------------------------------

    @property
    def arrival(self) -> Literal["rows", "panes", "sessions", "watermark"]:
        """What decides whether a row comes too late, where the order of arrival counts."""
        return "rows"

    @property
    def resumes_from(self) -> Literal["nothing", "session", "state"]:
        """What of its key's last stored result a computation from later rows alone continues from."""
        return "nothing"

    @property
    def needs_first(self) -> bool:
        """Whether the first row of all positions the windows."""
        return False

    @property
    def needs_global_max(self) -> bool:
        """Whether the newest row over all keys closes windows."""
        return False

    @property
    def reopens_on_first_clock(self) -> bool:
        """Whether the first clock reopens windows that row times alone had closed."""
        return False

    @property
    def touches_all(self) -> str:
        """Why any change can touch results of every key, or "" when it cannot."""
        return "windows without rows are filled for every key as time goes on" if self.fills else ""

    # -- what a change touches -------------------------------------------------------------------------------------------

    def ranges(
        self, spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult], *, is_complete: bool
    ) -> list[Range] | None:
        """Return which results of one key a change touches, or None when the answer needs older stored rows.

        Args:
            spans: Closed intervals of changed times, in order.
            stored: Stored result rows of the key, in order.
            is_complete: Whether *stored* holds all stored rows of the key.
        """
        raise NotImplementedError

    @property
    def merges(self) -> bool:
        """Whether the results of added rows alone join stored results to those of all rows."""
        return False

    def looks_at(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:  # noqa: ARG002 (of sessions)
        """Return which stored results of a key :meth:`ranges` looks at; None for all of them.

        Those that end after the start and begin before the end of an interval, one more on each side of it, the first and the
        last of the key, and those that are not final.

        Args:
            spans: Closed intervals of changed times, in order.
        """
        return None

    # -- history whose raw rows may go -----------------------------------------------------------------------------------

    def why_not_freezable(self, lateness: str, stored: Container[str] | None = None) -> str:
        """Return why the history cannot be cut, or "" when it can; see :mod:`materializer.core.engines.freezing`.

        Args:
            lateness: How the definition treats late rows.
            stored: Names of the columns of its stored results, None before they are known.
        """
        if lateness != "recompute":
            return f"under lateness '{lateness}' rows are judged in the order in which they came, from the first one on"
        return self.why_not_cut(stored)

    def why_not_cut(self, stored: Container[str] | None) -> str:  # noqa: ARG002 (of running state)
        """Return why results above an edge need more than what the last results below it carry on, or ""."""
        return ""

    def lasts_from(self, bound: int) -> int | None:  # noqa: ARG002 (of events that last)
        """Return the least last instant of an event that counts above *bound*; None when rows have no end."""
        return None

    def edge_for(self, bound: int, grid: Grid) -> int:  # noqa: ARG002 (of trading sessions)
        """Return the last edge of slices at or before *bound* where the history can be cut; ``NEG_INF`` without one."""
        return bound

    @property
    def fills_on(self) -> bool:
        """Whether windows without rows are filled from the window before them, however old that window is."""
        return bool(self.fills)

    @property
    def fills_by_day(self) -> bool:
        """Whether windows without rows are filled only from windows of the same trading day."""
        return False

    def filled_after(self, w_start: int) -> int | None:  # noqa: ARG002 (of engines that fill)
        """Return the start of the filled window that follows a window; None without one.

        Args:
            w_start: Start of the window.
        """
        return None

    def first_unfilled(self, days: Iterable[tuple[int, int]]) -> int | None:  # noqa: ARG002 (of trading days)
        """Return the start of the first stored window in the first trading day that is not filled to its end; None without one.

        Args:
            days: (start of the first, count) of the stored windows of a key in each trading day.
        """
        return None

    def begins_below(self, t: int, bound: int, stored: Sequence[StoredResult], *, may_go: bool = False) -> int | None:
        """Return the start of the first result that takes a row at *t* and begins below the boundary; None without one.

        Args:
            t: Time of a row that was added or removed, at or above the boundary.
            bound: The frozen boundary.
            stored: Stored results of the row's key; at least the last one below the boundary.
            may_go: Whether the row may have been removed. Where a removed event began at the end of a stretch, that end goes
                too.
        """
        start = self.first_result(t, bound, stored, may_go=may_go)
        return start if start is not None and start < bound else None

    def first_result(
        self,
        t: int,  # noqa: ARG002 (of windows that are longer than an instant)
        bound: int,  # noqa: ARG002 (of longer windows)
        stored: Sequence[StoredResult],  # noqa: ARG002 (of longer windows)
        *,
        may_go: bool,  # noqa: ARG002 (of longer windows)
    ) -> int | None:
        """Return the start of the first result that takes a row at *t*, as far as it may begin below *bound*."""
        return None

    def taken_until(self, bound: int, stored: Sequence[StoredResult]) -> int:  # noqa: ARG002 (of sessions)
        """Return up to where rows belong to stored results that begin below the frozen boundary *bound*."""
        return bound

    # -- how many windows, and in how many of them a row counts ----------------------------------------------------------

    def why_not_counted(self, lateness: str) -> str:
        """Return why the results cannot show that source rows are missing, or "" when they can.

        A new row never makes a result of another row begin later: it opens windows, fills them, or joins sessions into one
        that begins earlier. So the total row count of all results that begin before an instant never falls, whatever rows
        arrive. If it falls, source rows were lost.
        """
        if lateness != "recompute":
            return f"under lateness '{lateness}' the order in which rows came says which of them count"
        return self.why_not_additive

    @property
    def why_not_additive(self) -> str:
        """Why the row count of all results before an instant may fall although no row was lost, or ""."""
        return ""

    @property
    def most_counts(self) -> int | None:
        """In how many results one row is counted at most; None where the loss of a row changes the windows of other rows."""
        return None

    @property
    def share(self) -> int:
        """In how many windows one row at one instant is at most; windows of several sizes that end together count as one."""
        return 1

    @property
    def grows_by(self) -> Literal["rows", "events", "days", "gaps"]:
        """What the number of windows follows: rows, lengths of events, trading days with rows, or gaps that are filled."""
        return "gaps" if self.fills else "rows"

    @property
    def is_census_due(self) -> bool:
        """Whether rows that share windows have to be counted together, because each alone would allow for too many."""
        return True

    @property
    def spacing(self) -> int:
        """Distance between the starts of overlapping windows; 1 for windows without a step."""
        return 1

    def between(self, start: int, end: int) -> int:
        """Return how many windows at most begin between two instants in the life of one key or event.

        Args:
            start: First instant.
            end: Last instant, not before *start*.
        """
        raise NotImplementedError

    @property
    def beyond(self) -> int:
        """How many windows rows at two instants may add outside of these."""
        return self.share

    def filled_until(self, clock: ClosingClock) -> int | None:  # noqa: ARG002 (of engines that fill)
        """Return until when windows are filled after the newest row of a key; None when filling ends with that row."""
        return None

    def why_many(self, excess: Excess) -> tuple[str, str]:
        """Return for which row there are so many windows, and the property that lets it, in words."""
        raise NotImplementedError
