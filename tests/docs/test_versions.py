"""The site of several versions: each is built from its tag, and each page leads to the same page of the others."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.adapters.airflow.chromium import AnswerError, Page, chromium
from tests.docs import site

PROGRAM = which("chromium") or which("google-chrome")
PAGES = {
    "v0.9": {"index": "# Old\n\n```{toctree}\nold\n```\n", "old": "# Only here\n"},
    "v0.10": {"index": "# New\n\n```{toctree}\nnew\n```\n", "new": "# Since then\n"},
}
"""By tag: the pages of a small repository."""

pytestmark = pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the extra `docs`")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two tags, and a page that no commit has."""
    folder = Path(tmp_path_factory.mktemp("repository"))
    git(folder, "init", "-q")
    for tag, pages in PAGES.items():
        for old in folder.glob("docs/*.md"):
            old.unlink()
        for name, text in pages.items():
            (folder / "docs").mkdir(exist_ok=True)
            (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", tag)
        git(folder, "tag", tag)
    (folder / "docs/index.md").write_text("# Newest\n\n```{toctree}\nnew\nnewest\n```\n", encoding="utf-8")
    (folder / "docs/newest.md").write_text("# Not committed\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of both tags, built in two calls, the older one last."""
    out = Path(tmp_path_factory.mktemp("sites"))
    assert [site.WORKING, "v0.10"] == site.build(out, ["v0.10"], repository=repository)
    assert [site.WORKING, "v0.10", "v0.9"] == site.build(out, ["v0.9"], repository=repository)
    return out


def listed(out: Path) -> dict[str, list[str]]:
    """The pages of each version, as browsers read them."""
    text = (out / "versions.js").read_text(encoding="utf-8")
    versions = json.loads(text.removeprefix("window.materializerVersions = ").rstrip(";\n"))
    return {version["name"]: version["pages"] for version in versions}


def test_each_version_has_its_own_pages(built: Path) -> None:
    """
    A tag is built as it was committed, the working tree as it is, and the list has all of them with their pages.
    """
    pages = listed(built)

    assert [site.WORKING, "v0.10", "v0.9"] == list(pages)
    assert {"index.html", "old.html", "search.html"} == set(pages["v0.9"])
    assert {"index.html", "new.html", "search.html"} == set(pages["v0.10"])
    assert {"index.html", "new.html", "newest.html", "search.html"} == set(pages[site.WORKING])
    assert all((built / name / page).is_file() for name, names in pages.items() for page in names)


def test_the_way_in_is_the_newest_tag(built: Path) -> None:
    """
    A reader without a version in mind gets the newest release: 0.10 is newer than 0.9, and the working tree is no release.
    """
    assert "url=v0.10/index.html" in (built / "index.html").read_text(encoding="utf-8")


def test_an_unknown_tag_builds_nothing(repository: Path, tmp_path: Path) -> None:
    """
    The message lists the known ones.
    """
    with pytest.raises(ValueError, match=r"no tag 'v9'; nothing was built; known are: v0.10, v0.9"):
        site.build(tmp_path, ["v0.9", "v9"], repository=repository)

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (("v1.0rc1", "v1.0"), "v1.0"),
        (("v1.0", "v1.0.1"), "v1.0.1"),
        (("v2", "v10"), "v10"),
        (("v1.0rc2", "v1.0rc10"), "v1.0rc10"),
    ],
)
def test_versions_are_ordered_by_their_numbers(tmp_path: Path, names: tuple[str, str], newest: str) -> None:
    """
    Not by their letters; a release candidate is older than its release.
    """
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()

    assert newest == site.index(tmp_path)[0]


@pytest.fixture
def browser(built: Path, tmp_path: Path) -> Iterator[Page]:
    """A Chromium that reads the site as files, without any server."""
    if PROGRAM is None or find_spec("websockets") is None:
        pytest.skip("needs Chromium and the extra `airflow`")
    with chromium(PROGRAM, tmp_path / "home", built.as_uri(), Page) as page:
        yield page


def chosen(page: Page, version: str) -> Any:
    """Choose a version, and return the path of the page that comes."""
    page.value(
        "(() => { const list = document.querySelector('.sidebar-versions select');"
        f" list.value = '{version}'; list.dispatchEvent(new Event('change')); }})()"
    )
    return awaited(page, f"location.pathname.includes('/{version}/') && location.pathname")


def awaited(page: Page, expression: str) -> Any:
    """Return what an expression gives as soon as it gives something; a page that is left at this moment is asked again."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(AnswerError):
            if found := page.value(f"document.readyState === 'complete' && ({expression})"):
                return found
        time.sleep(0.05)
    raise TimeoutError(expression)


class Leaving:
    """The connection to a page that is left for another one when it is first asked for a value."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def send(self, message: str) -> None:
        """Take a call."""
        self.asked.append(json.loads(message))

    def recv(self, timeout: float) -> str:
        """Answer the last call."""
        assert timeout > 0
        number = self.asked[-1]["id"]
        if len([a for a in self.asked if a["method"] == "Runtime.evaluate"]) == 1:
            return json.dumps(
                {"id": number, "error": {"code": -32000, "message": "Inspected target navigated or closed"}}
            )
        return json.dumps({"id": number, "result": {"result": {"value": "there"}}})


def test_a_page_that_is_left_is_asked_again() -> None:
    """
    Chromium has no answer while it goes from page to page.
    """
    assert "there" == awaited(Page(Leaving(), ""), "location.pathname")


@pytest.mark.browser
def test_a_reader_changes_the_version(browser: Page) -> None:
    """
    The same page of another version comes where it has one, else its first page.
    """
    browser.call("Page.navigate", url=f"{browser.url}/v0.10/new.html")
    options = "[...document.querySelectorAll('.sidebar-versions option')].map(o => o.value).join()"

    assert f"{site.WORKING},v0.10,v0.9" == awaited(browser, options)
    assert chosen(browser, site.WORKING).endswith(f"/{site.WORKING}/new.html")
    assert chosen(browser, "v0.9").endswith("/v0.9/index.html")
