"""Random histories of engines that are kept for long: maintained, changed, rolled back, harmed and repaired, with deaths.

    python -m tests.system.engine_histories --kept [--histories 20] [--seed 1] [--engine NAME]

After every step the output equals the whole computation, its change feed leads to it, and it is what an always-fresh read
gave before. Canaries, where they are switched on, find no difference, and with ``output.retention`` all of it is so from there
on, and nothing older is left.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final
from unittest import mock

from deltalake import DeltaTable
from msgspec import Struct, field

from materializer.api import Materializer
from materializer.errors import NothingBuiltError
from materializer.services.maintenance import maintain
from tests.system.engine_histories import BASE, World
from tests.system.lake import CHECKPOINTS, MAINTENANCE, Death, Died, dying, leave_behind, micros, replayed, the_dead
from tests.system.stateful_repairs import REPAIRS
from tests.system.stateful_versions import SWITCHES

VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "tumbling": {"window_size": "20 minutes", "step": "20 minutes"},
    "hopping": {"window_size": "10 minutes"},
    "filled": {"fill": "null"},
    "forced": {"force_trigger_time": "3 minutes"},
    "shown": {"update_time": "2 minutes"},
    "daily": {"window_size": "15 minutes", "step": "15 minutes"},
    "sessions": {"session_gap": "2 minutes"},
    "rows": {"measures": {"m": "mavg(v, 2)", "c": "cumsum(v)"}},
    "overlapping": {"duration": "30 minutes"},
    "compressed": {"duration": "30 minutes"},
    "snapshots": {"measures": {"total": "sum(v)"}},
    "counts": {"count": 2},
    "events": {"lag": "0 minutes"},
}
"""By name of a definition: what another version of it has instead."""

OPERATIONS: Final = (
    *("nothing", "look", "maintain", "change", "roll back", "repair", "invalidate"),
    *("backfill", "backfill", "window", "window", "keep"),
)
RETENTION: Final = "output.retention"
LENGTHS: Final[tuple[Mapping[str, str], ...]] = ({}, {}, {RETENTION: "3 hours"}, {RETENTION: "6 hours"})
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "refresh": CHECKPOINTS,
    "maintain": MAINTENANCE,
    "change": (*SWITCHES, *CHECKPOINTS[:10]),
    "roll back": (*SWITCHES, *CHECKPOINTS[:10]),
    "repair": REPAIRS,
    "backfill": CHECKPOINTS,
    "window": CHECKPOINTS,
}
"""Where the process that runs a command may die."""


class Kept(Struct):
    """One engine's aggregate, kept for long.

    Args:
        world: Its source and its lake.
        name: Which definition.
    """

    world: World
    name: str
    dead: set[str] = field(default_factory=set)
    is_other: bool = False
    properties: dict[str, str] = field(default_factory=dict)

    def run(self, steps: int) -> Counter[str]:
        """Run one random history; return what happened in it.

        Raises:
            AssertionError: If a row differs from the whole computation, from the feed, or from an always-fresh read.
        """
        rng, seen = self.world.rng, self.world.seen
        with the_dead() as self.dead, mock.patch.object(maintain, "retention_hours", return_value=0.0):
            self.world.begin()
            self.properties = {"output.change_feed": "true", "quality.canaries": rng.choice("0033")}
            self.properties |= rng.choice(LENGTHS)
            self.define()
            self.checked(self.world.open())
            for _ in range(steps):
                for _ in range(rng.randint(0, 2)):
                    self.world.change()
                what = rng.choice(OPERATIONS)
                seen[what] += 1
                rows = self.operate(what)
                made = self.survived("refresh", self.refresh)
                self.checked(made, rows)
        return seen

    def refresh(self, made: Materializer) -> None:
        """Refresh everything."""
        runs = made.refresh("made", executor=next(self.world.executors)).runs
        self.world.seen.update(f"strategy {run.plan.strategy}" for run in runs)
        self.world.seen.update(f"executor {run.report.executor or 'spark'}" for run in runs)
        for found in (run.verdict.get("sampled", {}) for run in runs):
            self.world.seen.update(f"canaries {kind}" for kind in ("clean", "touched") if found.get(kind))

    def define(self) -> None:
        """Apply the definition that is meant now."""
        parts = {**self.world.definition, **(VARIANTS[self.name] if self.is_other else {})}
        self.world.define(self.world.open(), parts, self.properties)

    def operate(self, what: str) -> Counter[Any] | None:
        """Do something; return what an always-fresh read gave, if that was it."""
        rng, made = self.world.rng, self.world.open()
        match what:
            case "look":
                if rng.random() < 0.5:
                    self.dies("refresh", lambda m: m.refresh("made"))  # what it leaves is there when it is read
                return rows_of(made.read("made", fresh=True).toArrow().to_pylist())
            case "maintain":
                self.survived(what, lambda m: m.maintain("made"))
            case "change":
                self.is_other = not self.is_other
                self.define()
                self.survived(what, published)
            case "roll back" if made.journal.view().named("made").previous:
                self.is_other = not self.is_other
                made.rollback("made")
                self.survived(what, published)
            case "repair":
                harmed = "partials" if rng.random() < 0.5 else "output"
                shutil.rmtree(self.world.folder / "lake" / "made" / harmed, ignore_errors=True)
                self.survived(what, lambda m: m.repair("made"))
            case "backfill":
                runs = {
                    "buckets_per_run": rng.choice([3, 20]),
                    "order": rng.choice(["newest", "oldest"]),
                    "max_runs": 2,
                }
                self.survived(what, lambda m: m.backfill("made", **runs))
            case "window":
                start, end = (BASE + timedelta(hours=h) for h in sorted(rng.sample(range(-1, 11), 2)))
                bounds = rng.choice([(start, end), (start, end), (start, None), (None, end)])
                self.survived(what, lambda m: m.refresh("made", *(at and at.isoformat() for at in bounds)))
            case "invalidate":
                made.invalidate("made")
            case "keep":
                self.properties = {n: v for n, v in self.properties.items() if n != RETENTION} | rng.choice(LENGTHS)
                self.define()
        return None

    def survived(self, what: str, do: Callable[[Materializer], object]) -> Materializer:
        """Run a command in a process that may die, and in the next one then; return the lake as that one opened it."""
        if self.world.rng.random() < 0.4:
            self.dies(what, do)
        made = self.world.open()
        do(made)
        return made

    def dies(self, what: str, do: Callable[[Materializer], object]) -> None:
        """Run a command in a process that dies where it may, if it comes there."""
        rng = self.world.rng
        death = Death(rng.choice(PLACES[what]), rng.choice([1, 1, 2]), rng.random() < 0.5)
        try:
            with dying(death) as on_checkpoint:
                do(self.world.open(on_checkpoint=on_checkpoint))
        except Died as died:
            self.world.seen[f"{what} died at {died}"] += 1
            leave_behind(self.world.open(), self.dead)

    def checked(self, made: Materializer, fresh: Counter[Any] | None = None) -> None:
        """Everything is refreshed and true."""
        self.world.refresh(made)
        path = self.world.folder / "lake" / "made" / "output"
        rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        self.is_kept(made, rows)
        assert replayed(self.world.folder / "lake", "made") == Counter(tuple(r.values()) for r in rows), "the feed"
        if fresh is not None:
            shown = rows_of(rows)
            assert fresh == shown, f"always fresh are {[*(fresh - shown)][:2]}, published {[*(shown - fresh)][:2]}"
        report = made.repair("made", dry_run=True)
        assert report.outcome == "sound", report.mending.wrong

    def is_kept(self, made: Materializer, rows: list[dict[str, Any]]) -> None:
        """The output holds nothing that is older than it keeps, by the newest row or by a newer one that there was."""
        state = made.journal.view().named("made")
        oldest = min((row["slice"] for row in rows), default=None)
        assert oldest is None or micros(oldest) >= state.retired, f"{oldest} is older than the output keeps"
        length = dict(state.spec["properties"]).get(RETENTION)  # a version that came back brings its own
        if length is not None:
            times = DeltaTable(self.world.source).to_pyarrow_table(columns=["ts"])["ts"].to_pylist()
            hours = timedelta(hours=int(length.split()[0]) - 1)
            assert state.retired >= micros(max(times).replace(minute=0, second=0, microsecond=0) - hours)
            self.world.seen["kept from somewhere on"] += 1


def rows_of(rows: list[dict[str, Any]]) -> Counter[Any]:
    """Return rows as a bag."""
    return Counter(tuple(sorted(row.items())) for row in rows)


def published(m: Materializer) -> None:
    """Build the next version to its end and publish it; a process that died may have done so."""
    try:
        m.build("made")
    except NothingBuiltError:
        return
