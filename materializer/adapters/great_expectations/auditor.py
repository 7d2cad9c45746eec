"""Great Expectations as an auditor of frames, for expectations that are not compiled, and as a writer of Data Docs.

The library is an extra and takes seconds to import, so each function that needs it imports it. The frame is already
persisted. The library is configured not to persist it again, because it would never release it. The library's own verdict is
not used, because it counts a failed warning as a failure.

Times are an exception to the rule that no setting of the machine matters: Great Expectations reads times of a suite, and
fetches times of a frame, in the time zone of the process. Therefore bounds on times are compiled, unless they have a row
condition.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from materializer.core.quality.catalog import Domain
from materializer.core.quality.failing import Failing, FailingRow
from materializer.core.quality.suite import Expectation, Suite
from materializer.core.quality.verdict import Auditor, Finding
from materializer.errors import NOTHING, DefinitionError, Problem, QualityLibraryMissingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_INDEXED: Final = 100_000
"""Maximum number of failing rows for asking the library for the bucket of each one; the library fetches all of them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE: Final = "materializer.index"
_ASSET: Final = "rows"
_COUNTS: Final = {"result_format": "BASIC", "partial_unexpected_count": 0}
_OR_A_PARAMETER: Final = "value is not a valid dict"
"""Text that the library adds for every refused argument, because the argument could also be a parameter."""
_VIEW: Final = "tmp_view"
"""The view for queries, which the library does not remove."""


def examine(
    frame: DataFrame, suite: Suite, expectations: Sequence[Expectation], bucket: str, *, most: int
) -> tuple[list[Finding], Failing]:
    """Check expectations through Great Expectations, and return where they failed.

    Args:
        frame: The frame, which is already persisted.
        suite: The suite of the expectations.
        expectations: The expectations, with their parameters filled in.
        bucket: Column that holds the bucket of a row.
        most: Maximum number of rows to fetch for each failed expectation; 0 fetches neither rows nor buckets.

    Returns:
        A finding for each expectation, in their order, and the failing rows and buckets. Buckets are None if the library
        does not return every failing row.

    Raises:
        QualityLibraryMissingError: If the library is not installed.
        DefinitionError: If the library refuses an argument.
    """
    with _batch(frame) as batch:
        results = _results(batch, suite.name, expectations, _COUNTS)
        findings = [_finding(e, results[e.index]) for e in expectations]
        failed = [(e, f) for e, f in zip(expectations, findings, strict=True) if most and not f.success]
        return findings, _failing(frame, batch, suite.name, failed, bucket, most)


def refusals(expectations: Sequence[Expectation]) -> list[tuple[int, Problem]]:
    """Return the problems that Great Expectations finds in arguments, with the index of the expectation; nothing runs.

    Raises:
        QualityLibraryMissingError: If the library is not installed.
    """
    return [(e.index, p) for e in expectations for p in _built(e)[1]]


def render(frame: DataFrame, suite: Suite, folder: Path) -> Path:
    """Run a whole suite through Great Expectations and write its Data Docs.

    Args:
        frame: The frame to check.
        suite: The suite, with its parameters filled in.
        folder: Folder of the library's project; it is created if missing, and extended if it exists.

    Returns:
        The page to open.

    Raises:
        QualityLibraryMissingError: If the library is not installed.
        DefinitionError: If the library refuses an argument.
    """
    gx = _library()
    folder.mkdir(parents=True, exist_ok=True)
    # as in _built
    with _batch(frame, folder) as batch, warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context = batch.datasource.data_context
        from materializer.adapters.great_expectations.data_docs import (  # noqa: PLC0415 - it imports the library
            escaped_site,
            write_plain_results,
        )

        write_plain_results(context.validation_results_store)
        for name, site in dict(context.variables.data_docs_sites).items():
            context.update_data_docs_site(name, escaped_site(site))
        built = gx.ExpectationSuite(name=suite.name, expectations=_objects(suite.expectations))
        context.suites.add_or_update(built)
        definition = context.data_sources.get(batch.datasource.name).get_asset(_ASSET).get_batch_definition(_ASSET)
        validation = gx.ValidationDefinition(name=suite.name, data=definition, suite=context.suites.get(suite.name))
        context.validation_definitions.add_or_update(validation)
        checkpoint = gx.Checkpoint(
            name=suite.name,
            validation_definitions=[context.validation_definitions.get(suite.name)],
            actions=[gx.checkpoint.UpdateDataDocsAction(name="data_docs")],
            result_format="SUMMARY",
        )
        context.checkpoints.add_or_update(checkpoint).run(batch_parameters={"dataframe": frame})
    return next(folder.glob("gx/uncommitted/data_docs/*/index.html"))


def _library() -> Any:
    try:
        with warnings.catch_warnings(
            action="ignore", category=DeprecationWarning
        ):  # raised by the library's own imports
            import great_expectations  # noqa: PLC0415 - an extra, and slow to import
            import great_expectations.checkpoint  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as exc:
        raise QualityLibraryMissingError(
            f"Great Expectations is needed and cannot be imported: {exc}", wrote=NOTHING
        ) from exc
    return great_expectations


@contextmanager
def _batch(frame: DataFrame, folder: Path | None = None) -> Iterator[Any]:
    """Yield the frame as a batch of a new context, which is in memory or in *folder*."""
    gx = _library()
    from great_expectations.data_context.types.base import (  # noqa: PLC0415 - as above
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    quiet = ProgressBarsConfig(globally=False)
    if folder is None:
        stores = InMemoryStoreBackendDefaults(
            init_temp_docs_sites=False
        )  # they would stay behind in the temporary folder
        config = DataContextConfig(store_backend_defaults=stores, progress_bars=quiet, analytics_enabled=False)
        context = gx.get_context(mode="ephemeral", project_config=config)
    else:
        context = gx.get_context(mode="file", project_root_dir=folder)
        context.variables.progress_bars = quiet
        context.enable_analytics(enable=False)
    source = context.data_sources.add_or_update_spark(name=_ASSET, persist=False)
    definition = source.add_dataframe_asset(_ASSET).add_batch_definition_whole_dataframe(_ASSET)
    # queries run in the library's session, but their view is created in the frame's session
    source.get_execution_engine().spark = frame.sparkSession
    try:
        yield definition.get_batch(batch_parameters={"dataframe": frame})
    finally:
        frame.sparkSession.catalog.dropTempView(_VIEW)


def _built(e: Expectation) -> tuple[Any, list[Problem]]:
    _library()
    from great_expectations.compatibility.pydantic import ValidationError  # noqa: PLC0415 - an extra
    from great_expectations.exceptions import GreatExpectationsError  # noqa: PLC0415 - an extra
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415 - an extra
        ExpectationConfiguration,
    )

    try:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of row conditions written as text
            configuration = ExpectationConfiguration(
                type=e.type, kwargs=dict(e.kwargs), severity=str(e.severity), meta={**e.meta, _PLACE: e.index}
            )
            return configuration.to_domain_obj(), []
    except ValidationError as exc:
        texts = dict.fromkeys(
            f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
            for wrong in exc.errors()
            if wrong["msg"] != _OR_A_PARAMETER
        )
        return None, [Problem("suite.value", f"`{e.type}` is refused by Great Expectations: {'; '.join(texts)}")]
    except (GreatExpectationsError, ValueError, TypeError) as exc:
        return None, [Problem("suite.value", f"`{e.type}` is refused by Great Expectations: {exc}")]


def _objects(expectations: Sequence[Expectation]) -> list[Any]:
    built = [_built(e) for e in expectations]
    if wrong := [p for _, problems in built for p in problems]:
        raise DefinitionError(wrong)
    return [expectation for expectation, _ in built]


def _results(batch: Any, name: str, expectations: Sequence[Expectation], form: Mapping[str, Any]) -> dict[int, Any]:
    """Return the library's result of each expectation, by its index in the suite."""
    if not expectations:
        return {}
    suite = _library().ExpectationSuite(name=name or _ASSET, expectations=_objects(expectations))
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # as in _built
        validated = batch.validate(suite, result_format=dict(form))
    return {result.expectation_config.meta[_PLACE]: result for result in validated.results}


def _finding(e: Expectation, result: Any) -> Finding:
    counts = result.result
    is_counted = "element_count" in counts
    observed = counts.get("observed_value")
    unexpected = counts.get("unexpected_count")
    if e.known.domain is Domain.QUERY:
        unexpected = observed
    return Finding(
        e.index,
        e.type,
        e.kwargs,
        e.severity,
        success=bool(result.success),
        observed=_plain(observed),
        # for an empty frame the library returns no count, which means 0
        unexpected_count=(unexpected or 0) if is_counted else unexpected,
        element_count=counts["element_count"] if is_counted else None,
        engine=Auditor.GREAT_EXPECTATIONS,
        error=_error(result.exception_info or {}),
    )


def _error(info: Mapping[str, Any]) -> str:
    """Return the first message of the library's exceptions, which are a flat mapping or one by metric."""
    infos = [info] if "raised_exception" in info else [i for i in info.values() if isinstance(i, Mapping)]
    return next((str(i["exception_message"]) for i in infos if i.get("raised_exception")), "")


def _failing(
    frame: DataFrame, batch: Any, name: str, failed: Sequence[tuple[Expectation, Finding]], bucket: str, most: int
) -> Failing:
    buckets: dict[tuple[int, str], frozenset[Any] | None] = {(e.index, e.type): None for e, _ in failed}
    counts = {e.index: f.unexpected_count for e, f in failed}
    asked = [
        e
        for e, f in failed
        if e.known.domain.is_about_rows and not f.error and f.unexpected_count and f.unexpected_count <= MOST_INDEXED
    ]
    form = {
        "result_format": "COMPLETE",
        "include_unexpected_rows": True,
        "unexpected_index_column_names": [bucket],
        "partial_unexpected_count": most,
    }
    kind = {f.name: f.dataType.simpleString() for f in frame.schema}[bucket]
    rows: list[FailingRow] = []
    results = _results(batch, name, asked, form)
    for e in asked:
        result = results[e.index].result
        if e.known.domain is Domain.QUERY:
            failing = places = result.get("details", {}).get("unexpected_rows") or []
        else:
            failing, places = result.get("unexpected_rows") or [], result.get("unexpected_index_list") or []
        rows += [FailingRow(e.index, e.type, dict(values)) for values in failing[:most]]
        if len(places) == counts[e.index] and all(bucket in place for place in places):
            buckets[e.index, e.type] = frozenset(_instant(place[bucket], kind) for place in places)
    return Failing(tuple(rows), buckets)


def _instant(value: Any, kind: str) -> Any:
    """Return a fetched bucket as an instant."""
    if isinstance(value, datetime):
        # the driver returns a timestamp in its own time zone, and a timestamp without a zone unchanged
        aware = value.replace(tzinfo=UTC) if kind == "timestamp_ntz" else value.astimezone(UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (datetime.combine(value, time(), UTC) - _EPOCH) // timedelta(microseconds=1)
    return value


def _plain(value: Any) -> Any:
    """Return an observed value in a form that JSON can hold."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if isinstance(value, date):
        return value.isoformat()
    if type(value).__module__ == "numpy" and not value.shape:
        return value.item()
    return value if isinstance(value, (int, float, str, type(None))) else str(value)
