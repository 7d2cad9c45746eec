"""The report page of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from materializer.api.opened import OpenedLake
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from pathlib import Path

    from materializer.services.report.page.pages import Pages
    from materializer.services.report.page.ports import ReportServer


@watched
class Reporting(OpenedLake):
    """Shows the lake to people; writes nothing into it."""

    def report(self, out: str | Path) -> Path:
        """Write the report page of the lake into a folder, without a JVM, and return the path of its first file.

        A browser opens that file without a server and without a network. A report that is there is replaced.

        Args:
            out: A folder that is empty, is not there, or has a report.

        Raises:
            UsageError: If the folder has other files. Nothing was written.
            StorageError: If the disk is full or permission is refused.
        """
        from materializer.wiring import write_page

        return write_page(self._pages(), out)

    def report_server(self, port: int = 0) -> ReportServer:
        """Return a server of the report page on this machine; ``serve_forever()`` answers until ``shutdown()``.

        It answers ``GET`` alone, is bound to the loopback address, and shows each change of the journal. Its address is ``url``,
        which has a token of this server: nothing is shown without it, nor to other sites in a browser.

        Args:
            port: The port; 0 for a free one.

        Raises:
            UsageError: If the port is taken or not allowed.
        """
        from materializer.wiring import page_server

        return page_server(self._pages(), port)

    def report_data(self, name: str | None = None) -> dict[str, Any]:
        """Return what the report page shows, as values of JSON, without a JVM.

        Args:
            name: An aggregate; None for the first page, with all aggregates and what depends on what.
        """
        pages = self._pages()
        return pages.first() if name is None else pages.aggregate(name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r})"

    def __str__(self) -> str:
        return f"{self!r}: {self._looker.status()}"

    def _repr_html_(self) -> str:
        """Return the status of all aggregates as HTML, for notebooks."""
        return self._looker.status()._repr_html_()

    def _pages(self) -> Pages:
        from materializer.services.report.page.pages import Pages

        return Pages(self._lake)
