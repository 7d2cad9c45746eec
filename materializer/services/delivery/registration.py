"""The name of an output in a catalog, and what the output says of its freshness.

```
 output   … ──▶ data 7 ──▶ describe 7 ──▶ data 8 ──▶ describe 8       properties: source version 41, refreshed at …
              ▲
 catalog   lake.bars_1h: an external table over the folder            made once, needs Spark
```

Every catalog reads properties, description and comments of a Delta table from its log, so a refresh writes them there, without
Spark and without the catalog. Only giving a name and taking it away need Spark: ``apply``, ``switch`` and ``drop`` start it, and a
refresh uses it if it runs. ``status`` shows what fails here; it neither fails the refresh nor takes rows back.
"""

# ruff: noqa: PLC0415 - what a call does not need is not imported

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from materializer.core.policy.policies import MAX_STALENESS
from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.table_names import OUTPUT, same
from materializer.errors import (
    CatalogRefusedError,
    CatalogUnreachableError,
    LeaseHeldError,
    MaterializerError,
    NameTakenError,
    SparkError,
    WriteFencedError,
)
from materializer.journal.events import Registered
from materializer.journal.state import AggregateState
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.observe.dirty import dirty_below_newest

if TYPE_CHECKING:
    from materializer.services.commit.lake import Lake

PREFIX: Final = "materializer."
"""How the properties of this module begin."""
_FAILURES: Final = (NameTakenError, CatalogRefusedError, CatalogUnreachableError, SparkError)


def name_of(state: AggregateState) -> str:
    """Return the name that the definition of an aggregate asks for, or ""."""
    return str(dict(state.spec["properties"]).get(OUTPUT, ""))


def is_settled(state: AggregateState) -> bool:
    """Whether the output has the name that its definition asks for, as far as known."""
    name = name_of(state)
    return (state.table == name or same(state.table) == same(name)) and not state.table_problem


def follow(lake: Lake, state: AggregateState, *, asks: bool = False) -> str:
    """Bring the name of an output, and what the output says of itself, up to date.

    If another process has the lease, that process does so when it is done.

    Args:
        lake: The lake.
        state: The aggregate.
        asks: Whether the catalog is asked for the name, for which Spark is started. Otherwise Spark is used if it runs and the
            name is known not to be right.

    Returns:
        Why the output does not have the name that its definition asks for; "" if it has.
    """
    if state.builds or not (name_of(state) or state.table):
        return ""
    gives = asks or (not is_settled(state) and _is_running())
    if gives or _differs(lake.aggregate(state), state):
        with suppress(LeaseHeldError), lake.lease(state.name) as lease:
            state = lease.state
            aggregate = lake.aggregate(state)
            with suppress(WriteFencedError):  # the output tells of a later refresh already
                _describe(aggregate, state)
            if gives:
                _give(lake, aggregate, state)
        state = lake.journal.view().named(state.id)
    return why_not(state)


def why_not(state: AggregateState) -> str:
    """Return why the output does not have the name that its definition asks for; "" if it has."""
    if is_settled(state) or state.table_problem:
        return state.table_problem
    if not name_of(state):
        return f"the output still has the name {state.table}: taking it away needs Spark, which was not started"
    return f"the output is not registered as {name_of(state)} yet: that needs Spark, which was not started"


def give_up(lake: Lake, state: AggregateState) -> str:
    """Take the name from the output of an aggregate that is dropped, under the lease of the caller; return why it stays, or ""."""
    if not state.table:
        return ""
    lake.on_checkpoint("unregister")
    try:
        lake.engine().catalogs.unregister(state.table, lake.aggregate(state).paths["output"])
    except MaterializerError as exc:
        return f"the name {state.table} stays in the catalog: {exc.message}"
    return ""


def _give(lake: Lake, aggregate: Aggregate, state: AggregateState) -> None:
    """Give the output its name, and take away one that it had before."""
    name, table, problem = name_of(state), state.table, ""
    path = aggregate.paths["output"]
    try:
        if table and same(table) != same(name):
            lake.on_checkpoint("unregister")
            lake.engine().catalogs.unregister(table, path)
            table = ""
        if name:
            lake.on_checkpoint("register")
            lake.engine().catalogs.register(name, path, aggregate.definition.spec.comment)
            table = name
    except _FAILURES as exc:
        problem = exc.message
    if (table, problem) != (state.table, state.table_problem):
        lake.on_checkpoint("register_journal")
        lake.journal.append_if_living(state.id, state.name, Registered(table, problem))


def _describe(aggregate: Aggregate, state: AggregateState) -> None:
    from materializer.lake.write.describe import describe

    path = aggregate.paths["output"]
    note = {"plan": "", "n": state.written_n, "kind": "describe", "source_version": state.cursor}
    describe(
        path,
        freshness_of(state),
        description=_description(path, aggregate.definition.spec.comment),
        comments=_comments(aggregate),
        note=note,
    )


def _differs(aggregate: Aggregate, state: AggregateState) -> bool:
    """Whether the output says something else of itself than it should; without its comments, which change with definitions only."""
    has: Mapping[str, str] = {}
    with suppress(MaterializerError):
        has = DeltaFolder.at(aggregate.paths["output"]).properties()
    return any(has.get(name) != value for name, value in freshness_of(state).items())


def freshness_of(state: AggregateState) -> dict[str, str]:
    """Return what the output says to its readers, as table properties; empty values for an output without a name.

    ``source_version`` is that of the last refresh that ended, ``refreshed_at`` its time. Where ``dirty_spans`` is not 0, the
    output does not reflect that version everywhere.
    """
    ended = next((e for e in reversed(state.ended) if e.outcome in ("done", "switched")), None)
    says = {
        "aggregate": state.name,
        "source": state.source.name or state.source.path,
        "source_version": "" if ended is None else str(ended.report.source_version),
        "refreshed_at": "" if ended is None else ended.at,
        "dirty_spans": str(len(dirty_below_newest(state))),
        "max_staleness": dict(state.spec["properties"]).get(MAX_STALENESS, "none"),
    }
    if not name_of(state):
        says = dict.fromkeys(says, "")  # the library cannot remove a property
    from materializer.lake.write.describe import NUMBER

    return {NUMBER: str(state.written_n)} | {PREFIX + name: value for name, value in says.items()}


def _description(path: str, comment: str) -> str:
    """Return the description of an output, which begins with what the table was made for, with another comment."""
    made_for = str(DeltaFolder.at(path).opened().metadata().description or "").partition(":")[0]
    return f"{made_for}: {comment}" if comment else made_for


def _comments(aggregate: Aggregate) -> dict[str, str]:
    """Return the comments of output columns: those of the source, for keys that are columns of it."""
    from materializer.lake.write.describe import comments_of

    with suppress(MaterializerError):
        has = comments_of(DeltaFolder.at(aggregate.source.path).schema_json())
        by_name = {name.lower(): comment for name, comment in has.items()}
        spec: AggregateSpec = aggregate.definition.spec
        keys = {key.name: key.sql.strip("`").lower() for key in spec.keys}
        return {name: by_name[column] for name, column in keys.items() if column in by_name}
    return {}


def _is_running() -> bool:
    """Whether this process has Spark; pyspark is not imported to find out."""
    from materializer.spark.runtime.session import is_running

    return "pyspark" in sys.modules and is_running()
