"""The site as a reader sees it: built strictly, and every page looked at in a real browser, wide and narrow."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.airflow.chromium import Page, chromium
from tests.paths import ROOT

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (1280, 390)
LOOK = """(() => {
  const article = document.querySelector("article");
  const scrolls = e => e !== article && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  const far = [...article?.querySelectorAll("*") ?? []]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e));
  let width = 0;
  for (let e = article ?? document.body; e; e = e.parentElement) width = Math.max(width, e.scrollWidth);
  return {
    width: width,
    room: innerWidth,
    far: far.slice(0, 3).map(e => e.tagName.toLowerCase() + ": " + e.textContent.trim().slice(0, 60)),
    broken: [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.getAttribute("src")),
    text: article?.innerText.length ?? 0,
  };
})()"""
"""How wide a page is, what reaches out of it although no box of its own scrolls it, which pictures are not there, and how
much there is to read. On a narrow screen the theme lets the whole article scroll sideways, which is no box of its own."""

MADE = ROOT / "build/site"
"""Where `make docs` puts the site."""

pytestmark = pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the extra `docs`")


def is_current() -> bool:
    """Whether `make docs` was run after the last change of a page or of the code whose docstrings the site shows."""
    sources = [
        p for top in ("docs", "materializer") for p in (ROOT / top).rglob("*") if p.suffix in {".md", ".py", ".svg"}
    ]
    made = MADE / "index.html"
    return made.is_file() and max(p.stat().st_mtime for p in sources) <= made.stat().st_mtime


@pytest.fixture(
    scope="module", params=[pytest.param("made", id="of make docs"), pytest.param("new", marks=pytest.mark.slow)]
)
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The site that `make docs` left, where it is current, or a new one; a warning while it is built is an error."""
    if request.param == "made":
        if not is_current():
            pytest.skip("needs a current site: make docs")
        return MADE
    folder = Path(tmp_path_factory.mktemp("site"))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A Chromium that shows the site from its folder."""
    if PROGRAM is None or find_spec("websockets") is None:
        pytest.skip("needs Chromium and the extra `airflow`")
    with chromium(PROGRAM, tmp_path_factory.mktemp("browser") / "home", site.as_uri(), Page) as page:
        yield page


def looked_at(page: Page, path: str) -> dict[str, Any]:
    """Open a page, wait until it and its pictures are there, and return what :data:`LOOK` says."""
    page.call("Page.navigate", url=f"{page.url}/{path}")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if page.value(f"location.pathname.endsWith('/{path}') && document.readyState === 'complete'"):
            found: dict[str, Any] = page.value(LOOK)
            return found
        time.sleep(0.05)
    raise TimeoutError(f"{path} was not shown in a minute")


def test_every_page_is_built(site: Path) -> None:
    """
    Without a warning: no link leads nowhere, no page is in no list, no docstring is malformed.
    """
    pages = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}

    assert pages <= {p.relative_to(site) for p in site.rglob("*.html")}


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_every_picture_is_there(browser: Page, site: Path, width: int) -> None:
    """
    Nothing is wider than the window, but tables and code, which scroll in a box of their own.
    """
    browser.size(width, 900)
    paths = sorted(str(p.relative_to(site)) for p in site.rglob("*.html") if "_static" not in p.parts)
    found = {path: looked_at(browser, path) for path in paths}

    assert {width} == {f["room"] for f in found.values()}
    assert {} == {path: f["broken"] for path, f in found.items() if f["broken"]}
    assert {} == {path: (f["width"], f["far"]) for path, f in found.items() if f["width"] > width or f["far"]}
    assert all(f["text"] > 100 for path, f in found.items() if path != "search.html")
