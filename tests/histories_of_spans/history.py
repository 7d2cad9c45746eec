"""One random history of scattered changes: outputs equal a loop over the raw rows, and each refresh costs what changed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from materializer.config import Config
from materializer.core.refresh.plan import BY_KEY, RETRACT
from materializer.core.time.spans import NEG_INF, POS_INF
from materializer.services.observe.dirty import dirty_at_cursor, dirty_below_newest
from materializer.services.refresh.reports import RefreshReport
from tests.counting import calls_of
from tests.histories_of_chains.lake import Chains
from tests.histories_of_spans.definitions import DAY, HOUR, Made, drawn
from tests.histories_of_spans.lake import Events, add_one
from tests.histories_of_spans.law import Cost, Size
from tests.lake.opened import commits_opened
from tests.services.no_spark import Opened
from tests.system.lake import Death, Died, dying

MAX_ROWS: Final = 20_000
MAX_CHANGED: Final = 5_000
MAX_COMMITS: Final = 300
CHECKPOINTS: Final = ("plan", "compute", "write", "wrote_partials", "wrote_output", "done", "end")


class WrongError(Exception):
    """An output is not what the raw rows give, or a refresh costs too much."""


class History:
    """The history of one seed.

    Args:
        seed: Its seed.
        root: An empty folder.
        tells: Gets a line for each step.
        counts_calls: Whether calls of functions are counted, which takes longer; by default in one history of ten.
        open_lake: Makes the lake there.
    """

    def __init__(
        self,
        seed: int,
        root: Path,
        tells: Callable[[str], None] = lambda _: None,
        *,
        counts_calls: bool | None = None,
        open_lake: Callable[..., Chains] = Chains,
    ) -> None:
        self.choose = choose = random.Random(seed)
        self.has_feed = choose.random() < 0.75
        config = Config(price_tie_ms=choose.choice([5, 60_000]), log_max_entries=choose.choice([10, 1_000, 1_000]))
        self.lake = open_lake(root, feed=self.has_feed, config=config)
        self.events = Events(
            root / "events", seed, choose.choice([2, 10, 200]), choose.choice([1, 7, 30, 90, 360, 360, 730])
        )
        self.counts_calls = choose.random() < 0.1 if counts_calls is None else counts_calls
        self.tells = tells
        self.seen: Counter[str] = Counter()
        self.made: dict[str, Made] = {}
        self.known: dict[str, tuple[int, int]] = {}
        """The source version that each aggregate reflects, and how many rows had changed by then."""
        self.figures: Counter[str] = Counter()
        """The largest figure of each part of the law."""

    def run(self) -> str:
        """Do the steps of the history; return what is wrong, or ""."""
        try:
            self.begin()
            for _ in range(self.choose.randint(2, 4)):
                self.change()
                if self.choose.random() < 0.2:
                    self.change()
                self.refresh()
        except WrongError as wrong:
            return str(wrong)
        except Exception as exc:  # noqa: BLE001 - a history goes into the record whatever ends it
            return f"{type(exc).__name__}: {exc}"
        return ""

    def begin(self) -> None:
        """Fill the table, define aggregates, and materialize them for the first time."""
        choose, events = self.choose, self.events
        count, files = _about(choose, 300, MAX_ROWS), choose.randint(1, 12)
        self.each = max(count // files, 2)
        length = events.days * DAY // files
        in_order = choose.random() < 0.7
        for i in range(files):
            rows = events.drawn(self.each, i * length, length) if in_order else events.drawn(self.each)
            events.insert(rows)
        self.note(f"fill {count} rows in {files} files over {events.days} days, feed {self.has_feed}")
        for made in drawn(choose):
            self.note(f"define {made.sql}")
            self.made[made.name] = made
            self.lake.apply(made.sql)
            self.lake.opened.refresh(made.name)
            self.known[made.name] = events.version, events.changed
            self.compare(made)

    # -- changes ---------------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Commit one change of a drawn shape."""
        choose, events = self.choose, self.events
        many = _about(choose, 1, MAX_CHANGED)
        each = max(2, len(events.rows.id) // many)
        rest = choose.randrange(each)
        hour, key = choose.randrange(events.days * 24) * HOUR, choose.randrange(events.devices - 1)
        shapes: Mapping[str, tuple[int, Callable[[], None]]] = {
            f"insert {many} rows": (4, lambda: events.insert(events.drawn(many))),
            f"update id % {each} = {rest}": (3, lambda: events.update(each, rest, "v", "v + 1", add_one)),
            f"delete id % {each} = {rest}": (3, lambda: events.delete(each, rest)),
            f"halve id % 2 = {rest % 2}": (1, lambda: events.delete(2, rest % 2)),
            f"rekey id % {each} = {rest}": (2, lambda: events.update(each, rest, "device", "'d1'", lambda n: n * 0 + 1)),
            f"move id % {each} = {rest}": (1, lambda: self.move(each, rest)),
            "touch a row of each file": (
                2, lambda: events.update(self.each, self.each // 2, "v", "v + 1", add_one),
            ),
            "drip rows in commits": (1, lambda: self.drip(_about(choose, 5, MAX_COMMITS))),
            f"correct rows of d{key}": (2, lambda: events.correct(key)),
            f"burst {many} rows": (1, lambda: events.insert(events.drawn(many, hour, HOUR))),
        }  # fmt: skip
        what = choose.choices(list(shapes), [weight for weight, _ in shapes.values()])[0]
        self.note(what)
        shapes[what][1]()
        if choose.random() < 0.15:
            self.note("optimize")
            events.optimize()

    def move(self, each: int, rest: int) -> None:
        """Move rows by three hours."""
        self.events.update(each, rest, "ts", "ts + INTERVAL '3 hours'", lambda ts: ts + 3 * HOUR)

    def drip(self, commits: int) -> None:
        """Commit rows one by one."""
        self.tells(f"  {commits} commits")
        for _ in range(commits):
            self.events.insert(self.events.drawn(1))

    # -- refreshes -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Refresh each aggregate, parents first; look at its rows and at what it cost."""
        for made in self.made.values():
            if not made.is_rollup and self.choose.random() < 0.2:
                self.window(made)
            if self.choose.random() < 0.15:
                self.die(made)
            asked = self.choose.choice(("merge", RETRACT, BY_KEY)) if self.choose.random() < 0.25 else None
            self.measured(made, lambda lake, name=made.name, asked=asked: lake.refresh(name, strategy=asked))
            self.known[made.name] = self.events.version, self.events.changed
            if dirt := dirty_below_newest(self.lake.state(made.name)):
                raise WrongError(f"{made.name}: is dirty after a refresh: {dirt.as_json()[:3]}")
            self.compare(made)

    def window(self, made: Made) -> None:
        """Refresh a part of the time; clean buckets are right."""
        events = self.events
        first = self.choose.randrange(events.days)
        last = self.choose.randint(first + 3, first + 3 + events.days)
        start, end = (events.start + day * DAY for day in (first, last))
        window = _text(start), _text(end)
        self.note(f"window {made.name} {window}")
        self.measured(made, lambda lake: lake.refresh(made.name, *window), (start, end))
        self.compare(made)

    def die(self, made: Made) -> None:
        """Let a refresh die; the next one goes on."""
        death = Death(self.choose.choice(CHECKPOINTS), 1, self.choose.random() < 0.5)
        self.note(f"die {made.name} {death}")
        with dying(death) as on_checkpoint:
            try:
                self.lake.reopened(on_checkpoint).refresh(made.name)
            except Died:
                self.seen["died"] += 1
        self.lake.reopened()

    def measured(
        self, made: Made, do: Callable[[Opened], RefreshReport], window: tuple[int, int] | None = None
    ) -> None:
        """Refresh, and compare the cost with the law."""
        size, reports, calls = self.size(made, window), [], None
        with commits_opened(self.events.path) as opened:
            if self.counts_calls:
                calls = calls_of(lambda: reports.append(do(self.lake.opened)))
            else:
                reports.append(do(self.lake.opened))
        runs = [run.report for run in reports[0].runs]
        for run in runs:
            self.seen.update(run.strategy.split("+"))
        cost = Cost(runs, size, calls, opened or {})
        self.figures |= Counter(cost.figures())
        self.tells(f"  {made.name}: {' '.join(run.strategy for run in runs)} {cost.figures()} of {size}")
        if wrong := list(cost.beyond()):
            raise WrongError(f"{made.name}: {'; '.join(wrong)}")
        self.lake.reopened()

    def size(self, made: Made, window: tuple[int, int] | None) -> Size:
        """Return how large the work of a refresh is: what changed since the aggregate reflected all of the source."""
        events, (version, changed) = self.events, self.known[made.name]
        before, after = events.versions[version], events.rows
        earlier, groups = made.groups(before), made.groups(after)
        start, end = window or (NEG_INF, POS_INF)
        written = [group for group in groups if start <= group[0] < end]  # type: ignore[operator]
        return Size(
            rows=sum(int(((rows.ts >= start) & (rows.ts < end)).sum()) for rows in (before, after)),
            written=len(written) + len(made.shown(written)),
            changed=events.changed - changed,
            groups=len(earlier) + len(groups),
            files=len(events.table.file_uris()),
            commits=events.version - version,
        )

    def compare(self, made: Made) -> None:
        """Compare an output in its clean buckets with a loop over the raw rows at the version that it reflects."""
        state = self.lake.state(made.name)
        rows = self.events.rows if made.is_rollup else self.events.versions[state.cursor]
        dirty = dirty_at_cursor(state)
        shown = Counter(row for row in self.lake.published(made.name) if row[0] not in dirty)
        wanted = Counter(row for row in made.shown(made.groups(rows)) if row[0] not in dirty)
        if shown != wanted:
            extra, missing = (sorted(rest, key=repr)[:3] for rest in (shown - wanted, wanted - shown))
            raise WrongError(f"{made.name}: shows {extra}, wanted {missing}")

    def note(self, what: str) -> None:
        """Say what is done, and count it by its first word."""
        self.tells(what)
        self.seen[what.split(maxsplit=1)[0]] += 1


def _about(choose: random.Random, least: int, most: int) -> int:
    """Return a number whose order of magnitude is drawn."""
    return round(least * (most / least) ** choose.random())


def _text(instant: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)).isoformat()
