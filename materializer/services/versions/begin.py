"""The begin of a build: empty, or with a copy of stored partials.

Tables are created first, and the event is appended last; the caller holds the aggregate's lease.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from msgspec.structs import replace

from materializer.core.refresh.invalidation import InvalidationLog
from materializer.core.refresh.plan import Lane, Plan, Recompute, TableBase
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import EVERYTHING, NEG_INF, SpanSet
from materializer.errors import NOTHING, TablesAheadError
from materializer.journal.events import BuildStarted, Event
from materializer.journal.state import AggregateState, Version
from materializer.journal.version_fields import fields_of, version_of
from materializer.journal.view import View
from materializer.lake.table import DeltaFolder
from materializer.lake.write.copying import copy_rows
from materializer.services.aggregate import build_path, partials_path
from materializer.services.commit.lake import Lake
from materializer.services.commit.lease import WriteLease
from materializer.services.definitions.changes import CheckedDefinition
from materializer.services.definitions.tables import create_tables
from materializer.services.planning.runs import Request

COPIED: Final = 1
"""Refresh number of the tables of a build that begins with a copy of stored partials."""


def empty(lake: Lake, lease: WriteLease, state: AggregateState, prepared: CheckedDefinition) -> None:
    """Begin a build of a checked definition that computes everything from its source."""
    data_version, build = uuid4().hex, uuid4().hex
    paths = {
        "partials": partials_path(lake.root, state.name, data_version),
        "output": build_path(lake.root, state.name, data_version),
    }
    lake.on_checkpoint("version_tables")
    tables = create_tables(paths, prepared.spec, prepared.schemas, build)
    new = replace(
        state,
        spec=prepared.spec.as_json(),
        data_version=data_version,
        source=prepared.source,
        schemas=prepared.schemas,
        tables=tables,
        cursor=prepared.change.source_version,
        threshold=NEG_INF,
        log=InvalidationLog.everything(),
        extent_end=NEG_INF,
        null_times=None,
        changes=(),
        engine={},
        frozen=NEG_INF,
        retired=NEG_INF,
        expired_rows=0,
    )
    lake.on_checkpoint("version_journal")

    def decide(view: View) -> list[tuple[str, Event]]:
        prepared.refuse_orphan(view)
        return [(build, BuildStarted(state.name, state.id, version_of(new), 0))]

    lease.transact(decide)


def from_partials(lake: Lake, lease: WriteLease, state: AggregateState, origin: Version, version: Version) -> str:
    """Begin a build of *version*: copy the partials of *origin*, and compute its output from them.

    Returns:
        The id of the build.

    Raises:
        TablesAheadError: If the partials carry another refresh number than the journal has.
    """
    data_version, build = uuid4().hex, uuid4().hex
    version = {**version, "data_version": data_version, "written_n": COPIED}
    spec = AggregateSpec.from_json(version["spec"])
    new = AggregateState(id=build, name=state.name, builds=state.id, last_n=COPIED, **fields_of(version))
    old = lake.aggregate(replace(state, **fields_of(origin)))
    aggregate = lake.aggregate(new)
    head, n = DeltaFolder.at(old.paths["partials"]), origin["written_n"]
    carried = head.transaction_version(old.app_ids["partials"]) or 0
    if carried != n:
        msg = f"the partials of '{state.name}' carry refresh {carried}, the journal left them at {n}"
        raise TablesAheadError(
            msg, hint="apply a changed definition, which is built from the source", found=carried, wrote=NOTHING
        )
    lake.on_checkpoint("version_tables")
    tables = create_tables(aggregate.paths, spec, version["schemas"], build)
    lake.on_checkpoint("version_partials")
    copy_rows(
        old.paths["partials"],
        head.head().version,
        aggregate.paths["partials"],
        aggregate.definition.partial_columns,
        aggregate.slice_column("partials").name,
        aggregate.definition.time_type,
        aggregate.app_ids["partials"],
        COPIED,
        {"plan": "", "n": COPIED, "kind": "data", "source_version": version["cursor"]},
    )
    base = TableBase("", 0)
    steps = (Recompute(SpanSet.of(EVERYTHING), "from stored partials"),)
    plan = Plan("", COPIED, version["cursor"], EVERYTHING, (), steps, Lane.SPARK, base, base)
    lake.on_checkpoint("version_output")
    lake.ports(new, Request()).publish(plan, SpanSet())
    lake.on_checkpoint("version_journal")
    event = BuildStarted(state.name, state.id, {**version, "tables": tables}, COPIED)
    lease.append((build, event))
    return build
