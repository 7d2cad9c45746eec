"""Every option and argument, once."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from materializer.adapters.cli.completion import aggregates
from materializer.adapters.cli.listed import Argument, Option
from materializer.core.refresh.output_feed import Reason as Why

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
    str | None,
    Option(
        "--config",
        envvar="MATERIALIZER_CONFIG",
        help="Configuration file; materializer.toml here when it exists.",
        metavar="FILE",
        rich_help_panel=_SHARED,
    ),
]
EnvironmentName: TypeAlias = Annotated[
    str | None,
    Option(
        "--env",
        envvar="MATERIALIZER_ENV",
        help="Environment of the configuration file, whose settings override the others.",
        metavar="NAME",
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

Name: TypeAlias = Annotated[
    str, Argument(autocompletion=aggregates, help="Name of the aggregate.", metavar="NAME", show_default=False)
]
MaybeName: TypeAlias = Annotated[
    str | None,
    Argument(
        autocompletion=aggregates, help="Name of the aggregate; all without it.", metavar="NAME", show_default=False
    ),
]
NameOrAll: TypeAlias = Annotated[
    str | None,
    Argument(autocompletion=aggregates, help="Name of the aggregate, or --all.", metavar="NAME", show_default=False),
]
NameOrDefinitions: TypeAlias = Annotated[
    str | None,
    Argument(
        autocompletion=aggregates, help="Name of the aggregate, or --definitions.", metavar="NAME", show_default=False
    ),
]
All: TypeAlias = Annotated[bool, Option("--all", help="Every aggregate of the lake, parents first.")]
Chain: TypeAlias = Annotated[bool, Option("--chain", help="What it reads first, from the aggregate over raw rows on.")]
Reasons: TypeAlias = Annotated[
    bool, Option("--why", help="Also say why no other strategy was chosen; JSON always does.")
]
Names: TypeAlias = Annotated[
    list[str] | None,
    Argument(autocompletion=aggregates, help="Names of aggregates, or --all.", metavar="NAME", show_default=False),
]
Paths: TypeAlias = Annotated[
    list[str], Argument(help="SQL files, or folders of them.", metavar="PATH", show_default=False)
]

# -- a new definition ----------------------------------------------------------------------------------------------------

Source: TypeAlias = Annotated[
    str | None, Argument(help="A Delta table: a name or a path.", metavar="SOURCE", show_default=False)
]
NewName: TypeAlias = Annotated[str | None, Option("--name", help="Name of the aggregate.", metavar="NAME")]
TimeColumnName: TypeAlias = Annotated[str | None, Option("--time", help="Column that divides time.", metavar="COLUMN")]
BucketWidth: TypeAlias = Annotated[
    str | None, Option("--bucket", help="Width of the buckets, such as '1 hour'.", metavar="WIDTH")
]
KeyColumns: TypeAlias = Annotated[
    list[str] | None,
    Option("--key", help="Column that rows are grouped by; 'none' for no key.", metavar="COLUMN", show_default=False),
]
MeasureTexts: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--measure", help="A measure with its name, such as 'sum(size) AS size'.", metavar="SQL", show_default=False
    ),
]
NoPolicy: TypeAlias = Annotated[bool, Option("--no-policy", help="Write no refresh policy.")]
Into: TypeAlias = Annotated[str, Option("--into", help="Folder of the definition.", metavar="FOLDER")]
WithoutQuestions: TypeAlias = Annotated[bool, Option("--yes", help="Ask nothing, and take what is proposed.")]

# -- tests of definitions -------------------------------------------------------------------------------------------------

Tests: TypeAlias = Annotated[
    list[str] | None,
    Argument(
        autocompletion=aggregates,
        help="Names of aggregates or tests, files or folders of them; all of the folder 'tests' without it.",
        metavar="TEST",
        show_default=False,
    ),
]
TestedDefinitions: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--definitions",
        help="SQL files, or folders of them; the folder 'sql' without it.",
        metavar="PATH",
        show_default=False,
    ),
]
TestExecutor: TypeAlias = Annotated[
    Literal["local", "auto", "spark"],
    Option("--executor", help="What computes: this process, Spark where it cannot, or Spark alone."),
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

Before: TypeAlias = Annotated[
    str,
    Option("--before", help="Up to where, rounded down to a bucket's edge.", metavar="INSTANT", show_default=False),
]

# -- policies ------------------------------------------------------------------------------------------------------------

PolicyName: TypeAlias = Annotated[str, Option("--policy", help="Name of the policy.", metavar="NAME")]
MaybePolicy: TypeAlias = Annotated[
    str | None, Option("--policy", help="Name of the policy; 'default' without it.", metavar="NAME")
]
StartOffset: TypeAlias = Annotated[
    str | None,
    Option("--start-offset", help="Where the window starts, back from now, such as '7 days'.", metavar="LENGTH"),
]
EndOffset: TypeAlias = Annotated[
    str | None,
    Option("--end-offset", help="Where it ends, back from now; 'none' is an open end.", metavar="LENGTH"),
]
Schedule: TypeAlias = Annotated[
    str | None, Option("--schedule", help="Five cron fields, in UTC; by hand only without it.", metavar="CRON")
]
PolicyRuns: TypeAlias = Annotated[
    int | None, Option("--max-runs", min=0, help="Runs at most each time; 0 for no limit.", metavar="N")
]
MaybeOrder: TypeAlias = Annotated[
    Order | None, Option("--order", help="Which end is done first; newest without it.", show_default=False)
]
CatchDirt: TypeAlias = Annotated[bool, Option("--catch-dirt", help="Take dirt along that lies in no policy's window.")]
Promise: TypeAlias = Annotated[
    str | None,
    Option("--max-staleness", help="Promise how stale the aggregate may be; 'none' takes it back.", metavar="LENGTH"),
]
Now: TypeAlias = Annotated[
    str | None,
    Option("--now", help="What counts as now, instead of the clock; an integer for integer time.", metavar="T"),
]
Due: TypeAlias = Annotated[bool, Option("--due", help="Every policy whose schedule came due since it ran; for cron.")]

# -- how -----------------------------------------------------------------------------------------------------------------

Force: TypeAlias = Annotated[bool, Option("--force", help="Compute clean buckets again too.")]
Strict: TypeAlias = Annotated[bool, Option("--strict", help="Refuse a plan that is not incremental.")]
SuiteFile: TypeAlias = Annotated[
    str | None, Option("--suite", help="Another suite than the one it was applied with.", metavar="FILE")
]
Docs: TypeAlias = Annotated[str | None, Option("--docs", help="Write Data Docs (HTML) there.", metavar="FOLDER")]
Back: TypeAlias = Annotated[
    int, Option("--back", help="Which of the kept versions; 1 is the newest.", metavar="N", min=1)
]
PublishAnyway: TypeAlias = Annotated[
    str,
    Option("--publish-anyway", help="Publish what fails its expectations; the reason is recorded.", metavar="REASON"),
]
AcceptFewerRows: TypeAlias = Annotated[
    bool, Option("--accept-fewer-rows", help="Compute from what the source has, though rows of it went unseen.")
]
ExecutorName: TypeAlias = Annotated[
    Literal["auto", "local", "spark"] | None,
    Option("--executor", help="What computes: this process, Spark, or whichever fits; by default as configured."),
]
AsStored: TypeAlias = Annotated[
    bool, Option("--as-stored", help="Freeze also what is dirty there and needs its raw rows, as it is stored.")
]
RestoredAsStored: TypeAlias = Annotated[
    bool, Option("--as-stored", help="Freeze history whose raw rows are gone, as it is stored, if the backup does not.")
]
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
After: TypeAlias = Annotated[
    int | None, Option("--after", help="Refresh that is known already; only later ones.", metavar="N")
]
WhyChanged: TypeAlias = Annotated[
    Why | None, Option("--reason", help="Only changes with this reason.", case_sensitive=False)
]
DryRun: TypeAlias = Annotated[bool, Option("--dry-run", help="Only say what would change.")]
BuildNow: TypeAlias = Annotated[
    bool, Option("--build", help="Build and publish changed definitions at once, as 'build' does.")
]
Verbose: TypeAlias = Annotated[
    bool, Option("--verbose", help="Show each plan with its reasons, not one line for each refresh.")
]
NoSwitch: TypeAlias = Annotated[bool, Option("--no-switch", help="Build, and leave publishing to 'switch'.")]
Reason: TypeAlias = Annotated[str, Option("--reason", help="Why; the journal records it.", metavar="TEXT")]
DefinitionFiles: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--definitions",
        help="Take over the tables of a lost journal: SQL files, or folders of them.",
        metavar="PATH",
        show_default=False,
    ),
]
PlannedDefinitions: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--definitions",
        help="What applying these would do, and take: SQL files, or folders of them.",
        metavar="PATH",
        show_default=False,
    ),
]
AsMarkdown: TypeAlias = Annotated[
    bool, Option("--markdown", help="With --definitions, print a comment for a pull request.")
]
NewFolder: TypeAlias = Annotated[str, Argument(help="A new or empty folder.", metavar="FOLDER", show_default=False)]
BackupFolder: TypeAlias = Annotated[
    str, Argument(help="A folder that 'backup' has written.", metavar="FOLDER", show_default=False)
]
Again: TypeAlias = Annotated[bool, Option("--again", help="Make the archive even when there is one.")]
Yes: TypeAlias = Annotated[bool, Option("--yes", help="Really do it.")]
Cascade: TypeAlias = Annotated[
    bool, Option("--cascade", help="Remove the aggregates that read it, too, those that nobody reads first.")
]
Fresh: TypeAlias = Annotated[
    bool, Option("--fresh", help="As of the newest source version; computes dirty buckets with Spark.")
]
Deep: TypeAlias = Annotated[
    bool, Option("--deep", help="Read all files, too, and compare them with what the logs say of them.")
]
How: TypeAlias = Annotated[
    bool, Option("--how", help="Print how other programs read the table: DuckDB, Polars, pandas, Spark, Trino.")
]
Against: TypeAlias = Annotated[
    str,
    Option(
        "--against",
        help="The other lake: an environment of the configuration file, or its root folder.",
        metavar="LAKE",
        show_default=False,
    ),
]
ExportFile: TypeAlias = Annotated[
    str, Option("--to", help="The file; not in the lake.", metavar="FILE", show_default=False)
]
ExportForm: TypeAlias = Annotated[
    Literal["parquet", "csv", "arrow"] | None,
    Option("--format", help="Format of the file; without it, what its name ends with."),
]
Overwrite: TypeAlias = Annotated[bool, Option("--force", help="Replace a file that is there.")]
Out: TypeAlias = Annotated[
    str | None,
    Option("--out", help="Folder of the page; 'report' without it.", metavar="DIR", show_default=False),
]
Serve: TypeAlias = Annotated[bool, Option("--serve", help="Show the page on this machine; it only reads.")]
Port: TypeAlias = Annotated[
    int | None,
    Option("--port", min=0, max=65535, help="With --serve, the port; a free one without it.", metavar="N"),
]
ServeToo: TypeAlias = Annotated[
    bool, Option("--serve", help="Also show the page, /metrics and /healthz on this machine.")
]
Every: TypeAlias = Annotated[str, Option("--every", help="Time between two looks at the sources.", metavar="LENGTH")]
Interval: TypeAlias = Annotated[
    float, Option("--interval", min=0.1, help="Seconds between two looks at the journal.", metavar="S")
]

# -- of a command --------------------------------------------------------------------------------------------------------

_OF_EVERY_COMMAND: Final[dict[str, tuple[Any, Any]]] = {
    "lake": (Lake, None),
    "config": (ConfigFile, None),
    "env": (EnvironmentName, None),
    "json": (AsJson, False),
    "progress": (Progress, False),
    "strict_exit": (StrictExit, False),
}


def parameters(body: Callable[..., None]) -> list[Parameter]:
    """Return what can be given to the body of a command, and to every command: names, types with options or arguments, and defaults."""
    hints = get_type_hints(body, include_extras=True)
    _, *own = signature(body).parameters.values()
    kind = Parameter.KEYWORD_ONLY
    return [
        *(each.replace(annotation=hints[each.name], kind=kind) for each in own),
        *(
            Parameter(name, kind, annotation=taken, default=default)
            for name, (taken, default) in _OF_EVERY_COMMAND.items()
        ),
    ]
