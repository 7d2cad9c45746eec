"""All errors that a user, a configuration file or a table can cause, as one family.

Each class has a stable ``code`` (documented, never reused), an ``exit_status`` for the command line and a ``hint``: the next
action. A message is lower-case, names the thing, and shows what was found and what was expected. ``wrote`` says what was
written before the error, because readers of an error ask that first. ``ValueError`` and ``TypeError`` are left to programmer
errors in pure constructors.

The modules of this package are by exit status. All names are imported from here, and tracebacks and pickles name this package.
"""

from __future__ import annotations

from materializer.errors.base import (
    NOTHING,
    MaterializerError,
)
from materializer.errors.definitions import (
    DefinitionError,
    FrozenHistoryError,
    NotCoveredError,
    Problem,
    RollupChangedError,
)
from materializer.errors.environment import (
    CalendarLibraryMissingError,
    CatalogRefusedError,
    CatalogUnreachableError,
    ConnectLibraryMissingError,
    JarsUnreachableError,
    JavaMissingError,
    JavaTooOldError,
    NoCompareAndSwapError,
    NoCoresError,
    NoDeltaError,
    OutputHandlerError,
    QualityLibraryMissingError,
    ResultTooLargeError,
    SparkDiedError,
    SparkError,
    SparkUnreachableError,
    StorageError,
)
from materializer.errors.findings import (
    CanaryError,
    QualityCheckError,
    QualityGateError,
    VerifyFailedError,
)
from materializer.errors.retry import (
    JournalConflictError,
    LeaseHeldError,
    LeaseLostError,
    RetryableError,
    WriteFencedError,
)
from materializer.errors.sources import (
    AmbiguousNameError,
    CatalogManagedError,
    ChangeFeedGapError,
    DataError,
    ExpireDirtyError,
    ExpireEngineError,
    FewerRowsError,
    HistoryBuildingError,
    LogGapError,
    NameTakenError,
    NotADeltaTableError,
    NotIncrementalError,
    NotLocalError,
    OutOfRangeError,
    SourceDamagedError,
    SourceMovedError,
    SourceReplacedError,
    SourceRolledBackError,
    SourceSchemaChangedError,
    TableNotFoundError,
    TooManyWindowsError,
)
from materializer.errors.state import (
    ForeignHistoryError,
    ForeignTableError,
    JournalError,
    JournalLostError,
    JournalVersionError,
    TablesAheadError,
)
from materializer.errors.usage import (
    ConfigError,
    ExpireBoundError,
    ForeignSettingError,
    FrozenWindowError,
    HasReadersError,
    NothingBuiltError,
    PolicyExistsError,
    PolicyNowError,
    RefreshWindowError,
    RefreshWindowTooSmallError,
    RetiredWindowError,
    UnknownAggregateError,
    UnknownPolicyError,
    UsageError,
)

__all__ = [  # noqa: RUF022 (by exit status, as the API page shows them)
    "NOTHING",
    "MaterializerError",
    "UsageError",
    "ConfigError",
    "UnknownAggregateError",
    "HasReadersError",
    "RefreshWindowError",
    "RefreshWindowTooSmallError",
    "FrozenWindowError",
    "RetiredWindowError",
    "UnknownPolicyError",
    "PolicyExistsError",
    "PolicyNowError",
    "ExpireBoundError",
    "ForeignSettingError",
    "Problem",
    "DefinitionError",
    "NothingBuiltError",
    "NotCoveredError",
    "FrozenHistoryError",
    "TableNotFoundError",
    "NotADeltaTableError",
    "AmbiguousNameError",
    "CatalogManagedError",
    "SourceMovedError",
    "SourceReplacedError",
    "SourceRolledBackError",
    "SourceSchemaChangedError",
    "SourceDamagedError",
    "LogGapError",
    "ChangeFeedGapError",
    "NotIncrementalError",
    "NotLocalError",
    "HistoryBuildingError",
    "ExpireDirtyError",
    "FewerRowsError",
    "ExpireEngineError",
    "DataError",
    "TooManyWindowsError",
    "OutOfRangeError",
    "NameTakenError",
    "JournalError",
    "JournalVersionError",
    "JournalLostError",
    "TablesAheadError",
    "ForeignHistoryError",
    "ForeignTableError",
    "JavaMissingError",
    "JavaTooOldError",
    "JarsUnreachableError",
    "QualityLibraryMissingError",
    "CalendarLibraryMissingError",
    "ConnectLibraryMissingError",
    "SparkError",
    "SparkUnreachableError",
    "SparkDiedError",
    "ResultTooLargeError",
    "StorageError",
    "NoCompareAndSwapError",
    "NoCoresError",
    "NoDeltaError",
    "OutputHandlerError",
    "CatalogUnreachableError",
    "CatalogRefusedError",
    "RetryableError",
    "RollupChangedError",
    "LeaseHeldError",
    "LeaseLostError",
    "JournalConflictError",
    "WriteFencedError",
    "VerifyFailedError",
    "QualityGateError",
    "CanaryError",
    "QualityCheckError",
]

# where a class is defined is no name to store: tracebacks, pickles and the pages name what users import
for _name in __all__:
    if _name != "NOTHING":
        globals()[_name].__module__ = __name__
