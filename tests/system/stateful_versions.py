"""The same random work, while the definition of one aggregate changes: build, switch, roll back and give up, with deaths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.core.language.define import define
from materializer.errors import NotCoveredError, NothingBuiltError
from materializer.services.versions.build import BuildReport
from tests.oracle import naive
from tests.system.lake import AGGREGATES, CHECKPOINTS, HOURLY, Death, Defined
from tests.system.stateful import MAYBE, RUNS, Commit, Work

_FEW: Final = ("n", "s", "a")
VARIANTS: Final[Mapping[str, Defined]] = {
    "": HOURLY,
    "wider": replace(
        HOURLY,
        parts={**HOURLY.parts, "width": "2 hours"},
        bucket=naive.every(timedelta(hours=2)),
        longest=timedelta(hours=2),
    ),
    "fewer": replace(
        HOURLY,
        parts={**HOURLY.parts, "measures": {m: HOURLY.parts["measures"][m] for m in _FEW}},
        measures=HOURLY.measures[: len(_FEW)],
    ),
    "everything": replace(HOURLY, parts={k: v for k, v in HOURLY.parts.items() if k != "where"}, where=lambda _: True),
}
"""By comment, which tells what is published."""

SWITCHES: Final = (
    "switch_plan",
    "switch_write",
    "switch_fence",
    "switch_done",
    "switch_undo",
    "switch_refuse",
    "switch_undone",
)
DEATHS: Final = st.none() | st.builds(
    Death,
    st.sampled_from(SWITCHES[:4]) | st.sampled_from(SWITCHES) | st.sampled_from(CHECKPOINTS[:10]),
    st.sampled_from([1, 1, 2]),
    st.booleans(),
)
NAME: Final = HOURLY.name


class Changing(Work):
    """One lake, and an aggregate in it whose definition changes; nothing is gated, as suites would name other columns."""

    has_gates: ClassVar[bool] = False

    def now(self, name: str) -> Defined:
        """Return the definition of what an aggregate publishes."""
        if name != NAME:
            return AGGREGATES[name]
        return VARIANTS[self.materializer.journal.view().named(name).spec["comment"]]

    def has_next(self) -> bool:
        """Whether a next version is being built."""
        view = self.materializer.journal.view()
        return view.build_of(view.named(NAME)) is not None

    @rule(variant=st.sampled_from([*VARIANTS, "wider", "fewer"]), death=DEATHS)
    def change(self, variant: str, death: Death | None) -> None:
        """Apply a definition."""
        parts = {**self.parts(VARIANTS[variant]), "comment": variant}
        self.versioned("change", death, lambda m: m.apply(define(NAME, self.source.path, **parts)))

    @precondition(lambda self: self.has_next())
    @rule(commits=MAYBE, runs=RUNS, switch=st.sampled_from([True, True, False]), death=DEATHS)
    def build(self, commits: list[Commit], runs: dict[str, Any], switch: bool, death: Death | None) -> None:
        """Build some runs, and publish what is built when it covers what is published."""
        self.committed(commits)
        self.versioned("build", death, lambda m: m.build(NAME, switch=switch, **runs))

    @precondition(lambda self: self.has_next())
    @rule(death=DEATHS)
    def switch(self, death: Death | None) -> None:
        """Publish by hand."""
        self.versioned("switch", death, lambda m: m.switch(NAME))

    @precondition(lambda self: self.materializer.journal.view().named(NAME).previous)
    @rule(death=DEATHS)
    def roll_back(self, death: Death | None) -> None:
        """Make the previous version the next one, and publish it."""

        def do(m: Materializer) -> Any:
            m.rollback(NAME)
            return m.build(NAME)

        self.versioned("roll back", death, do)

    @precondition(lambda self: self.has_next())
    @rule(death=DEATHS)
    def abandon(self, death: Death | None) -> None:
        """Give the next version up."""
        self.versioned("abandon", death, lambda m: m.abandon(NAME))

    def versioned(self, what: str, death: Death | None, do: Callable[[Materializer], Any]) -> None:
        """Run a command that changes versions; there may be none, or it may not cover what is published."""

        def told(m: Materializer) -> None:
            try:
                report = do(m)
            except (NothingBuiltError, NotCoveredError) as exc:
                Work.seen[exc.code] += 1
                return
            for change in report if isinstance(report, list) else ():
                Work.seen[f"{change.kind} {change.next}"] += 1
            if isinstance(report, BuildReport):
                Work.seen["switched" if report.switched else "not switched"] += 1

        self.command(what, NAME, (None, None), death, told)

    def teardown(self) -> None:
        """What is being built can be published at the end, and is true."""
        if hasattr(self, "materializer") and self.has_next():
            with suppress(NothingBuiltError):  # a dead process had published it
                assert self.materializer.build(NAME).switched is not None
        super().teardown()
