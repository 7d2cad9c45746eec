"""Attacks on the report page that ``report --serve`` shows: by other sites in the same browser, and by other programs."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from materializer.adapters.page.server import CONNECTIONS, OPEN_IT
from materializer.api import Materializer
from materializer.config import Config
from tests import tables
from tests.adapters import page_lakes
from tests.attacks.table import attack

VIEW = "CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS hour, sum(price) AS total FROM trades GROUP BY ALL"
PATHS = ("", "index.html", "version", "data/hourly.json", "data/hourly.js", "page.js", "page.css")
PATIENCE = 1.5


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Materializer:
    """A lake with an aggregate."""
    root = tmp_path_factory.mktemp("shown")
    tables.append(root / "trades", page_lakes.trades(range(2)))
    made = Materializer(root / "lake", config=Config(sources={"trades": str(root / "trades")}))
    made.apply(VIEW)
    made.refresh("hourly", executor="local")
    return made


@pytest.fixture(scope="module")
def url(lake: Materializer) -> Iterator[str]:
    """The address of its page."""
    server: Any = lake.report_server()
    server.patience = PATIENCE
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.url
    server.shutdown()
    thread.join()
    server.server_close()


def asked(url: str, path: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
    """Ask for a path below the address, and return status, headers and content."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=30)
    connection.request("GET", at.path + path, headers={name.replace("_", "-"): text for name, text in headers.items()})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def sent(url: str, request: str) -> str:
    """Send bytes of our own making, with HOST and TOKEN in place of those words, and return all that is answered."""
    at = urlsplit(url)
    with socket.create_connection((str(at.hostname), at.port), timeout=30) as connection:
        connection.sendall(request.replace("HOST", at.netloc).replace("TOKEN", at.path.strip("/")).encode())
        got = b""
        while piece := connection.recv(65_536):
            got += piece
    return got.decode(errors="replace")


def is_well(url: str) -> bool:
    """Whether the page is still shown to who has its address."""
    return asked(url)[0] == 200 and "hourly" in asked(url, "data/hourly.json")[2]


@attack(
    "The page",
    "a program or a site asks for a page without the token of its address",
    "403, which says to open the printed address",
)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["/", "//", "/" + "0" * 32 + "/", "/ü/"])
def test_without_the_token_nothing_is_shown(url: str, token: str, path: str) -> None:
    """
    Also with a wrong token of the right length; a new server has another token.
    """
    wrong = url.replace(urlsplit(url).path, token)
    status, _, text = asked(wrong.replace("ü", "%C3%BC"), path)

    assert (status, text) == (403, OPEN_IT)


@attack("The page", "an address of an earlier server is used again", "403: each process has its own token")
def test_each_server_has_its_own_token(lake: Materializer) -> None:
    """
    Of 128 random bits.
    """
    servers: list[Any] = [lake.report_server() for _ in range(2)]
    tokens = {urlsplit(server.url).path for server in servers}
    for server in servers:
        server.server_close()

    assert len(tokens) == 2
    assert all(re.fullmatch(r"/[0-9a-f]{32}/", token) for token in tokens)


@attack(
    "The page",
    "a foreign site includes a page of an aggregate as a script",
    "403 or 404, JSON of type application/json, and it learns nothing",
)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", PATHS)
def test_a_request_that_another_site_caused_is_refused(url: str, path: str, site: str) -> None:
    """
    Even with the token; a page of this origin, and a person who types the address, are answered.
    """
    status, _, text = asked(url, path, Sec_Fetch_Site=site)

    assert (status, "hourly" in text) == (403, False)
    for own in ("same-origin", "none"):
        assert asked(url, path, Sec_Fetch_Site=own)[0] == (404 if path == "data/hourly.js" else 200)


@attack(
    "The page",
    "a foreign site fetches a page (its Origin is another one, or null)",
    "403, and no header that would let it read",
)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "file://"]
)
def test_a_foreign_origin_is_refused(url: str, origin: str) -> None:
    """
    The page's own origin is answered.
    """
    status, headers, text = asked(url, "data/hourly.json", Origin=origin)

    assert (status, "hourly" in text) == (403, False)
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert asked(url, "data/hourly.json", Origin=f"http://{urlsplit(url).netloc}")[0] == 200


@attack(
    "The page",
    "a foreign site embeds an answer, or keeps a window with it",
    "every answer has Cross-Origin-Resource-Policy, -Opener-Policy, frame-ancestors, nosniff",
)
@pytest.mark.parametrize("path", [*PATHS, "nothing", "../.."])
def test_every_answer_says_that_it_is_of_this_origin(url: str, path: str) -> None:
    """
    Also refusals and what was not found.
    """
    for headers in (asked(url, path)[1], asked(url, path, Origin="https://evil.example")[1]):
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "script-src 'self';" in headers["Content-Security-Policy"]


@attack(
    "The page",
    "a foreign name leads to this machine (DNS rebinding)",
    "421: only 127.0.0.1 and localhost with the port are answered",
)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1",
        "127.0.0.1.evil.example:PORT",
        "[::1]:PORT",
        "",
        "127.0.0.1:PORT@evil",
    ],
)
def test_a_name_of_another_host_is_refused(url: str, host: str) -> None:
    """
    Also one that begins like ours.
    """
    status, _, text = asked(url, Host=host.replace("PORT", str(urlsplit(url).port)))

    assert (status, "hourly" in text) == (421, False)


@attack(
    "The page",
    "a request that two programs could read in two ways: two hosts, a body on a GET, a foreign whole address",
    "400 or 421, and the connection ends",
)
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", 400),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n", 400),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nGET ", 400),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: 4\r\n\r\nGET ", 400),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("GET http://evil.example/TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 421),
        ("GET http://HOST/TOKEN/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET https://HOST/TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 421),
        ("GET http://user@HOST/TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 421),
        ("GET TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 421),
        ("GET * HTTP/1.1\r\nHost: HOST\r\n\r\n", 421),
        ("GET //evil.example/TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 403),
        ("GET /TOKEN/ HTTP/1.1\r\n\r\n", 421),
        ("GET /TOKEN/ HTTP/1.0\r\n\r\n", 421),
        ("GET /TOKEN/\r\n\r\n", 421),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nOrigin: https://evil.example\r\n\r\n", 403),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: HOST\r\n\r\n", 421),
    ],
)  # fmt: skip
def test_an_ambiguous_request_is_refused(url: str, request_: str, status: int) -> None:
    """
    A second request behind it on the same connection is not read.
    """
    answer = sent(url, request_ + "GET /TOKEN/version HTTP/1.1\r\nHost: HOST\r\n\r\n")

    assert re.findall(r"HTTP/1.1 (\d+)", answer) == [str(status)]
    assert "hourly" not in answer
    assert sent(url, "GET http://HOST/TOKEN/version HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n").startswith(
        "HTTP/1.1 200"
    )


@attack(
    "The page",
    "a request that is no HTTP: half an address, too many or too long headers, bytes",
    "400, 414 or 431, and no traceback in the terminal",
)
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET http://[::1 HTTP/1.1\r\nHost: HOST\r\n\r\n", "400"),
        ("GET http://[::1\r\n\r\n", "400"),
        ("\x16\x03\x01\x02 \x00\r\n\r\n", "400"),
        ("GET /TOKEN/ HTTP/9.9.9\r\nHost: HOST\r\n\r\n", "400"),
        ("GET / two words HTTP/1.1\r\nHost: HOST\r\n\r\n", "400"),
        ("GET /" + "a" * 70_000 + " HTTP/1.1\r\n\r\n", "414"),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\n" + "A: b\r\n" * 200 + "\r\n", "431"),
        ("GET /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nA: " + "b" * 70_000 + "\r\n\r\n", "431"),
    ],
    ids=range(8),
)
def test_what_is_no_request_is_refused_without_a_traceback(
    url: str, request_: str, status: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    The answer repeats nothing of it as markup, and the page is well afterwards.
    """
    try:
        answer = sent(url, request_)
    except ConnectionResetError:  # the rest of it was never read
        answer = f"HTTP/1.1 {status}"

    assert answer.split()[1] == status
    assert "text/html" not in answer
    assert is_well(url)
    assert capfd.readouterr().err == ""


@attack(
    "The page",
    "300 connections that send nothing, or a byte now and then",
    "at most 32 threads, all given back within the patience of a request; then the page is shown",
)
@pytest.mark.parametrize("drip", [b"", b"G"], ids=["nothing", "a byte now and then"])
def test_slow_clients_hold_few_threads_and_not_for_long(
    url: str, drip: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    A byte gains no time.
    """
    at, before = urlsplit(url), threading.active_count()
    held = [socket.create_connection((str(at.hostname), at.port), timeout=30) for _ in range(300)]
    most, until = 0, time.monotonic() + 10 * PATIENCE
    while time.monotonic() < until and (not most or threading.active_count() > before):
        most = max(most, threading.active_count() - before)
        for each in held if drip else []:
            with suppress(OSError):  # it was sent away
                each.send(drip)
        time.sleep(0.1)

    assert 0 < most <= CONNECTIONS == 32
    assert threading.active_count() <= before
    assert is_well(url)
    for each in held:
        each.close()
    assert capfd.readouterr().err == ""


@attack(
    "The page",
    "a client asks and never takes the answer, or goes away in the middle of it",
    "its connection ends after the patience of a request; no traceback",
)
def test_a_client_that_takes_no_answer_is_left(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """
    Of a megabyte, more than the system keeps for it.
    """
    at, before = urlsplit(url), threading.active_count()
    held = [socket.socket() for _ in range(4)]
    for each in held:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        each.connect((str(at.hostname), at.port))
        each.sendall(f"GET {at.path}echarts.min.js HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode() * 8)
    held.pop().close()
    until = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.1)

    assert threading.active_count() <= before
    assert is_well(url)
    for each in held:
        each.close()
    assert capfd.readouterr().err == ""


FOREIGN = """<!doctype html><title>foreign</title><script>
window.got = [];
window.materializerPage = (...said) => got.push(JSON.stringify(said));
const URL_ = "ADDRESS";
const script = (src) => new Promise(done => { const e = document.createElement("script"); e.src = src; e.onload = () => done("loaded"); e.onerror = () => done("refused"); document.head.append(e); });
const asked = (src, how) => fetch(src, how).then(a => a.text().then(t => a.type + a.status + t), () => "refused");
const framed = (src) => new Promise(done => { const e = document.createElement("iframe"); e.src = src; e.onload = () => { try { done(e.contentDocument ? e.contentDocument.body.innerText : "refused"); } catch { done("refused"); } }; document.body.append(e); });
const image = (src) => new Promise(done => { const e = new Image(); e.src = src; e.onload = () => done("loaded"); e.onerror = () => done("refused"); });
const tried = async () => ({ script: await script(URL_ + "data/hourly.js"), json: await script(URL_ + "data/hourly.json"), own: await script(URL_ + "page.js"),
  fetch: await asked(URL_ + "data/hourly.json"), opaque: await asked(URL_ + "data/hourly.json", { mode: "no-cors" }), first: await asked(URL_), image: await image(URL_ + "page.css"),
  frame: await framed(URL_), got: got.join() });
</script><body></body>"""


@pytest.mark.browser
@attack(
    "The page",
    "a site of a second origin, in Chromium, which even knows the token: script, fetch, no-cors, image, frame, window",
    "all refused; it gets no text and no call",
)
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_foreign_site_in_a_browser_gets_nothing(chromium: Any, url: str, tmp_path: Path, name: str) -> None:
    """
    From another port of this machine (the same site) and from another name (another site); with the token, and without.
    """
    (tmp_path / "index.html").write_text(FOREIGN.replace("ADDRESS", url))
    (tmp_path / "without.html").write_text(FOREIGN.replace("ADDRESS", url.replace(urlsplit(url).path, "/")))
    (tmp_path / "favicon.ico").write_text("")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(tmp_path)))
    Thread(target=foreign.serve_forever, args=(0.05,), daemon=True).start()
    context = chromium.new_context()
    for path in ("index.html", "without.html"):
        page = context.new_page()
        page.goto(f"http://{name}:{foreign.server_port}/{path}")
        found = page.evaluate("tried()")
        assert found["got"] == ""
        assert {found[how] for how in ("script", "json", "own", "fetch", "opaque", "first", "image", "frame")} == {
            "refused"
        }
        with context.expect_page() as opened:
            page.evaluate("window.other = window.open(URL_)")
        opened.value.wait_for_load_state()
        assert "hourly" not in opened.value.content()
    own = context.new_page()
    own.goto(url + "#/a/hourly")
    own.wait_for_selector("h1:text-is('hourly')")
    context.close()
    foreign.shutdown()
    foreign.server_close()


@pytest.mark.browser
@attack("The page", "the page is opened without its token", "403 with a sentence that says what to open")
def test_a_person_without_the_token_reads_what_to_open(chromium: Any, url: str) -> None:
    """
    And reads it as text.
    """
    page = chromium.new_page()
    answer = page.goto(url.replace(urlsplit(url).path, "/"))

    assert answer.status == 403
    assert "open the address that the command with '--serve' printed" in page.inner_text("body")
    page.close()


@pytest.mark.browser
@attack(
    "The page",
    "a report in a folder is opened by file://, without a server",
    "works; nothing of it is asked from a network",
)
def test_a_report_in_a_folder_needs_no_server(chromium: Any, lake: Materializer, tmp_path: Path) -> None:
    """
    Its data are scripts beside it, because such a page may not fetch.
    """
    page = chromium.new_page()
    wrong: list[str] = []
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else wrong.append(request.url)
    )
    page.goto(lake.report(tmp_path / "site").as_uri() + "#/a/hourly")
    page.wait_for_selector("h1:text-is('hourly')")

    assert wrong == []
    page.close()
