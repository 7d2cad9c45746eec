"""Whether an aggregate is fresh: it is as fresh as everything that it reads, down to the raw rows."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from materializer.core.time.spans import NEG_INF, SpanSet
from materializer.errors import MaterializerError, TableNotFoundError
from materializer.journal.state import AggregateState, States
from materializer.lake.log import has_change
from materializer.lake.table import DeltaFolder, TableHead
from materializer.services.definitions import rolled_up
from materializer.services.definitions.lineage import parent_of
from materializer.services.observe import source_breaks
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.observe.observe import applied, missing_source
from materializer.services.observe.withheld import withheld

FRESH = "fresh"


class Ancestor(Struct, frozen=True):
    """An aggregate that another one reads, itself or through others, and that is not fresh.

    Args:
        name: The aggregate.
        state: What it is instead.
        is_withheld: Whether its gate withholds all of it that is dirty, so that a refresh alone does not help.
    """

    name: str
    state: str
    is_withheld: bool = False


class Seen(Struct, frozen=True):
    """An aggregate beside the newest version of its source.

    Args:
        state: The aggregate; a roll-up over the partials that its parent has now.
        newest: Newest version of its source; None when that cannot be read.
        changed: The newest version that changed rows; None as for *newest*.
        problem: Why the source cannot be read.
    """

    state: AggregateState
    newest: int | None
    changed: int | None
    problem: str = ""

    @property
    def word(self) -> str:
        """Its state: ``fresh``, ``behind``, ``dirty``, ``empty``, ``unfinished`` or ``source-unreadable``."""
        if self.problem or self.changed is None:
            return "source-unreadable"
        if self.state.plan is not None:
            return "unfinished"
        if self.changed > self.state.cursor:
            return "behind"
        if dirty_below_newest(self.state):
            return "dirty"
        return "empty" if self.state.threshold == NEG_INF else FRESH


class Chains(Struct):
    """Looks at the aggregates of one lake and their sources, at each once.

    Args:
        root: The lake's root.
        states: Its aggregates.
    """

    root: str
    states: States
    _seen: dict[str, Seen] = field(default_factory=dict)
    _changes: dict[tuple[str, int, int], bool] = field(default_factory=dict)
    _heads: dict[str, TableHead] = field(default_factory=dict)
    _problems: dict[str, str] = field(default_factory=dict)
    _withheld: dict[str, SpanSet] = field(default_factory=dict)

    def seen(self, state: AggregateState) -> Seen:
        """Return an aggregate beside the newest version of its source."""
        if state.id not in self._seen:
            self._seen[state.id] = self._look(state)
        return self._seen[state.id]

    def above(self, state: AggregateState) -> Iterator[Seen]:
        """Yield what an aggregate reads, and what that reads, as far as these are aggregates of the lake."""
        names = {state.name}
        while (made := parent_of(state.source.path, self.root, self.states)) is not None and made.name not in names:
            names.add(made.name)
            state = made
            yield self.seen(state)

    def waits_for(self, state: AggregateState) -> Ancestor | None:
        """Return the aggregate above *state* that has to be refreshed first, None if all of them are fresh."""
        stale = [seen for seen in self.above(state) if seen.word != FRESH]
        if not stale:
            return None
        first = stale[-1]
        is_withheld = first.word == "dirty" and not dirty_below_newest(first.state) - self.withheld(first.state)
        return Ancestor(first.state.name, first.word, is_withheld)

    def withheld(self, state: AggregateState) -> SpanSet:
        """Return what the gate of an aggregate withholds, clean buckets of a refused run among them."""
        if state.id not in self._withheld:
            self._withheld[state.id] = SpanSet.union(span for each in withheld(state) for span in each.spans)
        return self._withheld[state.id]

    def _has_change(self, path: str, after: int, upto: int) -> bool:
        """Return whether rows of a source changed; of many aggregates over one source its log is read once."""
        key = path, after, upto
        if key not in self._changes:
            self._changes[key] = has_change(*key)
        return self._changes[key]

    def _head(self, path: str) -> TableHead:
        if path not in self._heads:
            self._heads[path] = DeltaFolder.at(path).head()
        return self._heads[path]

    def _problem(self, state: AggregateState, head: TableHead) -> str:
        """Return why a source is not the one that was captured; aggregates that captured the same have the same answer."""
        if head.table_id != state.source.table_id or head.version != state.cursor:
            return source_breaks.problem(state, head)
        mark = state.mark
        key = f"{mark.file} {mark.commits.get(str(state.cursor))} {state.source.path}"
        if key not in self._problems:
            self._problems[key] = source_breaks.problem(state, head)
        return self._problems[key]

    def _look(self, state: AggregateState) -> Seen:
        newest, problem = None, ""
        try:
            event = None if state.plan else rolled_up.moved(state, self.root, self.states)
            state = state if event is None else applied(state, event)
        except MaterializerError as exc:
            problem = exc.message
        try:
            head = self._head(state.source.path)
            newest = head.version
            problem = problem or self._problem(state, head)
        except TableNotFoundError as exc:
            problem = f"{exc.message}; {missing_source(state, self.root)}"
        except MaterializerError as exc:
            problem = exc.message
        changed = newest
        if (
            newest is not None
            and newest > state.cursor
            and not self._has_change(state.source.path, state.cursor, newest)
        ):
            changed = state.cursor  # the newer commits only rewrote files
        return Seen(state, newest, changed, problem)
