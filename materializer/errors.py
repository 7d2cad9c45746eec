"""Everything a user, a configuration file or a table can cause, as one family of errors.

Each class has a stable ``code`` (documented, never reused), an ``exit_status`` for the command line and a ``hint``:
what to do next. A message is lower-case, names the thing, and shows what was found and what was expected.
``wrote`` says whether anything was written before the error, because that is what a reader of an error asks first.
``ValueError`` and ``TypeError`` are left to programmer errors in pure constructors.
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
        wrote: What had been written when it happened; ``"nothing was written"`` by default.
        values: Machine-readable facts, shown in the JSON form.
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
        """Add to what had been written what the same command had *done* before the step that failed."""
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


# -- usage: what was asked for cannot be asked for (64) -----------------------------------------------------------------


class UsageError(MaterializerError):
    """An argument of a command or a call makes no sense."""

    code = "usage"
    exit_status = 64


class ConfigError(MaterializerError):
    """`materializer.toml` or an environment variable holds something that is not understood."""

    code = "config.invalid"
    exit_status = 64


class UnknownAggregateError(UsageError):
    """No aggregate of that name is defined in this lake."""

    code = "aggregate.unknown"


class HasReadersError(UsageError):
    """An aggregate that others read would be dropped."""

    code = "aggregate.has-readers"


class RefreshWindowError(UsageError):
    """A window is reversed or empty, or its ends cannot be read."""

    code = "window.invalid"


class RefreshWindowTooSmallError(RefreshWindowError):
    """A window holds no whole bucket."""

    code = "window.too-small"


class FrozenWindowError(RefreshWindowError):
    """A window lies wholly below the frozen bound, where nothing is computed from raw rows again."""

    code = "window.frozen"


class RetiredWindowError(RefreshWindowError):
    """A window lies wholly before what the output keeps (``output.retention``)."""

    code = "window.retired"


class UnknownPolicyError(UsageError):
    """An aggregate has no refresh policy of that name."""

    code = "policy.unknown"


class PolicyExistsError(UsageError):
    """An aggregate has a refresh policy of that name already."""

    code = "policy.exists"


class PolicyNowError(UsageError):
    """The *now* of a policy cannot be read, or was not given where no clock can tell it."""

    code = "policy.now"


class ExpireBoundError(UsageError):
    """History cannot be frozen up to that time: it is no time, or nothing was materialised up to there."""

    code = "expire.bound"


class ForeignSettingError(UsageError):
    """A Spark setting that would lose data without a word is set."""

    code = "spark.unsafe-setting"


# -- definitions (65) ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a definition, and where.

    Args:
        code: Stable code, such as ``definition.unknown-column``.
        message: What was found and what was expected.
        hint: What to write instead.
        file: The file it stands in, or ``""`` for the Python API.
        line: 1-based line, 0 when it has no place in a text.
        column: 1-based column, 0 likewise.
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
    """A definition, or several, cannot be accepted; carries every problem found."""

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
    """No next version of the aggregate is being built, or no previous one is kept."""

    code = "version.none"


class NotCoveredError(MaterializerError):
    """The next version of an aggregate lacks something that readers have; nothing was switched."""

    code = "version.not-covered"
    exit_status = 65


class FrozenHistoryError(MaterializerError):
    """What was asked would compute frozen history again, from what the source still has."""

    code = "history.frozen"
    exit_status = 65


# -- sources and tables (66) ---------------------------------------------------------------------------------------------


class TableNotFoundError(MaterializerError):
    """A table that is needed does not exist."""

    code = "table.not-found"
    exit_status = 66


class NotADeltaTableError(MaterializerError):
    """A path exists, but holds no Delta table."""

    code = "table.not-delta"
    exit_status = 66


class CatalogManagedError(MaterializerError):
    """Only a catalog knows the newest version of the table, so it cannot be read by path."""

    code = "source.catalog-managed"
    exit_status = 66
    default_hint = "read a table that is not managed by a catalog, such as a copy of it"


class SourceReplacedError(MaterializerError):
    """The source is another table than the one the aggregate was defined on (dropped and recreated)."""

    code = "source.replaced"
    exit_status = 66


class SourceRolledBackError(MaterializerError):
    """The newest source version is older than what was captured already."""

    code = "source.rolled-back"
    exit_status = 66


class SourceSchemaChangedError(MaterializerError):
    """A column that the definition reads was dropped, renamed or changed its type."""

    code = "source.schema-changed"
    exit_status = 66


class SourceDamagedError(MaterializerError):
    """The source's log has a hole, or a data file of the newest version is gone."""

    code = "source.damaged"
    exit_status = 66


class LogGapError(MaterializerError):
    """Commits that are needed were cleaned out of a table's log; what they changed can no longer be told."""

    code = "log.gap"
    exit_status = 66


class ChangeFeedGapError(MaterializerError):
    """A run of versions can no longer be read from the change feed; a coarser way of finding dirty spans is taken."""

    code = "source.feed-gap"
    exit_status = 66


class NotIncrementalError(MaterializerError):
    """`--strict` was given and part of the plan is not incremental."""

    code = "plan.not-incremental"
    exit_status = 66


class HistoryBuildingError(MaterializerError):
    """History cannot be frozen or thawed while a next version is built, which computes it from raw rows."""

    code = "history.building"
    exit_status = 66


class ExpireDirtyError(MaterializerError):
    """Buckets that would be frozen are dirty and can only be computed from raw rows."""

    code = "expire.dirty"
    exit_status = 66


class FewerRowsError(MaterializerError):
    """A recompute finds fewer raw rows than the stored partials were made from, and nobody saw them go."""

    code = "history.fewer-rows"
    exit_status = 66


class ExpireEngineError(MaterializerError):
    """The results of an engine reach beyond buckets, so raw rows are always needed."""

    code = "expire.engine"
    exit_status = 66


class DataError(MaterializerError):
    """The rows of a bucket make its aggregates fail (overflow, division by zero, a failing cast)."""

    code = "data.failed"
    exit_status = 66


class TooManyWindowsError(MaterializerError):
    """A row, or all rows of a refresh together, would make more windows than ``limits.windows`` allows."""

    code = "data.too-many-windows"
    exit_status = 66


class OutOfRangeError(MaterializerError):
    """A time, or the start of its bucket, lies outside what the type of the time column can hold."""

    code = "time.out-of-range"
    exit_status = 66
    default_hint = "correct the row, or leave it out with WHERE"


# -- our own state (69) --------------------------------------------------------------------------------------------------


class JournalError(MaterializerError):
    """The journal cannot be read or holds something unknown."""

    code = "journal.corrupt"
    exit_status = 69


class JournalVersionError(JournalError):
    """The journal was written by a newer materializer."""

    code = "journal.too-new"


class JournalLostError(JournalError):
    """The journal does not know an aggregate whose tables are there."""

    code = "journal.lost"
    default_hint = "restore a backup of the journal, or 'materializer repair --definitions FILE' takes the tables over"


class TablesAheadError(MaterializerError):
    """A table of ours carries a refresh that the journal does not know, or is not the table we wrote."""

    code = "tables.ahead"
    exit_status = 69


class ForeignTableError(MaterializerError):
    """A path that should hold a table of ours holds somebody else's."""

    code = "tables.foreign"
    exit_status = 69


# -- environment (71 to 74) ----------------------------------------------------------------------------------------------


class JavaMissingError(MaterializerError):
    """No Java was found."""

    code = "java.missing"
    exit_status = 71


class JavaTooOldError(MaterializerError):
    """The Java that was found is older than Spark needs."""

    code = "java.too-old"
    exit_status = 71


class JarsUnreachableError(MaterializerError):
    """The two Delta jars are neither cached nor given nor downloadable."""

    code = "jars.unreachable"
    exit_status = 71


class QualityLibraryMissingError(MaterializerError):
    """A suite needs Great Expectations, which is not installed."""

    code = "quality.not-installed"
    exit_status = 71
    default_hint = "pip install 'materializer[quality]'"


class CalendarLibraryMissingError(MaterializerError):
    """A trading calendar of an exchange needs exchange_calendars, which is not installed."""

    code = "calendar.not-installed"
    exit_status = 71
    default_hint = "pip install 'materializer[calendars]'"


class SparkError(MaterializerError):
    """Spark failed in a way that is neither the data's nor the definition's fault."""

    code = "spark.failed"
    exit_status = 71


class SparkDiedError(SparkError):
    """The process that Spark runs in ended while it was needed."""

    code = "spark.died"


class ResultTooLargeError(SparkError):
    """What the driver was to hold at once does not fit: the limit of a result, or the heap."""

    code = "spark.result-too-large"
    default_hint = "give spark.memory or spark.driver.maxResultSize more, or refresh less at once (run_rows)"


class StorageError(MaterializerError):
    """Writing or reading files failed: disk full, permission, a lost mount."""

    code = "storage.failed"
    exit_status = 74


class OutputHandlerError(MaterializerError):
    """The function that is given the output failed."""

    code = "output.handler"
    exit_status = 74
    default_hint = "mend the handler and refresh again: it is given the same rows, with what has come since"

    def __init__(self, message: str, *, hint: str = "", wrote: str = "", **values: object) -> None:
        super().__init__(message, hint=hint, wrote=wrote or "what was refreshed so far is published", **values)


# -- try again (75) ------------------------------------------------------------------------------------------------------


class RetryableError(MaterializerError):
    """Nothing is wrong; the same call may succeed later."""

    code = "retry"
    exit_status = 75
    default_hint = "run the same command again"


class LeaseHeldError(RetryableError):
    """Another live process is working on this aggregate."""

    code = "lease.held"


class LeaseLostError(RetryableError):
    """This process lost its lease to another while it worked."""

    code = "lease.lost"


class JournalConflictError(RetryableError):
    """Another process committed to the journal first, again and again."""

    code = "journal.conflict"


class WriteFencedError(RetryableError):
    """A write was overtaken: the table already carries this or a higher refresh number."""

    code = "write.fenced"


# -- findings (1) --------------------------------------------------------------------------------------------------------


class VerifyFailedError(MaterializerError):
    """An aggregate differs from plain Spark where it should be equal."""

    code = "verify.differs"
    exit_status = 1


class QualityGateError(MaterializerError):
    """What was computed does not meet the aggregate's expectations; it is not published and stays dirty."""

    code = "quality.gate"
    exit_status = 1
    default_hint = (
        "look at the failing rows, correct the source or the suite, and refresh again; "
        "--publish-anyway REASON publishes it as it is"
    )


class CanaryError(QualityGateError):
    """Buckets that were computed again from their raw rows differ; they are dirty, and recomputed by the next refresh."""

    code = "quality.canary"
    default_hint = (
        "refresh again: the buckets are recomputed from their raw rows; what was expected and found stands among the "
        "failing rows, and 'materializer verify' compares everything"
    )


class QualityCheckError(MaterializerError):
    """What is published does not meet the aggregate's expectations."""

    code = "quality.check"
    exit_status = 1
