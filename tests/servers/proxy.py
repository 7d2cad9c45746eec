"""A proxy before an S3 server: it counts requests and bytes by kind, adds time, loses answers and refuses.

It runs in a process of its own (``python -m tests.servers.proxy UPSTREAM``), because a client that holds the lock of the interpreter
would wait for ever for a thread of its own process.
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from tests.paths import ROOT

CONTROL: Final = "/_proxy"
"""Path of the requests to the proxy itself."""

ANSWERS: Final = {
    "AccessDenied": (403, "Access Denied"),
    "ExpiredToken": (403, "The provided token has expired."),
    "RequestTimeTooSkewed": (403, "The difference between the request time and the current time is too large."),
    "PermanentRedirect": (
        301,
        "The bucket you are attempting to access must be addressed using the specified endpoint.",
    ),
}
"""What S3 says when it refuses, by its code."""


@dataclass(frozen=True)
class Fault:
    """What is done to some requests.

    Args:
        what: ``lose answer``: forward, and close the connection; ``refuse``: answer 503; ``refuse after``: forward, then answer 503;
            ``lie``: answer 200 where the server says that a file is there already; else what S3 answers: ``deny``: 403 without a word,
            or a code of :data:`ANSWERS`.
        kind: Kind of the requests; "" for all.
        part: Text that their keys have.
        times: How many of them.
    """

    what: Literal[
        "lose answer",
        "refuse",
        "deny",
        "refuse after",
        "lie",
        "AccessDenied",
        "ExpiredToken",
        "RequestTimeTooSkewed",
        "PermanentRedirect",
    ]
    kind: str = ""
    part: str = ""
    times: int = 1


@dataclass(frozen=True)
class Request:
    """A request as the proxy saw it.

    Args:
        kind: ``GET``, ``HEAD``, ``LIST``, ``PUT``, ``PUT IF``, ``COPY`` or ``DELETE``.
        key: Bucket and key, or what was listed.
        sent: Bytes of its body.
        received: Bytes of the answer's body.
        fault: What was done to it, "" for nothing.
    """

    kind: str
    key: str
    sent: int
    received: int
    fault: str = ""


@dataclass(frozen=True)
class Proxy:
    """A running proxy.

    Args:
        port: Its port.
    """

    port: int

    def set(self, *faults: Fault, delay: float = 0.0, lose: float = 0.0) -> None:
        """Do this to requests from now on, and nothing else.

        Args:
            faults: What is done to some requests.
            delay: Seconds that each request waits.
            lose: The share of conditional puts whose answer is lost, at random.
        """
        self._ask({"delay": delay, "faults": [asdict(f) for f in faults], "lose": lose})

    def requests(self) -> list[Request]:
        """Return all requests so far, in the order in which they ended."""
        return [Request(*values) for values in self._ask({})]

    @contextmanager
    def counted(self) -> Iterator[list[Request]]:
        """Yield a list that has the requests of the block once it is left, in the order in which they ended."""
        before, found = len(self.requests()), list[Request]()
        yield found
        found += self.requests()[before:]

    def _ask(self, settings: dict[str, Any]) -> list[Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", CONTROL, json.dumps(settings))
        answer: list[Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer


def by_kind(requests: list[Request]) -> dict[str, int]:
    """Return the number of requests by kind."""
    return dict(sorted(Counter(r.kind for r in requests).items()))


def bytes_by_kind(requests: list[Request]) -> dict[str, int]:
    """Return the bytes of requests and answers by kind."""
    return {kind: sum(r.sent + r.received for r in requests if r.kind == kind) for kind in by_kind(requests)}


@contextmanager
def started(upstream: int) -> Iterator[Proxy]:
    """Run a proxy before the server at port *upstream* during the block."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else "tests.servers.proxy", str(upstream)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Proxy(int(process.stdout.readline()))
        finally:
            process.terminate()


# -- the process ---------------------------------------------------------------------------------------------------------


@dataclass
class _State:
    upstream: int
    delay: float = 0.0
    lose: float = 0.0
    faults: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[Any, ...]] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, kind: str, key: str) -> str:
        with self.guard:
            for fault in self.faults:
                if fault["times"] and fault["kind"] in {"", kind} and fault["part"] in key:
                    fault["times"] -= 1
                    return str(fault["what"])
        return "lose answer" if kind == "PUT IF" and random.random() < self.lose else ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: _State
    upstream = threading.local()

    def log_message(self, *_: Any) -> None:
        pass

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == CONTROL:
            settings = json.loads(body)
            for name, value in settings.items():
                setattr(self.state, name, value)
            self._answer(200, [], json.dumps(self.state.requests).encode())
            return
        kind, key = _kind(self), _key(self)
        fault = self.state.fault(kind, key)
        time.sleep(self.state.delay)
        if fault in {"refuse", "deny"}:
            self.state.requests.append((kind, key, len(body), 0, fault))
            self._answer(503 if fault == "refuse" else 403, [], b"")
            return
        if fault in ANSWERS:
            status, words = ANSWERS[fault]
            content = (
                f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{fault}</Code><Message>{words}</Message></Error>'
            )
            self.state.requests.append((kind, key, len(body), len(content), fault))
            region = [("x-amz-bucket-region", "eu-central-1")] if status == http.HTTPStatus.MOVED_PERMANENTLY else []
            self._answer(status, [("Content-Type", "application/xml"), *region], content.encode())
            return
        status, headers, content = self._ask(body)
        self.state.requests.append((kind, key, len(body), len(content), fault))
        if fault == "lose answer":
            self.close_connection = True
        elif fault == "lie" and status == 412:
            self._answer(200, [("ETag", '"0123"')], b"")
        elif fault == "refuse after":
            self._answer(503, [], b"")
        else:
            self._answer(status, headers, content)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = self.upstream.__dict__.setdefault(
            "it", http.client.HTTPConnection("127.0.0.1", self.state.upstream)
        )
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 - the names that the server calls


def _kind(handler: BaseHTTPRequestHandler) -> str:
    query = urlsplit(handler.path).query
    match handler.command:
        case "GET" if "list-type" in query:
            return "LIST"
        case "PUT" if "x-amz-copy-source" in handler.headers:
            return "COPY"
        case "PUT" if any(name in handler.headers for name in ("If-None-Match", "x-goog-if-generation-match")):
            return "PUT IF"
        case "POST" if "delete" in query:
            return "DELETE"
        case command:
            return command


def _key(handler: BaseHTTPRequestHandler) -> str:
    parts = urlsplit(handler.path)
    return unquote(parts.path.lstrip("/") + (f"?{parts.query}" if "list-type" in parts.query else ""))


def main(upstream: int) -> None:
    """Run a proxy, and print its port."""
    _Handler.state = _State(upstream)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that went away
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
