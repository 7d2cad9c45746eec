"""A source, its history or its rows stand against the request: exit status 66."""

from __future__ import annotations

from materializer.errors.base import UnwrittenError


class TableNotFoundError(UnwrittenError):
    """A required table does not exist."""

    code = "table.not-found"
    exit_status = 66


class NotADeltaTableError(UnwrittenError):
    """A path exists, but holds no Delta table."""

    code = "table.not-delta"
    exit_status = 66


class CatalogManagedError(UnwrittenError):
    """Only a catalog knows the newest version of the table, so the table cannot be read by path."""

    code = "source.catalog-managed"
    exit_status = 66
    default_hint = "read a table that is not managed by a catalog, such as a copy of it"


class AmbiguousNameError(UnwrittenError):
    """A name without a catalog stands for tables in several catalogs of the session."""

    code = "catalog.ambiguous"
    exit_status = 66
    default_hint = "write the name with its catalog, as catalog.schema.table"


class NameTakenError(UnwrittenError):
    """The name that an output is to have in a catalog belongs to another table or view."""

    code = "catalog.name-taken"
    exit_status = 66
    default_hint = "choose another name for output.table, or drop or rename that table"


class SourceMovedError(UnwrittenError):
    """The name of the source in its catalog no longer stands for the table on which the aggregate was defined."""

    code = "source.moved"
    exit_status = 66
    default_hint = "apply the definition again with the name that the table has now, or give the table its name back"


class SourceReplacedError(UnwrittenError):
    """The source is not the table on which the aggregate was defined: it was dropped and recreated."""

    code = "source.replaced"
    exit_status = 66


class SourceRolledBackError(UnwrittenError):
    """The newest source version is older than a version that was already captured."""

    code = "source.rolled-back"
    exit_status = 66


class SourceSchemaChangedError(UnwrittenError):
    """A column that the definition reads was dropped or renamed, or has another type."""

    code = "source.schema-changed"
    exit_status = 66


class SourceDamagedError(UnwrittenError):
    """The source's log has a gap, or a data file of the newest version is missing."""

    code = "source.damaged"
    exit_status = 66


class LogGapError(UnwrittenError):
    """Required commits were removed from a table's log, so their changes are unknown."""

    code = "log.gap"
    exit_status = 66


class ChangeFeedGapError(UnwrittenError):
    """The change feed no longer has a range of versions; dirty spans are found in a coarser way."""

    code = "source.feed-gap"
    exit_status = 66


class NotIncrementalError(UnwrittenError):
    """`--strict` was given, and a part of the plan is not incremental."""

    code = "plan.not-incremental"
    exit_status = 66


class NotLocalError(UnwrittenError):
    """The local executor was asked for, and cannot compute what is to be refreshed."""

    code = "plan.not-local"
    exit_status = 66


class HistoryBuildingError(UnwrittenError):
    """History cannot be frozen or thawed while a next version is being built, which computes it from raw rows."""

    code = "history.building"
    exit_status = 66


class ExpireDirtyError(UnwrittenError):
    """Some buckets to freeze are dirty and can only be computed from raw rows."""

    code = "expire.dirty"
    exit_status = 66


class FewerRowsError(UnwrittenError):
    """A recompute finds fewer raw rows than the stored partials contain, and their deletion was never seen."""

    code = "history.fewer-rows"
    exit_status = 66


class ExpireEngineError(UnwrittenError):
    """The results of an engine extend beyond buckets, so raw rows are always needed."""

    code = "expire.engine"
    exit_status = 66


class DataError(UnwrittenError):
    """The rows of a bucket make its aggregates fail (overflow, division by zero, a failing cast)."""

    code = "data.failed"
    exit_status = 66


class TooManyWindowsError(UnwrittenError):
    """One row, or all rows of a refresh together, would make more windows than ``limits.windows`` allows."""

    code = "data.too-many-windows"
    exit_status = 66


class OutOfRangeError(UnwrittenError):
    """A time, or the start of its bucket, is outside the range of the time column's type."""

    code = "time.out-of-range"
    exit_status = 66
    default_hint = "correct the row, or leave it out with WHERE"
