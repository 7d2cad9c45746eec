"""Random histories of engines whose raw rows go: frozen by hand or by retention, thawed, with late rows on both sides.

    python -m tests.system.engine_histories --frozen [--histories 20] [--seed 1] [--engine NAME]

A second source has every row that ever was, and a second aggregate computes it all. What is published of the first equals
that as long as nothing is stuck; and below the frozen bound nothing ever changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from deltalake import DeltaTable
from msgspec import Struct, field

from materializer.api import Materializer
from materializer.core.time.spans import NEG_INF
from materializer.errors import ExpireBoundError, ExpireDirtyError, FrozenWindowError
from materializer.journal.state import AggregateState
from tests.system.engine_histories import BASE, DEFINITIONS, SUMS, World
from tests.system.engine_keeping import PLACES
from tests.system.lake import Death, Died, dying, leave_behind, the_dead

CUT: Final[Mapping[str, Mapping[str, Any]]] = {
    **{
        name: DEFINITIONS[name]
        for name in ("tumbling", "hopping", "filled", "forced", "shown", "daily", "sessions", "events", "counts")
    },
    **{name: DEFINITIONS[name] for name in ("overlapping", "compressed", "snapshots")},
    "forced and filled": {**DEFINITIONS["forced"], "fill": "null,0,ffill,ffill"},
    "delayed and filled": {**DEFINITIONS["filled"], "accepted_delay": "15 minutes", "closed": "right"},
    "delayed": {**DEFINITIONS["hopping"], "closed": "left", "accepted_delay": "4 minutes"},
    "daily filled": {
        **DEFINITIONS["daily"],
        "fill": "null,0,ffill,ffill",
        "force_trigger_time": "7 minutes",
        "holidays": "2024-01-02",
        "half_days": "2024-01-03 14:10",
    },
    "daily filled by a clock": {
        **DEFINITIONS["daily"],
        "session_begin": ["20:00:00", "01:00:00"],
        "session_end": ["23:10:00", "04:00:00"],
        "fill": "ffill",
        "closed": "right",
        "accepted_delay": "10 minutes",
        "merge_last_window": True,
        "force_trigger_session_end_time": "20 minutes",
    },
    "daily filled on": {
        **DEFINITIONS["daily"],
        "session_begin": ["08:30:00", "11:15:00"],
        "session_end": ["11:15:00", "15:00:00"],
        "fill": "null,0,ffill,ffill",
        "key_purge_daily": False,
        "merge_session_end": True,
        "weekdays": "1,2,4,5",
    },
    "running": {
        "engine": "reactive_state",
        "measures": {"c": "cumsum(v)", "e": "ema(v, 4)", "a": "cumavg(v)", "x": "cummax(v)", "n": "cumcount(v)"},
    },
    "moving": {
        "engine": "reactive_state",
        "filter": "v > 1",
        "measures": {"m": "mavg(v, 3)", "d": "deltas(nullif(v, 5), 2)", "o": "prev(v)", "n": "mcount(nullif(v, 5), 4)"},
    },
    "moving and running": DEFINITIONS["rows"],
}
"""By name: definitions whose history can be cut."""
RETENTIONS: Final = (3, 5)
"""In hours."""
DAYS: Final = ("daily filled", "daily filled by a clock", "daily filled on")
"""Definitions whose histories last days, and are refreshed with a clock."""


class Frozen(Struct):
    """One engine's aggregate whose raw rows go.

    Args:
        world: Its source and its lake; its commits go to both sources.
        name: Which definition.
    """

    world: World
    name: str
    history: Counter[Any] = field(default_factory=Counter)
    bound: int = NEG_INF
    dead: set[str] = field(default_factory=set)

    def run(self, steps: int) -> Counter[str]:
        """Run one random history; return what happened in it.

        Raises:
            AssertionError: If something is published that all rows would not give, or history changed.
        """
        world, rng = self.world, self.world.rng
        world.definition = CUT[self.name]
        world.twin = True
        world.pace = 10 if self.name in DAYS else 1
        with the_dead() as self.dead:
            made = world.begin()
            follows = {"source.retention": f"{rng.choice(RETENTIONS) * world.pace} hours"} if rng.random() < 0.5 else {}
            if rng.random() < 0.5:
                follows["quality.canaries"] = "3"
            world.define(made, world.definition, follows)
            parts = {"measures": SUMS, **world.definition}
            made.define("whole", world.other, time="ts", keys=["k"], sequence="id", **parts)
            self.checked(made)
            for _ in range(steps):
                self.operate(follows)
                made = self.survived()
                self.checked(made)
        return world.seen

    def operate(self, follows: Mapping[str, str]) -> None:
        """Change the source, freeze, delete or thaw."""
        world, rng, made = self.world, self.world.rng, self.world.open()
        for _ in range(rng.randint(1, 2)):
            world.change(since=self.minute)
        what = rng.choice(["nothing", "expire", "expire", "delete", "delete", "late", "invalidate", "force", "thaw"])
        world.seen[what] += 1
        match what:
            case "expire":
                self.expire(made)
            case "delete" if self.bound != NEG_INF:
                [status] = made.status("made")
                world.spark.sql(status.delete)
                there = set(DeltaTable(world.source).to_pyarrow_table(columns=["id"])["id"].to_pylist())
                world.ids = [i for i in world.ids if i in there]
            case "late" if self.bound != NEG_INF and rng.random() < 0.3:
                world.insert(1, self.minute - 90, self.minute)
            case "late" if self.bound != NEG_INF:
                self.change_what_lasts()
            case "invalidate":
                made.invalidate("made")
            case "force":
                with suppress(FrozenWindowError):  # all of it may be frozen
                    made.refresh("made", force=True)
            case "thaw" if rng.random() < 0.3 and "source.retention" not in follows and self.is_whole():
                made.thaw("made")
        if self.name in DAYS and rng.random() < 0.5:
            self.strike(made)

    def strike(self, made: Materializer) -> None:
        """Let a clock close windows, up to some time before the newest row."""
        clock = max(self.world.times) - timedelta(hours=self.world.rng.randint(0, 30))
        for name in ("made", "whole"):
            made.refresh(name, as_of=clock.isoformat())
        self.world.seen["clock"] += 1

    def change_what_lasts(self) -> None:
        """Delete or correct an event that began below the bound and ends above it, if there is one."""
        world, bound = self.world, f"'{at(self.bound).isoformat()}'"
        rows = world.spark.sql(
            f"SELECT id FROM delta.`{world.source}` WHERE ts < {bound} AND coalesce(until, {bound}) >= {bound}"
        ).collect()
        if "end" not in world.definition or not rows:
            return
        chosen = f"id = {world.rng.choice(sorted(row['id'] for row in rows))}"
        world.seen["what lasts"] += 1
        is_gone = world.rng.random() < 0.5
        for source in world.sources:
            if is_gone:
                DeltaTable(source).delete(chosen)
            else:
                DeltaTable(source).update(predicate=chosen, updates={"v": "77"})

    def expire(self, made: Materializer) -> None:
        """Freeze as far as it goes."""
        if self.world.rng.random() < 0.7:
            made.refresh("made")
        for hours in range(self.world.rng.randint(3, 12), 0, -1):
            try:
                made.expire("made", (BASE + timedelta(hours=hours * self.world.pace)).isoformat())
            except (ExpireDirtyError, ExpireBoundError) as exc:
                self.world.seen[exc.code] += 1
                continue
            return

    def is_whole(self) -> bool:
        """Whether the source still has every row."""
        return DeltaTable(self.world.source).count() == DeltaTable(self.world.other).count()

    @property
    def minute(self) -> int:
        """The first minute at or above the frozen bound, from the base."""
        if self.bound == NEG_INF:
            return 0
        return max(0, -(int((BASE - at(self.bound)).total_seconds()) // (60 * self.world.pace)))

    def survived(self) -> Materializer:
        """Refresh in a process that may die, and in the next one then; return the lake as that one opened it."""
        world, rng = self.world, self.world.rng
        if rng.random() < 0.4:
            try:
                with dying(Death(rng.choice(PLACES["refresh"]), 1, rng.random() < 0.5)) as on_checkpoint:
                    world.open(on_checkpoint=on_checkpoint).refresh("made")
            except Died as died:
                world.seen[f"died at {died}"] += 1
                leave_behind(world.open(), self.dead)
        return world.open()

    def checked(self, made: Materializer) -> None:
        """Everything is refreshed, history is as it was, and what is published is what all rows give."""
        world = self.world
        fresh = rows_of(made.read("made", fresh=True).toArrow().to_pylist())
        world.refresh(made)
        state = made.journal.view().named("made")
        shown = self.published("made")
        assert fresh == shown, f"always fresh are {[*(fresh - shown)][:2]}, published {[*(shown - fresh)][:2]}"
        self.unchanged(state, shown)
        made.refresh("whole")
        every = self.published("whole")
        world.seen["stuck" if state.uncomputable else "frozen" if state.frozen != NEG_INF else "open"] += 1
        if not state.uncomputable:
            ours, theirs = content(shown), content(every)
            assert ours == theirs, f"published are {[*(ours - theirs)][:2]}, all rows give {[*(theirs - ours)][:2]}"

    def unchanged(self, state: AggregateState, shown: Counter[Any]) -> None:
        """What was published below the bound is published still."""
        below = self.below(shown, self.bound) if state.frozen >= self.bound > NEG_INF else None
        if below is not None:
            assert below == self.history, (
                f"history lost {[*(self.history - below)][:2]}, has {[*(below - self.history)][:2]}"
            )
        self.bound = state.frozen
        self.history = self.below(shown, self.bound) if self.bound != NEG_INF else Counter()

    def below(self, rows: Counter[Any], bound: int) -> Counter[Any]:
        """Return the rows whose slice lies below a bound."""
        return Counter({row: n for row, n in rows.items() if dict(row)["slice"] < at(bound)})

    def published(self, name: str) -> Counter[Any]:
        """Return the output of an aggregate as a bag."""
        return rows_of(DeltaTable(str(self.world.folder / "lake" / name / "output")).to_pyarrow_table().to_pylist())


def at(instant: int) -> datetime:
    """Return an instant of a timestamp column."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=instant)


def rows_of(rows: list[dict[str, Any]]) -> Counter[Any]:
    """Return rows as a bag."""
    return Counter(tuple(sorted(row.items())) for row in rows)


def content(rows: Counter[Any]) -> Counter[Any]:
    """Return rows without how often they were published before, sums of doubles to nine digits."""
    kept: Counter[Any] = Counter()
    for row, n in rows.items():
        kept[tuple((k, round(v, 9) if isinstance(v, float) else v) for k, v in row if k != "revision")] += n
    return kept
