"""Findings of ``doctor`` about tables: retention of sources, foreign writers and properties, and need of maintenance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from materializer.core.engines.registry import read_params
from materializer.core.policy.policies import policies_of
from materializer.core.printed import Printed, PrintedList, PrintedTable, facts
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import NEG_INF
from materializer.core.time.trading_days import DAYS
from materializer.core.time.windows import spans_text
from materializer.errors import LogGapError
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.log import Commit, commits, latest_version, read_commit
from materializer.lake.notes import note_of
from materializer.lake.write.commit import PROPERTIES
from materializer.lake.write.vacuum import hours
from materializer.services.aggregate import Aggregate
from materializer.services.definitions.cron import next_due
from materializer.services.maintenance.maintain import MONTH_HOURS, WEEK_HOURS, TablePlan
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.observe.withheld import withheld
from materializer.services.repair.diagnose import NUMBERS_EXPIRE

SOON_HOURS: Final = 48
"""A version that becomes unreadable sooner than this is a warning."""
SOON_DAYS: Final = 30
"""A trading calendar that ends sooner than this after the newest row is a warning."""
MOST_COMMITS: Final = 200
"""How many commits of a source are searched for files that are gone."""
MOST_OWN_COMMITS: Final = 10_000
"""How many commits of our tables are searched for foreign ones: a week of refreshes each minute; takes half a second."""
NAMED: Final = 4
"""How many foreign commits are named."""
MANY_SMALL_FILES: Final = 100
MANY_LAYERS: Final = 10
"""More small files, or files over one instant, are a warning."""
LEAST_HOURS: Final = 24
_HOUR: Final = 3_600_000_000
_FEED: Final = "delta.deletedFileRetentionDuration"
_LOG: Final = "delta.logRetentionDuration"
_PARENTS: Final = "maintain.retention"


class DoctorFinding(Printed, Struct, frozen=True):
    """The result of one examination.

    Args:
        level: ``ok``, ``note``, ``warning`` or ``error``.
        subject: ``environment``, ``journal``, ``suites``, or the name of an aggregate.
        code: Stable code.
        message: The finding.
        hint: The remedy; empty when none is needed.
    """

    level: str
    subject: str
    code: str
    message: str
    hint: str = ""

    def _tables(self) -> list[PrintedTable]:
        return [
            facts(f"{self.subject}: {self.level}", [("", self.message), ("remedy", self.hint), ("code", self.code)])
        ]


def listed(findings: Iterable[DoctorFinding]) -> PrintedList[DoctorFinding]:
    """Return findings as a list that prints as a table."""
    found = list(findings)

    def table() -> PrintedTable:
        rows = [(f.subject, f.level, f.message, f.hint or None) for f in found]
        return PrintedTable(f"{len(found)} findings", ("subject", "level", "finding", "remedy"), rows)

    return PrintedList(found, table)


def endangered(
    state: AggregateState, properties: Mapping[str, str], newest: int, parents_hours: float | None = None
) -> Iterator[DoctorFinding]:
    """Yield when uncaptured changes of the source become unreadable, or that they are.

    Args:
        state: The aggregate.
        properties: Table properties of its source.
        newest: Newest version of the source.
        parents_hours: Retention of files in hours, if the source is the output of an aggregate whose definition sets one.
    """
    walls = {
        "change feed and vacuum": (_FEED, _retention(properties, _FEED, WEEK_HOURS)),
        "log": (_LOG, _retention(properties, _LOG, MONTH_HOURS)),
    }
    if parents_hours is not None:
        walls["change feed and vacuum"] = (f"{_PARENTS} of the aggregate that it reads", parents_hours)
    what, (key, wall) = min(walls.items(), key=lambda each: each[1][1])
    yield from _too_seldom(state, what, key, wall)
    yield from _waiting(state, f"{what}, {key}", wall)
    if newest <= state.cursor:
        return
    try:
        oldest = read_commit(state.source.path, state.cursor + 1)
        gone = _gone(state, newest)
    except LogGapError:
        message = f"version {state.cursor + 1} of the source was cleaned away"
        hint = (
            "the next refresh takes everything below the threshold as dirty; refresh more often than the log is cleaned"
        )
        yield DoctorFinding("error", state.name, "doctor.log-cleaned", message, hint)
        return
    if gone:
        message = f"files with changes of the source are gone before they were captured: {gone}"
        hint = "the next refresh tells these changes by file statistics; vacuum the source less, or refresh more often"
        yield DoctorFinding("warning", state.name, "doctor.vacuumed", message, hint)
    left = wall - (time.time() - oldest.timestamp / 1000) / 3600
    behind = f"{newest - state.cursor} source versions are not captured"
    message = f"{behind}; the oldest stays readable for {max(left, 0):,.0f} h ({what}, {key})"
    level = "ok" if left > SOON_HOURS else "warning"
    hint = "" if level == "ok" else f"run 'materializer refresh {state.name}' before that"
    yield DoctorFinding(level, state.name, "doctor.retention", message, hint)


def _waiting(state: AggregateState, what: str, wall: float) -> Iterator[DoctorFinding]:
    """Yield how long late rows below the frozen boundary can wait: a merge reads them from the change feed, and nothing else can."""
    below, _ = state.log.split(state.frozen)
    waiting = [e.after for e in below.entries if e.after is not None and e.is_mergeable]
    if not waiting:
        return
    hint = f"run 'materializer refresh {state.name}' before that"
    try:
        oldest = read_commit(state.source.path, min(waiting) + 1)
    except LogGapError:
        message = (
            f"late rows below the frozen bound came in version {min(waiting) + 1} of the source, which was cleaned away"
        )
        hint = f"'materializer thaw {state.name}' computes history again, where its raw rows are still there"
        yield DoctorFinding("error", state.name, "doctor.log-cleaned", message, hint)
        return
    left = max(wall - (time.time() - oldest.timestamp / 1000) / 3600, 0)
    message = (
        f"late rows below the frozen bound wait to be merged; their changes stay readable for {left:,.0f} h ({what})"
    )
    yield DoctorFinding("note" if left > SOON_HOURS else "warning", state.name, "doctor.retention", message, hint)


def _too_seldom(state: AggregateState, what: str, key: str, wall: float) -> Iterator[DoctorFinding]:
    """Yield a warning if the retention of the source is shorter than the period of every schedule."""
    now = int(time.time() * 1_000_000)
    lengths = []
    for policy in policies_of(AggregateSpec.from_json(state.spec)):
        first = None if policy.schedule is None else next_due(policy.schedule, now)
        second = None if first is None or policy.schedule is None else next_due(policy.schedule, first)
        if first is not None and second is not None:
            lengths.append((second - first) / _HOUR)
    if lengths and min(lengths) >= wall:
        message = (
            f"its schedule runs every {min(lengths):,.0f} h, and its source forgets after {wall:,.0f} h ({what}, {key})"
        )
        longer = f"ALTER TABLE … SET TBLPROPERTIES ({key} = 'interval 30 days') on the source"
        hint = f"run it more often, or {f'lengthen {key}' if key.startswith(_PARENTS) else longer}"
        yield DoctorFinding("warning", state.name, "doctor.too-seldom", message, hint)


def _gone(state: AggregateState, newest: int) -> int:
    """Return how many files of uncaptured changes are gone; reads few commits."""
    path = state.source.path
    upto = min(newest, state.cursor + MOST_COMMITS)
    names: set[str] = set()
    for commit in commits(path, state.cursor, upto):
        changed = [f.path for f in (*commit.adds, *commit.removes) if f.data_change]
        names.update(f.path for f in commit.change_files) if commit.change_files else names.update(changed)
    return sum(1 for _ in places.missing_of(path, map(unquote, names)))


def written_by_others(state: AggregateState, table: str, path: str) -> Iterator[DoctorFinding]:
    """Yield a warning if foreign commits changed rows of a table of ours, as far back as its log goes."""
    others = list(islice(_others(path), NAMED + 1))
    if others:
        which = ", ".join(str(c.version) for c in others[:NAMED]) + (" and more" if len(others) > NAMED else "")
        message = f"its {table} was written by others: {others[0].operation or 'a commit'} (version {which})"
        hint = f"'materializer verify {state.name}' tells what differs, 'materializer refresh {state.name} --force' computes all of it again"
        yield DoctorFinding("warning", state.name, "doctor.written-by-others", message, hint)


def _others(path: str) -> Iterator[Commit]:
    """Yield foreign commits that changed rows, newest first; of our own only the commit info is parsed."""
    newest = latest_version(path)
    for version in range(newest, max(0, newest - MOST_OWN_COMMITS), -1):
        try:
            commit = read_commit(path, version) if note_of(path, version) is None else None
        except LogGapError:
            return
        if commit is not None and commit.is_data_change:
            yield commit


def unfit_properties(state: AggregateState, table: str, properties: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield foreign properties of a table of ours that lose data or stop writes."""
    unfit = []
    files, log = _retention(properties, _FEED, WEEK_HOURS), _retention(properties, _LOG, MONTH_HOURS)
    if files < LEAST_HOURS:
        unfit.append((_FEED, f"readers lose their files after {files:,.0f} h", f"'{PROPERTIES[_FEED]}'"))
    if log < LEAST_HOURS:
        why = f"after {log:,.0f} h nobody can tell what a refresh that died had written, nor what others wrote"
        unfit.append((_LOG, why, f"'{PROPERTIES[_LOG]}'"))
    if NUMBERS_EXPIRE in properties:
        unfit.append(
            (NUMBERS_EXPIRE, "the table forgets which refresh it carries, and a late writer is not refused", "")
        )
    if properties.get("delta.enableDeletionVectors", "").lower() == "true":
        unfit.append(("delta.enableDeletionVectors", "readers without Spark would see rows that were deleted", "false"))
    if properties.get("delta.appendOnly", "").lower() == "true":
        unfit.append(("delta.appendOnly", "no bucket can be replaced", "false"))
    for key, why, fit in unfit:
        message = f"its {table} has {key} = {properties.get(key)!r}: {why}"
        hint = f"SET TBLPROPERTIES ({key} = {fit})" if fit else f"UNSET TBLPROPERTIES ({key})"
        yield DoctorFinding("warning", state.name, "doctor.property", message, f"ALTER TABLE … {hint}")


def _retention(properties: Mapping[str, str], key: str, default_hours: float) -> float:
    """Return a retention in hours. A retention of 0 hours is returned as it is; only vacuum replaces it by the default."""
    length = hours(properties.get(key))
    return default_hours if length is None else length


def needs_compaction(
    state: AggregateState, plans: Callable[[AggregateState], Iterable[TablePlan]]
) -> Iterator[DoctorFinding]:
    """Yield findings about tables that maintenance would rewrite or tidy."""
    for plan in plans(state):
        if not plan.groups:
            yield from untidy(state.name, plan, f"run 'materializer maintain {state.name}'")
            continue
        files = sum(len(g.pieces) for g in plan.groups)
        layers = f", up to {plan.deepest:,} over each other" if plan.deepest > 1 else ""
        message = f"its {plan.table} has {plan.files:,} files, {plan.small:,} of them small{layers}; {files:,} are worth writing again"
        level = "warning" if plan.small > MANY_SMALL_FILES or plan.deepest > MANY_LAYERS else "note"
        yield DoctorFinding(level, state.name, "doctor.worn", message, f"run 'materializer maintain {state.name}'")


def untidy(subject: str, plan: TablePlan, hint: str) -> Iterator[DoctorFinding]:
    """Yield a finding about a table with files or commits that maintenance would remove or fold."""
    gathered = [
        f"{plan.leftovers:,} files that nobody needs ({plan.leftover_bytes / 1e6:,.1f} MB)" if plan.leftovers else "",
        f"{plan.since_checkpoint:,} commits since its last checkpoint" if plan.is_log_long else "",
        f"{plan.expired:,} files of its log that may go" if plan.expired else "",
        f"{plan.fold:,} commits to fold into one file" if plan.fold else "",
    ]
    text = ", ".join(part for part in gathered if part)
    if text:
        yield DoctorFinding("note", subject, "doctor.untidy", f"its {plan.table} has {text}", hint)


def calendar_ends(state: AggregateState) -> Iterator[DoctorFinding]:
    """Yield a warning if the newest row is close to the end of the trading calendar of an aggregate."""
    spec = AggregateSpec.from_json(state.spec)
    if not any(name == DAYS for name, _ in spec.params) or state.extent_end == NEG_INF:
        return
    engine, _ = read_params(spec)
    calendar = engine.calendar if engine is not None else None
    if calendar is None or calendar.dated is None:
        return
    left = calendar.dated.last - calendar.day_of(state.extent_end)
    if left < SOON_DAYS:
        message = f"the trading calendar ends {left} days after the newest row; a row after it stops the refresh"
        yield DoctorFinding(
            "warning", state.name, "doctor.calendar", message, "apply the definition again for a newer calendar"
        )


def withheld_by_gates(state: AggregateState, root: str) -> Iterator[DoctorFinding]:
    """Yield a warning for what gates withhold: which buckets, by which checks, and what to do."""
    dirty = dirty_below_newest(state)
    for each in withheld(state):
        if not (spans := each.spans & dirty):
            continue
        aggregate, command = Aggregate.of(state, root), "build" if state.builds else "refresh"
        many = f"{len(spans)} spans: " if len(spans) > 1 else ""
        where = spans_text(aggregate.definition.grid, spans)
        failing = aggregate.paths["failing"]
        rows = f" in {failing}" if places.exists(failing) else ""
        message = f"the gate withholds {many}{where}; refresh {each.refresh} found: {'; '.join(each.checks)}"
        hint = (
            f"look at the failing rows{rows}, correct the source or the suite, and run 'materializer {command} {state.name}' "
            "again; --publish-anyway REASON publishes it as it is"
        )
        yield DoctorFinding("warning", state.name, "doctor.withheld", message, hint)
