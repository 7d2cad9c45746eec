"""The same lake with an engine: sessions of each key, which late rows bridge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from materializer.core.language.engine_define import define_engine
from materializer.core.spec.spec import AggregateSpec
from tests.system.processes.running import START, World

GAP: Final = timedelta(minutes=40)
_TOLD: Final[Mapping[str, Any]] = {
    "n": len,
    "s": lambda rows: sum(row["v"] for row in rows),
    "open": lambda rows: rows[0]["v"],
    "latest": lambda rows: max(row["id"] for row in rows),
    "low": lambda rows: min(row["v"] for row in rows),
}
"""What a measure says of the rows of a session, in order."""


class Sessions(World):
    """One aggregate ``bars`` of sessions: a burst of rows before each hour, so that a row between two of them joins both."""

    def definition(self, measures: dict[str, str], properties: dict[str, str], comment: str = "") -> AggregateSpec:
        """Return a definition of the aggregate with other measures."""
        self.told_measures = tuple(measures)
        parts: dict[str, Any] = {"measures": measures, "properties": properties, "comment": comment}
        how: dict[str, Any] = {"engine": "session_window", "session_gap": "40 minutes", "label": "bucket"}
        return define_engine("bars", self.source.path, time="ts", keys=["k"], sequence="id", **how, **parts)

    def insert(self, rows: int, hours: Sequence[int] = tuple(range(6))) -> None:
        """Insert as :meth:`World.insert` does; what comes late to an hour comes between it and the next, too."""
        is_late = bool(self.source.rows)
        super().insert(rows, hours)
        if is_late:
            between = (START + timedelta(hours=hour + 1.5) for hour in hours)
            self.source.insert({"ts": ts, "k": "a", "v": 7, "ok": True} for ts in between)

    def told(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return of a row of the output what :meth:`truth` has."""
        return (row["bucket"].replace(tzinfo=None), row["k"], *(row[name] for name in self.told_measures))

    def truth(self) -> list[tuple[Any, ...]]:
        """Return what the output shall be, sorted; the newest session of each key is open and not shown."""
        return sorted(
            (rows[0]["ts"].replace(tzinfo=None), key, *(_TOLD[name](rows) for name in self.told_measures))
            for key in ("a", "b")
            for rows in list(self._sessions(key))[:-1]
        )

    def _sessions(self, key: str) -> Iterator[list[dict[str, Any]]]:
        mine = [{"id": i, **row} for i, row in self.source.rows.items() if row["k"] == key]
        session: list[dict[str, Any]] = []
        for row in sorted(mine, key=lambda row: (row["ts"], row["id"])):
            if session and row["ts"] - session[-1]["ts"] >= GAP:
                yield session
                session = []
            session.append(row)
        yield session
