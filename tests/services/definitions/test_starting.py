"""A new definition from a look at its source: what is proposed fits, whatever the table is like, and nothing is overwritten."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

from materializer import Materializer
from materializer.adapters.cli.app import main
from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.core.policy.policies import policies_of
from materializer.core.quality import suite as suites
from materializer.errors import DefinitionError, NotADeltaTableError, TableNotFoundError, UsageError
from materializer.lake.table import DeltaFolder
from materializer.services.definitions.starting import NewDefinition
from tests import shapes
from tests.shapes import TIMES, VALUES, Shape, shape


def looked_at(folder: Path, table: Shape, **wishes: object) -> NewDefinition:
    """What is proposed for a table."""
    table.write(folder / "lake" / "trades")
    return Materializer(folder / "lake").new("trades", **wishes)  # type: ignore[arg-type]


def of(seed: int = 0, rows: int = 400, **kinds: str) -> Shape:
    rng = random.Random(seed)
    makers = {**TIMES, **VALUES}
    return Shape(rows, {name: makers[kind](rng, rows) for name, kind in kinds.items()})


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_what_is_proposed_is_a_definition(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """
    Over tables of many shapes: it is read, its columns exist, its suite is one over its output, its policy fits its grid.
    """
    folder = tmp_path_factory.mktemp("new")
    found = looked_at(folder, shape(seed))
    [spec] = parse_definitions(found.definition)
    resolved = resolve(spec, DeltaFolder.at(found.path).schema())
    suite = suites.read(found.suite, columns=resolved.columns)

    assert found.answers.time in [name for name, _ in DeltaFolder.at(found.path).schema()]
    assert len(resolved.columns) == len({name.lower() for name in resolved.columns})
    assert suite.expectations
    assert len(policies_of(resolved)) == 1
    assert not (folder / "lake" / ".materializer").exists()


@pytest.mark.parametrize(
    ("kind", "bucket", "resolution"),
    [("timestamp", "", ""), ("date", "30 days", ""), ("epoch seconds", "", "s"), ("epoch milliseconds", "", "ms")],
)
def test_a_time_column_is_found_by_its_type(tmp_path: Path, kind: str, bucket: str, resolution: str) -> None:
    """
    Among other columns; of an integer what a tick is, by its name and its values.
    """
    found = looked_at(tmp_path, of(id="plain", sym="symbols", created_at=kind, price="prices"))

    assert ("created_at", resolution) == (found.answers.time, found.answers.resolution)
    assert bucket in {"", found.answers.bucket}
    assert ("sym",) == found.answers.keys
    assert "avg(price) AS price_avg" in found.answers.measures
    assert not [m for m in found.answers.measures if "id" in m]


@pytest.mark.parametrize(
    ("name", "ticks", "resolution"),
    [
        *((name, 1_000, "ms") for name in ("booked_ms", "zeitstempel_ms", "zeit", "fecha", "gebucht", "ereignis")),
        *((name, 1, "s") for name in ("start_s", "unixtime", "heure", "angelegt")),
        *((name, 1_000_000, "us") for name in ("tick_us", "tijd", "v")),
        ("ping_ns", 1_000_000_000, "ns"),
    ],
)
def test_integers_of_a_clock_are_a_time_before_any_id(tmp_path: Path, name: str, ticks: int, resolution: str) -> None:
    """
    As their values say, whatever their name; ids beside them are no time, and the times of another such column are not added up.
    """
    rows = 400
    columns = {
        "order_no": (pa.int64(), [10_000 + n for n in range(rows)]),
        "transaction_id": (pa.int64(), [1_700_000_000_000 + n * 7 for n in range(rows)]),
        "amount": (pa.int64(), [n * 7_919 % 9_973 for n in range(rows)]),
        name: (pa.int64(), [(1_756_684_800 + n * 60) * ticks for n in range(rows)]),
        f"other_{name}": (pa.int64(), [(1_756_684_900 + n * 61) * ticks for n in range(rows)]),
    }
    answers = looked_at(tmp_path, Shape(rows, columns)).answers

    assert (name, resolution) == (answers.time, answers.resolution)
    assert ("count(*) AS n", "sum(amount) AS amount_sum", "max(amount) AS amount_max") == answers.measures


def test_large_numbers_are_no_times(tmp_path: Path) -> None:
    """
    Ids of machines lie where nanoseconds do, and amounts lie further apart than times.
    """
    rows = 400
    columns = {
        "at": (pa.int64(), list(range(rows))),
        "snowflake": (pa.int64(), [1_700_000_000_000_000_000 + n * 4_194_304_000 for n in range(rows)]),
        "cents": (pa.int64(), [640_000_000 + n * 8_000_000 for n in range(rows)]),
    }
    answers = looked_at(tmp_path, Shape(rows, columns)).answers

    assert ("at", "") == (answers.time, answers.resolution)
    assert "sum(cents) AS cents_sum" in answers.measures


def test_the_width_follows_the_density_of_rows(tmp_path: Path) -> None:
    """
    So that a bucket has some fifty rows; a row far from all others changes nothing.
    """
    times = [shapes.BEGIN.replace(minute=i // 60 % 60, second=i % 60, hour=i // 3600) for i in range(4_000)]
    dense = Shape(4_000, {"ts": (pa.timestamp("us", "UTC"), times)})
    far = Shape(4_000, {"ts": (pa.timestamp("us", "UTC"), [times[0].replace(year=1970), *times[1:]])})

    assert ["1 minute", "1 minute"] == [
        looked_at(tmp_path / name, table).answers.bucket for name, table in (("dense", dense), ("far", far))
    ]


def test_sums_that_could_overflow_are_not_proposed(tmp_path: Path) -> None:
    """
    Of integers and decimals near the end of their types; averages of values that are not finite neither.
    """
    found = looked_at(tmp_path, of(ts="timestamp", huge="huge", wide="wide money", odd="strange", small="amounts"))
    functions = {m.partition("(")[0] + " " + re.findall(r"\((\w+|\*)", m)[0] for m in found.answers.measures}

    assert {"min huge", "max huge", "min wide", "max wide", "min odd", "max odd"} <= functions
    assert not {"sum huge", "sum wide", "avg odd"} & functions


IDS = ("order_id", "userid", "tradeId", "invoice_no", "zipcode", "customer_key", "branchNo", "status_code", "pk")
AMOUNTS = ("amount_paid", "bid", "pieces")


@pytest.mark.parametrize(("names", "measured"), [(IDS, ()), (AMOUNTS, AMOUNTS)], ids=["ids", "amounts"])
def test_what_identifies_something_is_not_added_up(
    tmp_path: Path, names: tuple[str, ...], measured: tuple[str, ...]
) -> None:
    """
    As its name says: none of its sums, least or greatest values is proposed, also of a decimal without a fraction; of amounts they are.
    """
    rng, rows = random.Random(1), 400
    numbers = {name: (pa.int64(), [rng.randrange(5_000) for _ in range(rows)]) for name in names}
    account = {"account_id": (pa.decimal128(20, 0), [Decimal(rng.randrange(10**12)) for _ in range(rows)])}
    answers = looked_at(tmp_path, Shape(rows, {**dict(of(ts="timestamp").columns), **numbers, **account})).answers

    assert {"*", *measured} == {re.findall(r"\((.*?)\)", m)[0] for m in answers.measures}


@pytest.mark.parametrize(
    ("last", "step", "is_added"), [(400, 1, False), (1_200, 3, False), (40_000, 100, True), (50, 1, True)]
)
def test_what_is_different_in_each_row_is_not_added_up(tmp_path: Path, last: int, step: int, *, is_added: bool) -> None:
    """
    Whatever its name: numbers of which hardly one is left out are given one after the other. Numbers far from each other may be amounts,
    and a few rows say nothing.
    """
    numbers = [5_000_000 + n for n in range(0, last, step)]
    random.Random(1).shuffle(numbers)
    kinds = of(rows=len(numbers), ts="timestamp").columns
    found = looked_at(tmp_path, Shape(len(numbers), {**kinds, "ticket": (pa.int64(), numbers)})).answers

    assert is_added == any("ticket" in measure for measure in found.measures)


def test_wishes_are_taken_and_the_rest_is_proposed(tmp_path: Path) -> None:
    """
    In any letters; no key and no policy are wishes, too.
    """
    table = of(ts="timestamp", sym="symbols", price="prices")
    found = looked_at(
        tmp_path, table, name="mine", time="TS", bucket="2 hours", keys=[], measures=["max(price) AS top"], policy=False
    )

    assert ("mine", "ts", "2 hours", (), ("max(price) AS top",), ()) == (
        found.answers.name,
        found.answers.time,
        found.answers.bucket,
        found.answers.keys,
        found.answers.measures,
        found.answers.policy,
    )


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"time": "price"}, "double"),
        ({"time": "nope"}, "no such column"),
        ({"keys": ["nope"]}, "no column 'nope'"),
        ({"bucket": "often"}, "often"),
        ({"measures": ["sum(nope) AS x"]}, "nope"),
        ({"measures": ["price"]}, "price"),
        ({"name": "../outside"}, "outside"),
        ({"name": "a b"}, ""),
    ],
)
def test_wishes_that_do_not_fit_are_refused(tmp_path: Path, wishes: dict[str, object], said: str) -> None:
    """
    With a code; nothing is written.
    """
    table = of(ts="timestamp", sym="symbols", price="prices")
    with pytest.raises((UsageError, DefinitionError)) as caught:
        looked_at(tmp_path, table, **wishes)

    assert said in caught.value.message
    assert "nothing was written" == caught.value.wrote
    assert ["lake"] == [p.name for p in tmp_path.iterdir()]


def test_files_are_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Neither the definition nor the suite; if one exists, none is written.
    """
    monkeypatch.chdir(tmp_path)
    found = looked_at(tmp_path, of(ts="timestamp"))
    lake = Materializer(tmp_path / "lake")
    name = found.answers.name
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations" / f"{name}.json").write_text("mine")

    with pytest.raises(UsageError, match="exists"):
        lake.write_new(found)
    assert not (tmp_path / "sql").exists()
    (tmp_path / "expectations" / f"{name}.json").unlink()
    written = lake.write_new(found)
    assert [found.definition, found.suite] == [Path(place).read_text() for place in written]
    with pytest.raises(UsageError, match="exists"):
        lake.write_new(found)


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_a_folder_of_parquet_gets_the_command_that_makes_it_a_table(tmp_path: Path, is_partitioned: bool) -> None:
    """
    The command of the hint is run as it stands, and then the same call works.
    """
    folder = tmp_path / "lake" / "the shop's rows"
    table = of(ts="timestamp", sym="flags").table
    if is_partitioned:
        pq.write_to_dataset(table, folder, partition_cols=["sym"])
    else:
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "a.parquet")
    lake = Materializer(tmp_path / "lake")
    with pytest.raises(NotADeltaTableError) as caught:
        lake.new("the shop's rows")
    command = caught.value.hint.partition(":\n")[2]

    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True, cwd=tmp_path)

    assert "ts" == lake.new("the shop's rows").answers.time
    assert 400 == DeltaTable(str(folder)).to_pyarrow_table().num_rows


@pytest.mark.parametrize("ending", ["csv", "CSV", "json", "parquet", "arrow"])
def test_a_file_of_rows_gets_the_commands_that_make_it_a_table(tmp_path: Path, ending: str) -> None:
    """
    Followed as they are printed, the second one has a source; numbers with a comma are numbers.
    """
    lake, file = tmp_path / "lake", tmp_path / "lake" / f"Messung 1.{ending}"
    lake.mkdir()
    table = pa.table({"zeit": [1_756_684_800_000, 1_756_688_400_000], "wert": [3.5, 4.0]})
    match ending.lower():
        case "csv":
            file.write_text("zeit;wert\n1756684800000;3,5\n1756688400000;4,0\n")
        case "json":
            file.write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
        case "parquet":
            pq.write_table(table, file)
        case _:
            feather.write_feather(table, str(file))
    with pytest.raises(NotADeltaTableError) as caught:
        Materializer(lake).new(file.name)

    _, make, new = caught.value.hint.split("\n")
    words = shlex.split(make)
    assert "python" == words[0]
    subprocess.run([sys.executable, *words[1:]], check=True)
    answers = Materializer(lake).new(shlex.split(new)[2]).answers
    assert ("zeit", "ms") == (answers.time, answers.resolution)
    assert "avg(wert) AS wert_avg" in answers.measures


def test_a_table_without_a_time_says_what_it_has(tmp_path: Path) -> None:
    """
    Its columns with their types; a table that is not there is another error.
    """
    with pytest.raises(UsageError, match="price double"):
        looked_at(tmp_path, of(price="prices", text="texts"))
    with pytest.raises(TableNotFoundError):
        Materializer(tmp_path / "lake").new("nothing")


def test_a_source_outside_the_lake_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    So that the definition is found from every working directory.
    """
    monkeypatch.chdir(tmp_path)
    of(ts="timestamp").write(tmp_path / "outside" / "rows")
    found = Materializer(tmp_path / "lake").new("outside/rows")

    assert f"FROM delta.`{tmp_path}/outside/rows`" in found.definition


def test_late_rows_make_the_window_longer(tmp_path: Path) -> None:
    """
    Rows that were committed ten days after their time are in the window of the policy; a load of history says nothing.
    """

    def proposed(name: str, late: timedelta) -> dict[str, str]:
        now = datetime.now(UTC)
        times = [now - late + timedelta(seconds=i) for i in range(1_000)]
        path = tmp_path / name / "lake" / "rows"
        write_deltalake(str(path), pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC"))}))
        return dict(Materializer(tmp_path / name / "lake").new("rows").answers.policy)

    on_time, late, history = (proposed(f"l{d}", timedelta(days=d)) for d in (0, 10, 400))

    assert minutes(on_time["start_offset"]) < 10 * 24 * 60 <= minutes(late["start_offset"])
    assert on_time["start_offset"] == history["start_offset"]
    assert "days" in late["start_offset"], "a long window is written in days, not in minutes"


def minutes(length: str) -> int:
    number, unit = length.split()
    return int(number) * {"minute": 1, "hour": 60, "day": 24 * 60}[unit.rstrip("s")]


@pytest.mark.parametrize(
    ("time", "told"),
    [("2026-03-01 10:00:00", ["read_at"]), (datetime(2026, 3, 1, tzinfo=UTC), [])],
    ids=["text", "time"],
)
def test_times_in_text_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, time: object, told: list[str]
) -> None:
    """
    A number divides the rows where the only time is text, which is said with what can be done.
    """
    monkeypatch.chdir(tmp_path)
    times = pa.array([time] * 3, None if told else pa.timestamp("us", "UTC"))
    write_deltalake(str(tmp_path / "raw"), pa.table({"reading_id": [1, 2, 3], "read_at": times, "v": [1.5, 2.5, 3.5]}))
    words = ["new", "raw", "--yes", "--lake", str(tmp_path)]
    assert 0 == main([*words, "--name", "a"])
    text = " ".join(capsys.readouterr().out.split())
    assert 0 == main([*words, "--name", "b", "--json"])

    assert bool(told) == ("read_at sounds like a time and is text" in text)
    assert told == json.loads(capsys.readouterr().out)["times_in_text"]
