"""``report``: the lake as a page for a browser."""

from __future__ import annotations

import typer

from materializer.adapters.cli.call import CommandCall, command
from materializer.adapters.cli.options import Out, Port, Serve
from materializer.adapters.cli.render.report import ReportResult
from materializer.errors import UsageError

PANEL = "Look"


def register(app: typer.Typer) -> None:
    """Add the commands of this module to *app*."""
    command(app, panel=PANEL)(report)


def report(call: CommandCall, *, out: Out = None, serve: Serve = False, port: Port = None) -> None:
    """Write a page that shows the lake to a browser, or show it on this machine until you press Ctrl-C."""
    if serve and out is not None:
        raise UsageError("a report is written or served, not both", hint="leave out '--out' or '--serve'")
    if port is not None and not serve:
        raise UsageError("'--port' is of '--serve'", hint="add '--serve'")
    if not serve:
        call.show(ReportResult(str(call.lake.report(out or "report")), is_served=False))
        return
    server = call.lake.report_server(port or 0)
    call.show(ReportResult(server.url, is_served=True))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass  # how people end it
    finally:
        server.server_close()
