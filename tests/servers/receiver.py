"""A small HTTP server on this machine that keeps what is posted to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct, field


class Receiver(Struct):
    """What the server got, and how it answers.

    Args:
        status: Status of its answers.
        delay: Seconds before each answer.
        bodies: The bodies that it got, in order.
        headers: The headers of these requests.
        paths: The paths of these requests.
        url: Its address.
    """

    status: int = 200
    delay: float = 0.0
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def receiving(*, status: int = 200, delay: float = 0.0) -> Iterator[Receiver]:
    """Run a server during the block."""
    receiver = Receiver(status, delay)

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_POST(self) -> None:
            """Keep the body."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(receiver.delay)
            receiver.paths.append(self.path)
            receiver.headers.append(dict(self.headers))
            receiver.bodies.append(body)
            try:
                self.send_response(receiver.status)
                self.end_headers()
            except OSError:
                return  # the caller waits no longer

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
