"""The report page from a server on this machine: bound to the loopback address, it reads, and answers who has its address.

A process that stays also answers programs, see :mod:`materializer.adapters.page.probes`.

Any page in a browser, and any program, can send requests to the loopback address. So an address has a token of the
process, which only who saw the address knows; what another site asks is refused; and a slow client holds one of few
connections for some seconds.
"""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import compare_digest, token_hex
from threading import BoundedSemaphore, Lock
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from materializer.adapters.page.files import ASSETS, asset, first_html
from materializer.adapters.page.probes import Answer, Probes
from materializer.errors import MaterializerError, UnknownAggregateError, UsageError
from materializer.services.report.page.pages import Pages

ADDRESS: Final = "127.0.0.1"
AGAIN: Final = 2.0
"""Seconds after which a page is made anew although the journal has not changed: the source or the clock may have."""
PATIENCE: Final = 10.0
"""Seconds that a client has to send a request, and to take an answer."""
CONNECTIONS: Final = 32
"""Connections at a time; a browser opens six."""
MOST_MADE: Final = 8
"""Pages that stay in memory."""
OPEN_IT: Final = (
    "open the address that the command with '--serve' printed; it has a token, without which nothing is shown"
)
_TYPES: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".html": "text/html",
    ".txt": "text/plain",
    ".prom": "text/plain; version=0.0.4",
    ".json": "application/json",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class NotAnswered(Exception):  # noqa: N818 - it is an answer
    """A request that is not answered.

    Args:
        status: The status of the answer.
        why: What it says.
    """

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers


class PageServer(ThreadingHTTPServer):
    """Serves the report of one lake.

    Args:
        pages: What it shows.
        port: The port; 0 for a free one.
        probes: Answers programs about the process; None where it does not stay.
        patience: Seconds that a client has to send a request.

    Raises:
        UsageError: If the port is taken or not allowed.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # so that who is sent away is sent away at once

    def __init__(
        self, pages: Pages, port: int = 0, probes: Probes | None = None, *, patience: float = PATIENCE
    ) -> None:
        self.pages = pages
        self.probes = probes
        self.patience = patience
        self._token = token_hex(16)
        self._made: dict[str, tuple[int, float, bytes]] = {}
        self._lock = Lock()
        self._free = BoundedSemaphore(CONNECTIONS)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as exc:
            raise UsageError(
                f"port {port} cannot be used: {exc}", hint="name another port, or 0 for a free one"
            ) from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/{self._token}/"

    @property
    def hosts(self) -> set[str]:
        """The names under which this server is asked."""
        return {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def answer(self, path: str) -> Answer:
        """Return the answer to a path.

        Raises:
            NotAnswered: If the path has not the token, which probes do not need.
        """
        if self.probes is not None and (found := self.probes.answer(path)) is not None:
            return found
        _, token, *rest = path.split("/", 2) if path.startswith("/") else ("", "")
        if not rest or not compare_digest(token.encode(), self._token.encode()):
            raise NotAnswered(HTTPStatus.FORBIDDEN, OPEN_IT)
        name = unquote(rest[0]) or "index.html"
        if name in ASSETS:
            return HTTPStatus.OK, name, asset(name)
        try:
            if name == "version":
                return HTTPStatus.OK, ".json", str(self.pages.version).encode()
            if name == "index.html":
                return HTTPStatus.OK, name, self._fresh(name)
            if name.startswith("data/") and name.endswith(".json"):
                return HTTPStatus.OK, name, self._fresh(name)
        except UnknownAggregateError as exc:
            return HTTPStatus.NOT_FOUND, ".txt", exc.message.encode()
        except MaterializerError as exc:
            return HTTPStatus.SERVICE_UNAVAILABLE, ".txt", f"{exc.message} ({exc.code})".encode()
        return HTTPStatus.NOT_FOUND, ".txt", b"there is no such page"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, or send it away where all connections are taken."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

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
                page = self.pages.aggregate(name.removeprefix("data/").removesuffix(".json"))
                content = json.dumps(page, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            self._made = {key: old for key, old in self._made.items() if old[0] == version and key != name}
            while len(self._made) >= MOST_MADE:
                del self._made[next(iter(self._made))]
            self._made[name] = version, now, content
            return content


class _Incoming(io.RawIOBase):
    """What a client sends, up to an instant: a byte now and then gains no time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "materializer"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self._incoming = _Incoming(self.connection)
        self.rfile = io.BufferedReader(self._incoming)

    def handle_one_request(self) -> None:
        self._incoming.until = time.monotonic() + self.server.patience
        super().handle_one_request()

    def do_GET(self) -> None:
        try:
            self._reply(*self.server.answer(self.path))
        except NotAnswered as exc:
            self._refuse(exc)

    do_HEAD = do_GET  # noqa: N815 - the name that the library asks for

    def parse_request(self) -> bool:
        """Refuse what is not ours to answer: other methods, names of other hosts, requests that other sites cause."""
        if not super().parse_request():
            return False
        try:
            self.path = self._path()
            self._check()
        except NotAnswered as exc:
            self._refuse(exc)
            return False
        return True

    def _path(self) -> str:
        """Return the path that is asked for; a whole address must be one of this server."""
        try:
            asked = urlsplit(self.path)
        except ValueError:
            raise NotAnswered(HTTPStatus.BAD_REQUEST, "this is no address") from None
        if self.path.startswith("/"):
            return self.path.partition("?")[0]
        if asked.scheme != "http" or asked.netloc not in self.server.hosts:
            raise NotAnswered(HTTPStatus.MISDIRECTED_REQUEST, "this page is for this machine alone")
        return asked.path

    def _check(self) -> None:
        if self.command not in {"GET", "HEAD"}:
            raise NotAnswered(HTTPStatus.METHOD_NOT_ALLOWED, "this page only reads: GET", Allow="GET, HEAD")
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1:
            raise NotAnswered(HTTPStatus.BAD_REQUEST, "a request names one host")
        if not set(hosts) & self.server.hosts:
            raise NotAnswered(HTTPStatus.MISDIRECTED_REQUEST, "this page is for this machine alone")
        if "Transfer-Encoding" in self.headers or set(self.headers.get_all("Content-Length", [])) - {"0"}:
            raise NotAnswered(HTTPStatus.BAD_REQUEST, "a request has no content")
        sites, origins = set(self.headers.get_all("Sec-Fetch-Site", [])), set(self.headers.get_all("Origin", []))
        if sites - {"same-origin", "none"} or origins - {f"http://{hosts[0]}"}:
            raise NotAnswered(
                HTTPStatus.FORBIDDEN, "another site asked, to which nothing is shown; type the address into a new tab"
            )

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library asks for
        """Print nothing."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - the library has it
        """Answer what cannot be read as a request."""
        status = HTTPStatus(code)
        self._refuse(NotAnswered(status, message or status.phrase))

    def _refuse(self, exc: NotAnswered) -> None:
        self.close_connection = True
        self._reply(exc.status, ".txt", exc.why.encode(), exc.headers | {"Connection": "close"})

    def _reply(self, status: HTTPStatus, name: str, content: bytes, more: dict[str, str] | None = None) -> None:
        self.connection.settimeout(self.server.patience)
        self.request_version = (
            "HTTP/1.1"  # a line that could not be read counts as HTTP/0.9, whose answers have no status
        )
        self.send_response(status)
        kind = _TYPES.get(f".{name.rpartition('.')[2]}", "application/octet-stream")
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for header, value in (_HEADERS | (more or {})).items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
