"""The pages about engines: every parameter is on them, both forms of an example mean the same, and the results are real."""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from materializer.adapters.cli.app import main
from materializer.adapters.cli.output import TextOutput
from materializer.adapters.cli.render.engines import EnginesResult
from materializer.core.engines.guides import COMMON, GUIDES, guide
from materializer.core.engines.params import About
from materializer.core.engines.registry import ENGINES, OURS, engine_class, read_params
from materializer.core.language.define import define
from materializer.core.language.engine_define import define_engine
from materializer.core.language.parse import parse_report
from materializer.core.language.properties import HANDLER
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.errors import DefinitionError
from tests.docs import pages, picture, world

DOCS = pages.FOLDER.parent
FROM_DEFINITION = {"engine", "metrics"}
"""What `read` is given by the definition itself: the engine's name, and the measures of reactive_state."""
LASTING = ("hopping_window", "compressed_hopping_window", "snapshot_window", "count_window")
EVERY_DEFINITION = {"name", "source", "time", "keys", "measures", "where", "resolution", "comment", "properties"}


def page(name: str) -> str:
    return (pages.FOLDER / name).read_text(encoding="utf-8")


def parameters_in(table: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)


def read_names(engine: str) -> set[str]:
    """Return the names of all parameters that an engine takes, as it says where it is given another."""
    about = About(TimeType.TIMESTAMP, keys=("k",), measures=(("m", "mavg(v, 3)"),), engine=engine)
    _, troubles = engine_class(engine).read({"?": 1}, about)
    [hint] = [trouble.hint for trouble in troubles if trouble.code == "definition.unknown-property"]
    return set(hint.removeprefix("the parameters are ").split(", ")) - FROM_DEFINITION - {*OURS}


def spec_of(engine: str) -> AggregateSpec:
    """Return what the SQL example of an engine says."""
    [spec] = parse_report(GUIDES[engine].sql).specs
    return spec


class Lake:
    """Takes the one definition that an example makes, with *more* parts than it gives."""

    def __init__(self, **more: Any) -> None:
        self.more = more

    def define(self, name: str, source: str, **parts: Any) -> None:
        """Remember what would be defined."""
        made: Any = define_engine if "engine" in parts else define
        self.spec: AggregateSpec = made(name, source, **parts, **self.more)


def meaning(spec: AggregateSpec) -> dict[str, Any]:
    """Return what a definition means, however its parameters were written."""
    params, troubles = read_params(spec) if spec.is_engine else (None, [])
    assert troubles == []
    kept = ("name", "engine", "source", "time_column", "keys", "measures", "where", "sequence", "lateness", "columns")
    return {name: getattr(spec, name) for name in (*kept, "comment", "grid", "reads")} | {"params": params}


# -- guides --------------------------------------------------------------------------------------------------------------


def test_every_engine_has_a_guide_and_a_page():
    """
    The continuous aggregate and every registered engine, and no other; a page, a picture and a statement each.
    """
    names = ["continuous_aggregate", *ENGINES]

    assert sorted(names) == sorted(GUIDES)
    assert all(guide(name).name == name for name in names)
    for folder, suffix, others in (
        (pages.FOLDER, "md", {"index"}),
        (pages.FOLDER, "svg", set()),
        (world.SQL, "sql", set()),
    ):
        assert {p.stem for p in folder.glob(f"*.{suffix}")} == {*names, *others}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_guide_has_the_parameters_that_the_engine_reads(engine):
    """
    Every one, each once, and no other.
    """
    named = [p.name for p in GUIDES[engine].parameters]

    assert len(set(named)) == len(named)
    # count windows need no `end` and no other kind asks for `count`, so what is asked depends on the engine alone
    assert set(named) == read_names(engine)


def test_the_guide_to_the_continuous_aggregate_has_the_arguments_of_its_definition():
    """
    What `define` takes besides the parts of every definition.
    """
    taken = set(inspect.signature(define).parameters) - EVERY_DEFINITION - {"known_python"}

    assert taken == {p.name for p in GUIDES["continuous_aggregate"].parameters}


def test_the_parameters_of_every_engine_are_those_that_none_reads_itself():
    """
    `slice` and `label`, which are kept apart, and what every definition of an engine has.
    """
    arguments = set(inspect.signature(define_engine).parameters)

    assert {*OURS, *HANDLER, "lateness", "sequence"} == {p.name for p in COMMON}
    assert {"lateness", "sequence"} <= arguments


@pytest.mark.parametrize("engine", GUIDES)
def test_both_forms_of_an_example_mean_the_same(engine):
    """
    The Python form is executed; what it defines has the name, source, columns and parameters of the SQL form.
    """
    lake = Lake()
    exec(GUIDES[engine].python, {"m": lake})

    assert meaning(spec_of(engine)) == meaning(lake.spec)
    assert engine == spec_of(engine).engine


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("other", ["no_such_thing"])
def test_what_no_guide_names_is_refused(engine, other):
    """
    The example with one more parameter is refused, so the list above is the whole list.
    """
    spec = spec_of(engine)
    values = {n: v for n, v in spec.params if n not in OURS} | {other: "1"}
    about = About(TimeType.TIMESTAMP, keys=("sym",), measures=(("m", "mavg(v, 3)"),), engine=engine)
    _, troubles = engine_class(engine).read(values, about)

    assert [f"there is no parameter '{other}'"] == [t.message for t in troubles]


REQUIRED: Mapping[str, set[str]] = {
    "time_series": {"window_size", "step"},
    "daily_time_series": {"window_size"},
    "session_window": {"session_gap"},
    "reactive_state": set(),
    "hopping_window": {"end", "duration"},
    "compressed_hopping_window": {"end", "duration"},
    "snapshot_window": {"end"},
    "count_window": {"count"},
    "event_time_window": {"interval_duration"},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_required_is_missed(engine):
    """
    Without any parameter exactly those that the guide calls required are missed.
    """
    about = About(TimeType.TIMESTAMP, keys=("sym",), measures=(("m", "mavg(v, 3)"),), engine=engine)
    _, troubles = engine_class(engine).read({}, about)
    missed = {m[1] for t in troubles if (m := re.fullmatch(r"'(\w+)' is missing", t.message))}

    assert missed == {p.name for p in GUIDES[engine].parameters if p.default == "required"} == REQUIRED[engine]


WRITTEN_DEFAULTS = [
    (engine, p.name, p.default)
    for engine in ENGINES
    for p in GUIDES[engine].parameters
    if p.default
    in ("true", "false", "left", "en", "engine", "largest", "0", "-1", "1", "00:00:00", "point_align_to_window_end")
]


@pytest.mark.parametrize(("engine", "name", "default"), WRITTEN_DEFAULTS)
def test_a_written_default_is_the_default(engine, name, default):
    """
    Giving the default changes nothing, where it can be written.
    """
    spec = spec_of(engine)
    left_out = {n: v for n, v in spec.params if n not in (*OURS, name)}
    about = About(TimeType.TIMESTAMP, keys=("sym",), measures=(("m", "sum(v)"),), engine=engine)
    if engine == "reactive_state":
        left_out["metrics"] = [["m", "mavg(v, 3)"]]
    if name.startswith("session_"):
        left_out = {n: v for n, v in left_out.items() if not n.startswith("session_")}
    read = engine_class(engine).read

    without, troubles = read(left_out, about)
    assert (without is None, troubles) == (False, [])
    assert (without, []) == read({**left_out, name: default}, about)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lateness", ["recompute", "strict", "delay"])
def test_lateness_is_refused_where_the_guide_says(engine, lateness):
    """
    Session windows refuse `delay`, events that last everything but `recompute`; the others take all three.
    """
    is_refused = (engine in LASTING and lateness != "recompute") or (engine, lateness) == ("session_window", "delay")

    if is_refused:
        with pytest.raises(DefinitionError):
            exec(GUIDES[engine].python, {"m": Lake(lateness=lateness)})
    else:
        lake = Lake(lateness=lateness)
        exec(GUIDES[engine].python, {"m": lake})
        assert lateness == lake.spec.lateness


# -- pages ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", GUIDES)
def test_a_page_says_what_the_guide_says(engine):
    """
    Purpose, both forms, parameters and what became of the original's words; the statement is a file too.
    """
    made = pages.blocks(page(f"{engine}.md"))
    expected = pages.from_guide(GUIDES[engine])

    assert {name: made[name] for name in expected} == expected
    assert parameters_in(made["parameters"]) == [p.name for p in GUIDES[engine].parameters]
    assert (world.SQL / f"{engine}.sql").read_text(encoding="utf-8") == f"{GUIDES[engine].sql};\n"


def test_the_index_names_every_engine_and_shows_the_data():
    """
    A row for each engine, the shared parameters, and both tables as they are written to the lake.
    """
    text = page("index.md")
    expected = {"common": pages.common(), "trades": pages.inputs("trades"), "orders": pages.inputs("orders")}

    assert list(GUIDES) == re.findall(r"^\| \[`(\w+)`\]", text, flags=re.MULTILINE)
    assert expected == pages.blocks(text)


@pytest.mark.parametrize("name", ["index.md", *(f"{g}.md" for g in GUIDES)])
def test_links_lead_somewhere(name):
    """
    Every relative link, with the heading where it names one.
    """
    for target in re.findall(r"\]\(([^)]+)\)", page(name)):
        path, _, anchor = target.partition("#")
        found = (pages.FOLDER / path).resolve() if path else pages.FOLDER / name
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in [h.lower().replace(" ", "-") for h in headings], target


@pytest.mark.parametrize("engine", GUIDES)
def test_a_picture_has_a_box_for_each_row_of_the_table(engine):
    """
    The picture and the table of a page are of one run; both colour schemes are there, and nothing is fetched.
    """
    text = page(f"{engine}.svg")
    tree = ET.fromstring(text)
    boxes = [e for e in tree.iter("{http://www.w3.org/2000/svg}rect") if (e.get("class") or "").startswith("box")]
    rows = pages.blocks(page(f"{engine}.md"))["output"].splitlines()[2:]

    assert len(rows) == len(boxes) > 0
    assert "prefers-color-scheme: dark" in text
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"\w+://[^\"' )]+", text)
    width = float(tree.get("width", "0"))
    assert all(
        0 <= float(b.get("x", "-1")) and float(b.get("x", "")) + float(b.get("width", "")) <= width for b in boxes
    )


# -- the command ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [None, *GUIDES])
def test_the_command_keeps_to_100_columns(engine):
    """
    The list, and each guide with everything in it.
    """
    shown = (
        EnginesResult(tuple(GUIDES.values())) if engine is None else EnginesResult((GUIDES[engine],), is_detailed=True)
    )
    text = list(shown.lines(100))
    flat = " ".join(" ".join(text).split())

    assert [line for line in text if len(line) > 100 or line != line.rstrip()] == []
    for told in GUIDES.values() if engine is None else ():
        assert f"{told.name} {told.title}" in flat
    for p in GUIDES[engine].parameters if engine else ():
        assert f"{p.name} = {p.default}" in flat
        assert " ".join(p.meaning.split()) in flat
    assert 0 == shown.exit_status


def test_the_command_prints_a_guide(capsys):
    """
    By any case of its name, as text and as JSON with the documented keys.
    """
    assert 0 == main(["engines", "Session_Window"])
    out = io.StringIO()
    TextOutput(out, width=100).show(EnginesResult((GUIDES["session_window"],), is_detailed=True))
    assert out.getvalue() == capsys.readouterr().out

    assert 0 == main(["engines", "session_window", "--json"])
    [found] = json.loads(capsys.readouterr().out)["engines"]
    assert ["session_gap", "msg_as_table"] == [found["parameters"][i]["name"] for i in (0, -1)]
    listed = re.findall(r"^\| `engines\[\]\.(\w+)", (DOCS / "json.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(found) == set(listed)
    inner = re.findall(r"^\| `engines\[\]\.parameters\[\]\.(\w+)`", (DOCS / "json.md").read_text(), flags=re.MULTILINE)
    assert set(found["parameters"][0]) == set(inner)


def test_the_command_names_the_nearest_engine(capsys):
    """
    A name that is none ends with status 64 and a hint.
    """
    assert 64 == main(["engines", "sesion_window"])
    assert "session_window" in capsys.readouterr().err


def test_json_of_all_engines_has_them_in_order():
    """
    One document for the list and for one engine.
    """
    shown = EnginesResult(tuple(GUIDES.values()))

    assert ("", list(GUIDES)) == (shown.listing, [g["name"] for g in shown.form()["engines"]])


# -- the results ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, world.Result]:
    """What the statements of all pages give, in one lake."""
    return world.run(spark, Path(tmp_path_factory.mktemp("pages")))


@pytest.mark.slow
@pytest.mark.parametrize("engine", GUIDES)
def test_the_results_on_a_page_are_real(results, engine):
    """
    The table and the picture are those of a run of the statement on the page.
    """
    assert pages.blocks(page(f"{engine}.md"))["output"] == pages.output(results[engine])
    assert page(f"{engine}.svg") == picture.svg(results[engine], GUIDES[engine].title)


@pytest.mark.slow
def test_every_engine_saw_the_second_commit(results):
    """
    What the pages tell of late rows is there to be seen: rows differ from those after the first commit.
    """
    assert [name for name, found in results.items() if found.before == found.rows] == []
    assert {1} == {max(row["revision"] for row in results[name].rows) for name in ("time_series", "reactive_state")}
