"""Words for people: instants, spans, numbers, and lines that keep to a width without losing anything."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from materializer.core.printed import instant_text, size_text
from materializer.core.time.instants import Shown
from materializer.core.time.spans import Span, SpanSet

size, instant = size_text, instant_text
FEW = 4
"""Spans that a line names before it says how many more there are and where."""

_COMMANDS: Final = (  # compiled when a text has one
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""What a terminal obeys, or leaves out, in place of showing it: control characters, and those that turn or end a line. A tab is none."""
_SHORT: Final = {"\n": "\\n", "\r": "\\r"}


_ENVIRONMENT: Final = [""]
"""The environment that the command of this process was called with by its option."""
_CALLS: Final = (  # compiled with an environment
    r"'materializer (?!explain|setup|completion|version|demo)((?:(?!--(?:env|lake|help)\b)[^'\n])+)'"
)
"""A command of ours in a text, which works in the lake of an environment."""


def repeat_environment(name: str) -> None:
    """Let commands in texts repeat ``--env``, as they have to be typed; "" for none."""
    _ENVIRONMENT[0] = name


def _as_typed(text: str) -> str:
    name = _ENVIRONMENT[0]
    return (
        re.sub(_CALLS, lambda m: f"'materializer {m[1]} --env {name}'", text)
        if name and "'materializer " in text
        else text
    )


def visible(text: str) -> str:
    r"""Return a text in which everything is seen and nothing is obeyed, on one line.

    Examples:
        >>> visible("\x1b]0;gone\x07"), visible("a\nb"), visible("\u202eevil"), visible("naïve 東京 👍")
        ('\\x1b]0;gone\\x07', 'a\\nb', '\\u202eevil', 'naïve 東京 👍')
    """
    if text.isprintable():
        return text
    return re.sub(
        _COMMANDS, lambda m: _SHORT.get(m[0]) or f"\\{f'x{ord(m[0]):02x}' if m[0] < 'Ā' else f'u{ord(m[0]):04x}'}", text
    )


def cell_text(text: str) -> str:
    r"""Return a value as it is shown among others: visible, and without tabs, which would shift what follows.

    Examples:
        >>> cell_text("a\tb")
        'a\\tb'
    """
    return visible(text).replace("\t", "\\t")


def number(n: int) -> str:
    """Return *n* with separators.

    Examples:
        >>> number(336776)
        '336,776'
    """
    return f"{n:,}"


def count(n: int | None, one: str, many: str = "") -> str:
    """Return a number with its noun; None is an unknown number.

    Examples:
        >>> count(1, "row"), count(2_400, "row"), count(3, "commit by hand", "commits by hand")
        ('1 row', '2,400 rows', '3 commits by hand')
        >>> count(None, "Spark job")
        'an unknown number of Spark jobs'
    """
    if n is None:
        return f"an unknown number of {many or one + 's'}"
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Return a wall time.

    Examples:
        >>> duration(0.0042), duration(0.618), duration(12.34), duration(125), duration(7322)
        ('4 ms', '0.62 s', '12.3 s', '2 min 05 s', '2 h 02 min')
    """
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return "{} h {:02} min".format(*divmod(minutes, 60))


def span(value: Span, time_type: Shown) -> str:
    """Return a span in half-open form; ends that do not exist in words.

    Examples:
        >>> span(Span(0, 10), TimeType.BIGINT), span(Span(NEG_INF, POS_INF), TimeType.BIGINT)
        ('[0, 10)', '[the beginning, open)')
    """
    return f"[{instant(value.start, time_type)}, {instant(value.end, time_type)})"


def spans(value: SpanSet, time_type: Shown, *, few: int = FEW) -> str:
    """Return how many spans there are and where; the first few by name, the rest as their number and last end.

    Examples:
        >>> spans(SpanSet.of(Span(0, 1), Span(5, 6)), TimeType.BIGINT)
        '2 spans: [0, 1), [5, 6)'
        >>> spans(SpanSet.of(*(Span(i, i + 1) for i in range(0, 20, 2))), TimeType.BIGINT, few=1)
        '10 spans: [0, 1) and 9 more up to 19'
    """
    if not value:
        return "none"
    shown = ", ".join(span(s, time_type) for s in value.spans[:few])
    rest = len(value) - few
    more = f" and {rest:,} more up to {instant(value.spans[-1].end, time_type)}" if rest > 0 else ""
    return f"{count(len(value), 'span')}: {shown}{more}"


def labelled(pairs: Iterable[tuple[str, str]], *, width: int, indent: int = 2) -> Iterator[str]:
    """Yield lines of labels and texts, the texts aligned and wrapped at *width*; pairs without text are left out."""
    pairs = [(label, text) for label, text in pairs if text]
    left = max((len(label) for label, _ in pairs), default=0) + 2
    for label, text in pairs:
        head = " " * indent + label.ljust(left)
        for part in text.split("\n"):
            yield from wrapped(part, head, width=width)
            head = " " * len(head)


def wrapped(text: str, head: str = "", *, width: int) -> list[str]:
    """Return *text* after *head*, wrapped at *width* under itself; words and spans are never cut."""
    # a span stays in one piece: its blank is no place to break at
    glued = _glue(" ".join(map(visible, _as_typed(text).split("\n"))))
    lines = textwrap.wrap(
        glued,
        max(width, len(head) + 30),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    return [line.replace(_GLUE, " ").rstrip() for line in lines] or [head.rstrip()]


_GLUE = "\u00a0"


def _glue(text: str) -> str:
    if "[" not in text:
        return text
    out, depth = [], 0
    for at, char in enumerate(text):
        depth += char == "["
        depth -= char == ")" and depth > 0
        out.append(_GLUE if char == " " and depth > 0 and text.find(")", at) > 0 else char)
    return "".join(out)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[int] = (), indent: int = 0
) -> list[str]:
    """Return the lines of a table, columns as wide as they need, two blanks between.

    Examples:
        >>> table(("name", "rows"), [("a", "1"), ("bcd", "20")], right=[1])
        ['name  rows', 'a        1', 'bcd     20']
    """
    header, *rows = ([*map(cell_text, row)] for row in (header, *rows))
    aligned, columns = set(right), zip(header, *rows, strict=True)
    sizes = [max(1, *map(len, column)) for column in columns]
    line = "  ".join(f"{{:{'>' if i in aligned else '<'}{size}}}" for i, size in enumerate(sizes))
    return [(" " * indent + line.format(*row)).rstrip() for row in [header, *rows]]
