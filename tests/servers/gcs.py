"""A real server of Google's objects: fake-gcs-server, which ``make stores`` installs, behind :mod:`tests.servers.gcs_xml`."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.paths import ROOT
from tests.servers.s3 import FOLDER, await_port, free_port

BINARY: Final = FOLDER / "fake-gcs-server"
MISSING: Final = f"there is no fake-gcs-server at {BINARY}: run 'make stores'"


class GcsServer(Struct, frozen=True):
    """A running server.

    Args:
        json_port: The port of its JSON interface.
        port: The port of the XML interface before it.
        folder: A folder for files of credentials.
    """

    json_port: int
    port: int
    folder: Path

    def bucket(self, name: str) -> str:
        """Make a bucket, and return its URL."""
        body = json.dumps({"name": name}).encode()
        url = f"http://127.0.0.1:{self.json_port}/storage/v1/b"
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).close()
        return f"gs://{name}"

    def environment(self, port: int | None = None) -> Mapping[str, str]:
        """Return the variables by which clients find it, perhaps through a proxy at another port."""
        account = {
            "gcs_base_url": f"http://127.0.0.1:{port or self.port}",
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        file = self.folder / f"account-{port or self.port}.json"
        file.write_text(json.dumps(account))
        return {"GOOGLE_SERVICE_ACCOUNT": str(file), "GOOGLE_ALLOW_HTTP": "true"}


@contextmanager
def started(folder: Path) -> Iterator[GcsServer]:
    """Run a server that keeps everything in memory during the block."""
    port = free_port()
    address = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [BINARY, "-backend", "memory", "-scheme", "http", *address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    xml = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.gcs_xml", str(port)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        await_port(port, process)
        assert xml.stdout is not None
        yield GcsServer(port, int(xml.stdout.readline()), folder)
    finally:
        for each in (xml, process):
            each.terminate()
            each.wait()
