"""Plans, reports and statuses in real notebooks."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import page_lakes

CELLS = {
    "open": "from materializer import Materializer\nfrom materializer.config import Config\nlake = Materializer(ROOT + '/lake', config=Config(sources={'trades': ROOT + '/trades'}))\nlake",
    "statuses": "lake.status()",
    "one": "lake.status('held')[0]",
    "plan": "lake.plan('hourly')",
    "chain": "lake.plan_chain('daily')",
    "nothing": "lake.plan('ticks')",
    "refresh": "lake.refresh('hourly', executor='local')",
    "idle": "lake.refresh('hourly', executor='local')",
}


class Reader(HTMLParser):
    """The texts of cells, and the names of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002 - the name that the library asks for
        """Take an element."""
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        """Take a text."""
        self.texts.append(data)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    """What a notebook shows for each cell."""
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `notebooks`")
    client = pytest.importorskip("nbclient", reason="needs the extra `notebooks`")
    root = tmp_path_factory.mktemp("notebook")
    page_lakes.lake(root)
    cells = [nbformat.v4.new_code_cell(f"ROOT = {str(root)!r}"), *map(nbformat.v4.new_code_cell, CELLS.values())]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(Path.cwd())}}
    ).execute()
    found: dict[str, Reader] = {}
    for name, cell in zip(CELLS, notebook.cells[1:], strict=True):
        found[name] = Reader()
        for output in cell.outputs:
            found[name].feed(output.get("data", {}).get("text/html", ""))
    return found


@pytest.mark.parametrize("name", [name for name in CELLS if name != "chain"])
def test_a_value_is_a_table(shown: dict[str, Reader], name: str) -> None:
    """
    A table and nothing else, whatever texts the lake has.
    """
    assert {"table"} <= shown[name].tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "br"}


def test_what_the_tables_say(shown: dict[str, Reader]) -> None:
    """
    Names, states, strategies and reasons are there as text.
    """
    assert {"hourly", "daily", "held", "kept", "empty", "ticks", "gone"} <= set(shown["open"].texts) & set(
        shown["statuses"].texts
    )
    assert any("withheld" in text for text in shown["one"].texts)
    assert any("hourly: refresh" in text for text in shown["plan"].texts)
    assert {"strategy", "because", "not"} <= set(shown["plan"].texts)
    assert any("nothing to do" in text for text in shown["nothing"].texts)
    assert any("hourly: refreshed" in text for text in shown["refresh"].texts)
    assert any("hourly: up-to-date" in text for text in shown["idle"].texts)
