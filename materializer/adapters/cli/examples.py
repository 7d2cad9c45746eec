"""An example or two of each command, which its help ends with; a test runs them all on a small lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

WIDTH: Final = 96
"""Columns of a line, with room for the backslash."""
EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "new": (
        "materializer new",
        "materializer new trades --name trades_1d --bucket '1 day' --key sym --into drafts --yes",
    ),
    "apply": ("materializer apply sql --dry-run", "materializer apply sql/bars.sql --build"),
    "test": ("materializer test", "materializer test bars_1h --definitions sql/bars.sql --executor auto"),
    "drop": ("materializer drop bars_1h --yes", "materializer drop trades_1h --cascade --yes"),
    "build": ("materializer build bars_1h --max-runs 2", "materializer build bars_1h --no-switch"),
    "switch": ("materializer switch bars_1h",),
    "rollback": ("materializer rollback bars_1h",),
    "abandon": ("materializer abandon bars_1h",),
    "plan": (
        "materializer plan bars_1h --start 2024-03-01 --end 2024-03-02",
        "materializer plan --definitions sql --markdown",
    ),
    "refresh": ("materializer refresh bars_1h", "materializer refresh --all --json"),
    "backfill": ("materializer backfill bars_1h --buckets-per-run 24 --max-runs 2", "materializer backfill --all"),
    "invalidate": (
        "materializer invalidate bars_1h --start 2024-03-01 --end 2024-03-02 --reason 'prices were corrected'",
        "materializer invalidate bars_1h --all-time",
    ),
    "expire": (
        "materializer expire bars_1h --before 2024-03-02",
        "materializer expire bars_1h --before 2024-03-02 --yes",
    ),
    "thaw": ("materializer thaw bars_1h --yes",),
    "policy add": (
        "materializer policy add bars_1h --policy weekly --start-offset '60 days' --end-offset '7 days' --schedule '0 3 * * 0'",
    ),
    "policy list": ("materializer policy list bars_1h --now 2024-03-03",),
    "policy remove": ("materializer policy remove bars_1h --policy weekly",),
    "policy run": ("materializer policy run bars_1h --policy weekly --now 2024-03-20", "materializer policy run --due"),
    "run": (
        "materializer run",
        "materializer run bars_1h --every 500ms --json",
        "materializer run --serve --port 9180",
    ),
    "status": ("materializer status", "materializer status bars_1h --json"),
    "history": ("materializer history bars_1h --limit 5",),
    "show": (
        "materializer show bars_1h --limit 5",
        "materializer show bars_1h --start 2024-03-01 --end 2024-03-02 --fresh",
        "materializer show bars_1h --how",
    ),
    "export": (
        "materializer export bars_1h --to bars.parquet",
        "materializer export bars_1h --to march.csv --start 2024-03-01 --end 2024-04-01 --force",
    ),
    "changes": ("materializer changes bars_1h --after 1 --reason late",),
    "verify": ("materializer verify bars_1h --start 2024-03-01", "materializer verify --all"),
    "diff": (
        "materializer diff bars_1h --against ../prod/lake",
        "materializer diff bars_1h --against prod --start 2024-03-01 --limit 5",
    ),
    "check": ("materializer check bars_1h",),
    "doctor": ("materializer doctor bars_1h",),
    "report": ("materializer report --out site", "materializer report --serve --port 8080"),
    "watch": ("materializer watch", "materializer watch bars_1h --interval 5"),
    "maintain": ("materializer maintain --all --dry-run", "materializer maintain bars_1h"),
    "repair": ("materializer repair --all", "materializer repair bars_1h --yes"),
    "backup": ("materializer backup backups/monday",),
    "restore": ("materializer restore backups/monday", "materializer restore backups/monday --yes"),
    "engines": ("materializer engines session_window",),
    "completion": ("materializer completion bash",),
    "explain": ("materializer explain window.frozen", "materializer explain definition"),
    "demo": ("materializer demo --lake demo",),
    "setup": ("materializer setup",),
    "version": ("materializer version",),
}
"""By command, as they are typed into a shell."""


def lines(command: str) -> Iterator[str]:
    """Yield the end of the help of a command. A long line goes on after a backslash, so that it can be copied."""
    found = EXAMPLES[command]
    yield " Example:" if len(found) == 1 else " Examples:"
    for example in found:
        head, *parts = example.split(" --")
        shown = f"   {head}"
        for part in parts:
            if len(f"{shown} --{part}") > WIDTH:
                yield f"{shown} \\"
                shown = f"     --{part}"
            else:
                shown = f"{shown} --{part}"
        yield shown
