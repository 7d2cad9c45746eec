"""What a change can touch where windows lie on a fixed grid and close as time goes on.

A change touches the windows that hold the changed rows. It can also move the newest time of its key, which is the border
between closed and open windows, and it can change the values that fill windows without rows::

      P            changed rows          N                    newest
    --[w]--·--·----[w][w]----·--·--·----[w]----------------[w]-[w- - -
                   |<- anew ------------>|                 |<- anew ->
      |<- rows read ----------------------->|

P and N are the nearest windows with rows before and after the change: windows are filled from P on, until N.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from materializer.core.engines.base import Excess, WindowEngine
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.params import ParamReader
from materializer.core.engines.ranges import Range, StoredResult, merge_ranges
from materializer.core.time.spans import NEG_INF, POS_INF

IGNORED: Final = ("garbage_size", "raft_group", "snapshot_dir", "snapshot_interval_in_msg_count")
"""Parameters of the streaming engines that never change a result and have no effect in a batch job."""
MOST_THREADS: Final = 63
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
EVERYTHING: Final = Range(NEG_INF, POS_INF, NEG_INF, POS_INF)


class Closing(WindowEngine, Struct, frozen=True, kw_only=True):
    """Parameters that the time-series engines share: when windows close, and what fills empty ones; lengths are instant ticks.

    Args:
        step: Distance between windows.
        closed: ``left`` for ``[start, end)``, ``right`` for ``(start, end]``.
        use_window_start_time: Whether a window is labelled by its start.
        use_system_time: Whether windows lie in ingestion time.
        fills: What fills windows without rows, for each measure: (``null`` | ``ffill`` | ``constant``, Spark SQL
            literal); empty when windows without rows have no result.
        update_time: Not None: open windows are shown too.
        accepted_delay: Windows close this long after their end; in ingestion time they also take rows until then.
        force_trigger_time: A row of any key closes windows this long after their end.
    """

    step: int
    closed: str = "left"
    use_window_start_time: bool = False
    use_system_time: bool = False
    fills: tuple[tuple[str, str], ...] = ()
    update_time: int | None = None
    accepted_delay: int = 0
    force_trigger_time: int | None = None

    @property
    def needs_global_max(self) -> bool:
        """Whether the newest row over all keys closes windows."""
        return self.force_trigger_time is not None or self.use_system_time

    @property
    def shift(self) -> int:
        """How long after its end a window still takes rows: in ingestion time the accepted delay, else 0."""
        return self.accepted_delay if self.use_system_time else 0

    @property
    def fill_unit(self) -> tuple[int, int]:
        """(length, number of windows in it at most) of the pieces of time that filling goes through."""
        return self.step, 1

    def looks_at(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
        """Return around the changed times; None where windows are filled, from the nearest with rows on: see :meth:`WindowEngine.looks_at`.

        A row may lie on the end of its window, or before the start of it.
        """
        return None if self.fills else [(lo - 1, hi + 1 + self.lead) for lo, hi in spans]

    @property
    def lead(self) -> int:
        """Longest time by which a row can precede the start of the window that holds it."""
        return 0

    @property
    def spacing(self) -> int:
        """The step."""
        return self.step

    def filled_after(self, w_start: int) -> int | None:
        """Return the start of the window one step later."""
        return w_start + self.step

    def between(self, start: int, end: int) -> int:
        """Return how many windows at most are filled between two instants; see :meth:`WindowEngine.between`."""
        length, windows = self.fill_unit
        return (max(0, end - start) // length + 1) * windows

    def filled_until(self, clock: ClosingClock) -> int | None:
        """Return until when windows are filled: as far as the clock closes them."""
        if not self.fills:
            return None
        is_forced = self.use_system_time or self.force_trigger_time is not None
        return max((t for t in (clock.global_max if is_forced else None, clock.as_of) if t is not None), default=None)

    def why_many(self, excess: Excess) -> tuple[str, str]:
        """Return for which row there are so many windows, and the property that lets it, in words."""
        if self.grows_by != "gaps":
            return f"for each row, such as the row {excess.row}", "'window_size' and 'step'"
        prop = self.filling_properties
        if not excess.is_last:
            stray = excess.far if excess.is_later else excess.row
            side = f"comes after {excess.time}" if excess.is_later else f"comes before {excess.other}"
            what = f"for one row: the row {stray} {side}, no row of its key lies between, and 'fill' fills the gap"
            return what, prop
        if excess.is_by_clock:
            what = f"after one row: 'fill' follows the row {excess.row} until the clock, {excess.other}"
            return what, f"{prop} or the clock"
        prop += " or 'force_trigger_time'" if self.force_trigger_time is not None else ""
        newest = f"the newest row of all keys, {excess.newest}at {excess.other}"
        return f"after one row: 'fill' follows the row {excess.row} until {newest}", prop

    @property
    def filling_properties(self) -> str:
        """The properties that let windows be filled, in words."""
        return "'fill'"


class Reach(Struct, frozen=True):
    """Distances that decide which windows a row can touch and which rows a window needs, in instant ticks.

    Args:
        length: Longest distance from the start of a window to its end.
        lead: Longest time by which a row can precede the start of the window that holds it.
        slack: Windows stay open until this long after their end.
        is_filled: Whether windows without rows are filled.
        is_purged: Whether keys are forgotten from day to day; then a row can also cause filled windows before itself.
    """

    length: int
    lead: int = 0
    slack: int = 0
    is_filled: bool = False
    is_purged: bool = False


def plan(
    spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult], reach: Reach, *, is_complete: bool
) -> list[Range] | None:
    """Return which results of a key are computed anew, or None when the answer needs older stored rows.

    Args:
        spans: Closed intervals of changed times, in order.
        stored: Stored result rows of the key, in order.
        reach: Distances of the engine's windows.
        is_complete: Whether *stored* holds all stored rows of the key.
    """
    whole = [(lo - reach.length, hi + reach.lead + 1) for lo, hi in spans]
    border = _border(spans, stored)
    if border is None:
        if not spans and not stored:
            return [] if is_complete or not reach.is_filled else None
        return [EVERYTHING] if is_complete else None
    open_from = min((row.w_start for row in stored if not row.is_final), default=border)
    whole.append((min(border - reach.slack - reach.length, open_from), POS_INF))
    filled = [r.w_start for r in stored if r.n > 0] if reach.is_filled else None
    found = [_range(start, end, filled, reach, is_complete=is_complete) for start, end in whole]
    return None if any(r is None for r in found) else merge_ranges(r for r in found if r is not None)


def _border(spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult]) -> int | None:
    """Return the latest known time at which the key has a row both before and after the change; None without one."""
    times = {t for row in stored for t in (row.last_t, row.first_t) if t is not None}
    if times and not _is_inside(newest := max(times), spans):
        return newest
    return next((t for t in sorted(times, reverse=True) if not _is_inside(t, spans)), None)


def _is_inside(t: int, spans: Sequence[tuple[int, int]]) -> bool:
    i = bisect_right(spans, (t, POS_INF))
    return i > 0 and spans[i - 1][1] >= t


def _range(start: int, end: int, filled: Sequence[int] | None, reach: Reach, *, is_complete: bool) -> Range | None:
    """Return the results of [start, end) with the raw rows that they need; None when the window before them is unknown.

    Args:
        start: Start of the first result.
        end: First instant after the start of the last result.
        filled: The starts of the windows with rows, in order, where windows without rows are filled; else None.
        reach: Distances of the engine's windows.
        is_complete: Whether *filled* has all windows with rows.
    """
    raw_start, raw_end = start - reach.lead, end + reach.length + 1
    if filled is None:
        return Range(start, end, raw_start, raw_end)
    first, stop = bisect_left(filled, start), bisect_left(filled, end)
    before = filled[first - 1] if first else None
    after = filled[stop] if stop < len(filled) else None
    if before is None and not is_complete:
        return None
    if before is not None:
        raw_start = before - reach.lead
        start = before if reach.is_purged else start
    if after is None:
        return Range(start, POS_INF, raw_start, POS_INF)
    return Range(start, after, raw_start, after + reach.length + 1)


def read_closing(reader: ParamReader, *, is_clock: bool) -> dict[str, Any]:
    """Return the fields of :class:`Closing` except the step, and record parameters that exclude each other as problems."""
    for name in IGNORED:
        reader.given(name)
    threads = reader.integer("parallelism", 1, least=1)
    if threads is not None and threads > MOST_THREADS:
        reader.refuse(f"'parallelism' must be at most {MOST_THREADS}, got {threads}", about="parallelism")
    if reader.boolean("output_elapsed_microseconds"):
        reader.refuse(
            "'output_elapsed_microseconds' would differ from run to run",
            "a refresh reports its time itself",
            about="output_elapsed_microseconds",
        )
    update = reader.duration("update_time", least=0)
    force = reader.duration("force_trigger_time", least=0)
    delay = reader.duration("accepted_delay", 0, least=0) or 0
    fills = _fills(reader)
    purge = reader.integer("key_purge_freq_in_sec", -1)
    excluded = (
        ("update_time", update is not None, "use_system_time", is_clock),
        ("update_time", update is not None, "accepted_delay", delay > 0),
        ("update_time", update is not None, "force_trigger_time", force is not None),
        ("force_trigger_time", force is not None, "use_system_time", is_clock),
        ("force_trigger_time", force is not None, "accepted_delay", delay > 0),
        ("key_purge_freq_in_sec", purge not in (None, -1), "fill", bool(fills)),
    )
    for one, has_one, other, has_other in excluded:
        if has_one and has_other:
            reader.refuse(f"'{one}' and '{other}' exclude each other", "leave one of them out", about=one)
    if purge not in (None, -1) and force is None:
        reader.refuse(
            "'key_purge_freq_in_sec' needs 'force_trigger_time'",
            "set it, or leave the purge out",
            about="key_purge_freq_in_sec",
        )
    return {
        "closed": reader.choice("closed", ("left", "right"), "left"),
        "use_window_start_time": reader.boolean("use_window_start_time"),
        "use_system_time": is_clock,
        "fills": fills,
        "update_time": update,
        "accepted_delay": delay,
        "force_trigger_time": force,
    }


def refuse_steps(reader: ParamReader, p: Closing, length: int) -> None:
    """Refuse a delay longer than the windows, and an ``update_time`` that does not divide the step."""
    if p.accepted_delay > length:
        reader.refuse("'accepted_delay' must not be longer than 'window_size'", about="accepted_delay")
    if p.update_time and p.step % p.update_time:
        reader.refuse("'step' must be a multiple of 'update_time'", about="step")


def _fills(reader: ParamReader) -> tuple[tuple[str, str], ...]:
    value, count = reader.given("fill"), len(reader.about.measures)
    if isinstance(value, str) and "," in value:
        value = [part.strip() for part in value.split(",")]
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        return ()
    if not isinstance(value, (list, tuple)):
        return (_fill(value),) * count
    if any(isinstance(part, str) and part.lower() == "none" for part in value):
        reader.refuse("'fill' for each measure cannot be 'none'", "write null, ffill or a value", about="fill")
    if len(value) != count:
        reader.refuse(
            f"'fill' names {len(value)} values for {count} measures",
            "write one for each measure, or one for all",
            about="fill",
        )
    return tuple(map(_fill, value))


def _fill(value: object) -> tuple[str, str]:
    if value is None or str(value).lower() == "null":
        return ("null", "")
    if str(value).lower() == "ffill":
        return ("ffill", "")
    text = str(value)
    if isinstance(value, bool) or text.lower() in ("true", "false"):
        return ("constant", text.lower())
    if _NUMBER.fullmatch(text):
        return ("constant", text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return ("constant", f"'{quoted}'")
