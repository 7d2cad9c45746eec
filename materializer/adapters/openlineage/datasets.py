"""Datasets of OpenLineage: the names of tables, and the facets that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    OutputDatasetFacet,
    column_lineage_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    datasource_dataset,
    documentation_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    storage_dataset,
    symlinks_dataset,
)

from materializer.core.compiled.column_lineage import InputUse, Use, column_lineage
from materializer.core.quality.verdict import Verdict
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.services.activity import ActivityRun
from materializer.services.aggregate import Aggregate, build_path, output_path
from materializer.services.definitions.lineage import maker_of

Verdicts: TypeAlias = Mapping[str, Any]
"""What the gate of one run found, by kind of table, as the journal has it."""


def named(path: str) -> tuple[str, str]:
    """Return namespace and name of the table at a place, by the naming rules of OpenLineage.

    Examples:
        >>> named("/lake/trades"), named("s3://bucket/lake/trades")
        (('file', '/lake/trades'), ('s3://bucket', 'lake/trades'))
    """
    if places.is_local(path):
        return "file", path
    url = urlsplit(path)
    return f"{url.scheme}://{url.netloc}", url.path.strip("/")


def source_place(state: AggregateState, root: str) -> str:
    """Return where readers would read what an aggregate reads: for a roll-up the output of its parent, not its partials."""
    path, parent = state.source.path, maker_of(state.source.path, root)
    return output_path(root, parent) if parent else path


def source(state: AggregateState, root: str, version: int | None, verdicts: Sequence[Verdicts] = ()) -> InputDataset:
    """Return the source of an aggregate.

    Args:
        state: The aggregate.
        root: Root of the lake.
        version: The version that was read, if known.
        verdicts: What gates found, of the source too.
    """
    place = source_place(state, root)
    is_partials = place != state.source.path and "rolls_up" in state.spec
    facets = _described(place, None if is_partials else version)
    if state.source.name:
        *catalog, database, table = ["spark_catalog", *state.source.name.split(".")][-3:]
        link = symlinks_dataset.Identifier("".join(catalog), f"{database}.{table}", "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([link])
    asserted = _gate_assertions(verdicts, "source")
    return InputDataset(*named(place), facets=facets, inputFacets=_asserting(asserted))


def output(
    state: AggregateState,
    root: str,
    runs: Sequence[ActivityRun] = (),
    verdicts: Sequence[Verdicts] = (),
    *,
    has_version: bool,
) -> OutputDataset:
    """Return the output of an aggregate, or of a build.

    Args:
        state: The aggregate.
        root: Root of the lake.
        runs: The runs that wrote to it.
        verdicts: What gates found.
        has_version: Whether its newest version is what the activity wrote.
    """
    aggregate = Aggregate.of(state, root)
    spec, place = aggregate.definition.spec, aggregate.paths["output"]
    facets = _described(place, _version(place) if has_version else None)
    facets["columnLineage"] = _lineage(spec, *named(source_place(state, root)))
    if spec.comment:
        facets["documentation"] = documentation_dataset.DocumentationDatasetFacet(spec.comment)
    if asserted := _gate_assertions(verdicts, "output"):
        facets["dataQualityAssertions"] = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(asserted)
    counted: dict[str, OutputDatasetFacet] = {}
    if runs:
        rows = sum(run.report.rows_written for run in runs)
        counted["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    return OutputDataset(*named(place), facets=facets, outputFacets=counted)


def published(state: AggregateState, root: str) -> InputDataset:
    """Return the published output as what a check reads."""
    place = output_path(root, state.name)
    return InputDataset(*named(place), facets=_described(place, _version(place)))


def checked(state: AggregateState, root: str, verdict: Verdict) -> InputDataset:
    """Return the published output with what a check found."""
    dataset = published(state, root)
    found = [_assertion(f.type, str(f.severity), f.kwargs, success=f.success) for f in verdict.findings]
    return InputDataset(dataset.namespace, dataset.name, facets=dataset.facets, inputFacets=_asserting(found))


def built(state: AggregateState, root: str) -> InputDataset:
    """Return the output of the build that a switch published; *state* is the aggregate after the switch."""
    place = build_path(root, state.name, state.data_version)
    return InputDataset(*named(place), facets=_facets_of_place(place))


def _described(place: str, version: int | None) -> dict[str, DatasetFacet]:
    facets = _facets_of_place(place)
    with suppress(MaterializerError):
        fields = [schema_dataset.SchemaDatasetFacetFields(n, t) for n, t in DeltaFolder.at(place).schema()]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields)
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
    return facets


def _facets_of_place(place: str) -> dict[str, DatasetFacet]:
    namespace, _ = named(place)
    uri = f"file://{place}" if places.is_local(place) else place
    return {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(namespace, uri),
        "storage": storage_dataset.StorageDatasetFacet("delta", "parquet"),
    }


def _version(place: str) -> int | None:
    with suppress(MaterializerError):
        return DeltaFolder.at(place).head().version
    return None


def _lineage(spec: AggregateSpec, namespace: str, name: str) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    found = column_lineage(spec)
    fields = {
        column: column_lineage_dataset.Fields(_inputs(uses, namespace, name)) for column, uses in found.fields.items()
    }
    return column_lineage_dataset.ColumnLineageDatasetFacet(fields, _inputs(found.rows, namespace, name))


def _inputs(uses: Sequence[InputUse], namespace: str, name: str) -> list[column_lineage_dataset.InputField]:
    """Return one input field for each column, with every use of it."""
    return [
        column_lineage_dataset.InputField(
            namespace, name, column, [_transformation(use) for use in uses if use.column == column]
        )
        for column in dict.fromkeys(use.column for use in uses)
    ]


def _transformation(use: InputUse) -> column_lineage_dataset.Transformation:
    return column_lineage_dataset.Transformation(
        type="DIRECT" if use.use.is_direct else "INDIRECT",
        subtype=str(use.use).upper(),
        description=use.text,
        masking=use.is_masking if use.use is Use.AGGREGATION else False,
    )


def _gate_assertions(verdicts: Sequence[Verdicts], kind: str) -> list[data_quality_assertions_dataset.Assertion]:
    """Return what gates found of one table; what is met is only counted there, so it is one assertion."""
    found = []
    for verdict in verdicts:
        summary: Mapping[str, Any] = verdict.get(kind, {})
        if passed := summary.get("passed"):
            found.append(_assertion(f"{passed} expectations of the gate", "", {}, success=True))
        found += [_assertion(f["type"], f["severity"], f["kwargs"], success=False) for f in summary.get("failed", ())]
    return found


def _assertion(
    what: str, severity: str, kwargs: Mapping[str, Any], *, success: bool
) -> data_quality_assertions_dataset.Assertion:
    column = kwargs.get("column")
    assertion = data_quality_assertions_dataset.Assertion(what, success, str(column) if column else None)
    if severity and hasattr(assertion, "severity"):
        assertion.severity = {"critical": "error", "warning": "warn"}.get(severity, severity)
    return assertion


def _asserting(found: list[data_quality_assertions_dataset.Assertion]) -> dict[str, InputDatasetFacet]:
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet
    return {"dataQualityAssertions": facet(found)} if found else {}
