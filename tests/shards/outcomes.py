"""A plugin of pytest that writes which tests were collected and what came of each: ``-p tests.shards.outcomes --outcomes FILE``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the file."""
    parser.addoption("--outcomes", type=Path, help="a file for the tests and what came of them, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to listen."""
    config.pluginmanager.register(_Listener(config.getoption("outcomes")))


class _Listener:
    """Remembers, and writes at the end.

    Args:
        file: Where.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.tests: list[str] = []
        self.outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember what will run."""
        self.tests = [item.nodeid for item in session.items]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the worst of set up, call and tear down."""
        known = self.outcomes.get(report.nodeid)
        if report.failed or (report.skipped and known != "failed") or (report.when == "call" and known is None):
            self.outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        self.file.write_text(json.dumps({"tests": self.tests, "outcomes": self.outcomes}), encoding="utf-8")
