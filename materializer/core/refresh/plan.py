"""A refresh as data: what is read, how each dirty bucket is computed, and why the other strategies were rejected.

The explainer prints the plan and the executor runs it, both from the same value. A step is one of a closed union, handled with
``match`` and ``assert_never``. :mod:`materializer.core.refresh.strategies` chooses the steps.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.codec import JsonForm, as_json, from_json, json_fields, json_list, json_methods
from materializer.core.refresh.invalidation import Entries, Key, Keys
from materializer.core.time.spans import Span, SpanSet

OPENED: Final = 8
"""Number of rows that can be read and skipped at the cost of one row that is aggregated."""

BY_KEY: Final = "recompute-keys"
"""The strategy that computes only the groups whose keys changed."""

RETRACT: Final = "retract"
"""The strategy that subtracts changed rows from stored partials."""

INSERTED: Final = ("insert",)
"""The image of new rows in a change feed."""
CAME: Final = (*INSERTED, "update_postimage")
"""The images of rows that came."""
WENT: Final = ("delete", "update_preimage")
"""The images of rows that went."""

MAX_SPANS: Final = 64
"""Most spans that one commit replaces; a predicate with thousands of spans takes longer than copying the rows between them."""

FEW_SPANS: Final = 8
"""Most spans that a query names where more would hardly read less: Spark plans a query as long as the square of their number."""


class Lane(StrEnum):
    """Where rows are computed and written: the driver reads and fetches few, many stay in Spark. It commits in both lanes."""

    DRIVER = "driver"
    SPARK = "spark"


class ExecutorKind(StrEnum):
    """What computes a refresh: the process itself, or Spark, which defines what is right."""

    LOCAL = "local"
    SPARK = "spark"


@json_list
class Estimate(Struct, frozen=True):
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
        """The rows to aggregate, plus a fraction of the rows to open; it decides where prices are too close to tell."""
        return self.likely_rows + self.rows / OPENED


@json_methods
class Rejected(Struct, frozen=True):
    """A strategy that was not chosen, with the reason.

    Args:
        strategy: The strategy.
        reason: Why not.
        seconds: What it would take, beyond the floor and what is written; None where it is not possible.
    """

    strategy: str
    reason: str
    seconds: float | None = None

    def as_json(self) -> list[Any]:
        """Return a list of the fields, without seconds that are not known."""
        return [self.strategy, self.reason, *([] if self.seconds is None else [self.seconds])]

    @classmethod
    def from_json(cls, data: list[Any]) -> Rejected:
        """Return what :meth:`as_json` wrote."""
        return cls(*data)


@json_fields(later=())
class Settle(Struct, frozen=True):
    """Buckets where neither the source nor our tables can have rows: they become clean without a read or a write."""

    spans: SpanSet


@json_fields(
    order=("spans", "reason", "estimate", "rejected", "keys", "seconds"),
    later=("keys", "seconds"),
    omits=("keys", "seconds"),
)
class Recompute(Struct, frozen=True):
    """Buckets that are computed from raw rows at the pinned source version: all of a bucket, or the groups of some keys.

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
        keys: How many different keys changed, when only the groups of the keys are computed that the entries of the plan
            record; all other groups are stored partials. None when whole buckets are computed.
        seconds: What it takes, as predicted, beyond the floor and what is written.
    """

    spans: SpanSet
    reason: str
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()
    is_rebuild: bool = False
    changed_rows: int | None = None
    is_discard: bool = False
    windows: int | None = None
    keys: int | None = None
    seconds: float = 0.0


@json_fields(later=["seconds"], omits=["seconds"])
class Merge(Struct, frozen=True):
    """Buckets whose stored partials are merged with partials of the rows inserted since.

    Args:
        spans: The buckets.
        after: Source version that the stored partials reflect; the change feed is read from the next version on.
        estimate: The cost of reading the inserted rows and the stored partials.
        rejected: The other strategies, each with its reason.
        seconds: What it takes, as predicted, beyond the floor and what is written.
    """

    spans: SpanSet
    after: int
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()
    seconds: float = 0.0


@json_fields(later=["seconds"], omits=["seconds"])
class Retract(Struct, frozen=True):
    """Buckets whose stored partials are merged with partials of the rows that came since, less those of the rows that went.

    An updated row went as it was and came as it is. Groups without a row vanish.

    Args:
        spans: The buckets.
        after: Source version that the stored partials reflect; the change feed is read from the next version on.
        estimate: The cost of reading the changed rows and the stored partials.
        rejected: The other strategies, each with its reason.
        seconds: What it takes, as predicted, beyond the floor and what is written.
    """

    spans: SpanSet
    after: int
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()
    seconds: float = 0.0


@json_fields(later=["seconds"], omits=["seconds"])
class RollUp(Struct, frozen=True):
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
        seconds: What it takes, as predicted, beyond the floor and what is written.
    """

    spans: SpanSet
    reason: str
    parent: str
    path: str
    version: int
    keys: tuple[tuple[str, str], ...]
    estimate: Estimate = Estimate()
    rejected: tuple[Rejected, ...] = ()
    seconds: float = 0.0


Step: TypeAlias = Settle | Recompute | Merge | Retract | RollUp


def _step_from_json(data: dict[str, Any]) -> Step:
    match data["do"]:
        case "settle":
            return from_json(Settle, data)
        case "merge":
            return from_json(Merge, data)
        case "retract":
            return from_json(Retract, data)
        case "roll-up":
            return from_json(RollUp, data)
        case do:
            return replace(from_json(Recompute, data), is_rebuild=do == "rebuild", is_discard=do == "discard")


_STEP: Final = JsonForm(lambda step: {"do": strategy_of(step)} | as_json(step), _step_from_json)


@json_list
class TableBase(Struct, frozen=True):
    """The state of one of our tables when the plan was made; recovery reads the commits after this version."""

    table_id: str
    version: int


@json_fields(
    later=("executor", "executor_reason", "seconds", "unlearned"),
    omits=("executor", "executor_reason", "seconds", "unlearned"),
)
class Plan(Struct, frozen=True):
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
        seconds: How long it takes, as predicted.
        unlearned: How long by the rates alone; see :mod:`materializer.core.refresh.price`.
    """

    id: str
    n: int
    source_version: int
    window: Span
    taken: Entries
    steps: tuple[Annotated[Step, _STEP], ...]
    lane: Lane
    partials: TableBase
    output: TableBase
    executor: ExecutorKind = ExecutorKind.SPARK
    executor_reason: str = ""
    seconds: float = 0.0
    unlearned: float = 0.0

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
        """The buckets that are computed from all their raw rows."""
        steps = (step for step in self.steps if isinstance(step, Recompute) and not step.is_discard)
        return SpanSet.union(s for step in steps if step.keys is None for s in step.spans)

    @property
    def keyed(self) -> SpanSet:
        """The buckets of which only the groups of changed keys are computed."""
        steps = (step for step in self.steps if isinstance(step, Recompute) and step.keys is not None)
        return SpanSet.union(s for step in steps for s in step.spans)

    @property
    def keys_of_parts(self) -> tuple[tuple[Span, Keys], ...]:
        """The changed keys of :attr:`keyed` buckets, by spans that are sorted and disjoint."""
        keyed, found = self.keyed, []
        for entry in self.taken if keyed else ():
            for span in SpanSet.of(entry.span) & keyed:
                if entry.keys is None:
                    msg = f"the changed keys in [{span.start}, {span.end}) are not known"
                    raise ValueError(msg)
                found.append((span, entry.keys))
        return tuple(found)

    @property
    def groups(self) -> tuple[tuple[Span, Key], ...]:
        """The groups that are computed of :attr:`keyed` buckets: the buckets of the span, with the key."""
        parts = self.keys_of_parts
        ordered = {keys: sorted(keys, key=repr) for _, keys in parts}
        return tuple((span, key) for span, keys in parts for key in ordered[keys])

    @property
    def merges(self) -> tuple[Merge, ...]:
        """The steps that merge new rows into stored partials."""
        return tuple(step for step in self.steps if isinstance(step, Merge))

    @property
    def retracts(self) -> tuple[Retract, ...]:
        """The steps that also subtract rows from stored partials."""
        return tuple(step for step in self.steps if isinstance(step, Retract))

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
        case Recompute(keys=int()):
            return BY_KEY
        case Recompute():
            return "rebuild" if step.is_rebuild else "recompute"
        case Merge():
            return "merge"
        case Retract():
            return RETRACT
        case RollUp():
            return "roll-up"
        case _:
            assert_never(step)


@json_fields(omits=("executor", "predicted", "unlearned"))
class RunReport(Struct, frozen=True):
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
        predicted: Wall time as the plan predicted it; 0 if it did not.
        unlearned: As the rates alone predicted it; see :mod:`materializer.core.refresh.price`.
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
    predicted: float = 0.0
    unlearned: float = 0.0


class ReadCost(Struct, frozen=True):
    """The cost of fetching the rows of an always-fresh read.

    Args:
        rows_read: Source rows aggregated on the fly; where changes were merged, the changed rows. Counted as for a refresh.
        jobs: Number of Spark jobs; None if Spark does not count them (Connect).
        seconds: Wall time.
    """

    rows_read: int = 0
    jobs: int | None = 0
    seconds: float = 0.0
