"""Session windows: a session holds the rows of a key whose neighbours are less than ``session_gap`` apart.

A row exactly at the end of the gap begins a new session. A session is ``[first row, last row + gap)``. The next row of its
key closes it, or the clock, or ``force_trigger_time``. Under ``recompute`` a late row may extend a published session or
bridge two of them, and a deletion may split one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult, merge_ranges
from materializer.core.engines.time_kinds import read_time_kind
from materializer.core.time.spans import POS_INF

IGNORED: Final = ("garbage_size", "parallelism", "raft_group", "snapshot_dir", "snapshot_interval_in_msg_count")
"""Parameters of the streaming engine that are accepted and never change a result."""


@dataclass(frozen=True, slots=True)
class Params:
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


def read(values: Mapping[str, object], about: About) -> tuple[Params | None, list[Trouble]]:
    """Return the parameters and all problems with them; the parameters are None when there is a problem."""
    r = ParamReader(values, about)
    read_time_kind(r)
    gap = r.duration("session_gap", least=1)
    if values.get("session_gap") is None:
        r.refuse("'session_gap' is missing", "say after which silence a session ends, such as '30 minutes'")
    at_start = r.boolean("use_session_start_time", default=True)
    update = r.duration("update_time", least=0)
    force = r.duration("force_trigger_time", least=0)
    system = r.boolean("use_system_time")
    if update is not None and not at_start:
        r.refuse("'update_time' needs use_session_start_time = true: the end of an open session still moves")
    if update is not None and system:
        r.refuse("'update_time' and use_system_time exclude each other")
    if force is not None and system:
        r.refuse("'force_trigger_time' and use_system_time exclude each other")
    if about.lateness == "delay":
        r.refuse("session windows accept no delay", "set lateness to recompute or strict")
    r.refuse_unknown(IGNORED)
    if gap is None or r.troubles:
        return None, r.troubles
    return Params(gap, at_start, update, force, system), []


def ranges(
    p: Params,
    spans: Sequence[tuple[int, int]],
    kept: Sequence[StoredResult],
    *,
    is_complete: bool,
) -> list[Range] | None:
    """Return which sessions of one key a change touches, or None when the answer needs older stored rows.

    A change touches every session with a row nearer than the gap to a changed time: the session may grow, split, vanish or be
    bridged. Where these are the newest sessions of the key, the session before them may be open again. With
    ``force_trigger_time`` the newest session is always computed anew, because a newer row of another key may reopen it.
    """
    if not is_complete and _is_blind(p, spans, kept):
        return None
    touched: set[int] = set()
    found = [_around(p, span, kept, touched) for span in _joined(p, spans)]
    again = {i for i, k in enumerate(kept) if not k.is_final}
    newest = len(kept) - 1
    while newest in touched:
        newest -= 1
    if newest >= 0 and (newest < len(kept) - 1 or p.reopens):
        again.add(newest)
    return merge_ranges([*found, *_alone(p, kept, again - touched)])


def _is_blind(p: Params, spans: Sequence[tuple[int, int]], kept: Sequence[StoredResult]) -> bool:
    """Whether the change may touch sessions that are older than all of *kept*."""
    if not spans:
        return p.reopens and not kept
    return not kept or kept[0].w_end > spans[0][0]


def _joined(p: Params, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *spans*, with neighbours joined whose rows may be in the same session."""
    joined: list[tuple[int, int]] = []
    for lo, hi in spans:
        if joined and lo - joined[-1][1] < p.session_gap:
            joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return joined


def _around(p: Params, span: tuple[int, int], kept: Sequence[StoredResult], touched: set[int]) -> Range:
    lo, hi = span
    first = bisect_right(kept, lo, key=lambda k: k.w_end)
    stop = bisect_left(kept, hi + p.session_gap, key=lambda k: k.w_start)
    if first < stop:
        touched.update(range(first, stop))
        lo, hi = min(lo, kept[first].w_start), max(hi, kept[stop - 1].w_end - p.session_gap)
    end = min(hi + 1, POS_INF)
    return Range(lo, end, lo, end)


def _alone(p: Params, kept: Sequence[StoredResult], which: set[int]) -> Iterator[Range]:
    for i in sorted(which):
        start, end = kept[i].w_start, kept[i].w_end - p.session_gap + 1
        yield Range(start, end, start, end)
