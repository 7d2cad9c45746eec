"""The report page from a server on this machine: it reads, answers GET alone, and is bound to the loopback address."""

from __future__ import annotations

import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from materializer.adapters.page.files import ASSETS, asset, data_script, first_html
from materializer.errors import MaterializerError, UnknownAggregateError, UsageError
from materializer.services.report.page.pages import Pages

ADDRESS: Final = "127.0.0.1"
AGAIN: Final = 2.0
"""Seconds after which a page is made anew although the journal has not changed: the source or the clock may have."""
_TYPES: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".html": "text/html",
    ".txt": "text/plain",
    ".json": "application/json",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class PageServer(ThreadingHTTPServer):
    """Serves the report of one lake.

    Args:
        pages: What it shows.
        port: The port; 0 for a free one.

    Raises:
        UsageError: If the port is taken or not allowed.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, pages: Pages, port: int = 0) -> None:
        self.pages = pages
        self._made: dict[str, tuple[int, float, bytes]] = {}
        self._lock = Lock()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as exc:
            raise UsageError(
                f"port {port} cannot be used: {exc}", hint="name another port, or 0 for a free one"
            ) from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Return the status, the kind and the content of an answer to a path."""
        name = unquote(urlsplit(path).path).removeprefix("/") or "index.html"
        if name in ASSETS:
            return HTTPStatus.OK, name, asset(name)
        try:
            if name == "version":
                return HTTPStatus.OK, ".json", str(self.pages.version).encode()
            if name == "index.html":
                return HTTPStatus.OK, name, self._fresh(name)
            if name.startswith("data/") and name.endswith(".js"):
                return HTTPStatus.OK, name, self._fresh(name)
        except UnknownAggregateError as exc:
            return HTTPStatus.NOT_FOUND, ".txt", exc.message.encode()
        except MaterializerError as exc:
            return HTTPStatus.SERVICE_UNAVAILABLE, ".txt", f"{exc.message} ({exc.code})".encode()
        return HTTPStatus.NOT_FOUND, ".txt", b"there is no such page"

    def _fresh(self, name: str) -> bytes:
        """Return a page, made anew if the journal changed or some seconds went by; one at a time."""
        with self._lock:
            version, now = self.pages.version, time.monotonic()
            made = self._made.get(name)
            if made is not None and made[0] == version and now - made[1] < AGAIN:
                return made[2]
            if name == "index.html":
                content = first_html(self.pages.first(), is_served=True)
            else:
                page = self.pages.aggregate(name.removeprefix("data/").removesuffix(".js"))
                content = data_script(page["name"], page)
            self._made = {key: old for key, old in self._made.items() if old[0] == version}
            self._made[name] = version, now, content
            return content


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "materializer"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(*self.server.answer(self.path))

    do_HEAD = do_GET  # noqa: N815 - the name that the library asks for

    def parse_request(self) -> bool:
        """Refuse other methods, and names of other hosts, by which a foreign page could read this one."""
        if not super().parse_request():
            return False
        if self.command not in {"GET", "HEAD"}:
            self._reply(HTTPStatus.METHOD_NOT_ALLOWED, ".txt", b"this page only reads: GET", {"Allow": "GET, HEAD"})
            return False
        host = self.headers.get("Host", "")
        known = {f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")}
        if host not in known:
            self._reply(HTTPStatus.MISDIRECTED_REQUEST, ".txt", b"this page is for this machine alone")
            return False
        return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library asks for
        """Print nothing."""

    def _reply(self, status: HTTPStatus, name: str, content: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        kind = _TYPES.get(f".{name.rpartition('.')[2]}", "application/octet-stream")
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for header, value in (_HEADERS | (more or {})).items():
            self.send_header(header, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
