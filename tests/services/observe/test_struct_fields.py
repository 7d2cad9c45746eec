"""A source with a struct whose fields have capital letters, or letters of any alphabet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.core.codec import as_json
from materializer.journal.events import Snapshot
from tests.appending import append
from tests.services.no_spark import LocalLake

WHEN = pa.timestamp("us", "UTC")


@pytest.mark.parametrize("is_stored_small", [False, True])
def test_an_aggregate_over_fields_goes_on(tmp_path: Path, is_stored_small: bool) -> None:
    """
    Nothing of the source changed, so a refresh takes the new rows and applying the text again changes nothing; also where an
    earlier release stored the type in small letters.
    """
    lake, path = LocalLake(tmp_path), str(tmp_path / "orders")
    kind = pa.struct([("Land", pa.string()), ("ID", pa.int64())])
    rows = pa.table({"ts": pa.array([0], WHEN), "c": pa.array([{"Land": "DE", "ID": 1}], kind)})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    text = "CREATE MATERIALIZED VIEW a AS SELECT time_bucket('1 day', ts) AS at, c.Land AS land, sum(c.id) AS v FROM orders GROUP BY 1, 2"
    lake.apply(text)
    lake.opened.refresh("a")
    assert ("c", "struct<Land:string,ID:bigint>") in map(tuple, lake.state("a").spec["read_types"])
    if is_stored_small:
        state = as_json(lake.state("a"))
        state["spec"]["read_types"] = [[name, kind.lower()] for name, kind in state["spec"]["read_types"]]
        append(lake.opened.journal, (state["id"], Snapshot(state)))
    write_deltalake(path, rows, mode="append")

    lake.opened.refresh("a")
    [change] = lake.apply(text)

    assert ("unchanged", [{"land": "DE", "v": 2}]) == (
        change.kind,
        DeltaTable(str(tmp_path / "a" / "output")).to_pyarrow_table().select(["land", "v"]).to_pylist(),
    )
