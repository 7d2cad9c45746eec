"""A refresh as data: what is read, how each dirty bucket is computed, and why the other strategies were rejected.

:func:`decide` makes a plan from facts that its caller gathered. The explainer prints the plan and the executor runs it, both
from the same value. A step is one of a closed union, handled with ``match`` and ``assert_never``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias, assert_never

from materializer.core.codec import JsonForm, as_json, from_json, json_fields, json_list
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet

MAX_MERGES: Final = 8
"""Most merge groups in one plan. Each reads its own run of source versions, so many small ones cost more than they save."""

OPENED: Final = 8
"""Number of rows that can be read and skipped at the cost of one row that is aggregated."""

MAX_SPANS: Final = 64
"""Most spans that one commit replaces; a predicate with thousands of spans takes longer than copying the rows between them."""


class Lane(StrEnum):
    """Where rows are computed and written: the driver reads and fetches few, many stay in Spark. It commits in both lanes."""

    DRIVER = "driver"
    SPARK = "spark"


class ExecutorKind(StrEnum):
    """What computes a refresh: the process itself, or Spark, which defines what is right."""

    LOCAL = "local"
    SPARK = "spark"


@json_list
@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a read, from file statistics.

    Args:
        rows: Rows in the files that have to be opened, an upper bound of the rows needed.
        bytes: Size of these files.
        files: Number of these files.
        likely_rows: Expected rows needed, as if the rows of each file were spread evenly over its time.
    """

    rows: int = 0
    bytes: int = 0
    files: int = 0
    likely_rows: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.files + other.files,
            self.likely_rows + other.likely_rows,
        )

    @property
    def cost(self) -> float:
        """The number by which strategies are compared: the rows to aggregate, plus a fraction of the rows to open."""
        return self.likely_rows + self.rows / OPENED


@json_list
@dataclass(frozen=True, slots=True)
class Rejected:
    """A strategy that was not chosen, with the reason."""

    strategy: str
    reason: str


@json_fields(later=())
@dataclass(frozen=True, slots=True)
class Settle:
    """Buckets where neither the source nor our tables can have rows: they become clean without a read or a write."""

    spans: SpanSet


@json_fields(order=("spans", "reason", "estimate", "rejected"), later=())
@dataclass(frozen=True, slots=True)
class Recompute:
    """Buckets that are computed from all their raw rows at the pinned source version.

    Args:
        spans: The buckets.
        reason: Why they are dirty, in words.
        estimate: The cost of reading their raw rows.
        rejected: The other strategies, each with its reason.
        is_rebuild: Whether this is a whole computation that no change caused: the first one, or one after lost evidence.
        changed_rows: Upper bound of the rows changed since the stored partials were exact; None when unknown. The number of
            groups afterwards is at most the stored groups plus these rows.
        is_discard: Whether the buckets become empty without reading a row, because they are older than
            ``output.retention``. The partials of an engine stay as they are.
        windows: Upper bound of the windows that an engine makes; None when there are no more windows than rows.
    """

    spans: SpanSet
    reason: str
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()
    is_rebuild: bool = False
    changed_rows: int | None = None
    is_discard: bool = False
    windows: int | None = None


@json_fields(later=())
@dataclass(frozen=True, slots=True)
class Merge:
    """Buckets whose stored partials are merged with partials of the rows inserted since.

    Args:
        spans: The buckets.
        after: Source version that the stored partials reflect; the change feed is read from the next version on.
        estimate: The cost of reading the inserted rows and the stored partials.
        rejected: The other strategies, each with its reason.
    """

    spans: SpanSet
    after: int
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()


@json_fields(later=())
@dataclass(frozen=True, slots=True)
class RollUp:
    """Buckets that are merged from the partials of a finer aggregate over the same rows, which is clean there.

    Args:
        spans: The buckets.
        reason: Why they are dirty, in words.
        parent: Name of the finer aggregate.
        path: Its partials.
        version: Their version, which reflects the plan's source version in these buckets.
        keys: (name of our key, name of its key) of each key.
        estimate: The cost of reading its partials.
        rejected: The other strategies, each with its reason.
    """

    spans: SpanSet
    reason: str
    parent: str
    path: str
    version: int
    keys: tuple[tuple[str, str], ...]
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()


Step: TypeAlias = Settle | Recompute | Merge | RollUp


def _step_from_json(data: dict[str, Any]) -> Step:
    match data["do"]:
        case "settle":
            return from_json(Settle, data)
        case "merge":
            return from_json(Merge, data)
        case "roll-up":
            return from_json(RollUp, data)
        case do:
            return replace(from_json(Recompute, data), is_rebuild=do == "rebuild", is_discard=do == "discard")


_STEP: Final = JsonForm(lambda step: {"do": strategy_of(step)} | as_json(step), _step_from_json)


@json_list
@dataclass(frozen=True, slots=True)
class TableBase:
    """The state of one of our tables when the plan was made; recovery reads the commits after this version."""

    table_id: str
    version: int


@json_fields(later=("executor", "executor_reason"), omits=("executor", "executor_reason"))
@dataclass(frozen=True, slots=True)
class Plan:
    """One decided refresh.

    Args:
        id: Unique id, written into the commits that carry the result.
        n: Number of the refresh; higher than any earlier number of the aggregate.
        source_version: Version of the source at which everything is read.
        window: The refresh window, in whole buckets.
        taken: Entries that the plan took out of the log; an abort gives them back.
        steps: How each group of taken buckets is computed.
        lane: Where the rows are computed and written.
        partials: The partials table when the plan was made.
        output: The output table when the plan was made.
        executor: What computes it.
        executor_reason: Why that, in words.
    """

    id: str
    n: int
    source_version: int
    window: Span
    taken: tuple[Entry, ...]
    steps: tuple[Annotated[Step, _STEP], ...]
    lane: Lane
    partials: TableBase
    output: TableBase
    executor: ExecutorKind = ExecutorKind.SPARK
    executor_reason: str = ""

    @property
    def spans(self) -> SpanSet:
        """The buckets that are replaced in both tables."""
        return SpanSet.union(s for step in self.steps if not isinstance(step, Settle) for s in step.spans)

    @property
    def discarded(self) -> SpanSet:
        """The buckets that become empty."""
        steps = (step for step in self.steps if isinstance(step, Recompute) and step.is_discard)
        return SpanSet.union(s for step in steps for s in step.spans)

    @property
    def recomputed(self) -> SpanSet:
        """The buckets that are computed from raw rows."""
        steps = (step for step in self.steps if isinstance(step, Recompute) and not step.is_discard)
        return SpanSet.union(s for step in steps for s in step.spans)

    @property
    def merges(self) -> tuple[Merge, ...]:
        """The steps that merge new rows into stored partials."""
        return tuple(step for step in self.steps if isinstance(step, Merge))

    @property
    def rollups(self) -> tuple[RollUp, ...]:
        """The steps that merge partials of a finer aggregate."""
        return tuple(step for step in self.steps if isinstance(step, RollUp))

    @property
    def remade(self) -> SpanSet:
        """The buckets that are computed without their stored partials."""
        return self.recomputed | SpanSet.union(s for step in self.rollups for s in step.spans)

    @property
    def replaced(self) -> SpanSet:
        """The spans that one commit replaces: a few that cover :attr:`spans`. Clean buckets between are copied unchanged."""
        return self.spans.at_most(MAX_SPANS)

    @property
    def estimate(self) -> Estimate:
        """The cost of the reads of all steps."""
        return sum((s.estimate for s in self.steps if not isinstance(s, Settle)), Estimate())

    @property
    def windows(self) -> int:
        """Upper bound of the windows that an engine makes, from the steps where windows can outnumber the rows."""
        return sum(s.windows or 0 for s in self.steps if isinstance(s, Recompute))

    @property
    def strategy(self) -> str:
        """The names of the strategies of all steps, joined by ``+``."""
        return "+".join(dict.fromkeys(strategy_of(s) for s in self.steps)) or "nothing"


def strategy_of(step: Step) -> str:
    """Return the name of a step's strategy."""
    match step:
        case Settle():
            return "settle"
        case Recompute(is_discard=True):
            return "discard"
        case Recompute():
            return "rebuild" if step.is_rebuild else "recompute"
        case Merge():
            return "merge"
        case RollUp():
            return "roll-up"
        case _:
            assert_never(step)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that :func:`decide` needs; its caller gathers them.

    Args:
        feed_from: The first version *a* for which the change feed provably covers (a, v]; None when there is none. *v* is the
            pinned version.
        not_mergeable: Why partials cannot be merged; empty when they can.
        partials_are_last: Whether the partials carry the number of the last ended refresh.
        raw: The cost of reading the raw rows of some buckets at the pinned version.
        changed: The cost of reading the changes since a version, inside some buckets.
        stored: The cost of reading the stored partials of some buckets.
        present: The part of some spans where the source or one of our tables may have rows.
        is_first: Whether nothing has ever been materialised.
        no_feed_reason: Why there is no change feed, in words.
        frozen: The frozen boundary. Raw rows below it may be gone, so entries there are merged whatever the cost.
    """

    raw: Callable[[SpanSet], Estimate]
    changed: Callable[[int, SpanSet], Estimate]
    stored: Callable[[SpanSet], Estimate]
    present: Callable[[SpanSet], SpanSet]
    feed_from: int | None = None
    not_mergeable: tuple[str, ...] = ()
    partials_are_last: bool = True
    is_first: bool = False
    no_feed_reason: str = "the source has no change feed"
    frozen: int = NEG_INF


_REASONS: Final = {
    Cause.CHANGE: "rows changed",
    Cause.FILES: "files that may hold rows of these buckets changed (no change feed)",
    Cause.FORCED: "forced",
    Cause.INVALIDATED: "invalidated by hand",
    Cause.DIFFERED: "a canary found it to differ from its raw rows",
    Cause.LOST: "the source can no longer tell what changed",
    Cause.NEW: "never materialised",
    Cause.REPAIRED: "repaired: what the tables hold there is not known",
    Cause.CONFLICT: "rows were updated or written again below the frozen bound, or a result that begins there has changed, "
    "or nobody can tell what changed there",
    Cause.RETIRED: "older than output.retention",
}
FROZEN: Final = "below the frozen bound raw rows may be gone"


def reason_of(cause: Cause) -> str:
    """Return why a span is dirty, in words."""
    return _REASONS[cause]


def decide(taken: Iterable[Entry], facts: Facts) -> tuple[Step, ...]:
    """Return one step for each group of dirty buckets with the same treatment, by the cheapest allowed strategy.

    Every instant of *taken* is in exactly one step. Below the frozen boundary, *taken* holds only entries that can be merged or
    are discarded.
    """
    frozen, taken = _split_frozen(taken, facts.frozen)
    present = facts.present(SpanSet.union(e.span for e in taken))
    merging: dict[int, list[Entry]] = {}
    recomputing: dict[tuple[Cause, str], list[Span]] = {}
    settled: list[Span] = []
    discarded: list[Span] = []
    afters: dict[Cause, set[int]] = {}
    for entry in taken:
        if entry.after is not None:
            afters.setdefault(entry.cause, set()).add(entry.after)
        whole = SpanSet((entry.span,))
        settled += whole - present
        for span in whole & present:
            part = replace(entry, span=span)
            if entry.cause is Cause.RETIRED:
                discarded.append(span)
                continue
            why_not = why_not_merge(part, facts)
            if why_not is None and part.after is not None:
                merging.setdefault(part.after, []).append(part)
            else:
                recomputing.setdefault((entry.cause, why_not or ""), []).append(span)
    steps: list[Step] = [_frozen_merge(after, spans, facts) for after, spans in sorted(frozen.items(), reverse=True)]
    for count, after in enumerate(sorted(merging, reverse=True)):
        spans = SpanSet.union(e.span for e in merging[after])
        merge, raw = facts.changed(after, spans) + facts.stored(spans), facts.raw(spans)
        if count >= MAX_MERGES:
            reason = f"more than {MAX_MERGES} different versions to merge from"
        elif merge.cost >= raw.cost:
            reason = (
                f"about {merge.likely_rows:,} changed and kept rows out of {merge.rows:,} would not be cheaper than "
                f"{raw.likely_rows:,} raw rows out of {raw.rows:,}"
            )
        else:
            steps.append(Merge(spans, after, merge, (Rejected("recompute", f"would read {raw.rows:,} raw rows"),)))
            continue
        recomputing.setdefault((Cause.CHANGE, reason), []).extend(spans)
    for (cause, why_not), parts in recomputing.items():
        spans = SpanSet.union(parts)
        is_rebuild = cause in {Cause.LOST, Cause.REPAIRED} or facts.is_first
        changed = facts.changed(min(afters[cause]), spans).rows if cause is Cause.CHANGE and afters.get(cause) else None
        steps.append(
            Recompute(spans, _REASONS[cause], facts.raw(spans), (Rejected("merge", why_not),), is_rebuild, changed)
        )
    if discarded:
        steps.append(Recompute(SpanSet.union(discarded), _REASONS[Cause.RETIRED], is_discard=True))
    if settled:
        steps.append(Settle(SpanSet.union(settled)))
    return tuple(steps)


def _split_frozen(taken: Iterable[Entry], edge: int) -> tuple[dict[int, SpanSet], tuple[Entry, ...]]:
    """Return the spans to merge below the frozen boundary, by the version they reflect, and the entries above or to discard."""
    frozen: dict[int, SpanSet] = {}
    free: list[Entry] = []
    for entry in taken:
        below = None if entry.cause is Cause.RETIRED or edge == NEG_INF else entry.span & Span(NEG_INF, edge)
        if below is None:
            free.append(entry)
            continue
        if entry.after is None:
            msg = f"[{below.start}, {below.end}) lies below the frozen bound and cannot be merged"
            raise ValueError(msg)
        frozen[entry.after] = frozen.get(entry.after, SpanSet()) | SpanSet.of(below)
        if above := entry.span & Span(edge, POS_INF):
            free.append(replace(entry, span=above))
    return frozen, tuple(free)


def _frozen_merge(after: int, spans: SpanSet, facts: Facts) -> Merge:
    """Return a merge of the rows that arrived below the frozen boundary, even where the source no longer has these rows."""
    return Merge(spans, after, facts.changed(after, spans) + facts.stored(spans), (Rejected("recompute", FROZEN),))


def why_not_merge(entry: Entry, facts: Facts) -> str | None:
    """Return why the changes of an entry cannot be merged into stored partials; None when they can."""
    if entry.after is None:
        return "there are no partials to merge into" if entry.cause is Cause.NEW else f"{_REASONS[entry.cause]}"
    if entry.cause is not Cause.CHANGE:
        return _REASONS[entry.cause]
    if not entry.is_insert_only:
        return "rows were updated or deleted, not only inserted"
    if facts.not_mergeable:
        return facts.not_mergeable[0]
    if facts.feed_from is None or entry.after < facts.feed_from:
        return (
            f"the change feed does not reach back to version {entry.after}" if facts.feed_from else facts.no_feed_reason
        )
    if not facts.partials_are_last:
        return "the partials do not carry the last ended refresh"
    return None


@json_fields(omits=("executor",))
@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of one refresh, which is the payload of its ``done`` event.

    Args:
        source_version: Source version that the result reflects.
        buckets: Number of replaced buckets that hold rows afterwards.
        rows_read: Source rows aggregated.
        partials_written: Rows of the partials commit.
        rows_written: Rows of the output commit.
        null_times: Source rows left out because their time is null, when counted.
        jobs: Number of Spark jobs; None if Spark does not count them (Connect).
        commits: Number of Delta commits, those of the journal included.
        files_rewritten: Number of files removed from our tables.
        seconds: Wall time.
        strategy: Strategy of the plan.
        executor: ``local`` if the process computed it itself; "" if Spark did.
    """

    source_version: int
    strategy: str = "nothing"
    lane: str = ""
    buckets: int = 0
    rows_read: int = 0
    partials_written: int = 0
    rows_written: int = 0
    null_times: int = 0
    jobs: int | None = 0
    commits: int = 0
    files_rewritten: int = 0
    seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
    executor: str = ""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """The cost of fetching the rows of an always-fresh read.

    Args:
        rows_read: Source rows aggregated on the fly; where changes were merged, the changed rows. Counted as for a refresh.
        jobs: Number of Spark jobs; None if Spark does not count them (Connect).
        seconds: Wall time.
    """

    rows_read: int = 0
    jobs: int | None = 0
    seconds: float = 0.0
