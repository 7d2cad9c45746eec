"""Rows of aggregates: published, changed, and as of now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from materializer.api.opened import OpenedLake
from materializer.core.time.instants import Instant
from materializer.lake.output_diff import feed_rows
from materializer.lake.rows import to_pandas
from materializer.services.delivery import output_feed
from materializer.services.refresh.fresh import FreshRead, FreshReader, FreshView
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


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
            as_: ``spark`` or ``pandas``. Published rows reach pandas without a JVM.
            fresh: As of the newest source version: dirty buckets are computed on the fly, clean ones are read. An aggregate over
                another is computed from the other's rows as of now.

        Raises:
            TableNotFoundError: If the output is gone.
            TablesAheadError: With *fresh*, if the tables carry what the journal does not know.

        Shape:
            The columns of the definition's SELECT, in its order; of an engine those that it writes.
            Grain (bucket, keys); of an engine (keys, window). No order promised.
        """
        state = self.journal.view().named(name)
        aggregate = self._lake.aggregate(state)
        if fresh:
            frame = self.fresh(name).frame
            return frame if as_ == "spark" else frame.toPandas()
        if as_ == "pandas":
            return to_pandas(aggregate.paths["output"])
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
        """Return what refreshes changed in the output of an aggregate, from its change feed.

        Args:
            name: The aggregate; its definition says ``'output.change_feed' = 'true'``.
            as_: ``spark`` or ``pandas``, which wants no JVM.
            after_refresh: Number of the last refresh that is known already; None for everything.
            reason: Only changes with this reason: ``new``, ``late``, ``correction``, ``delete`` or ``definition``.

        Raises:
            UsageError: If there is no feed.

        Shape:
            The columns of the output.
            _change: string, ``insert``, ``update_preimage``, ``update_postimage`` or ``delete``
            _reason: string
            _refresh: long, number of the refresh
            _source_version: long
            _published_at: timestamp
            Grain (bucket, keys, _change, _refresh). No order promised.
        """
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
        """Return column names, the first changes after a refresh, and how many there are, without a JVM.

        Args:
            name: The aggregate.
            limit: How many rows at most.
            after_refresh: As in :meth:`changes`.
            reason: As in :meth:`changes`.

        Raises:
            UsageError: If there is no feed.
        """
        path = output_feed.path_of(self._lake.aggregate(self.journal.view().named(name)))
        return feed_rows(path, after=after_refresh, reason=reason, limit=limit)

    def fresh(self, name: str, start: Instant = None, end: Instant = None) -> FreshRead:
        """Return rows as of the newest source version, and what computing the dirty ones costs.

        The source of an aggregate over another is read fresh too, down to the raw rows.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start; rounded to whole buckets.
            end: First instant after the window, or None for an open end.

        Raises:
            TablesAheadError: If the tables carry what the journal does not know.
        """
        return FreshReader(self._lake).read(name, self._part(name, start, end))

    def create_fresh_view(self, name: str, view: str | None = None) -> FreshView:
        """Create a view for SQL over the rows as of now, in every session of this Spark application.

        It is a snapshot of the source version that is the newest now; create it again to move it on.

        Args:
            name: The aggregate.
            view: What to call the view, like an aggregate; the aggregate's name when None. It lies in ``global_temp``.

        Returns:
            Its name, also as its text, with the version that it is pinned to and what each query of it computes.

        Raises:
            TablesAheadError: As :meth:`fresh`.
            UsageError: If that cannot name a view; no view was made.
        """
        return FreshReader(self._lake).create_view(name, view)

    def show(
        self, name: str, *, limit: int = 20, start: Instant = None, end: Instant = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return column names and some published rows, newest bucket first, without a JVM.

        Args:
            name: The aggregate.
            limit: How many rows at most.
            start: First instant of buckets that are shown, or None for an open start.
            end: First instant after them, or None for an open end.
        """
        window = self._window(name, start, end)
        first, last = (None if given is None else at for given, at in ((start, window.start), (end, window.end)))
        return self._looker.show(name, limit=limit, start=first, end=last)
