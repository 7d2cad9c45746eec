"""One random history: a lake of chains without a JVM, whose every output is compared with a loop over the raw rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from materializer.core.refresh.plan import BY_KEY, RETRACT
from materializer.core.refresh.strategies import STRATEGIES
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.services.aggregate import Aggregate
from materializer.services.observe import raw_form
from materializer.services.observe.dirty import dirty_at_cursor, dirty_below_newest, stuck_spans
from tests.histories_of_chains.definitions import DEVICES, HOUR, REGIONS, Definitions, Made, Row, Shown, changed, drawn
from tests.histories_of_chains.lake import Chains
from tests.services.no_spark import Opened
from tests.system.lake import Death, Died, dying

STEPS: Final = 12
DAYS: Final = 4
DAY: Final = 24 * HOUR
CHECKPOINTS: Final = (
    *("lease", "recover", "plan", "compute", "audit", "write", "wrote_partials", "wrote_output", "done", "end"),
    *("switch_plan", "switch_write", "switch_fence", "switch_done", "maintain_rewrite", "maintain_done"),
)
REFUSALS: Final = {
    "window.too-small",
    "window.retired",
    "window.frozen",
    "history.frozen",
    "history.building",
    "expire.bound",
    "expire.dirty",
    "rollup.changed",
    "version.none",
    "version.not-covered",
    "definition.invalid",
}
"""Codes of errors that a step may end with; anything else is found."""


class WrongError(Exception):
    """An output is not what the raw rows give, or an error has no place."""


class History:
    """The history of one seed.

    Args:
        seed: Its seed.
        root: An empty folder.
        tells: Gets a line for each step.
        open_lake: Makes the lake there.
    """

    def __init__(
        self,
        seed: int,
        root: Path,
        tells: Callable[[str], None] = lambda _: None,
        open_lake: Callable[[Path], Chains] = Chains,
    ) -> None:
        self.choose = random.Random(seed)
        self.lake = open_lake(root)
        self.tells = tells
        self.seen: Counter[str] = Counter()
        self.raw: list[Row] = []
        self.versions: dict[int, list[Row]] = {0: []}
        self.texts: dict[str, Made] = {}
        self.expired = -30 * DAY
        self.hours = self.choose.choice([8, 24, 24 * DAYS])
        self.devices = DEVICES[: self.choose.choice([4, 9, len(DEVICES)])]

    def run(self) -> str:
        """Do the steps of the history; return what is wrong, or ""."""
        try:
            self.insert(self.choose.choice([60, 250, 600]))
            made = drawn(self.choose)
            self.apply(made)
            if self.choose.random() < 0.8:
                for one in made:
                    self.done(f"refresh {one.name}", lambda lake, one=one: lake.refresh(one.name))
            for _ in range(self.choose.randint(4, STEPS)):
                self.step()
                self.check_clean()
            self.rest()
        except WrongError as wrong:
            return str(wrong)
        except Exception as exc:  # noqa: BLE001 - a history goes into the record whatever ends it
            return f"{type(exc).__name__}: {exc}"
        return ""

    # -- steps -----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one step."""
        choose = self.choose
        steps: Sequence[tuple[int, Callable[[], None]]] = (
            (3, lambda: self.insert(choose.randint(1, 6))),
            (1, lambda: self.insert(choose.randint(60, 120))),
            (5, self.change_rows),
            (7, self.refresh),
            (4, self.refresh_chain),
            (2, self.invalidate),
            (1, self.maintain),
            (2, self.change_definition),
            (2, self.build),
            (1, self.rollback),
            (1, self.expire),
        )
        choose.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()

    def insert(self, count: int) -> None:
        """Commit rows, late ones and new ones."""
        choose = self.choose
        rows = [
            Row(
                choose.randrange(-24, self.hours - 23) * HOUR + choose.choice([0, 1, HOUR // 2, HOUR - 1]),
                choose.choice(self.devices),
                choose.choice(REGIONS),
                choose.choice([None, *range(6)]),
            )
            for _ in range(count)
        ]
        self.lake.insert(rows, sum(map(len, self.versions.values())))
        self.committed([*self.raw, *rows], f"insert {count}")

    def change_rows(self) -> None:
        """Update, move or delete rows: of one key, of one value, or of one hour; a refund deletes them or turns their sign."""
        choose = self.choose
        since = self.expired
        tests: list[tuple[str, Callable[[Row], bool]]] = [(f"ts >= '{_text(since)}'", lambda row: row.ts >= since)]
        if choose.random() < 0.7:
            device = choose.choice([d for d in self.devices if d is not None])
            tests.append((f"device = '{device.replace(chr(39), chr(39) * 2)}'", lambda row: row.device == device))
        if choose.random() < 0.5 or len(tests) == 1:
            value = choose.randrange(6)
            tests.append((f"v = {value}", lambda row: row.v == value))
        if choose.random() < 0.5:
            start = choose.randrange(-24, self.hours - 24) * HOUR
            end = start + choose.choice([1, 1, 24]) * HOUR
            between = f"ts >= '{_text(start)}' AND ts < '{_text(end)}'"
            tests.append((between, lambda row: start <= row.ts < end))
        predicate = " AND ".join(sql for sql, _ in tests)
        table = self.lake.events

        def is_meant(row: Row) -> bool:
            return all(test(row) for _, test in tests)

        what, updates, after = choose.choice(
            [
                ("refund by delete", None, lambda _: None),
                ("refund by sign", {"v": "-v"}, lambda row: row._replace(v=None if row.v is None else -row.v)),
                ("update", {"v": "v + 1"}, lambda row: row._replace(v=None if row.v is None else row.v + 1)),
                ("move", {"ts": "ts + INTERVAL '3 hours'"}, lambda row: row._replace(ts=row.ts + 3 * HOUR)),
                ("rekey", {"device": "'a'"}, lambda row: row._replace(device="a")),
            ]
        )
        if not any(is_meant(row) for row in self.raw):
            return
        if updates is None:
            table.delete(predicate)
        else:
            table.update(predicate=predicate, updates=updates)
        changed_rows = [after(row) if is_meant(row) else row for row in self.raw]
        self.committed([row for row in changed_rows if row is not None], f"{what} where {predicate}")

    def committed(self, rows: list[Row], what: str) -> None:
        """Note what the raw table has now."""
        self.raw = rows
        self.versions[self.lake.events.version()] = rows
        self.seen[what.split(maxsplit=1)[0]] += 1
        self.tells(what)

    def refresh(self) -> None:
        """Refresh an aggregate, sometimes a window of it, by force, by one strategy where it is allowed, or in runs."""
        choose, name = self.choose, self.choose.choice(self.names)
        window: tuple[str | None, str | None] = (None, None)
        if choose.random() < 0.3:
            start = choose.randrange(-24, 60)
            window = (_text(start * HOUR), _text((start + choose.choice([6, 24, 48])) * HOUR))
        force = choose.random() < 0.15
        how = f"force={force}"
        if choose.random() < 0.15:
            each = choose.randint(1, 9)
            do = lambda lake: lake.backfill(name, *window, buckets_per_run=each, force=force)  # noqa: E731
        else:
            strategy = choose.choice((*STRATEGIES, BY_KEY, RETRACT, BY_KEY, RETRACT)) if choose.random() < 0.4 else None
            do = lambda lake: lake.refresh(name, *window, force=force, strategy=strategy)  # noqa: E731
            how = f"{how} strategy={strategy}"
        self.done(f"refresh {name} {window} {how}", do)

    def refresh_chain(self) -> None:
        """Refresh an aggregate and what it reads."""
        name = self.choose.choice(self.names)
        for one in self.lake.opened.chain(name):
            self.done(f"refresh {one} (chain of {name})", lambda lake, one=one: lake.refresh(one))

    def invalidate(self) -> None:
        """Declare a window dirty."""
        name, start = self.choose.choice(self.names), self.choose.randrange(-24, 60)
        window = _text(start * HOUR), _text((start + 24) * HOUR)
        self.done(f"invalidate {name} {window}", lambda lake: lake.invalidate(name, *window))

    def maintain(self) -> None:
        """Rearrange the files of an aggregate."""
        name = self.choose.choice(self.names)
        self.done(f"maintain {name}", lambda lake: lake.maintain(name))

    def change_definition(self) -> None:
        """Apply another definition of an aggregate; often it is built at once."""
        name = self.choose.choice(self.names)
        self.done(f"change {name}", lambda _: self.apply([changed(self.definition(name), self.choose)]))
        if self.choose.random() < 0.6:
            self.done(f"build {name}", lambda lake: lake.build(name))

    def build(self) -> None:
        """Build the next version of an aggregate, if there is one, in whole or in part."""
        building = [n for n in self.names if self.lake.opened.journal.view().build_of(self.lake.state(n))]
        if not building:
            return
        name, runs = self.choose.choice(building), self.choose.choice([None, None, 1])
        self.done(f"build {name} in {runs} runs", lambda lake: lake.build(name, buckets_per_run=9, max_runs=runs))

    def rollback(self) -> None:
        """Take the previous version of an aggregate again, or give the next one up."""
        name = self.choose.choice(self.names)
        if self.choose.random() < 0.3:
            self.done(f"abandon {name}", lambda lake: lake.abandon(name))
            return
        self.done(f"roll back {name}", lambda lake: lake.rollback(name))
        self.done(f"build {name}", lambda lake: lake.build(name))

    def expire(self) -> None:
        """Freeze what reads raw rows below an edge, and then delete these; what was computed from them stays."""
        bound = self.choose.randrange(0, DAYS - 1) * DAY
        readers = [name for name in self.names if self.definition(name).how == "raw"]
        for name in readers:
            self.done(f"refresh {name} (to be frozen)", lambda lake, name=name: lake.refresh(name))
            self.done(f"expire {name} {_text(bound)}", lambda lake, name=name: lake.expire(name, _text(bound)))
        frozen = [self.lake.state(name).frozen for name in readers]
        self.expired, before = max(self.expired, *frozen), self.expired  # rows below do not change from now on
        if bound <= before or min(frozen) < bound:
            return
        self.lake.events.delete(f"ts < '{_text(bound)}'")
        self.committed(self.raw, f"delete expired rows before {_text(bound)}")

    def done(self, what: str, do: Callable[[Opened], Any]) -> None:
        """Run a command, or let it die; only known refusals are right."""
        self.tells(what)
        self.seen[what.split(maxsplit=1)[0]] += 1
        try:
            if self.choose.random() < 0.2:
                death = Death(self.choose.choice(CHECKPOINTS), self.choose.randint(1, 2), self.choose.random() < 0.7)
                self.tells(f"  dies at {death}")
                with dying(death) as on_checkpoint:
                    report = do(self.lake.reopened(on_checkpoint))
            else:
                report = do(self.lake.opened)
            for run in getattr(report, "runs", ()):
                self.seen.update(run.report.strategy.split("+"))
                self.tells(f"  {run.report.strategy} {run.plan.spans.as_json()}")
        except Died as died:
            self.seen[f"died at {died}"] += 1
        except MaterializerError as exc:
            self.tells(f"  {exc.code}: {exc}")
            self.seen[exc.code] += 1
            if exc.code not in REFUSALS:
                raise WrongError(f"{what}: {exc.code}: {exc}") from exc
        self.lake.reopened()

    # -- what is known ---------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The aggregates."""
        return sorted(s.name for s in self.lake.opened.journal.view().states.values() if not s.builds)

    def apply(self, made: Sequence[Made]) -> None:
        """Apply definitions, and remember what their texts mean."""
        for one in made:
            self.tells(one.sql)
            self.texts[one.sql] = one
        self.lake.apply(*(f"{one.sql};" for one in made))

    def definition(self, name: str) -> Made:
        """Return the definition whose data an aggregate publishes."""
        return self.texts[str(self.lake.state(name).spec["sql"])]

    def definitions(self) -> Definitions:
        """Return all of them."""
        return Definitions({name: self.definition(name) for name in self.names})

    # -- checks ----------------------------------------------------------------------------------------------------------

    def check_clean(self) -> None:
        """Compare what each aggregate shows in its clean buckets with its definition over the rows that it says to reflect."""
        view = self.lake.opened.journal.view()
        definitions = self.definitions()
        for name in self.names:
            state = view.named(name)
            if state.switch or state.threshold == NEG_INF:
                continue
            made = definitions.of[name]
            aggregate = Aggregate.of(state, str(self.lake.root))
            source, dirty = state, dirty_at_cursor(state)
            if made.how == "rollup":
                try:
                    behind = raw_form.behind(
                        aggregate, state, str(self.lake.root), view.states, self.lake.wired.observation, newest=False
                    )
                except MaterializerError as exc:
                    if exc.code not in REFUSALS:
                        raise
                    continue
                source, dirty = behind.state, dirty_at_cursor(behind.state)
            self.compare(name, dirty | _below(state.retired), self.wanted(definitions, made, source))

    def wanted(self, definitions: Definitions, made: Made, source: AggregateState) -> list[Shown]:
        """Return the output of a definition over its source at the cursor of *source*."""
        path, version = str(source.source.path), source.cursor
        if path.endswith("/events"):
            return definitions.output(made, self.versions[version])
        return made.shown(definitions.base(made, [], lambda parent: self.lake.published(parent.name, version)))

    def compare(self, name: str, dirty: SpanSet, wanted: Sequence[Shown]) -> None:
        """Compare an output with what is wanted, where it is not dirty."""
        shown = Counter(row for row in self.lake.published(name) if row[0] not in dirty)
        expected = Counter(row for row in wanted if row[0] not in dirty)
        if shown != expected:
            extra, missing = sorted((shown - expected), key=repr)[:3], sorted((expected - shown), key=repr)[:3]
            raise WrongError(f"{name}: shows {extra}, wanted {missing}")

    def rest(self) -> None:
        """Refresh everything, parents first; no bucket is dirty then, and each output is its definition over the raw rows.

        What changed below a frozen bound stays dirty where the library's change feed lacks rows, so that only files tell of it.
        """
        self.tells("at rest")
        order = sorted(self.names, key=lambda n: len(self.lake.opened.chain(n)))
        for name in order:
            for attempt in range(3):
                try:
                    self.lake.opened.refresh(name)
                    break
                except MaterializerError as exc:
                    if exc.code != "rollup.changed" or attempt:
                        raise WrongError(f"at rest: refresh {name}: {exc.code}: {exc}") from exc
                with suppress(MaterializerError):
                    self.lake.opened.abandon(name)
                self.apply([self.definition(name)])
                with suppress(MaterializerError):
                    self.lake.opened.build(name)
        definitions = self.definitions()
        stuck = _days(SpanSet.union(span for name in order for span in stuck_spans(self.lake.state(name))))
        for name in order:
            state = self.lake.state(name)
            if dirt := dirty_below_newest(state):
                raise WrongError(f"at rest: {name} is dirty in {dirt.as_json()}")
            self.compare(name, _below(state.retired) | stuck, definitions.output(definitions.of[name], self.raw))


def _days(spans: SpanSet) -> SpanSet:
    """Return spans widened by a day, and so to the buckets of every child."""
    return SpanSet.union(Span(s.start - 24 * HOUR, s.end + 24 * HOUR) for s in spans)


def _below(instant: int) -> SpanSet:
    return SpanSet.of(Span(NEG_INF, instant)) if instant > NEG_INF else SpanSet()


def _text(instant: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)).isoformat()
