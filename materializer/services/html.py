"""Values as small HTML tables, for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_CELL: Final = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption; None is shown as a dash.

    Examples:
        >>> table("<b>", ["n"], [[1], [None]]).count("&lt;b&gt;"), table("", ["n"], []).count("<tr>")
        (1, 1)
    """
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{_caption(caption)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(caption: str, pairs: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values, without the pairs whose value is None or empty."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL}">{escape(name)}</th>{_cell(value)}</tr>'
        for name, value in pairs
        if value not in {None, ""}
    )
    return f"<table>{_caption(caption)}<tbody>{rows}</tbody></table>"


def _caption(text: str) -> str:
    return f'<caption style="text-align:left;font-weight:bold">{escape(text)}</caption>' if text else ""


def _cell(value: object) -> str:
    text = (
        "–" if value is None else f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    )
    return f'<td style="{_CELL}">{escape(text).replace(chr(10), "<br>")}</td>'
