"""What is pasted into other programs reads the table: its real path and columns, in quotes where it needs them."""

from __future__ import annotations

from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.services.report.snippets import Snippet
from tests.hints.world import World
from tests.services.no_spark import each, view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = view("odd", each("1 hour"), measure="count(*) AS `order`, sum(v) AS `select`")


@pytest.fixture
def snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Snippet]:
    """Those of an aggregate whose columns are reserved words, in a folder with a quote and a blank."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    root = tmp_path / "it's here"
    root.mkdir()
    world = World(root)
    world.apply(ODD)
    world.works("refresh odd")
    return {s.program: s for s in Materializer(root).how_to_read("odd")}


def printed(snippet: Snippet) -> str:
    with redirect_stdout(StringIO()) as out:
        exec(compile(snippet.text, snippet.program, "exec"), {})
    return out.getvalue()


def test_pandas_prints_the_newest_rows(snippets: dict[str, Snippet]) -> None:
    """
    As it stands there.
    """
    lines = printed(snippets["pandas"]).splitlines()

    assert lines[0].split() == ["at", "order", "select"]
    assert "2024-03-02 23:00:00+00:00" in lines[1]
    assert len(lines) == 21


@pytest.mark.skipif(find_spec("polars") is None, reason="Polars is not among what we install")
def test_polars_prints_the_newest_rows(snippets: dict[str, Snippet]) -> None:
    """
    As it stands there.
    """
    assert "2024-03-02 23:00:00" in printed(snippets["Polars"])


def test_python_is_python(snippets: dict[str, Snippet]) -> None:
    """
    What cannot be run here for want of the library is a program with the path and all columns in it.
    """
    text = snippets["Polars"].text

    assert compile(text, "Polars", "exec")
    assert repr(["at", "order", "select"]) in text
    assert "it's here/odd/output" in text


def test_duckdb_reads_these_columns(snippets: dict[str, Snippet]) -> None:
    """
    Its extension is fetched, which a test does not do: `delta_scan` is a macro over the same rows here, and INSTALL and LOAD are left out.
    """
    install, load, query = snippets["DuckDB"].text.split("\n", 2)
    assert (install, load) == ("INSTALL delta;", "LOAD delta;")
    assert "fetches" in snippets["DuckDB"].needs
    path = query[query.index("delta_scan('") + 12 : query.index("')")].replace("''", "'")
    with duckdb.connect() as connection:
        connection.register("stored", DeltaTable(path).to_pyarrow_table())
        connection.execute("CREATE MACRO delta_scan(place) AS TABLE SELECT * FROM stored")
        found = connection.sql(query).to_arrow_table()

    assert found.column_names == ["at", "order", "select"]
    assert found.num_rows == 20
    assert pa.compute.max(found["at"]) == found["at"][0]


def test_trino_takes_both_statements(snippets: dict[str, Snippet]) -> None:
    """
    There is no Trino here: its grammar reads them, and the place is a URL.
    """
    call, query = sqlglot.parse(snippets["Trino"].text, read="trino", error_level=sqlglot.ErrorLevel.IMMEDIATE)

    assert "file:///" in snippets["Trino"].text
    assert "it%27s%20here/odd/output" in snippets["Trino"].text
    assert call is not None
    assert query is not None
    assert query.named_selects == ["at", "order", "select"]


@pytest.mark.spark
def test_spark_reads_these_columns(snippets: dict[str, Snippet], spark: SparkSession) -> None:
    """
    As it stands there.
    """
    rows = spark.sql(snippets["Spark"].text)

    assert rows.columns == ["at", "order", "select"]
    assert rows.count() == 20
