"""Java, libraries, Spark, storage or an output handler failed: exit status 71 to 74."""

from __future__ import annotations

from materializer.errors.base import MaterializerError


class JavaMissingError(MaterializerError):
    """No Java was found."""

    code = "java.missing"
    exit_status = 71


class JavaTooOldError(MaterializerError):
    """The Java that was found is too old for Spark."""

    code = "java.too-old"
    exit_status = 71


class JarsUnreachableError(MaterializerError):
    """Jars that Spark lacks, for Delta or for S3, are not cached, not given and not downloadable."""

    code = "jars.unreachable"
    exit_status = 71


class QualityLibraryMissingError(MaterializerError):
    """A suite needs Great Expectations, which is not installed."""

    code = "quality.not-installed"
    exit_status = 71
    default_hint = "pip install 'delta-materializer[quality]'"


class CalendarLibraryMissingError(MaterializerError):
    """The trading calendar of an exchange needs exchange_calendars, which is not installed."""

    code = "calendar.not-installed"
    exit_status = 71
    default_hint = "pip install 'delta-materializer[calendars]'"


class ConnectLibraryMissingError(MaterializerError):
    """A Spark Connect server is named, and the libraries of Spark's client are not installed."""

    code = "connect.not-installed"
    exit_status = 71
    default_hint = "pip install 'delta-materializer[connect]'"


class SparkError(MaterializerError):
    """Spark failed, and neither the data nor the definition caused it."""

    code = "spark.failed"
    exit_status = 71


class SparkDiedError(SparkError):
    """The process of Spark ended while it was needed."""

    code = "spark.died"


class SparkUnreachableError(SparkError):
    """No Spark Connect server answers where the configuration says that one is."""

    code = "spark.unreachable"
    default_hint = "start the server, or correct spark.remote; then run the same command again"


class NoCoresError(SparkError):
    """The cluster gave no core to a job for as long as the configuration waits for one."""

    code = "spark.no-cores"
    default_hint = (
        "give the cluster workers with free cores and as much memory as spark.executor.memory asks for, or wait longer "
        "(spark.patience); then run the same command again"
    )


class NoDeltaError(SparkError):
    """The Spark of a server or of a given session has no Delta."""

    code = "spark.no-delta"
    default_hint = "start it with the Delta jars, spark.sql.extensions and spark.sql.catalog.spark_catalog; the page on running says how"


class ResultTooLargeError(SparkError):
    """A result is too large for the driver: for the limit of a result, or for the heap."""

    code = "spark.result-too-large"
    default_hint = "give spark.memory or spark.driver.maxResultSize more, or refresh less at once (run_rows)"


class StorageError(MaterializerError):
    """A file could not be written or read: disk full, no permission, a lost mount."""

    code = "storage.failed"
    exit_status = 74


class CatalogUnreachableError(MaterializerError):
    """A catalog of the session does not answer."""

    code = "catalog.unreachable"
    exit_status = 74
    default_hint = "start the catalog, or correct its address under [spark.options], then run the same command again"


class CatalogRefusedError(MaterializerError):
    """A catalog refuses to register an output, or to give its name up."""

    code = "catalog.refused"
    exit_status = 71
    default_hint = "mend what the catalog says, then run the same command again"


class NoCompareAndSwapError(StorageError):
    """The store lets several writers make the same file, so that commits of two processes could be lost."""

    code = "store.no-compare-and-swap"
    exit_status = 71
    default_hint = (
        "use a store with conditional writes (S3, ADLS and GCS have them), or promise with single_writer = true in "
        "materializer.toml that never more than one process writes to this lake"
    )


class OutputHandlerError(MaterializerError):
    """The output handler failed: the function that receives the output."""

    code = "output.handler"
    exit_status = 74
    default_wrote = "what was refreshed so far is published"
    default_hint = "mend the handler and refresh again: it is given the same rows, with what has come since"
