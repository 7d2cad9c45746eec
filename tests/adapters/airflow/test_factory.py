from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from materializer.adapters.airflow import dags_of
from materializer.adapters.airflow.dags.catalog import CatalogEntry, read_lake
from materializer.adapters.airflow.dags.form import form, read
from materializer.adapters.airflow.dags.pages import broken_page, page
from materializer.adapters.airflow.dags.settings import Settings
from materializer.adapters.airflow.tasks import deadlines
from materializer.core.policy.policies import policies_of
from materializer.core.spec.spec import TimeType
from materializer.errors import UsageError
from tests.adapters.hostile import HOSTILE
from tests.benchmarks.dags import READ, definition, lake_of
from tests.paths import ROOT

COUNT = 8
MARKUP = (
    "```\n# gone\n```",
    "~~~~\ngone\n````````",
    "# one\ntwo\n===\n- three\n+ four\n5. five\n6) six\n> seven\n---",
    "| a | b |\n| --- | --- |\n| c | d |",
    "    indented\n\n\tand again\\",
    "![](https://evil.example/seen.png) [click](javascript:alert(1)) <https://evil.example>",
    "[click]\n\n[click]: https://evil.example",
    "**bold** __bold__ *slanted* ~~gone~~ `code` ``code`` &lt;b&gt; &copy;",
    "a < b & c > d <!-- gone --> <img src=x onerror=alert(1)> <b",
    "`",
    "{{ jinja }} {% raw %}",
)
"""Texts that are more in Markdown."""


@pytest.fixture(scope="module")
def root(tmp_path_factory, airflow_home) -> Path:
    """A lake of eight aggregates in its journal, without Spark; odd ones read the one before."""
    root = tmp_path_factory.mktemp("many") / "lake"
    lake_of(root, COUNT)
    return root


def test_every_dag_imports_and_can_be_stored(root, airflow_home, tmp_path, monkeypatch):
    """
    The file that users copy makes a DAG for each aggregate; Airflow finds no error and reads each back as it was.
    """
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    (tmp_path / "materializer_lake.py").write_text((ROOT / "dags" / "materializer_lake.py").read_text())
    monkeypatch.setenv("MATERIALIZER_LAKE", str(root))
    bag = DagBag(tmp_path)

    assert {} == bag.import_errors
    assert {f"agg_{n:03}" for n in range(COUNT)} == set(bag.dags)
    for dag in bag.dags.values():
        back = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        assert (dag.dag_id, ["refresh"], 1) == (back.dag_id, back.task_ids, back.max_active_runs)
        assert {**read_defaults(dag)} == {k: back.params[k] for k in back.params}


def read_defaults(dag) -> dict[str, object]:
    return {k: dag.params[k] for k in dag.params}


def test_reading_a_file_loads_no_spark(root, airflow_home):
    """
    Neither pyspark nor its kin are imported, from the journal or from a folder.
    """
    for options in ({"lake": str(root)}, {"lake": str(root), "definitions": str(root / "sql")}):
        done = subprocess.run(
            [sys.executable, "-c", READ, json.dumps(options), "null"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        assert (COUNT, []) == (found["dags"], found["loaded"])


def test_a_task_makes_only_its_own_dag(root, monkeypatch):
    """
    Airflow says for which DAG it reads a file before it runs a task of it; a DAG of somebody else makes none.
    """
    from airflow.sdk.definitions.context import AirflowParsingContext

    from materializer.adapters.airflow.dags import factory

    for asked, made in (("agg_003", ["agg_003"]), ("other", []), (None, [f"agg_{n:03}" for n in range(COUNT)])):
        monkeypatch.setattr(factory, "get_parsing_context", lambda a=asked: AirflowParsingContext(a, "refresh"))
        assert made == list(dags_of(root))


def test_children_wait_for_their_parents_and_watchers_watch_sources(root):
    """
    A policy with a schedule runs by the clock, one without by the asset it reads; only tables that no DAG refreshes are
    watched, and only when somebody waits for them.
    """
    dags = dags_of(root, prefix="west_")
    emitted = {a.name for d in dags.values() for t in d.tasks for a in t.outlets}
    child = dags["west_agg_001"].timetable.asset_condition
    (waits,) = child.objects
    clocked = dags["west_agg_002"].timetable
    mixed = dags["west_agg_003"].timetable
    (source,) = dags["west_agg_002"].task_dict["refresh"].inlets

    assert {f"west_agg_{n:03}" for n in range(COUNT)} == emitted
    assert ("west_agg_000", []) == (waits.name, waits.watchers)
    assert clocked.asset_condition is None
    assert {"AssetOrTimeSchedule", "CronTriggerTimetable"} == {type(mixed).__name__, type(mixed.timetable).__name__}
    assert ("west_trades", (root / "trades").as_uri(), []) == (source.name, source.uri, source.watchers)


def test_a_source_is_watched_for_policies_without_a_schedule(tmp_path):
    """
    So is the output of an aggregate without policies, which no DAG of ours emits.
    """
    (tmp_path / "a.sql").write_text(
        definition(0).replace("'refresh.schedule' = '*/5 * * * *'", "'refresh.order' = 'oldest'")
    )
    (tmp_path / "b.sql").write_text(definition(5))
    (tmp_path / "c.sql").write_text(
        "CREATE MATERIALIZED VIEW agg_004 AS SELECT time_bucket('1 hour', ts) AS hour, count(*) AS n FROM t GROUP BY 1"
    )
    dags = dags_of(tmp_path / "lake", definitions=str(tmp_path), poll_seconds=5)
    watched = {
        a.name: [w.trigger.serialize()[1]["path"] for w in a.watchers]
        for d in dags.values()
        for a in d.timetable.asset_condition.objects
    }

    assert ["agg_000", "agg_005"] == list(dags)
    lake = (tmp_path / "lake").resolve()
    assert {"trades": [f"{lake}/trades"], "agg_004": [f"{lake}/agg_004/output"]} == watched


def test_who_waits_for_a_source_keeps_its_watcher_beside_who_does_not(tmp_path, airflow_home):
    """
    Airflow reads the DAGs of a file in any order and takes the last asset of a name; whichever that is, it is watched.
    """
    from airflow.dag_processing.collection import AssetModelOperation
    from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG

    (tmp_path / "clock.sql").write_text(definition(0))
    (tmp_path / "arrival.sql").write_text(
        definition(2).replace("'refresh.schedule' = '*/5 * * * *'", "'refresh.order' = 'oldest'")
    )
    dags = dags_of(tmp_path / "lake", definitions=str(tmp_path), poll_seconds=5)
    stored = {name: LazyDeserializedDAG(data=DagSerialization.to_dict(dag)) for name, dag in dags.items()}

    assert ["agg_000", "agg_002"] == list(stored)
    for order in permutations(stored):
        found = AssetModelOperation.collect({name: stored[name] for name in order}).assets
        assert [1] == [len(asset.watchers) for asset in found.values() if asset.name == "trades"], order


def test_a_broken_definition_breaks_its_own_dag_visibly(tmp_path):
    """
    It keeps its name, is tagged, shows the problem on its page and fails with it at once; the others are as ever.
    """
    from airflow.sdk.exceptions import AirflowFailException

    for n in (0, 2, 4):
        (tmp_path / f"agg_{n:03}.sql").write_text(definition(n))
    (tmp_path / "agg_002.sql").write_text(definition(2).replace("count(*)", "cuont(*)"))
    (tmp_path / "agg_004.sql").write_text(definition(4).replace("*/5 * * * *", "0 0 31 2 *"))
    dags = dags_of(tmp_path / "lake", definitions=str(tmp_path))

    assert "broken" not in dags["agg_000"].tags
    for name, word in (("agg_002", "cuont"), ("agg_004", "made of it")):
        assert "broken" in dags[name].tags
        assert word in dags[name].doc_md or "agg_004" == name
        assert not dags[name].timetable.can_be_scheduled
        with pytest.raises(AirflowFailException):
            dags[name].task_dict["refresh"].execute({})


def test_a_promise_becomes_a_deadline(root):
    """
    Two hours from when the run was due by the clock, or queued where an asset decides.
    """
    dags = dags_of(root)
    for name, reference in (("agg_002", "DagRunLogicalDateDeadline"), ("agg_001", "DagRunQueuedAtDeadline")):
        (alert,) = dags[name].deadline
        assert (reference, timedelta(hours=2)) == (alert.reference.reference_name, alert.interval)
        assert f"{deadlines.__name__}.tell_stale" == alert.callback.path
        assert name == alert.callback.kwargs["aggregate"]
    assert all(not dag.deadline for dag in dags_of(root, deadline="").values())


def test_the_page_has_the_definition_and_the_policies(root):
    """
    And stays the same from refresh to refresh unless asked otherwise: Airflow stores a DAG anew when it changes.
    """
    page = dags_of(root)["agg_000"].doc_md

    assert "CREATE MATERIALIZED VIEW agg_000" in page
    assert "* **old**: at `0 3 * * *` UTC, from the beginning to 1 week ago, newest first" in page
    assert "At most 2 hours stale" in page
    assert "the pool `materializer`" in page
    assert "**gate**" not in page


def test_the_page_names_the_gate(root):
    """
    The suites that were applied, and how much they ask.
    """
    suite = json.dumps({"name": "plausible", "expectations": [{"type": "expect_column_to_exist"}] * 2})
    (spec,) = (entry.spec for entry in read_lake(root, only="agg_000"))
    gated = page(
        CatalogEntry("agg_000"), replace(spec, suites=(("output", suite),)), policies_of(spec), Settings(str(root))
    )

    assert "* **gate**: `plausible`, 2 expectations of its rows, before anything is published\n" in gated


@pytest.mark.parametrize("text", [*HOSTILE, *MARKUP], ids=range(len(HOSTILE) + len(MARKUP)))
def test_what_others_wrote_is_shown_as_it_is(root, text):
    """
    Whatever stands in a comment, in SQL, in a name or in a problem, in Markdown that lets HTML through: words stay words and
    code stays code, none is lost, and the page goes on after it.
    """
    (spec,) = (entry.spec for entry in read_lake(root, only="agg_000"))
    suite = json.dumps({"name": text, "expectations": []})
    policies = [replace(policy, name=text) for policy in policies_of(spec)]
    spec = replace(spec, comment=text, sql=f"SELECT '{text}'", suites=(("output", suite),))
    settings = Settings(str(root), pool=text, tells_last=True)
    one = " ".join(text.split())

    kinds, words, fences = rendered(page(CatalogEntry("agg_000", source=text, last=text), spec, policies, settings))
    *comment, reads, first, second, gate, last, _, pool = words
    lists = {"bullet_list_open", "list_item_open", "code_inline"}
    assert {"paragraph_open", "strong_open", "text", "fence"} | lists == kinds
    assert [" ".join(part.split()) for part in text.split("\n\n")] == comment
    assert reads.startswith(f"Reads {one}. ")
    assert all(policy.startswith(f"{one}: ") for policy in (first, second))
    assert gate.startswith(f"gate: {one}, 0 expectations")
    assert f"Last: {one}." == last
    assert f"The task waits for a slot of the pool {one}: without that pool, for ever." == pool
    assert [("sql", f"SELECT '{text}'\n")] == fences

    kinds, (name, after), fences = rendered(broken_page(text, text))
    assert {"paragraph_open", "strong_open", "text", "fence"} == kinds
    assert f"{one} is not refreshed: its definition cannot be read." == name
    assert after.startswith("Mend the definition")
    assert [("", f"{text}\n")] == fences


def rendered(page: str) -> tuple[set[str], list[str], list[tuple[str, str]]]:
    """Return what a page consists of, the words of each paragraph, and the language and lines of each block of code."""
    found = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(page)
    children = [token.children for token in found if token.type == "inline"]
    kinds = {t.type for t in [*found, *(t for of in children for t in of)] if t.nesting >= 0} - {"inline", "softbreak"}
    words = [" ".join("".join(t.content or " " * (t.type == "softbreak") for t in of).split()) for of in children]
    return kinds, words, [(t.info, t.content) for t in found if t.type == "fence"]


@pytest.mark.parametrize("kind", [None, *TimeType])
def test_the_defaults_of_a_form_are_valid_and_mean_the_policies(kind):
    """
    For every type of time, because DAGs take forms unchecked; integers are asked for as integers.
    """
    params = form(kind)
    asked = read({name: param.resolve() for name, param in params.items()})

    assert ("policies", None, None, False) == (asked.mode, asked.start, asked.end, asked.dry_run)
    params["start"].resolve(5 if kind and kind.is_integer else "2013-12-01")


def test_policies_take_no_window():
    """
    A window that would be ignored is refused.
    """
    given = {name: param.resolve() for name, param in form(None).items()}
    with pytest.raises(UsageError, match="no start, end or force"):
        read(given | {"start": "2013-12-01"})


def test_unknown_keys_of_a_run_are_refused():
    """
    A key that the form does not have, such as the title of a field, is an error that names the keys; no policy runs.
    """
    given = {name: param.resolve() for name, param in form(None).items()}
    with pytest.raises(UsageError, match="a run takes no 'What', 'froce'") as refused:
        read(given | {"What": "backfill", "froce": True})

    assert f"the keys of its configuration are {', '.join(given)}" == refused.value.hint
    assert "policies" == read(given | {"openlineage": {"parentRunId": "x"}}).mode  # Airflow's own operator adds it


def test_checks_wait_behind_refreshes_or_in_a_pool_of_their_own(tmp_path):
    """
    Both need a slot of the pool; a refresh that waits has the higher priority.
    """
    text = definition(0).replace("TBLPROPERTIES (", "TBLPROPERTIES ('quality.schedule' = '0 6 * * *', ", 1)
    (tmp_path / "agg_000.sql").write_text(text)
    for options, pool in (({}, "materializer"), ({"check_pool": "checks"}, "checks")):
        dags = dags_of(tmp_path / "lake", definitions=str(tmp_path), **options)
        refresh, check = dags["agg_000"].task_dict["refresh"], dags["agg_000.check"].task_dict["check"]

        assert ("materializer", pool) == (refresh.pool, check.pool)
        assert refresh.priority_weight > check.priority_weight
