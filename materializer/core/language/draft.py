"""The draft of a definition: the common result of the SQL and the Python form, before checks across parts."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from materializer.core.language.properties import PropertyValues
from materializer.core.spec.spec import GridSpec
from materializer.core.sql.tokens import Fragment


class OutputColumn(Struct, frozen=True):
    """One column of the output.

    Args:
        name: Name of the column.
        kind: The bucket's start, end or last instant, a key, or a measure.
        expression: Its expression without alias; None for the bucket's columns of the Python form.
        place: Place of its name in the definition.
    """

    name: str
    kind: Literal["start", "end", "time", "key", "measure"]
    expression: Fragment | None
    place: Fragment


class Draft(Struct, frozen=True):
    """A definition whose parts were read, but not yet checked against each other.

    Args:
        name: Name of the aggregate.
        source: The source in the form of :class:`materializer.core.spec.spec.AggregateSpec`.
        qualifiers: Lower-case names that may stand before a column of the source.
        time_column: The event time.
        grid: The division of time.
        bucket: The call that divides time, to recognise it in other clauses; None for the Python form.
        outputs: Output columns in order.
        where: Row filter.
        having: Group filter.
        comment: Text for people.
        settings: Settings from the properties.
        place: Start of the definition.
        sql: Its whole text, or "".
        columns: Lower-case names of the columns of the source, if they are known.
        is_origin_text: Whether the origin was given as text; then it is in microseconds whatever the time column counts.
    """

    name: str
    source: str
    qualifiers: frozenset[str]
    time_column: str
    grid: GridSpec
    bucket: Fragment | None
    outputs: tuple[OutputColumn, ...]
    where: Fragment | None
    having: Fragment | None
    comment: str
    settings: PropertyValues
    place: Fragment
    sql: str = ""
    columns: frozenset[str] = frozenset()
    is_origin_text: bool = False
