"""A real S3 server over a folder: versitygw, which ``make servers`` installs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.paths import ROOT

FOLDER: Final = Path(os.environ.get("MATERIALIZER_SERVERS", ROOT / ".servers" / "bin"))
"""Where ``make servers`` installs programs."""
BINARY: Final = FOLDER / "versitygw"
MISSING: Final = f"there is no S3 server at {BINARY}: run 'make servers'"
_PATIENCE: Final = 20.0


class S3Server(Struct, frozen=True):
    """A running server.

    Args:
        port: Its port on the loopback interface.
        folder: The folder with a folder for each bucket.
        secret: The secret key.
    """

    port: int
    folder: Path
    secret: str = "not-to-be-seen-anywhere"

    def bucket(self, name: str) -> str:
        """Make a bucket, and return its URL."""
        (self.folder / name).mkdir()
        return f"s3://{name}"

    def environment(self, port: int | None = None) -> Mapping[str, str]:
        """Return the variables by which clients find it, perhaps through a proxy at another port."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "materializer",
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }


def free_port() -> int:
    """Return a port that no process listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def started(folder: Path) -> Iterator[S3Server]:
    """Run a server over *folder* during the block."""
    for name in ("buckets", "metadata"):
        (folder / name).mkdir()
    server = S3Server(free_port(), folder / "buckets")
    process = subprocess.Popen(
        [
            BINARY,
            "--port",
            f"127.0.0.1:{server.port}",
            "--quiet",
            "posix",
            "--sidecar",
            folder / "metadata",
            server.folder,
        ],
        env={**os.environ, "ROOT_ACCESS_KEY": "materializer", "ROOT_SECRET_KEY": server.secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await_port(server.port, process)
        yield server
    finally:
        process.terminate()
        process.wait()


@contextmanager
def new_bucket(folder: Path) -> Iterator[str]:
    """Run a server over *folder* during the block, and yield the URL of a bucket that this process has the keys of."""
    with started(folder) as server:
        os.environ.update(server.environment())
        yield server.bucket("tests")


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when a server listens."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not listen on port {port}")
