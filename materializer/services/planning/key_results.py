"""Whether a run of an engine replaces only the results of the keys that changed, or whole slices; and why.

Results of one key never depend on rows of another, so those of all other keys stay as they are stored, where these are exact:
in slices of which the change feed named every changed row since. Other dirty slices are replaced whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Final

from msgspec.structs import replace

from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.engines.work import Key, KeySlices, Part, raw_spans
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import BY_KEY, MAX_SPANS, Estimate, Recompute, Rejected, Settle
from materializer.core.time.spans import Span, SpanSet
from materializer.lake.extent import files
from materializer.lake.key_rows import values_of
from materializer.lake.keys import why_not_recorded
from materializer.services.observe.observe import Observation, estimate_of
from materializer.services.planning.engine_run import EngineRun

WORTH: Final = 1_000
"""Stored results of other keys that have to lie in the slices at least; fewer are copied."""
MOST_REWRITTEN: Final = 5_000_000
"""Most rows of the files that the driver writes again because they may hold the keys."""
MOST_KEYS: Final = 10_000
"""Most keys whose results are replaced one by one."""
_YEARS: Final = (1902, 9999)
"""Days of other years may be read otherwise by other readers."""


def of_keys(
    run: EngineRun, observation: Observation, source_version: int, partials_version: int, asked: str, why_whole: str
) -> EngineRun:
    """Return a run that replaces only the results of changed keys, or the same run with the reason why it replaces slices.

    Args:
        run: A run that replaces whole slices.
        observation: What there is.
        source_version: The version of the source.
        partials_version: The version of the stored results.
        asked: The one strategy that is wanted, or "".
        why_whole: Why whole slices are needed, or "".
    """
    definition, stored = observation.aggregate.definition, observation.partials(partials_version)
    step = next((s for s in run.steps if isinstance(s, Recompute) and not s.is_discard), None)
    if step is None or not run.work.parts or not definition.spec.keys:
        return run
    grid = definition.grid
    unknown = SpanSet.union(e.span for e in run.taken if not _is_known(e))
    whole = step.spans & grid.cover_set(unknown)
    keyed = step.spans - whole
    if not keyed:
        return run
    only = KeySlices(_slices(definition, run.work.parts, step.spans.at_most(MAX_SPANS), whole), whole)
    keys = set(only.keys)
    results = run.made + sum(run.lives[key].results for key in keys)
    others = max(stored.rows_in(keyed) - results, 0)
    if not others and asked != BY_KEY:
        return run
    if why_not := why_not_recorded(definition) or _why_not(keys) or why_whole:
        return rejecting(run, why_not)
    if asked not in {"", BY_KEY}:
        return rejecting(run, f"'{asked}' was asked for")
    if others < WORTH and asked != BY_KEY:
        return rejecting(run, f"about {others:,} results of other keys are stored there, and copying them is cheaper")
    paths, names = observation.aggregate.paths, [key_column(k.name) for k in definition.spec.keys]
    holding = files(paths["partials"], partials_version, SLICE, definition.time_type, values_of(names, keys))
    if (rows := holding.estimate(keyed).rows) > MOST_REWRITTEN:
        return rejecting(
            run, f"files of {rows:,} results may hold the keys, and up to {MOST_REWRITTEN:,} are written here"
        )
    against = (*step.rejected, Rejected("recompute", f"would write about {others:,} results of other keys again"))
    steps: list[Recompute | Settle] = [
        replace(
            step,
            spans=keyed,
            estimate=_cost(run, observation, source_version, results),
            rejected=against,
            keys=len(keys),
        )
    ]
    if whole:
        steps.append(Recompute(whole, "results there are not known row by row, or not there yet"))
    steps += [s for s in run.steps if s is not step]
    every = run.made + sum(life.results for life in run.lives.values())
    return replace(run, work=replace(run.work, only=only), steps=tuple(steps), results=every)


def rejecting(run: EngineRun, why: str) -> EngineRun:
    """Return a run that replaces whole slices, with the reason why it does not replace results of keys."""
    steps = tuple(
        replace(s, rejected=(*s.rejected, Rejected(BY_KEY, why)))
        if isinstance(s, Recompute) and not s.is_discard
        else s
        for s in run.steps
    )
    return replace(run, steps=steps)


def _cost(run: EngineRun, observation: Observation, version: int, results: int) -> Estimate:
    """Return the cost of reading the raw rows of the keys of a run."""
    definition, parts = observation.aggregate.definition, run.work.parts or ()
    if run.work.added_after is not None:
        return sum((s.estimate for s in run.steps if isinstance(s, Recompute)), Estimate())
    within = values_of(definition.key_sources, {part.key for part in parts})
    source = observation.aggregate.source.path
    extent = files(source, version, definition.spec.time_column, definition.time_type, within)
    last_long = definition.engine is not None and definition.engine.params.end is not None
    found = estimate_of(extent, raw_spans(parts, MAX_SPANS, last_long=last_long))
    return replace(found, likely_rows=min(found.likely_rows, results))


def _is_known(entry: Entry) -> bool:
    """Return whether the stored results of an entry are exact but for the rows that the change feed names."""
    return entry.cause is Cause.CHANGE and entry.after is not None


def _why_not(keys: set[Key]) -> str:
    if len(keys) > MOST_KEYS:
        return f"more than {MOST_KEYS:,} keys changed"
    first, last = _YEARS
    is_far = any(isinstance(v, date) and not first <= v.year <= last for key in keys for v in key)
    return f"a changed key has a day before {first}" if is_far else ""


def _slices(
    definition: Definition, parts: Sequence[Part], spans: SpanSet, whole: SpanSet
) -> tuple[tuple[Key, SpanSet], ...]:
    """Return the slices of each key in which its results are computed."""
    found: dict[Key, list[Span]] = defaultdict(list)
    for part in parts:
        found[part.key].append(definition.grid.cover(Span(part.start, part.end)))
    of_keys = ((key, (SpanSet.union(own) & spans) - whole) for key, own in found.items())
    return tuple((key, own) for key, own in of_keys if own)
