"""Every option and argument, once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

_SHARED = "Options of every command"


class Order(StrEnum):
    """Which end of a window is done first."""

    NEWEST = "newest"
    OLDEST = "oldest"


# -- of every command; each has an environment variable ------------------------------------------------------------------

Lake: TypeAlias = Annotated[
    str | None,
    Option(
        "--lake", envvar="MATERIALIZER_LAKE", help="Root folder of the lake.", metavar="FOLDER", rich_help_panel=_SHARED
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    Option(
        "--config",
        envvar="MATERIALIZER_CONFIG",
        help="Configuration file; materializer.toml here when it exists.",
        metavar="FILE",
        rich_help_panel=_SHARED,
    ),
]
AsJson: TypeAlias = Annotated[
    bool,
    Option("--json", envvar="MATERIALIZER_JSON", help="Print one JSON document.", rich_help_panel=_SHARED),
]
Progress: TypeAlias = Annotated[
    bool,
    Option(
        "--progress",
        envvar="MATERIALIZER_PROGRESS",
        help="With --json, tell progress in lines on standard error.",
        rich_help_panel=_SHARED,
    ),
]
StrictExit: TypeAlias = Annotated[
    bool,
    Option(
        "--strict-exit",
        envvar="MATERIALIZER_STRICT_EXIT",
        help="Exit 3 when nothing was to do.",
        rich_help_panel=_SHARED,
    ),
]

# -- which aggregates ----------------------------------------------------------------------------------------------------

Name: TypeAlias = Annotated[str, Argument(help="Name of the aggregate.", metavar="NAME", show_default=False)]
MaybeName: TypeAlias = Annotated[
    str | None, Argument(help="Name of the aggregate; all without it.", metavar="NAME", show_default=False)
]
NameOrAll: TypeAlias = Annotated[
    str | None, Argument(help="Name of the aggregate, or --all.", metavar="NAME", show_default=False)
]
All: TypeAlias = Annotated[bool, Option("--all", help="Every aggregate of the lake, parents first.")]
Paths: TypeAlias = Annotated[
    list[Path], Argument(help="SQL files, or folders of them.", metavar="PATH", show_default=False)
]

# -- windows -------------------------------------------------------------------------------------------------------------

Start: TypeAlias = Annotated[
    str | None,
    Option(
        "--start", help="First instant of the window, such as 2013-12-01 or 2013-12-01T06:00:00Z.", metavar="INSTANT"
    ),
]
End: TypeAlias = Annotated[
    str | None,
    Option(
        "--end", help="First instant after the window; without it, the end of the newest bucket.", metavar="INSTANT"
    ),
]
AllTime: TypeAlias = Annotated[bool, Option("--all-time", help="All of time, instead of --start and --end.")]

# -- how -----------------------------------------------------------------------------------------------------------------

Force: TypeAlias = Annotated[bool, Option("--force", help="Compute clean buckets again too.")]
Strict: TypeAlias = Annotated[bool, Option("--strict", help="Refuse a plan that is not incremental.")]
AsOf: TypeAlias = Annotated[
    str | None, Option("--as-of", help="Clock instant that closes windows of an engine; never goes back.", metavar="T")
]
MaxRuns: TypeAlias = Annotated[
    int | None, Option("--max-runs", min=1, help="Stop after so many runs; the rest stays dirty.", metavar="N")
]
BucketsPerRun: TypeAlias = Annotated[
    int | None,
    Option("--buckets-per-run", min=1, help="Buckets of one run; sized by source rows without it.", metavar="N"),
]
RunOrder: TypeAlias = Annotated[Order, Option("--order", help="Which end is done first.")]
Limit: TypeAlias = Annotated[int, Option("--limit", min=1, help="How many at most.", metavar="N")]
DryRun: TypeAlias = Annotated[bool, Option("--dry-run", help="Only say what would change.")]
Rebuild: TypeAlias = Annotated[
    bool, Option("--rebuild", help="Let a definition whose data changed empty its output and start over.")
]
Reason: TypeAlias = Annotated[str, Option("--reason", help="Why; kept in the journal.", metavar="TEXT")]
Yes: TypeAlias = Annotated[bool, Option("--yes", help="Really do it.")]
Fresh: TypeAlias = Annotated[
    bool, Option("--fresh", help="As of the newest source version; computes dirty buckets with Spark.")
]
