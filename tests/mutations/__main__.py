"""Plant mistakes and see whether a test finds them: ``python -m tests.mutations [--only ID…] [--list] [--again]``.

Works in a copy of the repository, never in its files. What came out is kept in ``progress.jsonl``, beside this file: a run
goes on where another ended. What was killed is planted again when its entry or the code that it changes did; ``--again``
plants all, for instance after tests were thinned out. The newest line of an id counts.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from tests.mutations.catalogue import Mistake, load, named
from tests.mutations.running import Result, copied, run, sound

PROGRESS: Final = Path(__file__).parent / "progress.jsonl"
AT_ONCE: Final = 12  # whose tests are first seen to pass without a mistake


def main() -> int:
    """Plant what is asked for; return 1 when a mistake survives or an entry is broken, 3 when there was no time for all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ID", help="these, or those whose ids begin so")
    parser.add_argument("--list", action="store_true", help="name them, with what came out")
    parser.add_argument("--again", action="store_true", help="plant also what was killed and has not changed")
    parser.add_argument("--minutes", type=float, help="begin none after so many minutes")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the tests of one (600)")
    args = parser.parse_args()
    try:
        wanted = named(load(), args.only) if args.only else load()
    except ValueError as e:
        parser.error(str(e))
    if args.list:
        print(*map(_line, wanted), sep="\n")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the copy is removed
    until = time.monotonic() + 60 * args.minutes if args.minutes else float("inf")
    left = [each for each in wanted if not each.harmless and (args.again or not _is_done(each))]
    print(f"{len(wanted)} mistakes, {len(left)} to plant")
    for each, digest, result in _results(left, until, args.timeout):
        _keep(each, digest, result)
        print(f"{each.id:8} {result.outcome:9} {result.seconds:6.1f} s  {result.why or each.rule}", flush=True)
    return _summary(wanted)


def _results(left: Sequence[Mistake], until: float, timeout: float) -> Iterator[tuple[Mistake, str | None, Result]]:
    if not left:
        return
    with copied() as copy:
        for first in range(0, len(left), AT_ONCE):
            these = left[first : first + AT_ONCE]
            if time.monotonic() >= until:
                return
            broken = {each.id: Result("broken", why[0], 0.0) for each in these if (why := each.why_not(copy))}
            broken |= sound(copy, [each for each in these if each.id not in broken], timeout)
            for each in these:
                if time.monotonic() >= until:
                    return
                digest = None if each.id in broken else each.digest(copy)
                yield each, digest, broken.get(each.id) or run(copy, each, timeout)


def _summary(wanted: Sequence[Mistake]) -> int:
    found = Counter("harmless" if each.harmless else _known(each).get("outcome", "not planted") for each in wanted)
    print(", ".join(f"{n} {outcome}" for outcome, n in sorted(found.items())))
    if found["survived"] or found["broken"]:
        return 1
    return 3 if found["not planted"] else 0


def _line(mistake: Mistake) -> str:
    outcome = "harmless" if mistake.harmless else _known(mistake).get("outcome", "not planted")
    return f"{mistake.id:8} {outcome:11} {mistake.rule}"


def _is_done(mistake: Mistake) -> bool:
    return _known(mistake).get("outcome") == "killed"


def _known(mistake: Mistake) -> dict[str, Any]:
    """Return the newest line of a mistake, when nothing changed since."""
    newest = _progress().get(mistake.id, {})
    return newest if not mistake.why_not() and newest.get("hash") == mistake.digest() else {}


def _progress() -> dict[str, dict[str, Any]]:
    lines = PROGRESS.read_text().splitlines() if PROGRESS.is_file() else []
    return {each["id"]: each for each in sorted(map(json.loads, lines), key=itemgetter("at"))}


def _keep(mistake: Mistake, digest: str | None, result: Result) -> None:
    """Append what came out."""
    line = {
        "id": mistake.id,
        "hash": digest,
        "outcome": result.outcome,
        "why": result.why,
        "seconds": result.seconds,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with PROGRESS.open("a") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
