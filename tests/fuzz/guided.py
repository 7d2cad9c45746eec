"""The same targets, with inputs that are led by which lines of ours they reach: ``python -m tests.fuzz.guided TARGET [--minutes 5]``.

It needs ``pip install atheris``, which is no requirement of the tests: its wheels are for Linux. It ends with a traceback and the input
in ``crash-…`` if it found something.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS = 5
"""An input that takes longer is a hang; instrumented code is several times slower than the code."""


def main() -> None:
    """Try inputs for one target."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("target", help="name of a target, such as 'statement'")
    parser.add_argument("--minutes", type=float, default=5, help="stop after so many")
    options = parser.parse_args()
    try:
        atheris: Any = importlib.import_module("atheris")
    except ModuleNotFoundError:
        sys.exit("pip install atheris")
    with atheris.instrument_imports(include=["materializer"]):
        known = importlib.import_module("tests.fuzz.targets").targets(Path(tempfile.mkdtemp(prefix="fuzz-")))
        expected = importlib.import_module("materializer.errors").MaterializerError
    named = {target.name: target for target in known}
    if options.target not in named:
        sys.exit(f"the targets are {', '.join(named)}")
    target, corpus = named[options.target], Path(tempfile.mkdtemp(prefix="corpus-"))
    for number, sample in enumerate(target.samples):
        (corpus / str(number)).write_bytes(sample)

    def one(data: bytes) -> None:
        with suppress(expected):
            target.decode(data)

    limits = [
        f"-max_total_time={options.minutes * 60:.0f}",
        f"-timeout={SECONDS}",
        "-max_len=8192",
        "-rss_limit_mb=1024",
    ]
    atheris.Setup(["guided", str(corpus), *limits], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
