"""Session windows: a session holds the rows of a key whose neighbours are less than ``session_gap`` apart.

A row exactly at the end of the gap begins a new session. A session is ``[first row, last row + gap)``. The next row of its
key closes it, or the clock, or ``force_trigger_time``. Under ``recompute`` a late row may extend a published session or
bridge two of them, and a deletion may split one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult, first_across, merge_ranges
from materializer.core.engines.time_kinds import read_time_kind
from materializer.core.time.spans import POS_INF

IGNORED: Final = ("garbage_size", "parallelism", "raft_group", "snapshot_dir", "snapshot_interval_in_msg_count")
"""Parameters of the streaming engine that are accepted and never change a result."""


class SessionWindow(WindowEngine, Struct, frozen=True):
    """Parameters of session windows; lengths in instants.

    Args:
        session_gap: A session ends when no row arrives for this long.
        use_session_start_time: Whether a session is labelled by its first row; otherwise by its end.
        update_time: When given, open sessions are shown as provisional rows.
        force_trigger_time: How long after the last row of all keys the clock closes all open sessions. Without a clock, the
            time of that row is used, so 0 leaves no session open.
        use_system_time: Whether time is ingestion time; then only the clock closes sessions.
    """

    session_gap: int
    use_session_start_time: bool = True
    update_time: int | None = None
    force_trigger_time: int | None = None
    use_system_time: bool = False

    @property
    def needs_global_max(self) -> bool:
        """Whether the newest row over all keys closes sessions."""
        return self.force_trigger_time is not None

    @property
    def reopens(self) -> bool:
        """Whether a newer row of one key can reopen closed sessions of other keys."""
        return self.force_trigger_time is not None

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[SessionWindow | None, list[Trouble]]:
        """Return the parameters and all problems with them; the parameters are None when there is a problem."""
        r = ParamReader(values, about)
        read_time_kind(r)
        gap = r.duration("session_gap", least=1)
        if values.get("session_gap") is None:
            r.refuse(
                "'session_gap' is missing",
                "say after which silence a session ends, such as '30 minutes'",
                about="session_gap",
            )
        at_start = r.boolean("use_session_start_time", default=True)
        update = r.duration("update_time", least=0)
        force = r.duration("force_trigger_time", least=0)
        system = r.boolean("use_system_time")
        if update is not None and not at_start:
            r.refuse(
                "'update_time' needs use_session_start_time = true: the end of an open session still moves",
                about="update_time",
            )
        if update is not None and system:
            r.refuse("'update_time' and use_system_time exclude each other", about="update_time")
        if force is not None and system:
            r.refuse("'force_trigger_time' and use_system_time exclude each other", about="force_trigger_time")
        if about.lateness == "delay":
            r.refuse("session windows accept no delay", "set lateness to recompute or strict")
        r.refuse_unknown(IGNORED)
        if gap is None or r.troubles:
            return None, r.troubles
        return SessionWindow(gap, at_start, update, force, system), []

    def ranges(
        self,
        spans: Sequence[tuple[int, int]],
        stored: Sequence[StoredResult],
        *,
        is_complete: bool,
    ) -> list[Range] | None:
        """Return which sessions of one key a change touches, or None when the answer needs older stored rows.

        A change touches every session with a row nearer than the gap to a changed time: the session may grow, split, vanish or be
        bridged. Where these are the newest sessions of the key, the session before them may be open again. With
        ``force_trigger_time`` the newest session is always computed anew, because a newer row of another key may reopen it.
        """
        if not is_complete and _is_blind(self, spans, stored):
            return None
        touched: set[int] = set()
        found = [_around(self, span, stored, touched) for span in _joined(self, spans)]
        again = {i for i, k in enumerate(stored) if not k.is_final}
        newest = len(stored) - 1
        while newest in touched:
            newest -= 1
        if newest >= 0 and (newest < len(stored) - 1 or self.reopens):
            again.add(newest)
        return merge_ranges([*found, *_alone(self, stored, again - touched)])

    def looks_at(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the intervals around changed times; see :meth:`WindowEngine.looks_at`."""
        return [(lo, min(hi + self.session_gap, POS_INF)) for lo, hi in _joined(self, spans)]

    @property
    def merges(self) -> bool:
        """Rows that are added make stored sessions longer and join them; they never split one."""
        return not self.reopens and not self.use_system_time

    @property
    def resumes_from(self) -> Literal["session"]:
        """A session that began earlier owns the rows within its gap."""
        return "session"

    @property
    def touches_all(self) -> str:
        """Why any change can touch results of every key."""
        return "a newer row of any key moves what was closed by force" if self.reopens else ""

    def why_not_cut(self, stored: Container[str] | None) -> str:  # noqa: ARG002 (of the base)
        """Return why the history cannot be cut; see :meth:`WindowEngine.why_not_cut`."""
        if self.reopens:
            return "a newer row opens sessions again that 'force_trigger_time' had closed"
        return "its sessions are closed by the clock alone" if self.use_system_time else ""

    def first_result(self, t: int, bound: int, stored: Sequence[StoredResult], *, may_go: bool) -> int:  # noqa: ARG002 (of the base)
        """Return the start of the session across the boundary that *t* would join."""
        return first_across(t, bound, stored)

    def taken_until(self, bound: int, stored: Sequence[StoredResult]) -> int:
        """Return the last end of the sessions that begin below *bound*: rows that would join one are in no session above."""
        return max([bound, *(k.w_end for k in stored if k.w_start < bound)])

    @property
    def why_not_additive(self) -> str:
        """Why the row count of results may fall; see :attr:`WindowEngine.why_not_additive`."""
        if self.use_system_time:
            return "its windows lie in ingestion time"
        return "a row of another key may close a session" if self.reopens else ""


def _is_blind(p: SessionWindow, spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult]) -> bool:
    """Whether the change may touch sessions that are older than all of *stored*."""
    if not spans:
        return p.reopens and not stored
    return not stored or stored[0].w_end > spans[0][0]


def _joined(p: SessionWindow, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *spans*, with neighbours joined whose rows may be in the same session."""
    joined: list[tuple[int, int]] = []
    for lo, hi in spans:
        if joined and lo - joined[-1][1] < p.session_gap:
            joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return joined


def _around(p: SessionWindow, span: tuple[int, int], stored: Sequence[StoredResult], touched: set[int]) -> Range:
    lo, hi = span
    first = bisect_right(stored, lo, key=lambda k: k.w_end)
    stop = bisect_left(stored, hi + p.session_gap, key=lambda k: k.w_start)
    if first < stop:
        touched.update(range(first, stop))
        lo, hi = min(lo, stored[first].w_start), max(hi, stored[stop - 1].w_end - p.session_gap)
    end = min(hi + 1, POS_INF)
    return Range(lo, end, lo, end)


def _alone(p: SessionWindow, stored: Sequence[StoredResult], which: set[int]) -> Iterator[Range]:
    for i in sorted(which):
        start, end = stored[i].w_start, stored[i].w_end - p.session_gap + 1
        yield Range(start, end, start, end)
