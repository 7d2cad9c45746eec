"""Times of an integer column with a resolution: text has them as ISO, as input may be; JSON has the numbers."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from materializer.adapters.cli.app import main

DAY = 86_400
BEGIN = 1_795_132_800  # 2026-11-20
DAYS = """CREATE MATERIALIZED VIEW days TBLPROPERTIES ('time.resolution' = '{0}')
AS SELECT time_bucket('1 day', at) AS day, count(*) AS n FROM events GROUP BY 1;"""


def run(*words: str) -> str:
    """Return what a command prints."""
    with redirect_stdout(io.StringIO()) as out:
        assert main(list(words)) == 0
    return out.getvalue()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("resolution", "ticks"), [("s", 1), ("ms", 1_000), ("us", 1_000_000)])
def test_times_are_printed_as_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resolution: str, ticks: int
) -> None:
    """
    By `refresh`, `status`, `history`, `invalidate`, `plan` and `show`; no number of ticks is among the words.
    """
    monkeypatch.chdir(tmp_path)
    times = [(BEGIN + i * DAY) * ticks for i in range(3)]
    write_deltalake(str(tmp_path / "lake" / "events"), pa.table({"at": pa.array(times, pa.int64())}))
    (tmp_path / "days.sql").write_text(DAYS.format(resolution))
    run("apply", "days.sql")
    texts = [
        run("refresh", "days"),
        run("status", "days"),
        run("history", "days"),
        run("invalidate", "days", "--start", "2026-11-21", "--end", "2026-11-22"),
        run("plan", "days"),
        run("show", "days"),
    ]

    assert all("2026-11-2" in text for text in texts), texts
    assert not [text for text in texts if str(BEGIN)[:5] in text]
    [status] = json.loads(run("status", "days", "--json"))["aggregates"]
    assert [{"start": times[1], "end": times[2]}] == status["dirty"]
    assert [times[2], 1] == json.loads(run("show", "days", "--json"))["rows"][0]
