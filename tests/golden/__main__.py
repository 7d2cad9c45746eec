"""Write golden files anew: ``python -m tests.golden [--only PART…]``.

Parts are ``help``, ``api``, ``journal`` and ``commands``. What was recorded once (``recorded``) has to be read for ever, by every later
version: it is written only when it is named, and there is hardly a reason to. Read what changes before it is committed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.golden import files, journal, script, surface


@cache
def _told() -> script.Told:
    from materializer.config import Config, SparkConfig
    from materializer.spark.runtime import session

    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder}
        spark = session.start(Config(spark=SparkConfig(options=options)))
        try:
            return script.run(Path(folder))
        finally:
            spark.stop()


PARTS: Final[Mapping[str, Callable[[], dict[str, str]]]] = {
    "help": surface.help_pages,
    "api": surface.api,
    "journal": journal.stored,
    "commands": lambda: script.files(_told()),
    "recorded": lambda: script.recorded(_told()),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Write the golden files that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help="these parts")
    asked = parser.parse_args(argv).only or [part for part in PARTS if part not in files.FOR_EVER]
    for part in asked:
        made = PARTS[part]()
        files.write(part, made)
        print(f"{part}: {len(made)} files")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
