"""Pictures of windows as SVG: rows on a line of time for each key, results as boxes under them.

Nothing is laid out by hand: where boxes overlap in time they go one below the other. Colours follow the reader's scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Final

from msgspec import Struct

from tests.docs import world
from tests.docs.world import Result, Row

WIDTH: Final = 860
LEFT: Final = 60
RIGHT: Final = 16
FIRST: Final = world.at("09:26:00")
LAST: Final = world.at("09:50:00")
_BOX: Final = 20
_GAP: Final = 4
_MEASURES: Final = ("volume", "size", "trades", "orders", "mean")
_STYLE: Final = """\
  .page { fill: #ffffff } text { fill: #24292f; font: 11px ui-sans-serif, system-ui, sans-serif }
  .key { font-weight: 600; font-size: 13px } .axis, .grid { stroke: #d0d7de } .small { font-size: 10px; fill: #57606a }
  .box { fill: #ddf4ff; stroke: #0969da } .changed { fill: #fff1c2; stroke: #9a6700 }
  .row { fill: #24292f } .late { fill: #bf3989 } .life { stroke: #24292f; stroke-width: 3 } .lately { stroke: #bf3989 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .axis, .grid { stroke: #30363d } .small { fill: #9198a1 }
    .box { fill: #0c2d4d; stroke: #4493f8 } .changed { fill: #3b2e0a; stroke: #d29922 }
    .row { fill: #e6edf3 } .late { fill: #f778ba } .life { stroke: #e6edf3 } .lately { stroke: #f778ba }
  }"""


class Box(Struct, frozen=True):
    """One result.

    Args:
        start: Start of its window.
        end: End of its window; None where there is none.
        text: What it says.
        is_changed: Whether the second commit made or changed it.
    """

    start: datetime
    end: datetime | None
    text: str
    is_changed: bool


def svg(result: Result, title: str) -> str:
    """Return the picture of what an engine made."""
    parts: list[str] = []
    top = 30
    for key in ("AA", "BB"):
        parts += [f'<text class="key" x="14" y="{top + 12}">{key}</text>']
        drawn, top = _source(result.name, key, top)
        parts += drawn
        boxes, top = _boxes(_of_key(result, key), top)
        parts += boxes
        top += 18
    axis = _axis(top)
    legend = (
        f'<text class="small" x="{LEFT}" y="{top + 36}">{_legend(result)}</text>',
        f'<rect class="changed" x="{LEFT}" y="{top + 44}" width="16" height="10" rx="2"/>',
        f'<text class="small" x="{LEFT + 22}" y="{top + 53}">new or changed with the second commit</text>',
        f'<circle class="late" cx="{LEFT + 248}" cy="{top + 49}" r="4"/>',
        f'<text class="small" x="{LEFT + 258}" y="{top + 53}">came with it</text>',
    )
    height = top + 66
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title, quote=True)}">'
    )
    page = f'<rect class="page" width="{WIDTH}" height="{height}"/>'
    body = [head, f"<style>\n{_STYLE}\n</style>", page, *axis, *parts, *legend, "</svg>", ""]
    return "\n".join(body)


def _x(t: datetime) -> float:
    inside = min(max(t, FIRST), LAST)
    return round(LEFT + (inside - FIRST) / (LAST - FIRST) * (WIDTH - LEFT - RIGHT), 1)


def _axis(bottom: int) -> list[str]:
    found = [f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}"/>']
    t = FIRST
    while t <= LAST:
        x = _x(t)
        found.append(f'<line class="grid" x1="{x}" y1="14" x2="{x}" y2="{bottom}" stroke-dasharray="1 4"/>')
        found.append(f'<text class="small" x="{x}" y="{bottom + 14}" text-anchor="middle">{t:%H:%M}</text>')
        t += timedelta(minutes=2)
    return found


def _legend(result: Result) -> str:
    what = "orders from placed to done" if world.source_of(result.name) == "orders" else "trades"
    measure = measure_of(result)
    return f"Lines of time of each key with its {what}, under them one box for each result, with its {measure}."


def measure_of(result: Result) -> str:
    """Return the measure that boxes show."""
    if "volume_so_far" in result.columns:
        return "volume_so_far"
    return next(name for name in _MEASURES if name in result.columns)


# -- what went in --------------------------------------------------------------------------------------------------------


def _source(engine: str, key: str, top: int) -> tuple[list[str], int]:
    if world.source_of(engine) == "trades":
        drawn = [f'<line class="axis" x1="{LEFT}" y1="{top + 8}" x2="{WIDTH - RIGHT}" y2="{top + 8}"/>']
        for commit, _, clock, sym, _, _ in world.TRADES:
            if sym == key:
                kind = "row" if commit == 1 else "late"
                drawn.append(f'<circle class="{kind}" cx="{_x(world.at(clock))}" cy="{top + 8}" r="4"/>')
        return drawn, top + 20
    lives = [(commit, start, end) for commit, _, start, end, sym, _ in world.ORDERS if sym == key]
    drawn = []
    for i, (commit, start, end) in enumerate(lives):
        y = top + 8 + 8 * i
        ends = LAST if end is None else world.at(end)
        kinds = ("life", "row") if commit == 1 else ("life lately", "late")
        x1, x2 = _x(world.at(start)), _x(ends)
        drawn.append(f'<line class="{kinds[0]}" x1="{x1}" y1="{y}" x2="{x2}" y2="{y}"/>')
        drawn.append(f'<circle class="{kinds[1]}" cx="{x1}" cy="{y}" r="4"/>')
    return drawn, top + 12 + 8 * len(lives)


# -- what came out -------------------------------------------------------------------------------------------------------


def _of_key(result: Result, key: str) -> list[Box]:
    measure, before = measure_of(result), {_place(row): row for row in result.before}
    found = []
    for row in result.rows:
        if row["sym"] == key:
            start, end = _window(row)
            text = _text(row[measure]) + (" →" if end is None else "")
            found.append(Box(start, end, text, before.get(_place(row)) != row))
    return found


def _place(row: Row) -> tuple[object, ...]:
    return (*_window(row), row["sym"])


def _window(row: Row) -> tuple[datetime, datetime | None]:
    if "bucket" in row:
        return row["bucket"], row["bucket"] + timedelta(minutes=5)
    return row["window_start"], row["window_end"]


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _boxes(boxes: Sequence[Box], top: int) -> tuple[list[str], int]:
    drawn: list[str] = []
    rows = 0
    for box, line in _lines(boxes):
        x1, x2 = _x(box.start), _x(LAST if box.end is None else box.end)
        y = top + line * (_BOX + _GAP)
        rows = max(rows, line + 1)
        kind = "box changed" if box.is_changed else "box"
        if x2 - x1 < 22:  # results about an instant: as wide as their text
            x1, x2 = x1 - 11, x1 + 11
        drawn.append(f'<rect class="{kind}" x="{x1:.1f}" y="{y}" width="{x2 - x1:.1f}" height="{_BOX}" rx="3"/>')
        middle = (x1 + x2) / 2
        drawn.append(f'<text x="{middle:.1f}" y="{y + 14}" text-anchor="middle">{escape(box.text)}</text>')
    return drawn, top + rows * (_BOX + _GAP)


def _lines(boxes: Iterable[Box]) -> list[tuple[Box, int]]:
    """Put each box into the first line where it fits."""
    free: list[float] = []
    found = []
    for box in sorted(boxes, key=lambda b: b.start):
        x1, x2 = _x(box.start), _x(LAST if box.end is None else box.end)
        x1, x2 = (x1 - 11, x1 + 11) if x2 - x1 < 22 else (x1, x2)
        line = next((i for i, until in enumerate(free) if until <= x1), len(free))
        free[line : line + 1] = [x2]
        found.append((box, line))
    return found
