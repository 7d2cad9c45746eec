"""Verifying: the published rows against plain Spark over the source at the version they claim to reflect.

What is dirty at that version is left out, and said. Rows are compared by bucket and keys, null-safe; measures are equal
exactly, within 1e-9 of the magnitudes that entered them (doubles), or within rank error (quantile sketches).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from materializer.core.compiled.definition import Definition
from materializer.core.printed import Printed, PrintedTable, facts, spans_text
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import Shown, render
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import RetryableError
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake.extent import files
from materializer.services.aggregate import Aggregate
from materializer.services.observe import frozen_bound, raw_form
from materializer.services.observe.dirty import dirty_at_cursor, reflected
from materializer.services.observe.observe import Observation
from materializer.services.protocol.process import Which
from materializer.spark.runtime.planned import planned

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark


PLAIN_ROW: Final = 1e-6
"""Seconds that a row takes Spark, read and aggregated twice, about."""


class Difference(Struct, frozen=True):
    """One published row that is not what plain Spark says.

    Args:
        kind: ``missing`` (plain Spark has it), ``extra`` (it should not be there) or ``differs``.
        row: The bucket and keys, as text by column.
        columns: For ``differs``: column → (published, plain Spark).
    """

    kind: str
    row: dict[str, str]
    columns: dict[str, tuple[str, str]]


class VerifyReport(Printed, Struct, frozen=True):
    """What verifying one aggregate found.

    Args:
        name: The aggregate.
        source_version: Version that both sides reflect.
        compared: Where rows were compared.
        left_out: Dirty, never materialised, frozen or no longer stored, so not compared.
        rows: Rows that plain Spark gives there.
        differing: How many rows differ.
        examples: Some of them.
        tolerances: Measure → ``exact``, ``float`` or ``rank``: how it was compared.
        seconds: Wall time.
        frozen: Below it nothing was compared, because raw rows may be gone; ``NEG_INF`` when nothing is frozen.
        time_type: Type of its time column, for showing instants.
        types: Columns of another type than plain Spark gives: the name, the published type, that of plain Spark.
    """

    name: str
    source_version: int
    compared: SpanSet
    left_out: SpanSet
    rows: int
    differing: int
    examples: tuple[Difference, ...]
    tolerances: dict[str, str]
    seconds: float
    frozen: int = NEG_INF
    time_type: Shown = TimeType.TIMESTAMP
    types: tuple[tuple[str, str, str], ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs, no row and no type of a column."""
        return self.differing == 0 and not self.types

    def _tables(self) -> list[PrintedTable]:
        word = (
            f"{self.differing:,} of {self.rows:,} rows differ from plain Spark"
            if self.differing
            else "types of columns differ from plain Spark"
            if self.types
            else "equal to plain Spark"
        )
        loose = [name for name, how in self.tolerances.items() if how != "exact"]
        pairs = [
            ("source version", self.source_version),
            ("rows", self.rows),
            ("compared", spans_text(self.compared, self.time_type) or "nothing"),
            ("left out", spans_text(self.left_out, self.time_type)),
            ("frozen below", None if self.frozen == NEG_INF else render(self.frozen, self.time_type)),
            ("not exactly", ", ".join(loose)),
            ("types", "\n".join(f"{name}: {ours}, {theirs} of plain Spark" for name, ours, theirs in self.types)),
            ("took", f"{self.seconds:.2f} s"),
        ]
        return [
            facts(f"{self.name}: {word if self.compared else 'nothing to compare'}", pairs),
            *(
                [PrintedTable("", ("row", "", "column", "published", "plain Spark"), rows)]
                if (rows := self._rows())
                else []
            ),
        ]

    def _rows(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for example in self.examples:
            row = ", ".join(f"{name}={value}" for name, value in example.row.items())
            rows += [(row, example.kind, name, was, wanted) for name, (was, wanted) in example.columns.items()]
            rows += [] if example.columns else [(row, example.kind, None, None, None)]
        return rows


class Verifier(Struct):
    """Verifies aggregates of one lake."""

    root: str
    journal: Journal
    engine: Callable[[], Spark]
    observe: Callable[[AggregateState], Observation]

    def verify(self, name: str, window: Span | None = None, *, examples: int = 5) -> VerifyReport:
        """Compare every clean bucket of *window* (None: all) with the reference form; writes nothing.

        Raises:
            RefreshWindowTooSmallError: If *window* holds no whole bucket.
            SourceDamagedError: If the source can no longer be read at the version that the output reflects.
        """
        began = time.perf_counter()
        view, published = self._published(name)
        state = view.named(name)
        if state.switch:
            msg = f"the next version of '{state.name}' is being published"
            raise RetryableError(msg, hint=f"run 'materializer switch {state.name}' if whoever did that has died")
        aggregate = Aggregate.of(state, self.root)
        dirty = dirty_at_cursor(state)
        if aggregate.definition.spec.rolls_up is not None:
            behind = raw_form.behind(aggregate, state, self.root, view.states, self.observe, newest=False)
            aggregate, state, dirty = behind.aggregate, behind.state, behind.dirty
        asked = SpanSet.of(EVERYTHING if window is None else whole_buckets(window, aggregate.definition.grid))
        stored = asked & frozen_bound.raw_spans(state)
        compared = stored - dirty if aggregate.definition.engine is None else stored & reflected(state)
        rows, differing, found = 0, 0, []
        types: tuple[tuple[str, str, str], ...] = ()
        if compared:
            extent = files(
                state.source.path, state.cursor, aggregate.definition.spec.time_column, aggregate.definition.time_type
            )
            with planned(extent.estimate(compared).rows * PLAIN_ROW):
                engine = self.engine()
            result = engine.verify(
                aggregate.definition,
                state.source,
                aggregate.paths["output"],
                published,
                state.cursor,
                compared,
                predicate=aggregate.predicate("output", compared),
                hull=None if extent.unknown.files else extent.hull,
                examples=examples,
                memory=state.engine,
                most_rows=extent.estimate(compared).rows,
                partials=aggregate.paths["partials"],
                frozen=state.frozen,
            )
            rows, differing, found, types = result.rows, result.differing, result.examples, result.types
        return VerifyReport(
            state.name,
            state.cursor,
            compared,
            asked - compared,
            rows,
            differing,
            tuple(Difference(d["kind"], d["row"], d["columns"]) for d in found),
            _tolerances(aggregate.definition),
            time.perf_counter() - began,
            state.floor,
            aggregate.definition.grid.shown,
            types,
        )

    def _published(self, name: str) -> tuple[View, int]:
        """Return what the journal says, and the version of the output of which it says that: refreshes may publish meanwhile."""
        view = self.journal.view()
        while True:
            before = self._version(view.named(name))
            view = self.journal.view()
            if self._version(view.named(name)) == before:
                return view, before

    def _version(self, state: AggregateState) -> int:
        return self.observe(state).head(Which.OUTPUT).version


def _tolerances(definition: Definition) -> dict[str, str]:
    """Return how each measure is compared: within rounding only where its type has fractions that are rounded."""
    rounded = {name for name, kind in definition.output_columns if "double" in kind or "float" in kind}
    return {
        name: "exact" if how == "float" and name not in rounded else how for name, how in definition.layout.tolerances
    }
