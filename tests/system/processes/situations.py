"""Lakes as they stand before a command, the command, where it can be killed, and what comes after it when it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltalake import DeltaTable, write_deltalake
from msgspec import Struct, field

from materializer.core.spec.spec import AggregateSpec
from materializer.journal.codec import Row
from materializer.journal.store import JournalStore
from tests.system.processes.child import BEFORE, COMMANDS, DEFINITION
from tests.system.processes.running import HOURS, MEASURES, PLAINLY, World
from tests.system.processes.sessions import Sessions
from tests.system.small_files import torn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]

KEPT_HOURS: Final = 6
"""How long buckets stay in an output that forgets."""
LATE: Final = (1, 2, 4)
"""Hours that late rows are inserted into."""
OTHER: Final = {"n": "count(*)", "s": "sum(v)", "low": "min(v)"}
"""Measures that want the raw rows again."""
OTHERLY: Final = "count(*) n, sum(v) s, min(v) low"
TWICE: Final = MEASURES | {"twice": "2 * sum(v)"}
"""Measures that the stored partials give too."""
TWICELY: Final = f"{PLAINLY}, 2 * sum(v) twice"
FOLD: Final = "fold_history fold_journal"
"""What a command reaches that folds the journal."""

_LEASE: Final = "lease recover"
_AGAIN: Final = "lease:2 recover:2"
_COMPUTE: Final = "compute audit write writing_partials writing_output wrote_partials wrote_output done end"
_TORN: Final = "compute wrote_partials wrote_output done end"
_REFRESH: Final = f"{_LEASE} plan {_COMPUTE}"
_REFRESH_AGAIN: Final = " ".join(f"{name}:2" for name in _REFRESH.split())
_PUBLISH: Final = "switch_plan switch_write switch_fence switch_done"
_COPY: Final = "version_sweep version_tables version_partials version_output version_journal"
_MAINTAIN: Final = "maintain_vacuum maintain_rewrite maintain_written maintain_committed maintain_log"
_MAINTAIN_AGAIN: Final = " ".join(f"{name}:2" for name in _MAINTAIN.split())
_TAKE_OVER: Final = "takeover_retire takeover_partials takeover_output takeover_journal takeover_clean"
_REPAIR: Final = "repair_partials repair_output repair_journal repair_clean"
_CHECK: Final = "check_journal checked"
_ASKED: Final = f"version_check {_CHECK}"
_DESCRIBE: Final = "describe described"
_DELIVER: Final = "deliver deliver_journal delivered"
_RESTORE: Final = "restore_copy restore_aside restore_put restore_clean"


class Situation(Struct, frozen=True):
    """A lake before a command that is killed.

    Args:
        name: What it is called.
        command: What is killed, by its name among :data:`COMMANDS`.
        reached: Checkpoints that it reaches, each once or, with ``:2``, again.
        prepare: Brings a fresh lake there; returns the rows that shall be published in the end.
        then: Commands that are run, in a process that lives, after the command itself was run again.
        refused: Codes with which the command may say, when it is run again, that nothing is left to do.
        properties: Of the aggregate.
        leaves: What may lie in the lake's folder in the end besides the aggregate and the journal.
        is_gone: Whether there is no aggregate in the end.
        only: Where it is killed, when not everywhere: what else it reaches is killed elsewhere too.
        also: Asserts what else holds in the end.
        kind: What lake it is.
    """

    name: str
    command: str
    reached: str
    prepare: Callable[[World], Rows]
    then: tuple[str, ...] = ("refresh",)
    refused: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    leaves: tuple[str, ...] = ()
    is_gone: bool = False
    also: Callable[[World], None] = lambda _: None
    kind: type[World] = World
    only: str = ""

    @property
    def kills(self) -> list[str]:
        """Where it is killed."""
        return (self.only or self.reached).split()

    def world(self, folder: Path, spark: SparkSession) -> World:
        """Return a lake that stands before the command."""
        return self.kind(folder, spark, properties=self.properties)


def late(world: World) -> Rows:
    """Refreshed, and then late rows."""
    world.lake.refresh("bars")
    world.insert(3, LATE)
    return world.truth()


def put_definition(world: World, measures: dict[str, str], comment: str = "", **properties: str) -> None:
    """Write the definition that is applied or taken over next."""
    found = world.definition(measures, properties, comment)
    (world.folder / DEFINITION).write_text(json.dumps(found.as_json()))


def run(world: World, *commands: str) -> None:
    """Run commands in this process."""
    for command in commands:
        COMMANDS[command](world.lake, "bars")


def copied(folder: Path) -> Path:
    """Return a copy of a folder beside it."""
    copy = folder.with_name(f"{folder.name}.copy")
    shutil.copytree(folder, copy)
    return copy


def _put_back(copy: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    copy.rename(folder)


# -- refreshing ----------------------------------------------------------------------------------------------------------


def _wrong_buckets(world: World) -> Rows:
    """Somebody else changed what is published."""
    rows = late(world)
    path = str(world.root / "bars" / "output")
    DeltaTable(path).update(updates={"s": "s + 1"})
    return rows


def _dead_between(world: World) -> Rows:
    """A refresh died when the partials were written and the output was not."""
    rows = late(world)
    world.killed_at("wrote_partials", "refresh", "--borrow", "--hang", "writing_output")
    return rows


def _dead_before(world: World) -> Rows:
    """A refresh died when nothing was written."""
    rows = late(world)
    world.killed_at("write", "refresh", "--borrow")
    return rows


def _kept_briefly(world: World) -> Rows:
    """Refreshed, and rows come by which the oldest buckets are no longer kept in the output."""
    world.lake.refresh("bars")
    world.insert(3, (4, 8))
    rows = world.truth()
    newest = max(row[0] for row in rows)
    return [row for row in rows if newest - row[0] < timedelta(hours=KEPT_HOURS)]


# -- versions ------------------------------------------------------------------------------------------------------------


def _changed(world: World) -> Rows:
    """A definition lies ready that wants the raw rows again."""
    late(world)
    put_definition(world, OTHER, **world.properties)
    world.plainly = OTHERLY
    return world.truth()


def _applied(world: World) -> Rows:
    rows = _changed(world)
    run(world, "apply", "refresh")
    return rows


def _built(world: World) -> Rows:
    rows = _applied(world)
    run(world, "build only")
    return rows


def _with_build(world: World) -> Rows:
    _built(world)
    return []


def _replaced(world: World) -> Rows:
    """A next version is built, and a definition of stored partials lies ready that takes its place."""
    _applied(world)
    put_definition(world, TWICE)
    world.plainly = TWICELY
    return world.truth()


def _twice_and_met(world: World) -> Rows:
    """A definition of stored partials lies ready, with a suite that is met."""
    _put_suite(world, least=1)
    world.plainly = TWICELY
    return world.truth()


def _twice_and_unmet(world: World) -> Rows:
    """A definition of stored partials lies ready, with a suite that is not met."""
    _put_suite(world, least=1_000)
    return world.truth()


def _put_suite(world: World, *, least: int) -> None:
    late(world)
    run(world, "refresh")
    limit = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "min_value": least}}
    (world.folder / "expectations").mkdir()
    (world.folder / "expectations" / "bars.json").write_text(json.dumps({"name": "bars", "expectations": [limit]}))
    put_definition(world, TWICE, **world.properties)


def _switch_written(world: World) -> Rows:
    rows = _built(world)
    world.killed_at("switch_fence", "switch")
    return rows


def _switch_planned(world: World) -> Rows:
    rows = _built(world)
    world.killed_at("switch_write", "switch")
    return rows


def _switched(world: World) -> Rows:
    """Another version is published, and the one before is kept."""
    _built(world)
    run(world, "switch")
    world.plainly = PLAINLY
    return world.truth()


def _given_up(world: World) -> Rows:
    _built(world)
    world.plainly = PLAINLY
    return world.truth()


# -- what is said of an aggregate ------------------------------------------------------------------------------------------


def _spoken_of(world: World) -> Rows:
    """A definition lies ready that says something else of the same data."""
    rows = late(world)
    put_definition(world, MEASURES, "told anew", **world.properties)
    run(world, "refresh")
    return rows


def _policy_beside(world: World) -> Rows:
    """A next version is begun, of other measures."""
    rows = _changed(world)
    run(world, "apply")
    return rows


def _met(world: World) -> Rows:
    """Published, with a suite that is met."""
    _put_suite(world, least=1)
    world.define()
    return world.truth()


def _not_handed_on(world: World) -> Rows:
    """A refresh died when its rows were published and nobody had been given them."""
    rows = late(world)
    world.killed_at("deliver", "refresh", "--borrow")
    return rows


def _is_spoken_of(world: World) -> None:
    assert "told anew" == _spec(world).comment


def _has_policy(world: World) -> None:
    view = world.lake.journal.view()
    specs = [AggregateSpec.from_json(state.spec) for state in view.all.values()]
    assert [{"refresh.schedule": "0 * * * *", "refresh.start_offset": "3 hours"}] * len(view.all) == [
        {k: v for k, v in spec.properties if k.startswith("refresh.")} for spec in specs
    ]


def _has_no_policy(world: World) -> None:
    assert not [name for name, _ in _spec(world).properties if name.startswith("refresh.")]


def _is_checked(world: World) -> None:
    assert world.state.checks
    assert not world.state.checks[-1]["failed"]


def _spec(world: World) -> AggregateSpec:
    return AggregateSpec.from_json(world.state.spec)


# -- engines ---------------------------------------------------------------------------------------------------------------


def _sessions_changed(world: World) -> Rows:
    """The next version of sessions, which wants the raw rows again, is to be built."""
    late(world)
    put_definition(world, OTHER)
    run(world, "apply", "refresh")
    return world.truth()


# -- retention -----------------------------------------------------------------------------------------------------------


def full(world: World) -> Rows:
    """Refreshed, and nothing dirty."""
    world.lake.refresh("bars")
    return world.truth()


def _frozen(world: World) -> Rows:
    full(world)
    run(world, "expire")
    return world.truth()


def outlived(world: World) -> Rows:
    """History is frozen, its raw rows are gone, and late rows came on both sides of the bound."""
    _frozen(world)
    world.insert(3, LATE)
    rows = world.truth()
    delete_frozen(world)
    return rows


def delete_frozen(world: World) -> None:
    """Delete the raw rows of the source that were there when history was frozen, below the bound."""
    last = 2 * 200 * HOURS
    bound = datetime.fromisoformat(BEFORE)
    world.source.delete([i for i, row in world.source.rows.items() if row["ts"] < bound and i < last])


def _moved_on(world: World) -> Rows:
    """Rows came by which more history is frozen, then the raw rows of what is frozen already went."""
    full(world)
    world.insert(3, (5, 7))
    run(world, "refresh", "refresh")
    rows = world.truth()
    bound = datetime.fromtimestamp(world.state.frozen / 1e6, UTC)
    assert bound > datetime.fromisoformat(BEFORE)
    world.source.delete([i for i, row in world.source.rows.items() if row["ts"] < bound])
    world.insert(3, (9,))
    nine = [row for row in world.truth() if row[0].hour == 9]
    return [*rows, *nine]


# -- maintenance, repair, backup ------------------------------------------------------------------------------------------


def worn(world: World) -> Rows:
    """A file for each bucket, and a journal that is worth folding."""
    rows = full(world)
    torn(world, "bars")
    for _ in range(12):
        world.lake.invalidate("bars", "2030-01-01")
    return rows


def _grown(world: World) -> Rows:
    """Late rows, and a journal that the next refresh folds."""
    rows = late(world)
    for _ in range(25):
        world.lake.invalidate("bars", "2030-01-01")
    return rows


def _worn_behind(world: World) -> Rows:
    """A file for each bucket, and a refresh died before the feed followed it."""
    late(world)
    torn(world, "bars")
    world.killed_at("changes", "refresh", "--borrow")
    return world.truth()


def ahead(world: World) -> Rows:
    """The journal was put back from an older copy."""
    late(world)
    copy = copied(world.root / "_materializer")
    run(world, "refresh")
    _put_back(copy, world.root / "_materializer")
    return world.truth()


def _no_partials(world: World) -> Rows:
    rows = late(world)
    shutil.rmtree(world.table("partials"))
    return rows


def _no_output(world: World) -> Rows:
    rows = late(world)
    shutil.rmtree(world.table("output"))
    return rows


def _foreign(world: World) -> Rows:
    rows = late(world)
    shutil.rmtree(world.table("output"))
    write_deltalake(str(world.root / "bars" / "output"), DeltaTable(world.source.path).to_pyarrow_table())
    return rows


def _unreadable(world: World) -> Rows:
    """An event of the aggregate cannot be read."""
    rows = late(world)
    store = JournalStore(world.root)
    row = Row(world.state.id, "captured", "", '{"version":')
    store.append([row], expected_version=store.read().version)
    return rows


def _lost(world: World) -> Rows:
    rows = late(world)
    put_definition(world, MEASURES)
    shutil.rmtree(world.root / "_materializer")
    return rows


def _illegible(world: World) -> Rows:
    """The journal's log has a gap, and the definition's columns are others than those of the output."""
    late(world)
    put_definition(world, OTHER)
    world.plainly = OTHERLY
    sorted((world.root / "_materializer" / "journal" / "_delta_log").glob("*.json"))[2].unlink()
    return world.truth()


def _backed_up(world: World) -> Rows:
    """A backup, and work that it does not know."""
    rows = late(world)
    run(world, "backup", "refresh")
    return rows


def _backed_up_unfrozen(world: World) -> Rows:
    """A backup that knows nothing of the frozen bound, below which the raw rows are gone."""
    rows = full(world)
    run(world, "backup", "expire")
    delete_frozen(world)
    return rows


def _dropped(world: World) -> Rows:
    """No aggregate yet; its definition lies ready."""
    put_definition(world, MEASURES)
    world.lake.drop("bars")
    return world.truth()


def _named(world: World) -> Rows:
    """The output has a name in the catalog, and the definition that lies ready gives it another."""
    world.lake.refresh("bars")
    put_definition(world, MEASURES, **{"output.table": "default.bars_renamed"})
    return world.truth()


_NOTHING: Final = ("version.none",)
_FEED: Final = {"output.change_feed": "true"}

SITUATIONS: Final = [
    Situation(
        "a refresh that its change feed follows",
        *("refresh", f"{_REFRESH} {_AGAIN} changes wrote_changes", late),
        properties=_FEED,
    ),
    Situation(
        "a refresh with canaries",
        "refresh",
        _REFRESH,
        late,
        properties={"quality.canaries": "3"},
        only="audit write wrote_partials done",
    ),
    Situation(
        "a refresh whose canaries differ",
        *("refresh", f"{_LEASE} plan compute audit fence abort aborted", _wrong_buckets),
        properties={"quality.canaries": "20"},
        refused=("quality.canary",),
    ),
    Situation(
        "a refresh after which old buckets go",
        *("refresh", _REFRESH, _kept_briefly),
        properties={"output.retention": f"{KEPT_HOURS} hours"},
        only=_TORN,
    ),
    Situation(
        "a backfill by hours", "backfill by hours", f"{_REFRESH} {_REFRESH_AGAIN}", World.truth, only=_REFRESH_AGAIN
    ),
    Situation("a refresh to be finished", "refresh", f"{_LEASE} finish finished plan end", _dead_between),
    Situation(
        "a refresh to be undone",
        "refresh",
        f"{_LEASE} fence abort aborted plan {_COMPUTE}",
        _dead_before,
        only=f"recover fence abort aborted {_TORN}",
    ),
    Situation("a refresh that folds the journal", "refresh", f"{_REFRESH} {FOLD}", _grown, only=FOLD),
    Situation("an invalidation", "invalidate", _LEASE, late),
    Situation(
        "a policy that is due", "run due", _REFRESH, late, properties={"refresh.schedule": "0 * * * *"}, only=_TORN
    ),
    Situation(
        "a new definition",
        *("apply", "apply_tables apply_journal", _dropped),
        refused=("tables.foreign",),
        then=("take over", "refresh"),
    ),
    Situation(
        "a changed definition",
        *("apply", f"{_LEASE} version_sweep version_tables version_journal", _changed),
        then=("build",),
    ),
    Situation(
        "a definition that its suite lets through",
        *("apply", f"{_LEASE} {_COPY} {_ASKED}", _twice_and_met),
        properties={"quality.on_failure": "refresh"},
        then=("build",),
    ),
    Situation(
        "a definition that its suite refuses",
        *("apply", f"{_LEASE} {_COPY} {_ASKED} version_drop version_sweep:2", _twice_and_unmet),
        properties={"quality.on_failure": "refresh"},
        then=("build", "refresh"),
        refused=("quality.gate", "version.none"),
        only=f"version_journal {_ASKED} version_drop version_sweep:2",
    ),
    Situation("a definition in another's place", "apply", f"{_LEASE} version_drop {_COPY}", _replaced, then=("build",)),
    Situation("a build", "build", f"{_REFRESH} {_AGAIN} {_PUBLISH} end:2 version_sweep", _applied, refused=_NOTHING),
    Situation("a switch", "switch", f"{_LEASE} {_PUBLISH} end {_AGAIN} version_sweep", _built, refused=_NOTHING),
    Situation(
        "a switch to be completed",
        *("switch", f"{_LEASE} switch_fence switch_done switch_plan end {_AGAIN} version_sweep", _switch_written),
        refused=_NOTHING,
    ),
    Situation(
        "a switch to be undone",
        "switch",
        f"{_LEASE} switch_undo switch_refuse switch_undone {_PUBLISH} end {_AGAIN} version_sweep",
        _switch_planned,
        refused=_NOTHING,
    ),
    Situation(
        "a switch that a feed follows",
        *("switch", f"{_LEASE} {_PUBLISH} end {_AGAIN} changes wrote_changes lease:3 recover:3 version_sweep", _built),
        properties=_FEED,
        refused=_NOTHING,
    ),
    Situation(
        "a refresh that undoes a switch",
        *("refresh", f"{_LEASE} switch_undo switch_refuse switch_undone plan end", _switch_planned),
        then=("build",),
    ),
    Situation("a rollback", "rollback", f"{_LEASE} {_COPY}", _switched, then=("build",)),
    Situation("a build given up", "abandon", f"{_LEASE} version_drop version_sweep", _given_up, refused=_NOTHING),
    Situation(
        "a drop",
        *("drop", f"{_LEASE} drop_mark drop_journal drop_folders", _with_build),
        refused=("aggregate.unknown",),
        then=(),
        is_gone=True,
    ),
    Situation(
        "another name of the output",
        *("apply", f"{_LEASE} {_DESCRIBE} {_AGAIN} unregister register register_journal", _named),
        properties={"output.table": "default.bars_named"},
        only="unregister register register_journal",
    ),
    Situation("history to be frozen", "expire", f"{_LEASE} bound bounded", full),
    Situation("frozen history given up", "thaw", f"{_LEASE} bound bounded", _frozen),
    Situation("a refresh over frozen history", "refresh", f"{_REFRESH}", outlived, only=_TORN),
    Situation(
        "a source whose retention moves on",
        *("refresh", _REFRESH, _moved_on),
        properties={"source.retention": "4 hours"},
        only=_TORN,
    ),
    Situation(
        "worn tables",
        "maintain",
        f"{_LEASE} {_MAINTAIN} {_MAINTAIN_AGAIN} maintain_done maintain_journal {FOLD}",
        worn,
    ),
    Situation(
        "worn tables whose feed is behind",
        "maintain",
        f"{_LEASE} changes wrote_changes {_MAINTAIN} {_MAINTAIN_AGAIN} maintain_done maintain_journal {FOLD}",
        _worn_behind,
        properties=_FEED,
    ),
    Situation("tables ahead of their journal", "repair", f"lease {_REPAIR}", ahead),
    Situation("partials that are missing", "repair", f"lease {_REPAIR}", _no_partials),
    Situation("an output that is missing", "repair", f"lease {_REPAIR} repair_swap", _no_output),
    Situation(
        "somebody else's table",
        *("repair", f"lease {_REPAIR} repair_swap", _foreign),
        leaves=("bars/output.aside",),
    ),
    Situation("an event that nobody can read", "repair", "repair_events lease", _unreadable),
    Situation("a check", "check", _CHECK, _met, then=("refresh",), also=_is_checked),
    Situation(
        "other words about an aggregate", "apply", f"{_LEASE} {_DESCRIBE}", _spoken_of, also=_is_spoken_of, then=()
    ),
    Situation(
        "a policy to be added",
        *("add a policy", f"{_LEASE} {_DESCRIBE}", late),
        refused=("policy.exists",),
        also=_has_policy,
    ),
    Situation(
        "a policy to be added while a version is built",
        *("add a policy", f"{_LEASE} {_DESCRIBE}", _policy_beside),
        then=("build",),
        refused=("policy.exists",),
        also=_has_policy,
    ),
    Situation(
        "a policy to be removed",
        *("remove a policy", f"{_LEASE} {_DESCRIBE}", late),
        properties={"refresh.start_offset": "3 hours", "refresh.schedule": "0 * * * *"},
        refused=("policy.unknown",),
        also=_has_no_policy,
    ),
    Situation(
        "a refresh whose output is handed on",
        *("refresh", f"{_REFRESH} {_DELIVER}", late),
        properties={"output_handler": "keep"},
        only=f"write wrote_output done end {_DELIVER}",
    ),
    Situation(
        "a refresh that is done, whose output was not handed on",
        *("refresh", _DELIVER, _not_handed_on),
        properties={"output_handler": "keep"},
    ),
    Situation("sessions to be refreshed", "refresh", _REFRESH, late, kind=Sessions),
    Situation(
        "sessions to be computed again",
        *("backfill by hours", f"{_REFRESH} {_AGAIN} plan:2 end:2", late),
        kind=Sessions,
        only=_REFRESH,
    ),
    Situation(
        "sessions in worn tables",
        *("maintain", f"{_LEASE} {_MAINTAIN} {_MAINTAIN_AGAIN} maintain_done maintain_journal {FOLD}", worn),
        kind=Sessions,
    ),
    Situation("sessions ahead of their journal", "repair", f"lease {_REPAIR}", ahead, kind=Sessions),
    Situation(
        "other sessions to be built",
        *("build", f"{_REFRESH} {_AGAIN} {_PUBLISH} end:2 version_sweep", _sessions_changed),
        refused=("version.none",),
        kind=Sessions,
    ),
    Situation("a lost journal", "take over", _TAKE_OVER, _lost),
    Situation(
        "a journal that nobody can read",
        *("take over", f"takeover_journal_aside {_TAKE_OVER}", _illegible),
        leaves=("_materializer.aside", "bars/output.aside"),
    ),
    Situation("a backup", "backup", "backup_seal", late, refused=("usage",)),
    Situation(
        "a backup to be put back",
        *("restore", _RESTORE, _backed_up),
        then=("repair", "refresh"),
        leaves=("_materializer.aside", "_materializer.aside-2"),
    ),
    Situation(
        "a backup from before history was frozen",
        *("restore", _RESTORE, _backed_up_unfrozen),
        leaves=("_materializer.aside", "_materializer.aside-2"),
    ),
]
"""What is killed, everywhere."""
