"""``report`` and ``watch``: the lake as a page for a browser, and live in a terminal."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import Interval, MaybeName, Out, Port, Serve
from materializer.errors import UsageError

PANEL = "Look"


def report(call: CommandCall, *, out: Out = None, serve: Serve = False, port: Port = None) -> None:
    """Write a page that shows the lake to a browser, or show it on this machine until you press Ctrl-C."""
    from materializer.adapters.cli.render.report import ReportResult

    if serve and out is not None:
        raise UsageError("a report is written or served, not both", hint="leave out '--out' or '--serve'")
    chosen = port_of(serve, port)
    if not serve:
        call.show(ReportResult(str(call.lake.report(out or "report")), is_served=False))
        for error in call.lake.unusable():
            call.fail(error)
        return
    server = call.lake.report_server(chosen)
    call.show(ReportResult(server.url, is_served=True))
    with suppress(KeyboardInterrupt):  # how people end it
        server.serve_forever()
    server.server_close()


def port_of(serve: bool, port: int | None) -> int:  # noqa: FBT001 - as the options are
    """Return the port of a server, 0 for a free one.

    Raises:
        UsageError: If there is a port and no server.
    """
    if port is not None and not serve:
        raise UsageError("'--port' is of '--serve'", hint="add '--serve'")
    return port or 0


def watch(call: CommandCall, name: MaybeName = None, *, interval: Interval = 2.0) -> None:
    """Show the lake, or an aggregate, in this terminal, and each change of the journal, until you press Ctrl-C."""
    from rich.console import Console

    from materializer.adapters.cli import live

    console = Console()
    if not console.is_terminal:
        raise UsageError("there is no terminal to watch in", hint="'materializer status --json' is for programs")
    if name is not None:
        call.lake.status(name)  # an unknown name is refused before anything is drawn
    with suppress(KeyboardInterrupt):  # how people end it
        live.watch(call.lake, name, interval, console)


COMMANDS: Final = listed(PANEL, report, watch)
