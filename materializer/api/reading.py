"""Rows of aggregates: published rows, changes and fresh reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, overload

from materializer.api.opened import OpenedLake
from materializer.errors import UsageError
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame

    from materializer.core.printed import PrintedRows
    from materializer.core.time.instants import Instant
    from materializer.services.delivery.export import ExportReport
    from materializer.services.refresh.fresh import FreshRead, FreshView
    from materializer.services.report.snippets import Snippet

_FORMATS: Final = ("spark", "pandas")


@watched
class Reading(OpenedLake):
    """Returns rows."""

    @overload
    def read(self, name: str, as_: Literal["spark"] = "spark", *, fresh: bool = False) -> DataFrame: ...

    @overload
    def read(self, name: str, as_: Literal["pandas"], *, fresh: bool = False) -> pd.DataFrame: ...

    def read(
        self, name: str, as_: Literal["spark", "pandas"] = "spark", *, fresh: bool = False
    ) -> DataFrame | pd.DataFrame:
        """Return the rows of an aggregate as a Spark or a pandas frame.

        Args:
            name: The aggregate.
            as_: ``spark`` or ``pandas``. As pandas published rows need no JVM, and fresh ones need one only where this process
                cannot compute what is dirty.
            fresh: Return rows as of the newest source version: dirty buckets are computed on the fly, clean ones are read. An
                aggregate over another is computed from a fresh read of the other.

        Raises:
            TableNotFoundError: If the output is gone.
            TablesAheadError: With *fresh*, if the tables carry a refresh that the journal does not know.
            UsageError: If there is no such format.

        Shape:
            The columns of the definition's SELECT, in its order; for an engine the columns that it writes.
            Grain (bucket, keys); for an engine (keys, window). A pandas frame is sorted by bucket and keys, and its instants
            are datetime64[us, UTC]; no order is promised of a Spark frame.
        """
        from materializer.lake.rows import sorted_frame, to_pandas

        _check(as_)
        state = self.journal.view().named(name)
        aggregate = self._lake.aggregate(state)
        if fresh:
            found = self.fresh(name)
            return found.frame if as_ == "spark" else sorted_frame(found.fetch().table, aggregate.order("output"))
        if as_ == "pandas":
            return to_pandas(aggregate.paths["output"], aggregate.order("output"))
        return self._lake.engine().read_output(aggregate.paths["output"])

    @overload
    def changes(
        self,
        name: str,
        as_: Literal["spark"] = "spark",
        *,
        after_refresh: int | None = None,
        reason: str | None = None,
    ) -> DataFrame: ...

    @overload
    def changes(
        self, name: str, as_: Literal["pandas"], *, after_refresh: int | None = None, reason: str | None = None
    ) -> pd.DataFrame: ...

    def changes(
        self,
        name: str,
        as_: Literal["spark", "pandas"] = "spark",
        *,
        after_refresh: int | None = None,
        reason: str | None = None,
    ) -> DataFrame | pd.DataFrame:
        """Return the rows that refreshes changed in the output of an aggregate, from its change feed.

        Args:
            name: The aggregate; its definition has ``'output.change_feed' = 'true'``.
            as_: ``spark`` or ``pandas``, which needs no JVM.
            after_refresh: Only changes of refreshes with a larger number; None for all.
            reason: Only changes with this reason: ``new``, ``late``, ``correction``, ``delete`` or ``definition``.

        Raises:
            UsageError: If there is no feed, or no such format.

        Shape:
            The columns of the output.
            _change: string, ``insert``, ``update_preimage``, ``update_postimage`` or ``delete``
            _reason: string
            _refresh: long, number of the refresh
            _source_version: long
            _published_at: timestamp
            Grain (bucket, keys, _change, _refresh). No order promised.
        """
        from materializer.lake.output_diff import feed_rows
        from materializer.services.delivery import output_feed

        _check(as_)
        path = output_feed.path_of(self._lake.aggregate(self.journal.view().named(name)))
        if as_ == "pandas":
            columns, rows, _ = feed_rows(path, after=after_refresh, reason=reason)
            import pandas as pd

            return pd.DataFrame(rows, columns=columns)
        frame = self._lake.engine().read_output(path)
        frame = frame if after_refresh is None else frame.where(frame["_refresh"] > after_refresh)
        return frame if reason is None else frame.where(frame["_reason"] == reason)

    def show_changes(
        self, name: str, *, limit: int = 20, after_refresh: int | None = None, reason: str | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]], int]:
        """Return column names, the first changes after a refresh, and the number of all, without a JVM.

        Args:
            name: The aggregate.
            limit: How many rows at most.
            after_refresh: As in :meth:`changes`.
            reason: As in :meth:`changes`.

        Raises:
            UsageError: If there is no feed.
        """
        from materializer.lake.output_diff import feed_rows
        from materializer.services.delivery import output_feed

        path = output_feed.path_of(self._lake.aggregate(self.journal.view().named(name)))
        return feed_rows(path, after=after_refresh, reason=reason, limit=limit)

    def fresh(self, name: str, start: Instant = None, end: Instant = None) -> FreshRead:
        """Return a fresh read: rows as of the newest source version, and the cost of computing the dirty buckets.

        The parent of an aggregate over another is read fresh, too, down to the raw rows.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start; rounded to whole buckets.
            end: First instant after the window, or None for an open end.

        Raises:
            TablesAheadError: If the tables carry a refresh that the journal does not know.
        """
        from materializer.services.refresh.fresh import FreshReader

        return FreshReader(self._lake).read(name, self._part(name, start, end))

    def create_fresh_view(self, name: str, view: str | None = None) -> FreshView:
        """Create a SQL view over a fresh read, for all sessions of this Spark application.

        It always shows the source version that was the newest when it was created; create it again for a newer one.

        Args:
            name: The aggregate.
            view: Name of the view in ``global_temp``, under the rules for names of aggregates; None for the aggregate's name.

        Returns:
            The view. Its text form is its name; it also has its source version and what each query computes.

        Raises:
            TablesAheadError: As :meth:`fresh`.
            UsageError: If the name is unfit for a view; no view was created.
        """
        from materializer.services.refresh.fresh import FreshReader

        return FreshReader(self._lake).create_view(name, view)

    def show(self, name: str, *, limit: int = 20, start: Instant = None, end: Instant = None) -> PrintedRows:
        """Return column names and some published rows, newest bucket first, without a JVM; both print as a table.

        Args:
            name: The aggregate.
            limit: How many rows at most.
            start: First instant, or None for an open start.
            end: First instant after the shown buckets, or None for an open end.
        """
        from materializer.core.printed import PrintedRows

        first, last = self._ends(name, start, end)
        return PrintedRows.of(*self._looker.show(name, limit=limit, start=first, end=last), self.times(name))

    def export(
        self,
        name: str,
        to: str | Path,
        *,
        format: Literal["parquet", "csv", "arrow"] | None = None,  # noqa: A002 - the option's name
        start: Instant = None,
        end: Instant = None,
        overwrite: bool = False,
    ) -> ExportReport:
        """Write published rows, all of one version of the output, into a file of this machine; without a JVM, a batch at a time.

        The file takes its place when it is whole. Its rows are those that :meth:`show` returns, the oldest files of the output first.

        Args:
            name: The aggregate.
            to: The file; its folder exists, and is not in the lake.
            format: ``parquet``, ``csv`` or ``arrow``; None takes it from the name.
            start: First instant, or None for an open start.
            end: First instant after the buckets, or None for an open end.
            overwrite: Whether a file that is there is replaced.

        Raises:
            UsageError: If the file may not be there, or its format is not known; nothing was written.
            StorageError: If it cannot be written; what was there is as before.
        """
        from materializer.services.delivery.export import export

        first, last = self._ends(name, start, end)
        aggregate = self._lake.aggregate(self.journal.view().named(name))
        return export(aggregate, self._lake.root, to, kind=format, start=first, end=last, overwrite=overwrite)

    def how_to_read(self, name: str) -> tuple[Snippet, ...]:
        """Return how DuckDB, Polars, pandas, Spark and Trino read the output, with its own path and columns, to be pasted.

        Args:
            name: The aggregate.
        """
        from materializer.services.report.snippets import snippets

        return snippets(self._lake.aggregate(self.journal.view().named(name)))

    def _ends(self, name: str, start: Instant, end: Instant) -> tuple[int | None, int | None]:
        window = self._window(name, start, end)
        return None if start is None else window.start, None if end is None else window.end


def _check(as_: str) -> None:
    if as_ not in _FORMATS:
        hint = "give 'spark' or 'pandas'; `how_to_read` says how others read the output, `export` writes Parquet, CSV or Arrow"
        raise UsageError(f"no rows are returned as {as_!r}", hint=hint)
