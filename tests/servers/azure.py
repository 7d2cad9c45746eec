"""A real server of Azure's blobs: Azurite, which ``make stores`` installs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.servers.s3 import FOLDER, await_port, free_port

BINARY: Final = FOLDER.parent / "node_modules" / ".bin" / "azurite-blob"
MISSING: Final = f"there is no Azurite at {BINARY}: run 'make stores'"
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class AzureServer(Struct, frozen=True):
    """A running server; its account and key are those that Azurite documents.

    Args:
        port: Its port on the loopback interface.
    """

    port: int

    def bucket(self, name: str) -> str:
        """Make a container, and return its URL."""
        now, version = format_datetime(datetime.now(UTC), usegmt=True), "2021-08-06"
        signed = (
            f"PUT{chr(10) * 12}x-ms-date:{now}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        )
        mac = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
        headers = {
            "x-ms-date": now,
            "x-ms-version": version,
            "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(mac.digest()).decode()}",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.CREATED:
            raise RuntimeError(f"no container was made: {answer.status} {answer.read().decode()}")
        return f"az://{name}"

    def environment(self, port: int | None = None) -> Mapping[str, str]:
        """Return the variables by which clients find it, perhaps through a proxy at another port."""
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port or self.port}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        }


@contextmanager
def started(folder: Path) -> Iterator[AzureServer]:
    """Run a server that keeps everything in memory during the block."""
    server = AzureServer(free_port())
    command = [BINARY, "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--blobPort", str(server.port)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_port(server.port, process)
        yield server
    finally:
        process.kill()  # asked to end, it waits for the connections that clients keep; nothing of it is on disk
        process.wait()
