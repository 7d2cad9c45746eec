"""A source of which columns became wider: a definition goes on where what it stores and shows keeps its types.

Spark analyses the definition over the columns as they are. Where its tables would have other columns, the next version is built
by `apply`. What reads a wider column by more than a sum, a count or a moment of it may say something else of old rows too
(a hash, `typeof`), so there everything is computed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.parts import column_of
from materializer.core.aggregates.rollup import calls_of
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.widening import is_same_type, is_wider
from materializer.core.time.spans import NEG_INF, POS_INF, Span
from materializer.errors import MaterializerError, NotIncrementalError, SourceSchemaChangedError, TableNotFoundError
from materializer.journal.events import Described, Event, Invalidated
from materializer.journal.state import AggregateState
from materializer.lake.table import DeltaFolder
from materializer.services.definitions.tables import schemas_of

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark

_NUMBERS: Final = frozenset(
    re.findall(
        r"\w+",
        """
    sum avg count try_sum try_avg var_pop var_samp stddev_pop stddev_samp covar_pop covar_samp corr sem skew skewness kurtosis
    regr_slope regr_intercept regr_r2 regr_sxx regr_sxy regr_syy regr_avgx regr_avgy regr_count
""",
    )
)
"""Aggregates that read nothing of a value but its number."""


class Widened(Struct, frozen=True):
    """What an aggregate says of its source from here on.

    Args:
        events: The definition over the wider columns, and what is computed again.
        text: What became wider, in words.
    """

    events: tuple[Event, ...]
    text: str


def wider_columns(state: AggregateState) -> list[tuple[str, str, str]]:
    """Return (name, type before, type now) of the columns that became wider; nothing where another one is gone or has another type."""
    try:
        if DeltaFolder.at(state.source.path).head().version == state.cursor:
            return []
    except TableNotFoundError:
        return []  # who reads it says what is wrong with it, and of other errors, too
    except MaterializerError:
        pass
    spec = AggregateSpec.from_json(state.spec)
    if spec.rolls_up is not None:  # its parent says what its columns are
        return []
    now = {name.lower(): kind for name, kind in DeltaFolder.at(state.source.path).schema()}
    changed = [
        (name, kind, now.get(name.lower(), ""))
        for name, kind in spec.read_types
        if not is_same_type(now.get(name.lower()), kind)
    ]
    return changed if all(is_wider(found, before) for _, before, found in changed) else []


def found(
    state: AggregateState, engine: Callable[[], Spark], run_rows: int, *, is_strict: bool = False
) -> Widened | None:
    """Return how an aggregate goes on over columns that became wider; None if none did.

    Args:
        state: The aggregate.
        engine: Starts Spark on first use.
        run_rows: Rows that one run reads.
        is_strict: Whether to compute everything again is refused.

    Raises:
        NotIncrementalError: If it is, and everything would be computed again. Nothing was written.
        SourceSchemaChangedError: If its tables would have other columns. Nothing was written.
    """
    wider = wider_columns(state)
    if not wider:
        return None
    from materializer.core.compiled.resolve import resolve  # noqa: PLC0415 (it loads a parser)

    folder, before = DeltaFolder.at(state.source.path), AggregateSpec.from_json(state.spec)
    resolved = resolve(before, folder.schema())
    if resolved.is_engine:
        from materializer.core.engines.compile import with_slices  # noqa: PLC0415 (only engines)

        resolved = with_slices(resolved)
    analysed = engine().analyse(resolved, folder.schema_json())
    spec = analysed.spec
    words = ", ".join(f"column '{name}' of the source is {now} and was {kind}" for name, kind, now in wider)
    if other := _other(before, spec, state.schemas, schemas_of(analysed)):
        name, kind, now = wider[0]
        from materializer.services.definitions import impact  # noqa: PLC0415 - few sources become wider

        rows, size, files, _ = impact.rows_to_read(state, spec, state.source, folder.head().version, run_rows)
        raise SourceSchemaChangedError(
            f"'{state.name}': {words}: {other}",
            hint="`materializer apply FILE --build` with the same definition builds the next version beside this one, from about "
            f"{rows:,} rows, {size:,} bytes in {files:,} files",
            column=name,
            found=now,
            expected=kind,
        )
    described = Described(spec.as_json())
    if all(_is_number(spec, name) for name, _, _ in wider):
        return Widened((described,), f"{words}; all types of the output stay")
    if is_strict:
        message = f"the plan for '{state.name}' is a rebuild: {words}, and not only its number is read"
        raise NotIncrementalError(message, hint="run it without --strict")
    span = Span(state.frozen, POS_INF) if state.frozen != NEG_INF else Span(NEG_INF, POS_INF)
    again = Invalidated((Entry(span, None, Cause.SOURCE),), words, is_of_source=True)
    return Widened((described, again), f"{words}; all types of the output stay, and everything is computed again")


def _other(before: AggregateSpec, now: AggregateSpec, stored: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Return what of the tables would be another column; "" if nothing would."""
    for which in ("output", "partials"):
        had = {str(name): str(kind) for name, kind in stored[which]}
        for name, kind in schemas[which]:
            if had.get(name) != kind and which == "output" and name in had:
                return f"column '{name}' of the output would be {kind} and is {had[name]}"
    stored_now = [(str(name), str(kind)) for name, kind in schemas["partials"]]
    is_same = len(schemas["output"]) == len(stored["output"]) and dict(stored_now) == had
    if is_same and (now.is_engine or decompose(now).partials == decompose(before).partials):
        return ""
    return f"what is stored of its measures would be something else{_why(before, now)}"


def _why(before: AggregateSpec, now: AggregateSpec) -> str:
    """Return of which measure something else would be stored, in words that follow; "" if that is not known."""
    if now.is_engine:
        return ""
    layout, known = decompose(now), {p.name for p in decompose(before).partials}
    others = [p.name for p in layout.partials if p.name not in known]
    measure = next((name for name, final in layout.finals if any(other in final for other in others)), None)
    if measure is None:
        return ""
    return f" (measure '{measure}'{_HALVES if any(name.endswith('_hi') for name in others) else ''})"


_HALVES: Final = (
    ": the sum of its bigints may be more than a bigint holds where their mean is not, so two sums are stored"
)


def _is_number(spec: AggregateSpec, name: str) -> bool:
    """Return whether only the numbers of a column are read: by a sum, a count or a moment of the column itself."""
    column, calls = name.casefold(), list(calls_of(spec))
    others = [key.sql for key in spec.keys] + [spec.where or "", spec.time_column, spec.sequence or ""]
    for call in calls:
        others += [call.where or "", call.order_by or ""]
        is_plain = call.function in _NUMBERS and not call.distinct
        others += [arg for arg in call.args if not (is_plain and column_of(arg) == column)]
    if spec.is_engine:
        others += [str(value) for _, value in spec.params]
    named = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)")
    return not any(named.search(text.casefold()) for text in others)
