"""Output handlers: functions that receive the rows that a refresh published.

The journal has the version of the output up to which a handler was called. The next call has all rows since. After a failure
or the death of its process the call is repeated, so a handler must accept the same version twice.
"""

# ruff: noqa: PLC0415 - what a call does not need is not imported

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from materializer.core.spec.imports import imported
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet
from materializer.errors import (
    LogGapError,
    MaterializerError,
    OutputHandlerError,
    UsageError,
)
from materializer.journal.events import Delivered
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.lake.log import commits
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.spark.runtime.jvm import telling

if TYPE_CHECKING:
    from materializer.services.commit.lake import OutputHandler
    from materializer.spark.run.spark import Spark


def by_name(named: Iterable[str], given: Mapping[str, OutputHandler]) -> Mapping[str, OutputHandler]:
    """Return handlers by name; a text ``module:function`` is imported, and its name is that of the function.

    Raises:
        UsageError: If a handler cannot be imported, or has an unfit name.
    """
    hint = "write module:function, importable where the command runs"
    handlers = {text.rpartition(":")[2]: imported(text, "output handler", hint) for text in named} | dict(given)
    for name, handler in handlers.items():
        if not name.isidentifier() or not callable(handler):
            raise UsageError(f"'{name}' is no output handler: it needs a name that Python would take, and a function")
    return handlers


def handler_of(state: AggregateState, handlers: Mapping[str, OutputHandler]) -> OutputHandler | None:
    """Return the handler that an aggregate's definition names, or None when it names none.

    Raises:
        UsageError: If this process does not know that handler.
    """
    name = _properties(state).get("output_handler")
    if name is None:
        return None
    if name not in handlers:
        raise UsageError(
            f"'{state.name}' gives its output to the handler '{name}', which this process does not know",
            hint="name it in output_handlers of materializer.toml, or pass it to Materializer(output_handlers=…)",
        )
    return handlers[name]


def _properties(state: AggregateState) -> dict[str, str]:
    return dict(state.spec["properties"])


def deliver(
    handler: OutputHandler,
    state: AggregateState,
    aggregate: Aggregate,
    spark: Callable[[], Spark],
    journal: Journal,
    on_checkpoint: Callable[[str], None] = lambda _: None,
) -> None:
    """Call the handler of an aggregate with the rows that were published since its last call.

    Args:
        handler: The handler.
        state: The aggregate.
        aggregate: Its compiled handle.
        spark: Starts Spark on first use.
        journal: Gets the delivered version after the call.
        on_checkpoint: Called with the name of each step before the step, and after the last one.

    Raises:
        OutputHandlerError: If the handler failed.
    """
    path = aggregate.paths["output"]
    version = DeltaFolder.at(path).head().version
    if state.delivered is not None and state.delivered >= version:
        return
    where = _where(aggregate, path, state.delivered, version)
    if where is not None:
        rows = spark().published_since(path, state.delivered, version, where)
        on_checkpoint("deliver")
        is_table = _properties(state).get("msg_as_table", "true").lower() == "true"
        _call(handler, rows if is_table else _columns(rows), version, aggregate.name)
    on_checkpoint("deliver_journal")
    journal.append_if_living(state.id, state.name, Delivered(version))
    on_checkpoint("delivered")


def _call(handler: OutputHandler, message: Any, version: int, name: str) -> None:
    try:
        with telling(wrote="what was refreshed so far is published"):
            handler(message, version)
    except MaterializerError:
        raise
    except Exception as exc:
        raise OutputHandlerError(
            f"the output handler of '{name}' failed at version {version} of the output: {type(exc).__name__}: {exc}"
        ) from exc


def _columns(rows: Any) -> tuple[list[Any], ...]:
    return tuple(column.to_pylist() for column in rows.toArrow().columns)


def _where(aggregate: Aggregate, path: str, after: int | None, upto: int) -> str | None:
    """Return a predicate for the rows that were written in (after, upto], or None when none were."""
    from materializer.core.compiled.bucket_sql import spans_sql
    from materializer.lake.rows import row_count

    column = aggregate.slice_column("output")
    if after is None:
        return None if row_count(path) == 0 else "true"
    try:
        run = commits(path, after, upto, column=column.name, time_type=column.type)
    except LogGapError:
        return "true"
    added = [f for c in run for f in c.adds if f.data_change]
    if not all(f.is_known for f in added):
        return "true"
    spans = SpanSet.union(f.span for f in added if f.span is not None)
    return spans_sql(quoted(column.name), spans, column.type) if spans else None
