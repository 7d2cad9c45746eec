"""Case files: what kind of case each entry is, and the values in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from materializer.core.time.instants import DAY, SECOND, days_of

Case = Mapping[str, Any]

DATA = Path(__file__).resolve().parent / "data"
"""Where the case files of the tests lie."""

_TIME = re.compile(
    r"(?P<year>\d{1,6})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<h>\d\d):(?P<m>\d\d)(?::(?P<s>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?)?Z?(?P<bc> BC)?(?: \(session local\))?"
)


class Outcome(Struct, frozen=True):
    """What came of one case.

    Args:
        id: Its id.
        passed: Whether what was found is what was expected.
        expected: In words or rows, for people.
        found: Likewise; for a case that could not be run, the reason.
    """

    id: str
    passed: bool
    expected: Any = None
    found: Any = None


def read(path: Path) -> list[Case]:
    """Return the cases of a file.

    Raises:
        ValueError: If it is no list of cases, each with an id.
    """
    cases = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(cases, list) or not all(isinstance(c, dict) and "id" in c for c in cases):
        msg = f"{path}: not a list of cases with an id"
        raise ValueError(msg)
    return cases


def kind_of(case: Case) -> str:
    """Return ``time-bucket``, ``scenario``, or the engine's name."""
    if "engine" in case:
        return str(case["engine"])
    if "ops" in case:
        return "scenario"
    return "time-bucket" if "type" in case else "no known format"


def micros(text: str) -> int:
    """Return microseconds since 1970-01-01 of an ISO date or time, of any year, also BC.

    Raises:
        ValueError: If it is no such text.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        msg = f"{text!r} is no time that a case file has"
        raise ValueError(msg)
    part = match.groupdict(default="0")
    year = 1 - int(part["year"]) if match["bc"] else int(part["year"])
    seconds = (int(part["h"]) * 60 + int(part["m"])) * 60 + int(part["s"])
    days = days_of(year, int(part["month"]), int(part["day"]))
    return days * DAY + seconds * SECOND + int(part["fraction"].ljust(6, "0"))


def run_guarded(case: Case, run: Callable[[Case], Outcome]) -> Outcome:
    """Return the outcome of *run*; an exception fails the case, it does not end the run."""
    try:
        return run(case)
    except Exception as exc:  # noqa: BLE001 (one case that breaks must not hide the others)
        return Outcome(case["id"], passed=False, expected=case.get("title"), found=f"{type(exc).__name__}: {exc}")
