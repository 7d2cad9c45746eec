"""What this process reads of a table for one refresh: few rows, of files that it reads as Spark does."""

# ruff: noqa: PLC0415 - most commands read no row

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.refresh.plan import CAME, INSERTED, OPENED
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.local.kinds import NotLocal, TooLarge

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.core.engines.work import Key, KeySlices
    from materializer.lake.capture.changed_rows import Keep
    from materializer.lake.keys import Within


class LocalReader(Struct):
    """Reads rows within bounds; rows of other buckets are skipped while files are read.

    Args:
        rows: The most rows that are needed for one refresh; files with eight times as many are opened.
        size: The most bytes that the rows of one run have in memory, a quarter of what computing takes in all.
    """

    rows: int
    size: int

    @property
    def memory(self) -> int:
        """Bytes that DuckDB may hold beside the rows."""
        return 2 * self.size

    def read(
        self,
        path: str,
        version: int,
        columns: Sequence[str],
        spans: SpanSet | None,
        at: str,
        time_type: TimeType,
        within: Within | None = None,
    ) -> pa.Table:
        """Return the rows of some spans of a table.

        Args:
            path: A table.
            version: The version of the table.
            columns: Columns to return.
            spans: The spans; None for all rows, also those without a time.
            at: The time column.
            time_type: The type of that column.
            within: Rows with other values are not wanted, but may be returned.

        Raises:
            NotLocal: If Spark has to read them.
        """
        from materializer.lake.local_read import read_small_rows
        from materializer.lake.span_rows import ReadLimit, ReadLimitError

        try:
            found = read_small_rows(
                path,
                version,
                columns,
                spans,
                time=at,
                time_type=time_type,
                max_rows=OPENED * self.rows,
                max_bytes=OPENED * self.size,
                is_exact=True,
                limit=ReadLimit(self.rows, self.size),
                within=within,
            )
        except ReadLimitError as exc:
            raise TooLarge(f"its rows take more than {self.size:,} bytes") from exc
        if found is None:
            raise NotLocal("files that only Spark can read, or more of them than were expected")
        return found

    def read_keys(
        self,
        path: str,
        version: int,
        columns: Sequence[str],
        spans: SpanSet,
        keys: Sequence[Key],
        names: Sequence[str],
        at: str,
        time_type: TimeType,
    ) -> pa.Table:
        """Return the rows of some keys, by the columns *names*; the other arguments and the error are those of :meth:`read`."""
        from materializer.lake.local_read import read_rows_of_keys

        found = read_rows_of_keys(
            path,
            version,
            columns,
            spans,
            keys,
            names,
            time=at,
            time_type=time_type,
            max_rows=self.rows,
            max_bytes=self.size,
            max_opened=OPENED * self.rows,
        )
        if found is None:
            raise NotLocal("files that only Spark can read, or more rows than were expected")
        return found

    def read_changes(
        self,
        path: str,
        after: int,
        upto: int,
        columns: Sequence[str],
        spans: SpanSet,
        at: str,
        time_type: TimeType,
        images: Sequence[str] | None = None,
        keep: Keep | None = None,
        *,
        again: bool = False,
    ) -> pa.Table:
        """Return the changed rows of (after, upto] in some spans of a table.

        Args:
            path: A table.
            after: The version that is known already.
            upto: The last version.
            columns: Columns to return.
            spans: The spans.
            at: The time column.
            time_type: The type of that column.
            images: The images of rows that are returned; None where rows were only added.
            keep: What is wanted of the rows of a file; None for all.
            again: Whether they are read again soon.

        Raises:
            NotLocal: If Spark has to read them, or rows were not only added.
        """
        from materializer.lake.arrow import plain
        from materializer.lake.capture.changed_rows import with_images
        from materializer.lake.local_read import read_small_changes
        from materializer.lake.span_rows import rows_of_spans

        found = read_small_changes(
            path, after, upto, columns, max_rows=self.rows, max_bytes=self.size, keep=keep, again=again
        )
        if found is None:
            raise NotLocal("changes that only Spark can read, or more of them than were expected")
        rows = rows_of_spans(found if images is None else with_images(found, images), spans, at, time_type)
        if images is None and with_images(rows, INSERTED).num_rows < rows.num_rows:
            raise NotLocal("changed rows where rows were only added when the plan was made")
        return self.bounded(plain(rows)).select(list(columns))

    def read_arrivals(
        self,
        definition: Definition,
        path: str,
        after: int,
        upto: int,
        columns: Sequence[str],
        keys: Sequence[Key] | None,
    ) -> pa.Table:
        """Return the rows that arrived in (after, upto], with ``_commit_version``; the errors are those of :meth:`read_changes`.

        Args:
            definition: The definition.
            path: Its source.
            after: The version before the first one; -1 for all.
            upto: The last version.
            columns: Columns to return.
            keys: Rows of other keys are not wanted; None for all keys.
        """
        from materializer.lake.arrow import mask
        from materializer.lake.capture.changed_rows import Keep
        from materializer.lake.key_rows import is_of_keys
        from materializer.lake.keys import why_not_recorded

        at, names = (definition.spec.time_column, definition.time_type), definition.key_sources
        everywhere, wanted = SpanSet.of(EVERYTHING), [*columns, "_commit_version"]
        found = [name for name in names if name]
        if keys is None or not found or len(found) < len(names) or why_not_recorded(definition):
            return self.read_changes(path, after, upto, wanted, everywhere, *at, CAME, again=after < 0)
        known = list(keys)

        def of_keys(rows: pa.Table) -> pa.Table:
            return rows.filter(mask(is_of_keys([rows[name] for name in found], known)))

        keep = Keep((*found, frozenset(known)), of_keys)
        return self.read_changes(path, after, upto, wanted, everywhere, *at, CAME, keep)

    def read_below(
        self,
        definition: Definition,
        path: str,
        version: int,
        columns: Sequence[str],
        bound: int,
        keys: Sequence[Key] | None,
    ) -> pa.Table:
        """Return the stored results of an engine in the slices below a boundary, and maybe others.

        Args:
            definition: The definition.
            path: Our partials table.
            version: The version of that table.
            columns: Columns to return.
            bound: The boundary.
            keys: The keys of the results; None for all.

        Raises:
            NotLocal: If Spark has to read them.
        """
        from materializer.lake.keys import why_not_recorded

        names, spans = [key_column(k.name) for k in definition.spec.keys], SpanSet.of(Span(NEG_INF, bound))
        if keys is None or not names or why_not_recorded(definition):
            return self.read(path, version, columns, spans, SLICE, definition.time_type)
        return self.read_keys(path, version, columns, spans, keys, names, SLICE, definition.time_type)

    def read_results(
        self, definition: Definition, path: str, version: int, columns: Sequence[str], only: KeySlices
    ) -> pa.Table:
        """Return the stored results of an engine that a run replaces, where it replaces those of some keys.

        Args:
            definition: The definition.
            path: Our partials table.
            version: The version of that table.
            columns: Columns to return.
            only: The results that are replaced.

        Raises:
            NotLocal: If Spark has to read them.
        """
        import pyarrow as pa

        from materializer.lake.arrow import mask
        from materializer.lake.key_rows import is_replaced

        names, kind = [key_column(k.name) for k in definition.spec.keys], definition.time_type
        wanted = list(dict.fromkeys([SLICE, *names, *columns]))
        rows = self.read_keys(path, version, wanted, only.keyed, only.keys, names, SLICE, kind)
        if only.whole:
            rows = pa.concat_tables([rows, self.read(path, version, wanted, only.whole, SLICE, kind)])

        return rows.filter(mask(is_replaced(rows, names, SLICE, kind, only))).select(list(columns))

    def bounded(self, rows: pa.Table) -> pa.Table:
        """Return rows that are not larger than this process may hold.

        Raises:
            NotLocal: If they are.
        """
        if rows.nbytes > self.size:
            raise TooLarge(f"{rows.nbytes:,} bytes of rows")
        return rows
