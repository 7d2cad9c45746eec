"""Google's XML interface before a server that only has the JSON one: the client of `deltalake` speaks XML, fake-gcs-server JSON.

Every request becomes one request of the other interface, with the same condition; nothing is decided here. It runs in a process of its
own: ``python -m tests.servers.gcs_xml UPSTREAM`` prints its port.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from datetime import datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream_port = 0
    upstream = threading.local()

    def log_message(self, *_: Any) -> None:
        pass

    def _ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes, Any]:
        known = self.upstream.__dict__
        connection = known.setdefault("it", http.client.HTTPConnection("127.0.0.1", self.upstream_port))
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        has_length = status != http.HTTPStatus.NO_CONTENT
        if has_length and (self.command != "HEAD" or status != http.HTTPStatus.OK):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _parts(self) -> tuple[str, str, dict[str, str]]:
        url = urlsplit(self.path)
        bucket, _, key = url.path.lstrip("/").partition("/")
        return bucket, unquote(key), {name: values[0] for name, values in parse_qs(url.query).items()}

    def _condition(self) -> dict[str, str]:
        found = self.headers.get("x-goog-if-generation-match")
        return {} if found is None else {"ifGenerationMatch": found}

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        bucket, key, _ = self._parts()
        if source := self.headers.get("x-goog-copy-source"):
            old_bucket, _, old = unquote(source).lstrip("/").partition("/")
            path = f"/storage/v1/b/{old_bucket}/o/{quote(old, '')}/rewriteTo/b/{bucket}/o/{quote(key, '')}"
            status, content, _ = self._ask("POST", f"{path}?{urlencode(self._condition())}")
            meta = json.loads(content).get("resource", {}) if status == http.HTTPStatus.OK else {}
        else:
            query = urlencode({"uploadType": "media", "name": key, **self._condition()})
            status, content, _ = self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body)
            meta = json.loads(content) if status == http.HTTPStatus.OK else {}
        self._answer(status, ETag=f'"{meta.get("etag", "")}"', x_goog_generation=str(meta.get("generation", "")))

    def do_GET(self) -> None:
        bucket, key, query = self._parts()
        if not key:
            self._answer(*self._listed(bucket, query))
            return
        path = f"/storage/v1/b/{bucket}/o/{quote(key, '')}"
        status, content, _ = self._ask("GET", path)
        if status != http.HTTPStatus.OK:
            self._answer(status, content)
            return
        meta = json.loads(content)
        headers = {"ETag": f'"{meta["etag"]}"', "Last_Modified": format_datetime(_moment(meta), usegmt=True)}
        if self.command == "HEAD":
            self._answer(status, Content_Length=str(meta["size"]), **headers)
            return
        ranged = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
        status, content, found = self._ask("GET", f"{path}?alt=media", **ranged)
        if "Content-Range" in found:
            headers["Content_Range"] = found["Content-Range"]
        self._answer(status, content, **headers)

    do_HEAD = do_GET  # noqa: N815 - the name that the server calls

    def do_DELETE(self) -> None:
        bucket, key, _ = self._parts()
        status, content, _ = self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(key, '')}")
        if status == http.HTTPStatus.OK:
            status, content = http.HTTPStatus.NO_CONTENT, b""
        self._answer(status, content)

    def _listed(self, bucket: str, query: dict[str, str]) -> tuple[int, bytes]:
        after = query.get("start-after", "")
        names = {
            "prefix": "prefix",
            "delimiter": "delimiter",
            "continuation-token": "pageToken",
            "max-keys": "maxResults",
        }
        asked = {json_name: query[name] for name, json_name in names.items() if name in query}
        asked |= {"startOffset": after} if after else {}
        status, content, _ = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}")
        if status != http.HTTPStatus.OK:
            return status, content
        found = json.loads(content)
        parts = [
            f"<Contents><Key>{escape(o['name'])}</Key><LastModified>{_moment(o).isoformat()}</LastModified>"
            f'<ETag>"{o["etag"]}"</ETag><Size>{o["size"]}</Size></Contents>'
            for o in found.get("items", [])
            if o["name"] > after
        ]
        parts += [f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in found.get("prefixes", [])]
        if token := found.get("nextPageToken"):
            parts.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        return status, f"<ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()


def _moment(meta: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(meta["updated"])


def main(upstream: int) -> None:
    """Run it, and print its port."""
    _Handler.upstream_port = upstream
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
