"""The parts of the pages about engines that are made, and where they go: between ``<!-- made: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from materializer.core.engines.alignment import alignment_sizes
from materializer.core.engines.guides import COMMON, Guide
from tests.docs import world
from tests.docs.world import Result
from tests.paths import ROOT

FOLDER: Final = ROOT / "docs" / "engines"
_BLOCK: Final = re.compile(r"(<!-- made: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def blocks(text: str) -> dict[str, str]:
    """Return the made parts of a page by name."""
    return {name: body for _, name, body, _ in _BLOCK.findall(text)}


def filled(text: str, made: Mapping[str, str]) -> str:
    """Return a page with its made parts replaced; those that *made* does not have stay."""
    return _BLOCK.sub(lambda m: m[1] + made.get(m[2], m[3]) + m[4], text)


def from_guide(guide: Guide) -> dict[str, str]:
    """Return the parts that are made from the guide of an engine."""
    return {
        "purpose": f"{textwrap.fill(guide.purpose, 120)}\n",
        "sql": f"```sql\n{guide.sql};\n```\n",
        "python": f"```python\n{guide.python}\n```\n",
        "parameters": table(
            ("parameter", "default", "meaning", f"in {_product(guide)}"),
            [
                (f"`{p.name}`", p.default, p.meaning, f"`{p.original}`" if _is_word(p.original) else p.original)
                for p in guide.parameters
            ],
        ),
        "elsewhere": table(
            (f"in {_product(guide)}", "here"),
            [(f"`{name}`" if _is_word(name) else name, here) for name, here in guide.elsewhere],
        ),
    }


def common() -> str:
    """Return the table of the parameters of every engine."""
    return table(("parameter", "default", "meaning"), [(f"`{p.name}`", p.default, p.meaning) for p in COMMON])


def alignments() -> str:
    """Return the table of alignments, made from what the engine uses."""
    kinds = (
        ("minute", "minutes"),
        ("second", "seconds"),
        ("datetime", "seconds"),
        ("time", "milliseconds"),
        ("timestamp", "milliseconds"),
        ("nanotime", "nanoseconds"),
        ("nanotimestamp", "nanoseconds"),
        ("date", "days"),
        ("month", "months"),
    )
    together: dict[tuple[str, tuple[int, ...], int], list[str]] = {}
    for kind, unit in kinds:
        most = alignment_sizes(kind, round_time=False)[-1]
        together.setdefault((unit, alignment_sizes(kind), most), []).append(f"`{kind}`")
    return table(
        ("time_kind", "in", "alignments", "the last without round_time"),
        [
            (", ".join(names), unit, ", ".join(f"{size:,}" for size in sizes).replace(", ", " · "), f"{most:,}")
            for (unit, sizes, most), names in together.items()
        ],
    )


def output(result: Result) -> str:
    """Return the rows that an engine made as a table; times without their day, the slice left out."""
    columns = [c for c in result.columns if c != "slice"]
    return table(columns, [tuple(shown(row[c]) for c in columns) for row in result.rows])


def inputs(source: str) -> str:
    """Return the rows of a source as a table."""
    if source == "trades":
        header, rows = ("commit", "trade_id", "ts", "sym", "price", "volume"), world.TRADES
    else:
        header, rows = ("commit", "order_id", "placed", "done", "sym", "size"), world.ORDERS  # type: ignore[assignment]
    return table(header, [tuple(shown(v) for v in row) for row in rows])


def shown(value: object) -> str:
    """Return one value of a table."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            return f"{value:%H:%M:%S}"
        case float():
            return f"{value:.6g}"
        case _:
            return str(value)


def _product(guide: Guide) -> str:
    return next(p for p in ("DolphinDB", "StreamInsight", "IBM Streams", "TimescaleDB") if p in guide.follows)


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w+(\(…\))?", text) is not None


def table(header: tuple[str, ...] | list[str], rows: list[tuple[str, ...]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
