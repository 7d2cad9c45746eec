"""``watch``: the lake, or an aggregate, in a terminal, drawn again when something changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from materializer.adapters.cli.words import count, duration, number, visible
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import MILLISECOND, render

if TYPE_CHECKING:
    from materializer.api import Materializer

AGAIN: Final = 10.0
"""Seconds after which it is drawn again although the journal has not changed: the source or the clock may have."""
_COLORS: Final = {
    **dict.fromkeys(("fresh", "done"), "green"),
    **dict.fromkeys(("dirty", "behind", "coming"), "yellow"),
    "withheld": "magenta",
    **dict.fromkeys(
        (
            "conflict",
            "source-unreadable",
            "output-unreadable",
            "unfinished",
            "promise broken",
            "check failed",
            "aborted",
        ),
        "red",
    ),
    **dict.fromkeys(("frozen", "running"), "blue"),
}
_SIGNS: Final = {"fresh": "█", "frozen": "▓", "retired": "·", "new": "░"}
"""How a state looks without colour; what is not here is a mark that stands out."""
_WORST: Final = ("conflict", "withheld", "running", "dirty", "coming", "new", "retired", "frozen", "fresh")
"""Which state a cell of the time line has, if several lie in it."""
_BARS: Final = 8


def watch(lake: Materializer, name: str | None, interval: float, console: Console) -> None:
    """Draw until it is interrupted.

    Args:
        lake: The lake.
        name: An aggregate; None for the whole lake.
        interval: Seconds between two looks at the journal.
        console: The terminal.
    """
    draw: Callable[[], RenderableType] = (
        (lambda: of_lake(lake)) if name is None else (lambda: of_aggregate(lake, name, console.width))
    )
    with Live(draw(), console=console, screen=False, auto_refresh=False) as live:
        seen, drawn = lake.journal.view().version, time.monotonic()
        while True:
            time.sleep(interval)
            version, now = lake.journal.view().version, time.monotonic()
            if version != seen or now - drawn >= AGAIN:
                live.update(draw(), refresh=True)
                seen, drawn = version, now


def of_lake(lake: Materializer) -> RenderableType:
    """Return all aggregates, what is wrong first."""
    page = _shown(lake.report_data())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    for header, right in (
        ("aggregate", 0),
        ("state", 0),
        ("rows", 1),
        ("dirty", 1),
        ("last refresh", 0),
        ("took", 1),
        ("next", 0),
    ):
        table.add_column(
            header,
            justify="right" if right else "left",
            no_wrap=header != "state",
            ratio=1 if header == "state" else None,
        )
    for row in page["aggregates"]:
        last, state = row["last"], _state(row["rank"])
        if row["why"]:
            state.append(f"\n{row['why']}", style="dim")
        table.add_row(
            Text(row["name"]),
            state,
            "?" if row["rows"] is None else number(row["rows"]),
            number(row["dirty"]) if row["dirty"] else "-",
            "never" if last is None else f"{_clock(last['at'])} {last['strategy'].replace('+settle', '')}",
            "-" if last is None else duration(last["seconds"]),
            "due" if row["due"] else "-",
        )
    broken = [Text(f"{b['name']}: {b['problem']}", style="red") for b in page["broken"]]
    head = Text.assemble(
        (str(page["root"]), "bold"),
        f"  {count(len(page['aggregates']), 'aggregate')}, journal version {page['journal']}",
    )
    return Group(head, *broken, table, _foot())


def of_aggregate(lake: Materializer, name: str, width: int) -> RenderableType:
    """Return one aggregate: its time line, its last refreshes and the next plan."""
    page = _shown(lake.report_data(name))
    facts, plan = page["facts"], page["plan"]
    head = Text.assemble((page["name"], "bold"), "  ", _state(facts["state"]), f"  {number(facts['rows'] or 0)} rows")
    head.append(f", version {facts['cursor']} of {facts['newest']}" if facts["newest"] is not None else "")
    parts: list[RenderableType] = [head, Text(facts["problem"], style="red")] if facts["problem"] else [head]
    parts += [Text(), *_time_line(page["timeline"], width), Text(), _refreshes(page["refreshes"], width)]
    if plan is None:
        parts.append(Text("next: nothing has to be done", style="dim"))
    elif plan["problem"]:
        parts.append(Text(f"next: {plan['problem']}", style="dim"))
    else:
        parts.append(Text(f"next: {plan['strategy']} by {plan['executor']}, about {duration(plan['seconds'] or 0.0)}"))
        parts += [Text(f"  {step['strategy']}: {step['why']}", style="dim") for step in plan["steps"][:4]]
    return Group(*parts, _foot())


def cells(line: Mapping[str, Any], count_of: int) -> list[str]:
    """Return the state of each of so many equal parts of a time line: the worst that lies in it.

    Examples:
        >>> spans = [{"kind": "fresh", "start": 0, "end": 7}, {"kind": "dirty", "start": 7, "end": 8}]
        >>> cells({"extent": [0, 8], "spans": spans}, 4)
        ['fresh', 'fresh', 'fresh', 'dirty']
    """
    first, last = line["extent"]
    found = [len(_WORST)] * count_of
    for span in line["spans"]:
        start, end = max(span["start"], first), min(span["end"], last)
        low = int((start - first) * count_of / (last - first))
        high = max(low + 1, -int(-(end - first) * count_of // (last - first)))
        rank = _WORST.index(span["kind"])
        found[low:high] = [min(rank, other) for other in found[low:high]]
    return [_WORST[rank] if rank < len(_WORST) else "fresh" for rank in found]


def _time_line(line: Mapping[str, Any], width: int) -> Iterator[Text]:
    if line["extent"] is None:
        yield Text("there are no rows yet", style="dim")
        return
    kinds = cells(line, max(10, min(width, 120) - 2))
    yield Text.assemble(*((_SIGNS.get(kind, "▌"), _COLORS.get(kind, "dim")) for kind in kinds))
    ends = [number(int(at)) if line["integer"] else _day(at) for at in line["extent"]]
    yield Text(f"{ends[0]}{ends[1]:>{len(kinds) - len(ends[0])}}", style="dim")
    named = [k for k in _WORST if k in kinds]
    yield Text.assemble(
        *(part for kind in named for part in ((_SIGNS.get(kind, "▌"), _COLORS.get(kind, "dim")), f" {kind}   "))
    )


def _refreshes(columns: Mapping[str, list[Any]], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("refresh", "outcome", "ended", "strategy", "rows read", "took"):
        table.add_column(header, justify="right" if header in {"refresh", "rows read"} else "left", no_wrap=True)
    total = len(columns["n"])
    newest = range(total - 1, max(-1, total - 1 - _BARS), -1)
    most = max([columns["seconds"][i] for i in newest], default=0.0) or 1.0
    room = max(4, min(40, width - 88))
    for i in newest:
        seconds = columns["seconds"][i]
        bar = Text("█" * max(1, round(room * seconds / most)), style="cyan")
        took = Text.assemble(f"{duration(seconds):>8} ", bar)
        table.add_row(
            number(columns["n"][i]),
            _state(columns["outcome"][i]),
            _clock(columns["at"][i]),
            f"{columns['strategy'][i].replace('+settle', '')}, {columns['executor'][i]}",
            number(columns["read"][i]),
            took,
        )
    return table


def _shown(value: Any) -> Any:
    """Return a page whose texts a terminal has nothing to obey in."""
    match value:
        case str():
            return visible(value)
        case Mapping():
            return {key: _shown(each) for key, each in value.items()}
        case list() | tuple():
            return [_shown(each) for each in value]
        case _:
            return value


def _state(word: str) -> Text:
    return Text(word, style=_COLORS.get(word, "default"))


def _foot() -> Text:
    return Text(f"looked at {datetime.now(UTC):%H:%M:%S} UTC; Ctrl-C ends it", style="dim")


def _clock(ms: float) -> str:
    return f"{datetime.fromtimestamp(ms / MILLISECOND, UTC):%m-%d %H:%M:%S}"


def _day(ms: float) -> str:
    return render(int(ms * MILLISECOND), TimeType.TIMESTAMP)
