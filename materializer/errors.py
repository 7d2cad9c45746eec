"""All errors that a user, a configuration file or a table can cause, as one family.

Each class has a stable ``code`` (documented, never reused), an ``exit_status`` for the command line and a ``hint``: the next
action. A message is lower-case, names the thing, and shows what was found and what was expected. ``wrote`` says what was
written before the error, because readers of an error ask that first. ``ValueError`` and ``TypeError`` are left to programmer
errors in pure constructors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

NOTHING = "nothing was written"


class MaterializerError(Exception):
    """The root of all errors that are not bugs.

    Args:
        message: What happened, lower-case, one sentence, with found and expected.
        hint: The next action, one sentence; the class default when omitted.
        wrote: What had been written before the error; ``"nothing was written"`` by default.
        values: Machine-readable values, shown in the JSON form.
    """

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 70
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, wrote: str = NOTHING, **values: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.wrote = wrote
        self.values = values

    def follows(self, done: str) -> None:
        """Put *done*, which the same command wrote before the failed step, in front of ``wrote``."""
        self.wrote = f"{done}; then {self.wrote}"

    def as_json(self) -> dict[str, Any]:
        """Return the documented JSON form: code, message, hint, wrote, values."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "wrote": self.wrote,
            "values": {
                k: v if isinstance(v, (int, float, bool, type(None))) else str(v) for k, v in self.values.items()
            },
        }


# -- usage: the request makes no sense (64) -----------------------------------------------------------------------------


class UsageError(MaterializerError):
    """An argument of a command or a call is invalid."""

    code = "usage"
    exit_status = 64


class ConfigError(MaterializerError):
    """`materializer.toml` or an environment variable has an invalid setting."""

    code = "config.invalid"
    exit_status = 64


class UnknownAggregateError(UsageError):
    """No aggregate with that name is defined in this lake."""

    code = "aggregate.unknown"


class HasReadersError(UsageError):
    """An aggregate cannot be dropped while other aggregates read it."""

    code = "aggregate.has-readers"


class RefreshWindowError(UsageError):
    """A window is reversed or empty, or its ends cannot be read."""

    code = "window.invalid"


class RefreshWindowTooSmallError(RefreshWindowError):
    """A window holds no whole bucket."""

    code = "window.too-small"


class FrozenWindowError(RefreshWindowError):
    """A window lies wholly below the frozen boundary, where nothing is computed from raw rows any more."""

    code = "window.frozen"


class RetiredWindowError(RefreshWindowError):
    """A window lies wholly before the buckets that the output retains (``output.retention``)."""

    code = "window.retired"


class UnknownPolicyError(UsageError):
    """An aggregate has no refresh policy with that name."""

    code = "policy.unknown"


class PolicyExistsError(UsageError):
    """An aggregate already has a refresh policy with that name."""

    code = "policy.exists"


class PolicyNowError(UsageError):
    """The *now* of a policy cannot be read, or is missing where no clock can supply it."""

    code = "policy.now"


class ExpireBoundError(UsageError):
    """History cannot be frozen up to that time: it is no valid time, or nothing was materialised up to it."""

    code = "expire.bound"


class ForeignSettingError(UsageError):
    """A Spark setting is in force that would lose data silently."""

    code = "spark.unsafe-setting"


# -- definitions (65) ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a definition, and its place.

    Args:
        code: Stable code, such as ``definition.unknown-column``.
        message: What was found and what was expected.
        hint: What to write instead.
        file: The file of the definition, or ``""`` for the Python form.
        line: 1-based line, 0 without a place in a text.
        column: 1-based column, 0 without a place in a text.
    """

    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = (
            f"{self.file or '<definition>'}:{self.line}:{self.column}: "
            if self.line
            else (f"{self.file}: " if self.file else "")
        )
        return f"{place}{self.code}: {self.message}" + (f" (hint: {self.hint})" if self.hint else "")


class DefinitionError(MaterializerError):
    """One or several definitions cannot be accepted; carries every problem found."""

    code = "definition.invalid"
    exit_status = 65

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column, p.code)))
        count = len(self.problems)
        message = "\n".join(str(p) for p in self.problems)
        super().__init__(
            message, hint=f"mend {'the problem' if count == 1 else f'these {count} problems'} and apply again"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form, with one object per problem."""
        fields = ("code", "message", "hint", "file", "line", "column")
        return super().as_json() | {"problems": [{f: getattr(p, f) for f in fields} for p in self.problems]}


class NothingBuiltError(UsageError):
    """No next version of the aggregate is being built, or no previous version is stored."""

    code = "version.none"


class NotCoveredError(MaterializerError):
    """The next version of an aggregate lacks something that the current version offers its readers; nothing was switched."""

    code = "version.not-covered"
    exit_status = 65


class FrozenHistoryError(MaterializerError):
    """The request would compute frozen history again, from the rows that the source still has."""

    code = "history.frozen"
    exit_status = 65


# -- sources and tables (66) ---------------------------------------------------------------------------------------------


class TableNotFoundError(MaterializerError):
    """A required table does not exist."""

    code = "table.not-found"
    exit_status = 66


class NotADeltaTableError(MaterializerError):
    """A path exists, but holds no Delta table."""

    code = "table.not-delta"
    exit_status = 66


class CatalogManagedError(MaterializerError):
    """Only a catalog knows the newest version of the table, so the table cannot be read by path."""

    code = "source.catalog-managed"
    exit_status = 66
    default_hint = "read a table that is not managed by a catalog, such as a copy of it"


class SourceReplacedError(MaterializerError):
    """The source is not the table on which the aggregate was defined: it was dropped and recreated."""

    code = "source.replaced"
    exit_status = 66


class SourceRolledBackError(MaterializerError):
    """The newest source version is older than a version that was already captured."""

    code = "source.rolled-back"
    exit_status = 66


class SourceSchemaChangedError(MaterializerError):
    """A column that the definition reads was dropped or renamed, or has another type."""

    code = "source.schema-changed"
    exit_status = 66


class SourceDamagedError(MaterializerError):
    """The source's log has a gap, or a data file of the newest version is missing."""

    code = "source.damaged"
    exit_status = 66


class LogGapError(MaterializerError):
    """Required commits were removed from a table's log, so their changes are unknown."""

    code = "log.gap"
    exit_status = 66


class ChangeFeedGapError(MaterializerError):
    """The change feed no longer has a range of versions; dirty spans are found in a coarser way."""

    code = "source.feed-gap"
    exit_status = 66


class NotIncrementalError(MaterializerError):
    """`--strict` was given, and a part of the plan is not incremental."""

    code = "plan.not-incremental"
    exit_status = 66


class HistoryBuildingError(MaterializerError):
    """History cannot be frozen or thawed while a next version is being built, which computes it from raw rows."""

    code = "history.building"
    exit_status = 66


class ExpireDirtyError(MaterializerError):
    """Some buckets to freeze are dirty and can only be computed from raw rows."""

    code = "expire.dirty"
    exit_status = 66


class FewerRowsError(MaterializerError):
    """A recompute finds fewer raw rows than the stored partials contain, and their deletion was never seen."""

    code = "history.fewer-rows"
    exit_status = 66


class ExpireEngineError(MaterializerError):
    """The results of an engine extend beyond buckets, so raw rows are always needed."""

    code = "expire.engine"
    exit_status = 66


class DataError(MaterializerError):
    """The rows of a bucket make its aggregates fail (overflow, division by zero, a failing cast)."""

    code = "data.failed"
    exit_status = 66


class TooManyWindowsError(MaterializerError):
    """One row, or all rows of a refresh together, would make more windows than ``limits.windows`` allows."""

    code = "data.too-many-windows"
    exit_status = 66


class OutOfRangeError(MaterializerError):
    """A time, or the start of its bucket, is outside the range of the time column's type."""

    code = "time.out-of-range"
    exit_status = 66
    default_hint = "correct the row, or leave it out with WHERE"


# -- our own state (69) --------------------------------------------------------------------------------------------------


class JournalError(MaterializerError):
    """The journal cannot be read, or contains something unknown."""

    code = "journal.corrupt"
    exit_status = 69


class JournalVersionError(JournalError):
    """The journal was written by a newer materializer."""

    code = "journal.too-new"


class JournalLostError(JournalError):
    """The journal does not contain an aggregate whose tables exist."""

    code = "journal.lost"
    default_hint = "restore a backup of the journal, or 'materializer repair --definitions FILE' takes the tables over"


class TablesAheadError(MaterializerError):
    """One of our tables carries a refresh that the journal does not contain, or is not the table that we wrote."""

    code = "tables.ahead"
    exit_status = 69


class ForeignTableError(MaterializerError):
    """The path of one of our tables holds a table that is not ours."""

    code = "tables.foreign"
    exit_status = 69


# -- environment (71 to 74) ----------------------------------------------------------------------------------------------


class JavaMissingError(MaterializerError):
    """No Java was found."""

    code = "java.missing"
    exit_status = 71


class JavaTooOldError(MaterializerError):
    """The Java that was found is too old for Spark."""

    code = "java.too-old"
    exit_status = 71


class JarsUnreachableError(MaterializerError):
    """The two Delta jars are not cached, not given and not downloadable."""

    code = "jars.unreachable"
    exit_status = 71


class QualityLibraryMissingError(MaterializerError):
    """A suite needs Great Expectations, which is not installed."""

    code = "quality.not-installed"
    exit_status = 71
    default_hint = "pip install 'materializer[quality]'"


class CalendarLibraryMissingError(MaterializerError):
    """The trading calendar of an exchange needs exchange_calendars, which is not installed."""

    code = "calendar.not-installed"
    exit_status = 71
    default_hint = "pip install 'materializer[calendars]'"


class SparkError(MaterializerError):
    """Spark failed, and neither the data nor the definition caused it."""

    code = "spark.failed"
    exit_status = 71


class SparkDiedError(SparkError):
    """The process of Spark ended while it was needed."""

    code = "spark.died"


class ResultTooLargeError(SparkError):
    """A result is too large for the driver: for the limit of a result, or for the heap."""

    code = "spark.result-too-large"
    default_hint = "give spark.memory or spark.driver.maxResultSize more, or refresh less at once (run_rows)"


class StorageError(MaterializerError):
    """A file could not be written or read: disk full, no permission, a lost mount."""

    code = "storage.failed"
    exit_status = 74


class OutputHandlerError(MaterializerError):
    """The output handler failed: the function that receives the output."""

    code = "output.handler"
    exit_status = 74
    default_hint = "mend the handler and refresh again: it is given the same rows, with what has come since"

    def __init__(self, message: str, *, hint: str = "", wrote: str = "", **values: object) -> None:
        super().__init__(message, hint=hint, wrote=wrote or "what was refreshed so far is published", **values)


# -- try again (75) ------------------------------------------------------------------------------------------------------


class RetryableError(MaterializerError):
    """There is no fault; the same call may succeed later."""

    code = "retry"
    exit_status = 75
    default_hint = "run the same command again"


class LeaseHeldError(RetryableError):
    """Another live process holds the lease of this aggregate."""

    code = "lease.held"


class LeaseLostError(RetryableError):
    """This process lost its lease to another process while it worked."""

    code = "lease.lost"


class JournalConflictError(RetryableError):
    """Other processes committed to the journal first, several times in a row."""

    code = "journal.conflict"


class WriteFencedError(RetryableError):
    """A write came too late: the table already carries this or a higher refresh number."""

    code = "write.fenced"


# -- findings (1) --------------------------------------------------------------------------------------------------------


class VerifyFailedError(MaterializerError):
    """An aggregate differs from the result of plain Spark."""

    code = "verify.differs"
    exit_status = 1


class QualityGateError(MaterializerError):
    """The computed result does not meet the aggregate's expectations; it is not published and stays dirty."""

    code = "quality.gate"
    exit_status = 1
    default_hint = (
        "look at the failing rows, correct the source or the suite, and refresh again; "
        "--publish-anyway REASON publishes it as it is"
    )


class CanaryError(QualityGateError):
    """Buckets that were computed again from their raw rows differ; they are dirty, and the next refresh recomputes them."""

    code = "quality.canary"
    default_hint = (
        "refresh again: the buckets are recomputed from their raw rows; what was expected and found stands among the "
        "failing rows, and 'materializer verify' compares everything"
    )


class QualityCheckError(MaterializerError):
    """The published output does not meet the aggregate's expectations."""

    code = "quality.check"
    exit_status = 1
