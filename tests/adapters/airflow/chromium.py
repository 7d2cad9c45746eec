"""A real Chromium, driven by its DevTools protocol: clicks, keys and pictures."""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

WIDTH, HEIGHT = 1200, 1150
LONGEST = 900
SHORTEST = 0.5
"""Seconds in which a page reacts to a click or a key."""


class AnswerError(Exception):
    """Chromium gives no answer, for example because the page is left for another one at this moment."""


class Page:
    """One page; elements are named by CSS selectors and, where that is not enough, by their text."""

    def __init__(self, socket: Any, url: str) -> None:
        self.socket = socket
        self.url = url
        self.numbers = itertools.count(1)
        self.size(WIDTH, HEIGHT)

    def size(self, width: int, height: int) -> None:
        """Make the window so large."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol.

        Raises:
            AnswerError: There is no result.
        """
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv(timeout=60))).get("id") != number:
            pass
        if "result" not in answer:
            raise AnswerError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)[
            "result"
        ].get("value")

    def box(self, selector: str, text: str | None = None) -> list[float] | None:
        """Where the first such element that is shown lies, scrolled to: x, y, width, height."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.getClientRects().length)"
        if text is not None:
            found += f".filter(e => e.innerText.trim() === {json.dumps(text)})"
        script = "e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]"
        return self.value(f"(() => {{ const e = {found}.at(0); if (!e) return null; {script} }})()")

    def has(self, selector: str, text: str | None = None) -> bool:
        """Whether there is such an element."""
        return self.box(selector, text) is not None

    def go(self, path: str) -> None:
        """Open a page and wait until it stands still."""
        self.call("Page.navigate", url=self.url + path)
        shown: list[Any] = [None, None, None]
        for _ in range(30):  # something may tick for as long as it is looked at
            if shown[0] is not None and shown[1:] == shown[:-1]:
                break
            time.sleep(2 * SHORTEST)
            shown = [*shown[1:], self.value("document.body && document.body.innerText.trim() || null")]

    def goes(self, path: str, text: str) -> bool:
        """Open a page, and say whether it has a link."""
        self.go(path)
        return self.has("a", text)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Do something with the left button."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def click(self, selector: str, text: str | None = None) -> None:
        """Click on the middle of an element as soon as it is there and stands still."""
        until(f"{selector} {text or ''}", lambda: self.has(selector, text))
        time.sleep(SHORTEST)
        x, y, width, height = self.box(selector, text) or [0.0] * 4
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x + width / 2, y + height / 2)
        time.sleep(2 * SHORTEST)

    def turn_on(self, selector: str) -> None:
        """Click on a switch until it is on."""
        until(selector, lambda: self.has(selector))
        while not self.has(f"{selector}[data-state=checked]"):
            self.click(selector)
            time.sleep(4 * SHORTEST)

    def key(self, name: str, number: int) -> None:
        """Press a key."""
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=number, **text)
            text = {}
        time.sleep(SHORTEST)

    def type(self, selector: str, text: str) -> None:
        """Click on a field and type into it."""
        self.click(selector)
        self.call("Input.insertText", text=text)
        time.sleep(SHORTEST)

    def stretch(self, selector: str, width: int, height: int) -> None:
        """Drag the lower right corner of something that can be resized."""
        until(selector, lambda: self.has(selector))
        time.sleep(2 * SHORTEST)
        x, y, w, h = self.box(selector) or [0.0] * 4
        self.mouse("mousePressed", x + w - 5, y + h - 5)
        for part in (0.3, 0.6, 1.0):
            self.mouse("mouseMoved", x + w - 5 + part * (width - w), y + h - 5 + part * (height - h))
        self.mouse("mouseReleased", x + width - 5, y + height - 5)
        time.sleep(2 * SHORTEST)

    def picture(self, file: Path, selector: str = "body", *, height: int = HEIGHT) -> None:
        """Write what an element shows."""
        time.sleep(2)
        x, y, w, h = self.box(selector) or [0.0] * 4
        clip = {"x": max(x, 0), "y": max(y, 0), "width": w, "height": min(h, height), "scale": 1}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"]))


AnyPage = TypeVar("AnyPage", bound=Page)


@contextmanager
def chromium(program: str, folder: Path, url: str, kind: type[AnyPage]) -> Iterator[AnyPage]:
    """A new Chromium that keeps its things in a folder, with one empty page."""
    from websockets.sync.client import connect  # comes with the extra `airflow`

    folder.mkdir()
    # without a sandbox, because root may have none
    options = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--remote-debugging-port=0", "--lang=en")
    with running([program, *options, f"--user-data-dir={folder}", "about:blank"], os.environ, folder):
        port = folder / "DevToolsActivePort"
        number = until("Chromium", lambda: port.exists() and port.read_text().splitlines()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/json", timeout=30) as answer:
            (target, *_) = [t for t in json.load(answer) if t["type"] == "page"]
        with connect(target["webSocketDebuggerUrl"], max_size=None) as socket:
            yield kind(socket, url)


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all it starts, ended in the end."""
    process = subprocess.Popen(command, env=environment, cwd=folder, start_new_session=True)
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)


def until(what: str, found: Callable[[], Any]) -> Any:
    """Wait until something is found, and return it."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        with suppress(IndexError):
            if result := found():
                return result
        time.sleep(2)
    raise TimeoutError(f"{what} did not come in {LONGEST} s")
