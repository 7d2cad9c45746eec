"""The definition of an aggregate: an immutable value, read from SQL or from Python.

Texts are Spark SQL, cut out of the user's text and never printed from a syntax tree, because printing can change the
meaning. A measure consists of *pieces* and *calls*: the text outside the aggregate calls, and the calls themselves. So
``try_divide(sum(a), sum(b))`` can be finalised from stored partials of the two sums.

In JSON every field is written, so a stored definition keeps its meaning when a default changes, and a missing field is a
``KeyError``, which the journal reports as corruption.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from msgspec import Struct

from materializer.core.codec import JsonForm, as_json, from_json, json_fields
from materializer.structs import ComparedInPart

CONTINUOUS: Final = "continuous_aggregate"
NAME_LIMIT: Final = 128
NAME: Final = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{NAME_LIMIT - 1}}}\Z", re.ASCII)
"""Names of aggregates, which are those of folders, and of output columns."""
ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z", re.ASCII)
"""Ids of aggregates and of versions of their data, which are those of folders, too."""


class TimeType(StrEnum):
    """The type of a time column, by its Spark name."""

    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"

    @property
    def is_integer(self) -> bool:
        """Whether instants are raw integers instead of microseconds."""
        return self in (TimeType.SMALLINT, TimeType.INT, TimeType.BIGINT)


class Resolution(StrEnum):
    """Meaning of one tick of an integer time column; NONE is a bare number, which only integer widths can divide."""

    NONE = "none"
    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


@json_fields(later=())
class Width(Struct, frozen=True):
    """A length of time, with months, days and microseconds kept apart; or raw ticks of an integer time column.

    Args:
        months: Calendar months (a year is 12).
        days: Calendar days (a week is 7); 24 hours where no time zone is set.
        micros: Microseconds.
        ticks: Units of an integer time column; excludes the other three.
    """

    months: int = 0
    days: int = 0
    micros: int = 0
    ticks: int | None = None


@json_fields(later=())
class GridSpec(Struct, frozen=True):
    """A declared division of time; :func:`materializer.core.time.grid.build` turns it into a grid.

    Args:
        width: Length of a bucket.
        timezone: IANA zone (or fixed abbreviation) whose local time is divided, or None for UTC.
        origin: An instant on an edge, or None for the default (Monday 2000-01-03; months 2000-01-01; integers 0).
            ``window(…)`` sets the epoch, 0.
        offset: Shift of every edge, or None.
    """

    width: Width
    timezone: str | None = None
    origin: int | None = None
    offset: Width | None = None


@json_fields(later=())
class Call(Struct, frozen=True):
    """One aggregate call inside a measure.

    Args:
        function: Canonical lower-case name, such as ``sum`` or ``approx_percentile``.
        args: Argument texts as the user wrote them; ``("*",)`` for ``count(*)``.
        distinct: Whether the call contains DISTINCT.
        where: Text of ``FILTER (WHERE …)``, or None.
        order_by: Text of ``WITHIN GROUP (ORDER BY …)`` without these words, or None.
        text: The whole call as written.
        types: Spark type of each argument, known once the definition is resolved against its source.
    """

    function: str
    args: tuple[str, ...]
    distinct: bool = False
    where: str | None = None
    order_by: str | None = None
    text: str = ""
    types: tuple[str, ...] = ()


@json_fields(later=())
class Formula(Struct, frozen=True):
    """An expression over aggregate calls: pieces are texts, or indexes into *calls* at the places of the calls.

    Examples:
        >>> Formula(("try_divide(", 0, ", ", 1, ")"), (Call("sum", ("a",)), Call("sum", ("b",)))).fill(["x", "y"])
        'try_divide(x, y)'
    """

    pieces: tuple[str | int, ...]
    calls: tuple[Call, ...]

    def fill(self, texts: list[str]) -> str:
        """Return the expression with *texts* in place of the calls."""
        return "".join(p if isinstance(p, str) else texts[p] for p in self.pieces)


@json_fields(later=())
class Key(Struct, frozen=True):
    """One grouping key: its output name and its expression over a source row."""

    name: str
    sql: str


@json_fields(later=())
class Measure(Struct, frozen=True):
    """One aggregated output column."""

    name: str
    formula: Formula


@json_fields(later=())
class SourceSample(Struct, frozen=True):
    """The newest part of a source, which is all that a definition reads of it.

    Args:
        length: How long the part was to be, as the setting ``source.sample`` said when the definition was applied.
        start: The first instant that is read; it stays where it is.
    """

    length: str
    start: int


_SPEC: Final = JsonForm(
    lambda spec: None if spec is None else as_json(spec),
    lambda data: None if data is None else AggregateSpec.from_json(data),
)


@json_fields(
    order=("name", "source", "time_column", "time_type", "resolution", ...),
    later=["suites", "rolls_up", "bucket_time", "sample"],
    omits=["rolls_up", "bucket_time", "sample"],
)
class AggregateSpec(ComparedInPart, Struct, frozen=True):
    """A definition that was read and checked.

    Args:
        name: Name of the aggregate; letters, digits and underscores, a letter first.
        source: The source as written: a path, a configured or catalog name, or another aggregate.
        time_column: Column of the source that holds the event time.
        time_type: Its type; None until resolved against the source.
        resolution: Meaning of a tick for integer time columns.
        grid: The division of time.
        bucket_start: Output name of the bucket's start, or None when not selected.
        bucket_end: Output name of the bucket's end, or None when not selected.
        bucket_time: Output name of the bucket's last instant, a microsecond before its end, or None when not selected.
        keys: Grouping keys besides the bucket, in order.
        measures: Aggregated columns, in order.
        columns: Names of all output columns, in the order of the SELECT.
        where: Row filter, or None.
        having: Group filter, applied when finalising, or None.
        sequence: Column that orders rows of equal time, or None.
        reads: Source columns that the definition reads, sorted by name, the time column included.
        read_types: (name, Spark type) of these columns when the definition was applied; empty until resolved.
        comment: Text for people.
        properties: Other properties, such as refresh policies, sorted; they never change a result.
        engine: ``continuous_aggregate`` or one of :data:`materializer.core.engines.registry.ENGINES`.
        params: The engine's parameters as given, sorted by name; plain JSON values.
        lateness: How late rows are treated: ``recompute``, ``strict`` or ``delay``.
        suites: Expectations as (``output`` or ``source``, JSON of the suite); they never change a result.
        sql: The text that the definition was read from, or "".
        rolls_up: Of a roll-up: the definition of the aggregate whose partials it merges, as that was when this one was
            applied. Time column, keys and WHERE of a roll-up are about the columns of these partials. None for other
            definitions.
        sample: The part of the source that is read, which *where* has as its last condition; None for all of it.
    """

    _UNCOMPARED: ClassVar = frozenset({"sql"})

    name: str
    source: str
    time_column: str
    grid: GridSpec
    bucket_start: str | None
    bucket_end: str | None
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    columns: tuple[str, ...]
    where: str | None = None
    having: Formula | None = None
    time_type: TimeType | None = None
    resolution: Resolution = Resolution.NONE
    sequence: str | None = None
    reads: tuple[str, ...] = ()
    read_types: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    engine: str = CONTINUOUS
    params: tuple[tuple[str, Any], ...] = ()
    lateness: str = "recompute"
    suites: tuple[tuple[str, str], ...] = ()
    sql: str = ""
    rolls_up: Annotated[AggregateSpec | None, _SPEC] = None
    bucket_time: str | None = None
    sample: SourceSample | None = None

    @property
    def edges(self) -> tuple[str, ...]:
        """The output columns that say which bucket a row is of: its start, its end and its last instant, those that are selected."""
        return tuple(name for name in (self.bucket_start, self.bucket_end, self.bucket_time) if name)

    @property
    def is_engine(self) -> bool:
        """Whether an engine other than the continuous aggregate computes it."""
        return self.engine != CONTINUOUS

    @property
    def property_map(self) -> Mapping[str, str]:
        """The properties as a mapping."""
        return dict(self.properties)

    def as_json(self) -> dict[str, Any]:
        """Return a form of plain JSON values, from which :meth:`from_json` reads an equal spec."""
        data: dict[str, Any] = as_json(self)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AggregateSpec:
        """Return the spec that :meth:`as_json` wrote."""
        return from_json(cls, data)
