"""Nearly right inputs for everything that is decoded: each gives a value or an error with a code, quickly and in little memory.

    python -m tests.fuzz [--minutes 10] [--target 2000000]
    python -m tests.fuzz --only SEED

The first form goes on with the inputs of this state of the package ``materializer/`` that are not on record, and appends a line for
each 20,000 to ``docs/benchmarks/fuzz.jsonl``; it ends with status 1 if it found something. ``--only`` repeats one.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from materializer.errors import MaterializerError
from tests.benchmarks import history as records
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import Target, targets
from tests.histories.__main__ import run

FILE: Final = records.ROOT / "docs" / "benchmarks" / "fuzz.jsonl"
EACH: Final = 20_000
"""Inputs of a chunk."""
SECONDS: Final = 1.0
"""Processor time that no input takes."""
KILOBYTES: Final = 100 * 1024
"""By how much no input lets the process grow."""


@cache
def known() -> list[Target]:
    """Return the targets of this process."""
    return targets(Path(tempfile.mkdtemp(prefix="fuzz-")))


def one(seed: int) -> tuple[str, str, str]:
    """Return what an input was for, what came of it, and what was wrong; "" if nothing was."""
    draw = random.Random(seed)
    target = draw.choice(known())
    data = mutated(draw.choice(target.samples), draw)
    used, size = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    came, wrong = "a value", ""
    try:
        target.decode(data)
    except MaterializerError as exc:
        came = exc.code
    except Exception as exc:  # noqa: BLE001 - that is what is looked for
        came, wrong = "another error", f"{target.name}: {type(exc).__name__}: {str(exc)[:200]}"
    used = time.process_time() - used
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size
    if used > SECONDS:
        wrong = wrong or f"{target.name}: took {used:.1f} s"
    if grown > KILOBYTES:
        wrong = wrong or f"{target.name}: grew by {grown:,} kB"
    return target.name, came, wrong


def chunk(first: int, inputs: int = EACH) -> dict[str, Any]:
    """Try the inputs of some seeds, and return what came of them and what was wrong."""
    began, used = time.monotonic(), time.process_time()
    seen, found = Counter[str](), []
    for seed in range(first, first + inputs):
        name, came, wrong = one(seed)
        seen[f"{name}: {'value' if came == 'a value' else 'error'}"] += 1
        if wrong:
            found.append({"seed": seed, "wrong": wrong})
    return {
        "first": first,
        "histories": inputs,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "seen": dict(seen),
        "found": found[:50],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Try inputs, or repeat one."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--target", type=int, default=2_000_000, help="stop when so many of this code are on record")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one input")
    options = parser.parse_args(argv)
    if options.only is not None:
        draw = random.Random(options.only)
        target = draw.choice(known())
        print(target.name, mutated(draw.choice(target.samples), draw)[:3_000])
        print(one(options.only))
        return int(bool(one(options.only)[2]))
    with ProcessPoolExecutor(options.workers) as pool:
        return run(options.minutes, options.workers, options.target, pool, chunk, FILE, EACH, "tests.fuzz")


if __name__ == "__main__":
    sys.exit(main())
