"""Everything that is decoded from a lake, a browser or a file of settings, with right inputs to begin with."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from materializer import config
from materializer.adapters.page.server import PageServer
from materializer.core.language.parse import parse_definitions
from materializer.core.quality.suite import read as read_suite
from materializer.journal import catalog
from materializer.journal.codec import KINDS, Row
from materializer.journal.start import read as read_start
from materializer.journal.unreadable import fold_each
from materializer.lake.capture.changed_groups import changed_groups
from materializer.lake.log import read_commit
from materializer.lake.notes import note_of
from tests.paths import ROOT

GOLDEN: Final = ROOT / "tests" / "golden"


class Target(Struct, frozen=True):
    """One thing that is decoded.

    Args:
        name: What it is.
        samples: Right inputs.
        decode: Decodes an input; it may raise errors with a code.
    """

    name: str
    samples: tuple[bytes, ...]
    decode: Callable[[bytes], object]


def targets(folder: Path) -> list[Target]:
    """Return all of them; *folder* is an empty one, in which they put their files."""
    rows = _rows()
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True)
    (folder / "lake" / "_materializer" / "journal" / "_delta_log").mkdir(parents=True)
    suites = tuple(file.read_bytes() for file in sorted((ROOT / "expectations").glob("*.json")))
    statements = tuple(file.read_bytes() for file in sorted((ROOT / "sql").rglob("*.sql")))
    server = PageServer(_NoPages())  # type: ignore[arg-type]

    def commit(data: bytes) -> object:
        (log / f"{0:020d}.json").write_bytes(data)
        found = read_commit(str(folder / "table"), 0)
        return found, note_of(str(folder / "table"), 0), changed_groups(found, "bucket")

    def listing(data: bytes) -> object:
        (folder / "lake" / "_materializer" / "listing.json").write_bytes(data)
        return catalog.read(folder / "lake")

    def settings(data: bytes) -> object:
        (folder / "materializer.toml").write_bytes(data)
        return config.read(folder / "materializer.toml", environ={})

    def request(data: bytes) -> object:
        return _answered(server, data)

    return [
        Target("journal", rows, lambda data: _folded([data])),
        Target("journal, after right events", rows, lambda data: _folded([*rows[:20], data])),
        Target("commit", _commits(), commit),
        Target("listing", (_listing(),), listing),
        Target("start of a process", (b"\x1f\x8b", _listing()), lambda data: _started(folder, data)),
        Target("settings", _settings(), settings),
        Target("suite", suites, lambda data: read_suite(data.decode(errors="surrogateescape"))),
        Target("statement", statements, lambda data: parse_definitions(data.decode(errors="replace"))),
        Target("request", _requests(server), request),
    ]


def _rows() -> tuple[bytes, ...]:
    files = [GOLDEN / "written.jsonl", GOLDEN / "journal.jsonl"]
    return tuple(line for file in files for line in file.read_bytes().splitlines())


def _folded(lines: list[bytes]) -> object:
    rows = []
    for line in lines:
        try:
            data = json.loads(line)
            fields = [str(data[name]) for name in ("aggregate", "kind", "at", "payload")]
        except (ValueError, KeyError, TypeError, RecursionError):
            fields = ["a1", "defined", "", line.decode(errors="replace")]  # what a column of texts may hold
        rows.append(Row(fields[0], fields[1] if fields[1] in KINDS else "defined", *fields[2:]))
    living, broken = fold_each(rows, {}, {})
    return [state.basis for state in living.values()], [each.error() for each in broken.values()]


def _commits() -> tuple[bytes, ...]:
    schema = '{"type":"struct","fields":[{"name":"ts","type":"timestamp","nullable":true,"metadata":{}}]}'
    stats = '{"numRecords":2,"minValues":{"ts":"2024-01-01T00:00:00.000Z"},"maxValues":{"ts":"2024-01-02T00:00:00.000Z"},"nullCount":{"ts":0}}'
    note = {"n": 3, "plan": "p", "kind": "refresh", "source_version": 4, "changed": {"column": "bucket", "spans": [[0, 5]], "keys": {"columns": ["k"], "of": [[[[0, 5]], [["a"]]]]}}}  # fmt: skip
    add = {
        "path": "a%20b/part-0.parquet",
        "partitionValues": {"d": "1"},
        "size": 9,
        "modificationTime": 1,
        "dataChange": True,
        "stats": stats,
    }
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 40, "cardinality": 1}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1, "inCommitTimestamp": 2, "operation": "WRITE", "userMetadata": json.dumps(note), "operationMetrics": {"num_updated_rows": "1"}}},
        {"metaData": {"id": "x", "schemaString": schema, "partitionColumns": ["d"], "configuration": {"delta.enableChangeDataFeed": "true"}}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}},
        {"add": add}, {"add": add | {"deletionVector": vector}}, {"remove": add | {"deletionTimestamp": 5}}, {"cdc": {"path": "_change_data/x", "size": 5}},
        {"txn": {"appId": "a", "version": 3, "lastUpdated": 1}},
    ]  # fmt: skip
    lines = [json.dumps(action).encode() for action in actions]
    return (b"\n".join(lines), *lines)


def _listing() -> bytes:
    row = {"name": "hourly", "spec": {"name": "hourly"}, "source": "/x", "last": "refresh 1"}
    return json.dumps({"format": 1, "version": 3, "commit": [1, 2, 3], "rows": [row]}).encode()


def _started(folder: Path, data: bytes) -> object:
    (folder / "lake" / "_materializer" / "start.json.gz").write_bytes(data)
    return read_start(str(folder / "lake" / "_materializer" / "journal"))


def _settings() -> tuple[bytes, ...]:
    return (
        b'lake = "lake"\nlocal_rows = 5\nexecutor = "auto"\n[sources]\ntrades = "t"\n[spark]\nmaster = "local[2]"\n[spark.options]\na = "b"\n',
        b'[storage]\naws_region = "x"\n[quality.canaries]\nexecutor = "auto"\n[limits]\nwindows = 5\n[openlineage]\nfile = "x"\n[metrics]\ntextfile = "y"\n',
    )


def _requests(server: PageServer) -> tuple[bytes, ...]:
    path, host = server.url.partition("/")[2].partition("/")[2].partition("/")[2], f"127.0.0.1:{server.server_port}"
    return (
        f"GET /{path}data/lake.json HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\nOrigin: http://{host}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(),
        f"HEAD /{path} HTTP/1.0\r\nHost: localhost:{server.server_port}\r\nContent-Length: 0\r\nRange: bytes=0-5\r\n\r\n".encode(),
    )


class _NoPages:
    """A report with nothing in it."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: {}


def _answered(server: PageServer, data: bytes) -> bytes:
    """Return what the handler of a connection answers to some bytes, after which the client sends no more."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data[:60_000])
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(5)
        try:
            server.RequestHandlerClass(theirs, ("127.0.0.1", 1), server)
        except (ConnectionError, TimeoutError):
            return b""
        theirs.shutdown(socket.SHUT_WR)
        found = ours.recv(100_000)
    if found and not found.startswith(b"HTTP/1."):
        msg = f"an answer begins with {found[:30]!r}"
        raise AssertionError(msg)
    return found
