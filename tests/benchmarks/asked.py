"""What was asked of a figure, beside its newest, worst and best record: the table of ``docs/measurements.md``.

    python -m tests.benchmarks.asked

``asked.toml`` says what was asked, ``docs/benchmarks/history.jsonl`` what was found. *Newest* is of the last kept record that has
the figure, *worst* and *best* are of all of them, whatever the machine did besides and however old the code was. "Missed" stands
where the newest or the worst is above what was asked. A benchmark says the same of its own run at its end.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from tests.benchmarks import history
from tests.docs import pages

FILE: Final = Path(__file__).with_name("asked.toml")
PAGE: Final = history.ROOT / "docs" / "measurements.md"
_HEADER: Final = ("what", "asked", "newest", "worst", "best", "runs", "verdict", "newest run")


class Ask(Struct, frozen=True, kw_only=True):
    """One figure of a benchmark, and what was asked of it.

    Args:
        benchmark: Whose figure it is.
        what: What it says, in words.
        value: Where it stands in a record.
        over: Where what it is divided by stands.
        most: What it may be at most; None when nothing was asked.
        unit: ``s`` and ``ms`` for seconds, ``%`` for a share, ``x`` for a multiple, "" for a number.
        where: Options with which a run counts.
    """

    benchmark: str
    what: str
    value: str
    over: str = ""
    most: float | None = None
    unit: str = "x"
    where: Mapping[str, str] = field(default_factory=dict)

    def of(self, found: Mapping[str, Any]) -> float | None:
        """Return the figure of a record, or None where it has none or was made with other options."""
        options = found.get("options", {})
        if any(options.get(name) != value for name, value in self.where.items()):
            return None
        value, over = _at(found, self.value), _at(found, self.over) if self.over else 1.0
        return None if value is None or not over else value / over

    def told(self, value: float) -> str:
        """Return a figure with its unit."""
        match self.unit:
            case "ms":
                return f"{_short(1_000 * value)} ms"
            case "%":
                return f"{_short(100 * value)} %"
            case "x" | "":
                return f"{_short(value)}{' x' if self.unit else ''}"
            case unit:
                return f"{_short(value)} {unit}"

    @property
    def bound(self) -> str:
        """What was asked, in words."""
        return "–" if self.most is None else f"≤ {self.told(self.most)}"

    def verdict(self, newest: float, worst: float) -> str:
        """Return whether it was met: by both, by the newest only, or not."""
        if self.most is None:
            return "not asked"
        if newest > self.most:
            return "**missed**"
        return "**missed** at worst" if worst > self.most else "met"


def asks(file: Path = FILE) -> list[Ask]:
    """Return everything that was asked."""
    return [Ask(**ask) for ask in tomllib.loads(file.read_text(encoding="utf-8"))["ask"]]


def lines(benchmark: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Give what one run says to what was asked of its benchmark."""
    for ask in asks():
        value = ask.of(found) if ask.benchmark == benchmark else None
        if value is not None and ask.most is not None:
            verdict = ask.verdict(value, value).strip("*")
            yield f"asked: {ask.what}: {ask.told(value)}, {ask.bound}: {verdict}"


def table(entries: Iterable[Mapping[str, Any]], every: Iterable[Ask]) -> str:
    """Return the table of what was asked and found."""
    kept = list(entries)
    return pages.table(_HEADER, [_row(ask, kept) for ask in every])


def _row(ask: Ask, entries: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    known = [
        (value, entry)
        for entry in entries
        if entry["benchmark"] == ask.benchmark and (value := ask.of(entry["found"])) is not None
    ]
    if not known:
        return (ask.what, ask.bound, "–", "–", "–", "0", "no record", f"`{ask.benchmark}`")
    newest, last = known[-1]
    values = [value for value, _ in known]
    told = (ask.told(newest), ask.told(max(values)), ask.told(min(values)), str(len(values)))
    when = f"`{ask.benchmark}`, {last['at'][:10]}"
    return (ask.what, ask.bound, *told, ask.verdict(newest, max(values)), when)


def _at(found: Mapping[str, Any], path: str) -> float | None:
    value: Any = found
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def _short(value: float) -> str:
    """Return three figures of a number that matter, without an exponent.

    Examples:
        >>> _short(19.0731), _short(0.6675), _short(8), _short(1.4), _short(1200.4)
        ('19.1', '0.667', '8', '1.4', '1200')
    """
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def made() -> str:
    """Return the page with its table of what was asked."""
    text = PAGE.read_text(encoding="utf-8")
    return pages.filled(text, {"asked": table(history.every(), asks())})


def main() -> None:
    """Write the table."""
    PAGE.write_text(made(), encoding="utf-8")
    print(PAGE.relative_to(history.ROOT))


if __name__ == "__main__":
    main()
