"""Aggregates over aggregates as definitions: order, grids that fit, and dropping what others read; no JVM."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.errors import DefinitionError, HasReadersError, LeaseHeldError
from materializer.journal.events import Lease, LeaseTaken
from materializer.journal.version_fields import version_of
from tests.appending import append
from tests.services.no_spark import Lake, each, view

MISFIT = "definition.not-nested"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake without aggregates."""
    return Lake(tmp_path)


# -- grids that fit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "child", "edge"),
    [
        (each("7 days"), each("1 month"), "2000-01-01T00:00:00Z"),
        (each("1 month"), each("7 days"), "2000-01-03T00:00:00Z"),
        (each("2 hours"), each("5 hours"), "2000-01-01T03:00:00Z"),
        (each("1 day", "America/New_York"), each("1 month", "Europe/Berlin"), "2000-01-31T23:00:00Z"),
        ("date_trunc('day', {})", "window({}, '1 day', '1 day', '1 hour').start", "2000-01-01T01:00:00Z"),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["together", "later"])
def test_buckets_that_reach_over_an_edge_of_a_reader_are_refused(
    lake: Lake, parent: str, child: str, edge: str, *, together: bool
) -> None:
    """The problem names the edge and the parent's bucket around it, and stands where the time is divided."""
    one, other = view("one", parent), view("other", child, "one")
    if not together:
        lake.apply(one)
    with pytest.raises(DefinitionError) as caught:
        lake.apply(*([one] if together else []), other)

    (problem,) = caught.value.problems
    assert problem.code == MISFIT
    assert f"the edge {edge} lies inside the bucket [" in problem.message
    assert "'one'" in problem.message
    assert (problem.line > 0, problem.column > 0) == (True, True)
    assert lake.names == ([] if together else ["one"])


@pytest.mark.parametrize("measure", ["rollup(v) AS v", "sum(v) AS v"])
def test_the_zone_that_is_missing_is_named(lake: Lake, measure: str) -> None:
    """
    With the column that the definition names, at its place; what the hint says to write is accepted. Where another zone helps nothing, none is named.
    """
    lake.apply(view("days", each("1 day", "Europe/Berlin"), column="Day"))
    child = f"CREATE MATERIALIZED VIEW weeks\nAS SELECT {{}} AS b, {measure}\nFROM days GROUP BY 1;"
    with pytest.raises(DefinitionError) as caught:
        lake.apply(child.format("time_bucket('1 week', Day)"))

    (problem,) = caught.value.problems
    assert problem.message.startswith("weeks: `Day` cannot be divided into 1 week")
    assert (2, child.split("\n")[1].index("{") + len("time_bucket('1 week', ") + 1) == (problem.line, problem.column)
    right = "time_bucket('1 week', Day, 'Europe/Berlin')"
    assert f"divide the clock of 'days', too: write {right}" == problem.hint
    with pytest.raises(DefinitionError) as caught:
        lake.apply(child.format("time_bucket('5 hours', Day)"))
    assert "divide it so that each edge is one of 'days'" in caught.value.problems[0].hint
    lake.apply(child.format(right))


def test_buckets_that_fit_are_accepted(lake: Lake) -> None:
    """Also at the parent's ends, and where a key of the parent is the time."""
    lake.apply(
        view("hours", each("1 hour")),
        view("days", each("1 day", "America/New_York"), "hours"),
        view("months", each("1 month", "America/New_York"), "days"),
        "CREATE MATERIALIZED VIEW ends AS SELECT window.end AS at, sum(v) AS v FROM raw GROUP BY window(ts, '2 hours');",
        view("evens", each("4 hours"), "ends"),
        f"CREATE MATERIALIZED VIEW keyed AS SELECT {each('7 days').format('ts')} AS week, ts AS at, sum(v) AS v FROM raw GROUP BY 1, 2;",
        view("by_key", each("5 hours"), "keyed"),
    )
    assert lake.names == ["by_key", "days", "ends", "evens", "hours", "keyed", "months"]
    ((code, _),) = lake.refused(view("odds", each("3 hours"), "ends"))
    assert code == MISFIT


def test_a_definition_from_python_is_refused_too(lake: Lake) -> None:
    """With the same code; a text is no place there."""
    lake.opened.define("weeks", "raw", time="ts", width="7 days", measures={"v": "sum(v)"})
    with pytest.raises(DefinitionError, match=r"`bucket` cannot be divided into 1 month") as caught:
        lake.opened.define("months", "weeks", time="bucket", width="1 month", measures={"v": "sum(v)"})
    assert [MISFIT] == [p.code for p in caught.value.problems]


def test_a_changed_definition_must_fit_what_it_reads_and_who_reads_it(lake: Lake) -> None:
    """Whatever was published or not; each reader is named."""
    lake.apply(
        view("days", each("1 day")), view("months", each("1 month"), "days"), view("weeks", each("7 days"), "days")
    )
    for is_published in (False, True):
        if is_published:
            lake.materialise("days", "months", "weeks")
        ((code, message),) = lake.refused(view("months", each("36 hours"), "days"))
        assert (code, "'days'" in message) == (MISFIT, True)
        found = lake.refused(view("days", each("2 days")))
        assert [MISFIT, MISFIT] == [code for code, _ in found]
        assert ["'months'", "'weeks'"] == [message.split()[1] for _, message in found]
    lake.apply(view("days", each("12 hours")))


def test_a_next_version_counts_beside_what_is_published(lake: Lake) -> None:
    """A child fits both until the switch, and an abandoned one counts no more."""
    lake.apply(view("days", each("2 days")))
    lake.materialise("days")
    lake.apply(view("days", each("3 days")))

    ((_, message),) = lake.refused(view("four", each("4 days"), "days"))
    assert "of 'days' in its next version" in message
    ((_, message),) = lake.refused(view("three", each("3 days"), "days"))
    assert "of 'days' as it is published" in message
    lake.apply(view("six", each("6 days"), "days"))
    lake.opened.abandon("days")
    lake.apply(view("four", each("4 days"), "days"))


def test_a_parent_and_its_child_may_change_together_where_nothing_is_published(lake: Lake) -> None:
    """Their new definitions fit; once something is published, the old ones are read still."""
    old = [view("days", each("1 day")), view("months", each("1 month"), "days")]
    new = [view("months", each("14 days"), "days"), view("days", each("7 days"))]
    lake.apply(*old)
    assert ["days", "months"] == [c.name for c in lake.apply(*new)]
    lake.apply(*old)
    lake.materialise("days", "months")
    ((code, message),) = lake.refused(*new)
    assert (code, "'months' as it is published" in message) == (MISFIT, True)


def test_a_version_that_does_not_fit_is_not_brought_back(lake: Lake) -> None:
    """Rolling back is refused as applying that definition is."""
    lake.apply(view("days", each("7 days")))
    before = version_of(lake.state("days"))
    lake.apply(view("days", each("1 day")))
    lake.apply(view("months", each("1 month"), "days"))
    lake.put(replace(lake.state("days"), previous=(before,)))
    with pytest.raises(DefinitionError, match="'months' reads it and divides it into 1 month"):
        lake.opened.rollback("days")


def test_a_misfit_from_before_is_told(lake: Lake) -> None:
    """A lake that had it already: `doctor` tells it as an error, and applying the definition again is refused."""
    child = view("months", each("1 month"), "weeks")
    lake.apply(view("weeks", each("7 days")))
    before = lake.state("weeks").spec
    lake.apply(view("weeks", each("1 day")), child)
    lake.put(replace(lake.state("weeks"), spec=before))

    found = [(f.level, f.code) for f in lake.opened.doctor("months") if f.code == MISFIT]
    assert [("error", MISFIT)] == found
    assert [MISFIT] == [code for code, _ in lake.refused(child)]
    assert lake.apply(view("weeks", each("7 days")))[0].kind == "unchanged"


# -- the order of a batch ------------------------------------------------------------------------------------------------

CHAIN = [
    view("a_years", each("1 year"), "b_months"),
    view("b_months", each("1 month"), "C_DAYS"),
    view("c_days", each("1 day")),
]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_new_parents_and_children_are_applied_in_any_order(lake: Lake, order: tuple[int, ...]) -> None:
    """Parents are made first; each child reads the table that was made."""
    for i in order:
        (lake.root / f"{i}.sql").write_text(CHAIN[i])
    files = [lake.root / f"{i}.sql" for i in order]
    assert ["new"] * 3 == [c.kind for c in lake.opened.apply(files, dry_run=True)]
    assert lake.names == []

    changes = lake.opened.apply(files)
    assert ["c_days", "b_months", "a_years"] == [c.name for c in changes]
    for child, parent in (("a_years", "b_months"), ("b_months", "c_days")):
        read, made = (lake.state(n) for n in (child, parent))
        assert read.source.table_id == made.tables["output"]
        assert read.source.path == str((lake.root / parent / "output").resolve())
        assert read.cursor == 0
    assert ["unchanged"] * 3 == [c.kind for c in lake.opened.apply(files)]


def test_what_is_there_is_applied_in_the_order_of_the_files(lake: Lake) -> None:
    """Only what others read goes first."""
    named = [view(name, each("1 day")) for name in ("d", "a", "c")]
    assert ["d", "a", "c"] == [c.name for c in lake.apply(*named)]
    assert ["c", "b", "a"] == [c.name for c in lake.apply(view("b", each("1 day"), "c"), *named[2:], *named[1:2])]


def test_a_path_to_an_output_is_the_aggregate(lake: Lake) -> None:
    """As for one that is there already."""
    child = view("months", each("1 month"), "delta.`days/output`").replace("ts)", "at)")
    assert ["days", "months"] == [c.name for c in lake.apply(child, view("days", each("1 day")))]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_is_refused_with_its_names(lake: Lake, length: int) -> None:
    """Each of its members is, in the order in which they read one another; who reads one of them is told that."""
    names = ["one", "two", "three"][:length]
    circle = [view(n, each("1 day"), names[(i + 1) % length]) for i, n in enumerate(names)]
    found = lake.refused(*circle, view("reader", each("1 day"), "one"))

    assert [*["definition.cycle"] * length, "definition.source-refused"] == sorted(code for code, _ in found)
    told = next(message for _, message in found if message.startswith("one: "))
    assert " reads ".join([*names, "one"]) in told


def test_a_circle_through_what_is_there_is_refused(lake: Lake) -> None:
    """A changed definition may not read what is made from it by way of an aggregate that the command does not hold."""
    lake.apply(view("one", each("1 day")), view("two", each("1 day"), "one"))
    found = lake.refused(view("one", each("1 day"), "three"), view("three", each("1 day"), "two"))
    assert {"definition.cycle"} == {code for code, _ in found}


def test_a_child_of_a_wrong_parent_says_so_and_all_problems_come_at_once(lake: Lake) -> None:
    """Not that its source is missing; what is wrong elsewhere is told, too."""
    found = lake.refused(
        view("b", each("1 month"), "c"),
        view("a", each("1 year"), "b"),
        view("c", each("1 day"), measure="sum(nothing) AS v"),
        view("d", each("1 day"), "nowhere"),
    )
    told = {message.split(":")[0]: code for code, message in found}
    refused = "definition.source-refused"
    assert told == {"a": refused, "b": refused, "c": "definition.unknown-column", "d": "table.not-found"}
    assert lake.names == []


def test_a_child_is_checked_against_what_its_parent_will_hold(lake: Lake) -> None:
    """Its columns and their types are known before there is a table."""
    found = lake.refused(view("days", each("1 day")), view("months", each("1 month"), "days", "sum(w) AS w"))
    assert ["definition.unknown-column"] == [code for code, _ in found]
    found = lake.refused(
        view("days", each("1 day"), measure="avg(v) AS v"), view("months", each("1 month"), "days", "avg(v) AS v")
    )
    assert ["definition.not-again"] == [code for code, _ in found]


def test_an_aggregate_may_begin_to_read_a_new_one(lake: Lake) -> None:
    """A changed definition that reads what the same command makes is built from that."""
    lake.apply(view("months", each("1 month")))
    lake.materialise("months")
    changes = lake.apply(view("months", each("1 month"), "days"), view("days", each("1 day")))
    assert [("days", "new", ""), ("months", "data", "started")] == [(c.name, c.kind, c.next) for c in changes]
    journal = lake.opened.journal.view()
    build = journal.build_of(journal.named("months"))
    assert build is not None
    assert build.source.table_id == journal.named("days").tables["output"]


def test_a_problem_stands_in_its_file_also_when_the_definitions_were_read_before(lake: Lake) -> None:
    """As the command does it, which tells warnings first."""
    for name, text in (("1.sql", view("months", each("1 month"), "weeks")), ("2.sql", view("weeks", each("7 days")))):
        (lake.root / name).write_text(f"\n{text}")
    specs, _ = lake.opened.read_definitions(lake.root)
    with pytest.raises(DefinitionError) as caught:
        lake.opened.apply(specs)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == (str(lake.root / "1.sql"), 3, 34)


# -- dropping ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def family(lake: Lake) -> Lake:
    """Hours that days and weeks read, and months that read days."""
    lake.apply(
        view("hours", each("1 hour")),
        view("days", each("1 day"), "hours"),
        view("weeks", each("7 days"), "hours"),
        view("months", each("1 month"), "days"),
    )
    return lake


def test_what_others_read_is_not_dropped(family: Lake) -> None:
    """They are named, those that read it by way of another too; nothing is written."""
    with pytest.raises(HasReadersError, match="'hours' is read by days, weeks") as caught:
        family.opened.drop("hours")
    assert "--cascade" in caught.value.hint
    assert "months" in caught.value.hint
    assert family.names == ["days", "hours", "months", "weeks"]

    family.opened.drop("weeks")
    assert family.names == ["days", "hours", "months"]


def test_readers_are_dropped_first_when_that_is_asked_for(family: Lake) -> None:
    """The last in the chain first; the source stays, and so does what does not read it."""
    family.apply(view("other", each("1 hour")))
    assert ["months", "days", "weeks", "hours"] == family.opened.drop("hours", cascade=True)
    assert family.names == ["other"]
    assert {"raw", "other"} == {p.name for p in family.root.iterdir() if p.name[0] not in "_."}


def test_a_drop_that_stops_tells_how_far_it_came(family: Lake) -> None:
    """What was dropped before stays dropped."""
    elsewhere = Lease("another", "another host", 1, 1, time.time() + 60)
    append(family.opened.journal, (family.state("days").id, LeaseTaken(elsewhere)))

    with pytest.raises(LeaseHeldError) as caught:
        family.opened.drop("hours", cascade=True)
    assert caught.value.wrote == "months is dropped; then nothing was written"
    assert family.names == ["days", "hours", "weeks"]


def test_a_next_version_that_reads_it_counts(family: Lake) -> None:
    """It is given up by a cascade; what is published of that aggregate reads another table and stays."""
    family.materialise("weeks")
    family.apply(view("minutes", each("1 minute")), view("weeks", each("7 days"), "minutes"))
    with pytest.raises(HasReadersError, match="'minutes' is read by the next version of weeks"):
        family.opened.drop("minutes")
    assert ["minutes"] == family.opened.drop("minutes", cascade=True)
    journal = family.opened.journal.view()
    assert journal.build_of(journal.named("weeks")) is None
