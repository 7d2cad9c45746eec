"""What stands in the way of the next refresh, found without a JVM, and how to mend each."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from materializer.config import Config
from materializer.core.instants import SECOND, render
from materializer.core.policies import length_of, policies_of
from materializer.core.retention import SOURCE
from materializer.core.spec import AggregateSpec
from materializer.errors import LogGapError, MaterializerError
from materializer.journal.events import Frozen
from materializer.journal.fold import AggregateState
from materializer.journal.journal import Journal
from materializer.lake.extent import files
from materializer.lake.log import read_commit
from materializer.lake.table import DeltaFolder
from materializer.services import planning, processes, retention
from materializer.services.definitions import Bound
from materializer.services.refresh import stuck_spans
from materializer.services.status import advice_of

WEEK_HOURS: Final = 168
MONTH_HOURS: Final = 720
SOON_HOURS: Final = 48
"""When less than this is left before a version becomes unreadable, it is a warning."""

_HOURS: Final = {"hour": 1, "day": 24, "week": 168}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Args:
        level: ``ok``, ``note``, ``warning`` or ``error``.
        subject: ``environment``, or the aggregate it is about.
        code: Stable code.
        message: What was found.
        hint: How to mend it; empty when nothing has to be done.
    """

    level: str
    subject: str
    code: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class Doctor:
    """Examines one lake; writes nothing and starts no JVM."""

    root: Path
    journal: Journal
    config: Config

    def examine(self, name: str | None = None) -> list[Finding]:
        """Return findings about the environment and one aggregate, or all."""
        findings = list(self._environment())
        try:
            view = self.journal.view()
        except MaterializerError as exc:
            return [*findings, Finding("error", "journal", exc.code, exc.message, exc.hint)]
        states = [view.named(name)] if name else sorted(view.states.values(), key=lambda s: s.name.lower())
        findings.append(
            Finding("ok", "journal", "doctor.journal", f"version {view.version}, {len(view.states)} aggregates")
        )
        for state in states:
            findings += self._aggregate(state)
        return findings

    def _environment(self) -> Iterator[Finding]:
        from materializer.spark import jars
        from materializer.spark.session import check_java

        try:
            yield Finding("ok", "environment", "doctor.java", f"Java {check_java()}")
        except MaterializerError as exc:
            yield Finding("error", "environment", exc.code, exc.message, exc.hint)
        try:
            found = jars.find(self.config.spark.jars, jars.cache_dir())
        except MaterializerError as exc:
            yield Finding("error", "environment", exc.code, exc.message, exc.hint)
            return
        if found:
            yield Finding(
                "ok", "environment", "doctor.jars", "the Delta jars are there: " + ", ".join(p.name for p in found)
            )
        else:
            yield Finding(
                "note",
                "environment",
                "doctor.jars",
                "the Delta jars are not cached yet; the first start fetches two files",
            )

    def _aggregate(self, state: AggregateState) -> Iterator[Finding]:
        yield from self._work(state)
        try:
            yield from self._source(state)
            yield from self._tables(state)
        except MaterializerError as exc:
            yield Finding("error", state.name, exc.code, exc.message, exc.hint)

    def _work(self, state: AggregateState) -> Iterator[Finding]:
        if state.lease is not None:
            dead = processes.is_dead(state.lease, time.time())
            who = f"process {state.lease.pid} on {state.lease.host}"
            if dead:
                yield Finding(
                    "note",
                    state.name,
                    "doctor.lease",
                    f"{who} died while it held the lease",
                    "the next command takes it over",
                )
            else:
                yield Finding("ok", state.name, "doctor.lease", f"{who} is working on it")
        if state.plan is not None:
            message = f"refresh {state.plan.n} has not ended"
            yield Finding(
                "note",
                state.name,
                "doctor.unfinished",
                message,
                f"run 'materializer refresh {state.name}': it ends it first",
            )
        if len(state.log.entries) > self.config.log_max_entries // 2:
            message = f"the invalidation log has {len(state.log.entries)} entries of {self.config.log_max_entries}"
            yield Finding(
                "warning", state.name, "doctor.log", message, "refresh a wider window before neighbours are joined"
            )
        yield from self._late(state)
        yield from self._frozen(state)
        if state.null_times:
            message = f"{state.null_times:,} source rows have no time and are left out"
            yield Finding(
                "note", state.name, "doctor.null-times", message, "mend them in the source; they are picked up then"
            )

    def _frozen(self, state: AggregateState) -> Iterator[Finding]:
        grid = Bound.of(state, self.root).definition.grid
        if state.stuck:
            stuck = stuck_spans(state)
            why = "; ".join(dict.fromkeys(retention.why_stuck(e) for e in state.stuck))
            message = f"{planning.spans_text(grid, stuck)} is dirty below the frozen bound and stays so: {why}"
            hint = f"'materializer thaw {state.name}' says what computing it again from the source would mean"
            yield Finding("warning", state.name, "doctor.frozen", message, hint)
        wanted = min(retention.wanted(state, grid, SOURCE), state.threshold)
        if wanted > state.frozen and not any(isinstance(e, Frozen) for e in retention.moved(state, grid)):
            message = (
                f"source.retention asks to freeze below {render(wanted, grid.time_type)}, and buckets there are dirty"
            )
            hint = f"run 'materializer refresh {state.name}' before the rows go"
            yield Finding("warning", state.name, "doctor.not-frozen", message, hint)

    def _late(self, state: AggregateState) -> Iterator[Finding]:
        spec = AggregateSpec.from_json(state.spec)
        found = advice_of(state, Bound.of(state, self.root).definition.grid)
        if found is None:
            return
        reach = [p.start_offset for p in policies_of(spec)]
        late = state.lateness.within(0.999) or 0
        seen = [0 if w is None else length_of(w) / SECOND for w in reach]
        if reach and None not in reach and late > max(seen):
            message = "0.1 % of the rows come later than any policy looks back: their buckets stay dirty"
            hint = f"set refresh.start_offset to {found.start_offset} or more, or refresh.catch_dirt = true"
            yield Finding("warning", state.name, "doctor.late-rows", message, hint)

    def _source(self, state: AggregateState) -> Iterator[Finding]:
        folder = DeltaFolder.at(state.source.path)
        head = folder.head()
        if head.table_id != state.source.table_id:
            hint = "run 'materializer apply --rebuild' to build from the new table, or drop the aggregate"
            yield Finding("error", state.name, "source.replaced", "the source was dropped and recreated", hint)
            return
        if head.version < state.cursor:
            hint = "run 'materializer apply --rebuild' if an older copy was put in its place"
            yield Finding(
                "error",
                state.name,
                "source.rolled-back",
                f"the source is at {head.version}, captured up to {state.cursor}",
                hint,
            )
            return
        properties = folder.properties()
        if properties.get("delta.enableChangeDataFeed", "").lower() != "true":
            hint = "ALTER TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true); changes from then on are told by row"
            yield Finding(
                "warning",
                state.name,
                "doctor.no-feed",
                "the source has no change feed: changes are told by file statistics",
                hint,
            )
        extent = files(
            state.source.path, head.version, state.spec["time_column"], Bound.of(state, self.root).definition.time_type
        )
        if extent.unknown.files:
            hint = f"put '{state.spec['time_column']}' among the first 32 columns, or in delta.dataSkippingStatsColumns, and rewrite the files"
            message = (
                f"{extent.unknown.files} source files have no statistics of the time column: every refresh reads them"
            )
            yield Finding("warning", state.name, "doctor.no-statistics", message, hint)
        if head.version > state.cursor:
            yield from self._retention(state, properties, head.version)

    def _retention(self, state: AggregateState, properties: object, newest: int) -> Iterator[Finding]:
        kept = properties if isinstance(properties, dict) else {}
        wall = min(
            _hours(kept.get("delta.deletedFileRetentionDuration"), WEEK_HOURS),
            _hours(kept.get("delta.logRetentionDuration"), MONTH_HOURS),
        )
        try:
            oldest = read_commit(state.source.path, state.cursor + 1)
        except LogGapError:
            hint = "the next refresh takes everything below the threshold as dirty; refresh more often than the log is cleaned"
            yield Finding(
                "error",
                state.name,
                "doctor.log-cleaned",
                f"version {state.cursor + 1} of the source was cleaned away",
                hint,
            )
            return
        left = wall - (time.time() - oldest.timestamp / 1000) / 3600
        message = f"{newest - state.cursor} source versions are not captured; the oldest stays readable for {max(left, 0):,.0f} h"
        level = "ok" if left > SOON_HOURS else "warning"
        yield Finding(
            level,
            state.name,
            "doctor.retention",
            message,
            "" if level == "ok" else f"run 'materializer refresh {state.name}' before that",
        )

    def _tables(self, state: AggregateState) -> Iterator[Finding]:
        bound = Bound.of(state, self.root)
        for which in ("partials", "output"):
            path = bound.paths[which]
            folder = DeltaFolder.at(path)
            head, n = folder.head(), folder.transaction_version(bound.app_ids[which]) or 0
            if head.table_id != state.tables[which]:
                hint = f"run 'materializer drop {state.name}' and apply it again"
                yield Finding(
                    "error",
                    state.name,
                    "tables.foreign",
                    f"its {which} table is not the one that was created for it",
                    hint,
                )
            elif state.plan is None and n != state.written_n:
                hint = f"one of the two was restored from an old copy: run 'materializer drop {state.name}' and apply it again"
                yield Finding(
                    "error",
                    state.name,
                    "tables.ahead",
                    f"its {which} table carries refresh {n}, the journal {state.written_n}",
                    hint,
                )
            else:
                yield Finding("ok", state.name, "doctor.table", f"{which} at version {head.version}, refresh {n}")


def _hours(text: str | None, default: int) -> float:
    """Return the hours of a retention such as ``interval 7 days``.

    Examples:
        >>> _hours("interval 1 week", 0)
        168.0
    """
    found = re.search(r"(\d+)\s*(hour|day|week)", text or "", re.IGNORECASE)
    return float(int(found[1]) * _HOURS[found[2].lower()]) if found else float(default)
