"""The tutorials on the whole of their data: ``python -m tests.docs.tutorials us-flights|devops FOLDER``.

FOLDER is where the first block of the tutorial was typed, with ``package`` or ``tsbs`` in it. The blocks are done in another folder, with
a link to the data; what the commands print is written into the page. Spark is started where a command needs it, as a reader's is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.docs import cuts, output
from tests.docs.stories import Story
from tests.paths import ROOT

PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "us-flights": ("docs/tutorial-us-flights.md", "package"),
    "devops": ("docs/tutorial-devops.md", "tsbs"),
}
"""By name: the page, and the folder of its data."""


def main(argv: Sequence[str] | None = None) -> int:
    """Follow a tutorial over all rows, and write into its page what the commands print."""
    import pytest

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(PAGES))
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the data were fetched")
    asked = parser.parse_args(argv)
    page, data = PAGES[asked.name]
    place = (asked.folder / data).absolute()
    if not place.is_dir():
        parser.error(f"{place} is no folder: the first block of {page} fetches the data")
    if others := cuts.differences(asked.folder):
        parser.error(f"other columns than tests/docs/cuts.py gives them: {', '.join(others)}")
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path(data).symlink_to(place)
        texts = output.followed(page, partial(Story, page, None, patch, is_whole=True))
    if shown := [name for name, text in texts.items() if folder in text]:
        parser.error(f"the page would show a folder of this machine in {', '.join(shown)}; nothing was written")
    (ROOT / page).write_text(output.replaced(page, texts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
