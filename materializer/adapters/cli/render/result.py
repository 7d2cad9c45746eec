"""The port of everything that commands show, and the pieces that many results share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from materializer.core.time.instants import Epoch, Shown, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.structs import AbstractStruct

if TYPE_CHECKING:
    from materializer.core.refresh.plan import Estimate

DONE = 0
FOUND = 1
IDLE = 3


class Result(AbstractStruct, frozen=True):
    """What a command shows: a result of the façade, with what is needed to show it (names, types of time).

    `docs/json.md` is the reference of all forms, and a test compares the two.
    """

    listing: ClassVar[str] = ""
    """The list of the JSON document that has this as an item; "" when the form is the document."""
    is_line: ClassVar[bool] = False
    """Whether the form is one line of many, each of which is a document."""

    @property
    def exit_status(self) -> int:
        """The exit status of a command that shows this alone; ``IDLE`` counts with ``--strict-exit`` only."""
        return DONE

    @abstractmethod
    def form(self) -> dict[str, Any]:
        """Return the JSON value, whose keys are stable."""

    @abstractmethod
    def lines(self, width: int) -> Iterator[str]:
        """Yield the text, without colour, in lines of at most about *width* columns."""


def instant_form(value: int, kind: Shown) -> str | int | None:
    """Return an instant as ISO text, as an integer for integer time, and as None for an end that does not exist."""
    if value in {NEG_INF, POS_INF}:
        return None
    return value if kind.is_integer else render(value, kind)


def span_form(span: Span, kind: Shown) -> dict[str, Any]:
    """Return a span as an object of its two ends."""
    return {"start": instant_form(span.start, kind), "end": instant_form(span.end, kind)}


def window_form(window: Span | None, kind: Shown) -> dict[str, Any] | None:
    """Return a span that may be missing."""
    return None if window is None else span_form(window, kind)


def spans_form(spans: SpanSet, kind: Shown) -> list[dict[str, Any]]:
    """Return spans as a list of objects."""
    return [span_form(s, kind) for s in spans]


def estimate_form(estimate: Estimate) -> dict[str, int]:
    """Return what something reads at most."""
    return {"rows": estimate.rows, "bytes": estimate.bytes, "files": estimate.files}


def value_form(value: Any) -> Any:
    """Return any value of a row or of the journal as one that JSON has."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case date() | bytes():
            return cell(value)
        case list() | tuple():
            return [value_form(v) for v in value]
        case Mapping():
            return {str(k): value_form(v) for k, v in value.items()}
        case _:
            return str(value)


def shown_time(value: Any, kind: Shown | None) -> Any:
    """Return a time of a bucket that is stored as a part of a second as text, any other value as it is.

    Examples:
        >>> from materializer.core.spec.spec import Resolution, TimeType
        >>> shown_time(1_795_132_800_000, Epoch(TimeType.BIGINT, Resolution.MS)), shown_time(5, TimeType.BIGINT), shown_time(5, None)
        ('2026-11-20T00:00:00Z', 5, 5)
    """
    return render(value, kind) if isinstance(kind, Epoch) and isinstance(value, int) else value


def cell(value: Any) -> str:
    """Return one value of a row as text; instants in ISO form.

    Examples:
        >>> cell(None), cell(1.5), cell(True), cell(datetime(2013, 3, 10, 5, tzinfo=UTC)), cell([1, None])
        ('null', '1.5', 'true', '2013-03-10T05:00:00Z', '[1, null]')
    """
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return "NaN" if math.isnan(value) else f"{value:.15g}"
        case datetime():
            if value.tzinfo is None:
                return value.isoformat()
            text = (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat()
            return text.removesuffix("+00:00") + "Z"
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case list() | tuple():
            return "[" + ", ".join(cell(v) for v in value) + "]"
        case dict():
            return "{" + ", ".join(f"{cell(k)}: {cell(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)
