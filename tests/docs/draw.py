"""Make the pages about engines, and the tables of the reference: ``python -m tests.docs.draw [--texts]``.

Pictures and tables of results come from a real run; ``--texts`` leaves them as they are and starts no JVM.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from materializer.config import Config, SparkConfig
from materializer.core.engines.guides import GUIDES
from tests.docs import pages, picture, reference, world


def main(argv: Sequence[str] | None = None) -> int:
    """Write what the guides say and, unless told otherwise, what every example gives."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.draw", description=__doc__)
    parser.add_argument("--texts", action="store_true", help="only what is made from the guides")
    args = parser.parse_args(argv)
    for name, guide in GUIDES.items():
        (world.SQL / f"{name}.sql").write_text(f"{guide.sql};\n", encoding="utf-8")
        _write(f"{name}.md", pages.from_guide(guide))
    _write("index.md", {"common": pages.common(), "trades": pages.inputs("trades"), "orders": pages.inputs("orders")})
    _write("time_series.md", {"alignments": pages.alignments()})
    for name in reference.PAGES:
        _write(f"../{name}", reference.made(name))
    for name, result in ({} if args.texts else _results()).items():
        (pages.FOLDER / f"{name}.svg").write_text(picture.svg(result, GUIDES[name].title), encoding="utf-8")
        _write(f"{name}.md", {"output": pages.output(result)})
    return 0


def _results() -> dict[str, world.Result]:
    from materializer.spark.runtime import session

    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder}
        spark = session.start(Config(spark=SparkConfig(options=options)))
        try:
            return world.run(spark, Path(folder))
        finally:
            spark.stop()


def _write(name: str, made: dict[str, str]) -> None:
    page = pages.FOLDER / name
    page.write_text(pages.filled(page.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
