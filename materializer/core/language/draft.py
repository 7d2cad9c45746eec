"""What both front ends, SQL and Python, agree on before anything is checked across parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from materializer.core.language.properties import Settings
from materializer.core.spec.spec import GridSpec
from materializer.core.sql.tokens import Fragment


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the output.

    Args:
        name: Its name.
        kind: The bucket's start or end, a key, or a measure.
        expression: Its expression without alias; None for the bucket's columns of the Python API.
        place: Where its name stands.
    """

    name: str
    kind: Literal["start", "end", "key", "measure"]
    expression: Fragment | None
    place: Fragment


@dataclass(frozen=True, slots=True)
class Draft:
    """A definition whose parts were found, but not yet checked against each other.

    Args:
        name: Name of the aggregate.
        source: The source, as :class:`materializer.core.spec.spec.AggregateSpec` has it.
        qualifiers: Lower-case names that may stand before a column of the source.
        time_column: The event time.
        grid: How time is divided.
        bucket: The call that divides time, to recognise it elsewhere; None for the Python API.
        outputs: Output columns in order.
        where: Row filter.
        having: Group filter.
        comment: Text for people.
        settings: What the properties say.
        place: Where the definition begins.
        sql: Its whole text, or "".
        is_origin_text: Whether the origin was a text, and so is in microseconds whatever the time column counts.
    """

    name: str
    source: str
    qualifiers: frozenset[str]
    time_column: str
    grid: GridSpec
    bucket: Fragment | None
    outputs: tuple[Output, ...]
    where: Fragment | None
    having: Fragment | None
    comment: str
    settings: Settings
    place: Fragment
    sql: str = ""
    is_origin_text: bool = False
