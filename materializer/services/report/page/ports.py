"""The port of a server that shows the pages; :mod:`materializer.adapters.page.server` has the one that is used."""

from __future__ import annotations

from typing import Protocol


class ReportServer(Protocol):
    """Shows a report until it is shut down."""

    @property
    def url(self) -> str:
        """Where the first page is."""

    def serve_forever(self) -> None:
        """Answer until :meth:`shutdown` is called by another thread."""

    def shutdown(self) -> None:
        """End :meth:`serve_forever`."""

    def server_close(self) -> None:
        """Give the port back."""
