"""What somebody expects of an hourly aggregate who remembers every raw row, although the source does not keep them.

Of every bucket the oracle knows the rows that it should be made from, and the lists of rows of which one is published: more
than one only while a refresh that died has not been ended. It classifies each source version by its own bookkeeping, with
the bounds that stood when the version was captured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.time.instants import HOUR
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from tests.oracle.naive import Row, differences
from tests.system.lake import Defined, micros

Rows = Mapping[int, Row]
Content = list[Row]


def bucket_of(row: Row) -> int:
    """Return the start of a row's hour."""
    at = micros(row["ts"])
    return at - at % HOUR


def by_bucket(rows: Iterable[Row]) -> dict[int, Content]:
    """Return rows by the starts of their hours."""
    found: dict[int, Content] = defaultdict(list)
    for row in rows:
        found[bucket_of(row)].append(row)
    return found


class Memory(Struct):
    """What the aggregate should show.

    Args:
        cursor: Source version up to which changes count.
        bound: Below it history is frozen.
        retired: Below it the output keeps nothing.
        rows: By bucket below the bound, the rows that were ever added.
        stuck: Below the bound, where something else happened: what is published there stays.
        shown: By bucket, the contents of which one is published.
        kept: The same of what is stored beside the output, which it can be made from again.
        is_repaired: Whether what is stuck may be in the output alone.
    """

    cursor: int = 0
    bound: int = NEG_INF
    retired: int = NEG_INF
    rows: dict[int, Content] = field(default_factory=dict)
    stuck: SpanSet = field(default_factory=SpanSet)
    shown: dict[int, list[Content]] = field(default_factory=dict)
    kept: dict[int, list[Content]] = field(default_factory=dict)
    is_repaired: bool = False

    def from_partials(self) -> Memory:
        """Return what a version shows that starts from what this one has stored."""
        return replace(self, rows=dict(self.rows), shown=dict(self.kept), kept=dict(self.kept))

    def lacks(self) -> list[int]:
        """Return the frozen buckets that only the output has."""
        frozen = self.frozen
        return [b for b, contents in self.shown.items() if b in frozen and [[]] == self.kept[b] != contents]

    def captures(self, versions: list[Rows], upto: int) -> None:
        """Take up what the source did up to a version, captured with the bound as it stands."""
        for version in range(self.cursor + 1, upto + 1):
            self._saw(versions[version - 1], versions[version])
        self.cursor = upto

    def _saw(self, before: Rows, after: Rows) -> None:
        kinds: dict[int, set[str]] = defaultdict(set)
        added: dict[int, Content] = defaultdict(list)
        for i in before.keys() | after.keys():
            old, new = before.get(i), after.get(i)
            if old == new:
                continue
            kind = "insert" if old is None else "delete" if new is None else "update"
            for row in filter(None, (old, new)):
                kinds[bucket_of(row)].add(kind)
            if old is None and new is not None:
                added[bucket_of(new)].append(new)
        for bucket, found in kinds.items():
            if bucket >= self.bound or bucket < self.retired:
                continue
            if found == {"insert"}:
                self.rows[bucket] = [*self.rows.get(bucket, []), *added[bucket]]
            elif found != {"delete"}:
                self.stuck |= SpanSet.of(Span(bucket, bucket + HOUR))

    def stands(self, bound: int, retired: int, rows: Rows) -> None:
        """Take up where the bounds stand now, with the source's rows at the cursor; what retires does not come back."""
        if bound < self.bound:
            self.rows, self.stuck, self.is_repaired = {}, SpanSet(), False
        for bucket, content in by_bucket(rows.values()).items():
            if self.bound <= bucket < bound:
                self.rows[bucket] = content
        self.bound = bound
        if retired > self.retired:
            self.stuck -= SpanSet.of(Span(NEG_INF, retired))
        self.retired = retired
        self.rows = {bucket: content for bucket, content in self.rows.items() if bucket >= retired}

    def loses_partials(self) -> None:
        """Nothing is stored any more: only the output still has what nobody computes again."""
        self.kept = {bucket: [[]] for bucket in {*self.kept, *self.shown}}

    def loses_output(self, open_plan: SpanSet) -> None:
        """The output is what is stored; nobody can tell any more what a refresh wrote that is given up."""
        self.shown = dict(self.kept)
        self.stuck |= open_plan & self.frozen

    def repaired(self, cursor: int) -> None:
        """Nothing is believed any more, and changes count from *cursor* on: what is frozen stays, and is reported."""
        self.cursor = cursor
        self.stuck = self.frozen
        self.is_repaired = bool(self.stuck)

    @property
    def frozen(self) -> SpanSet:
        """What is frozen and kept."""
        return SpanSet.of(Span(self.retired, self.bound)) if self.retired < self.bound else SpanSet()

    def shows(
        self, found: list[tuple[Any, ...]], rows: Rows, dirt: SpanSet, open_plan: SpanSet, how: Defined
    ) -> list[str]:
        """Take up what is published, and return what of it should not be so.

        Args:
            found: The rows that are published.
            rows: The source's rows at the cursor.
            dirt: Where the aggregate does not claim to be true.
            open_plan: Where a refresh that has not ended writes.
            how: What the aggregate computes.
        """
        return list(self._wrong(found, rows, dirt, open_plan, how))

    def _wrong(
        self, found: list[tuple[Any, ...]], rows: Rows, dirt: SpanSet, open_plan: SpanSet, how: Defined
    ) -> Iterator[str]:
        source = by_bucket(rows.values())
        published: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for row in found:
            published[micros(row[0])].append(row)
        for bucket in sorted({*source, *published, *self.rows, *self.shown}):
            may_be, kept = self.shown.get(bucket, [[]]), self.kept.get(bucket, [[]])
            is_as_stored = may_be == kept
            true = self.rows.get(bucket, []) if bucket < self.bound else source.get(bucket, [])
            true = [] if bucket < self.retired else true
            if bucket in open_plan:
                may_be, kept = [*may_be, true], [*kept, true]
            elif bucket not in dirt and bucket not in self.stuck:
                may_be, kept = [true], [true]
            wrong = [differences(how.expected(rows), published[bucket], how.known_by) for rows in may_be]
            self.shown[bucket] = [rows for rows, differs in zip(may_be, wrong, strict=True) if not differs]
            self.kept[bucket] = self.shown[bucket] if is_as_stored and bucket not in open_plan else kept
            if not self.shown[bucket]:
                yield f"{found_at(bucket)}: {wrong}"


def found_at(bucket: int) -> str:
    """Return an hour for people."""
    return f"hour {bucket // HOUR % 24}"
