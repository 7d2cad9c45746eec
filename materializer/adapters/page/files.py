"""The report page as files: what a browser opens from a folder."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from materializer.errors import UsageError
from materializer.installed import __version__
from materializer.lake.failures import translated
from materializer.services.report.page.pages import Pages

ASSETS: Final = ("page.css", "page.js", "charts.js", "echarts.min.js", "NOTICE.txt")
MARK: Final = '<meta name="generator" content="materializer report">'
"""What every first page of ours has; a folder without one is not ours."""


def asset(name: str) -> bytes:
    """Return a file that every report has."""
    return files(__package__).joinpath("assets", name).read_bytes()


def script_json(value: Any) -> str:
    r"""Return JSON that may stand inside a script of a page, whatever texts it has.

    Examples:
        >>> script_json({"a": "</script><!--"})
        '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def first_html(page: dict[str, Any], *, is_served: bool) -> bytes:
    """Return the first page, with what it shows inside.

    Args:
        page: See :func:`~materializer.services.report.page.lake.lake_page`.
        is_served: Whether the page asks its server if something is new.
    """
    text = asset("index.html").decode()
    served = '<meta name="materializer-served" content="yes">' if is_served else ""
    return (
        text.replace("<!-- HEAD -->", MARK + served)
        .replace("/* LAKE */", script_json(page | {"version": __version__}))
        .encode()
    )


def data_script(name: str, page: dict[str, Any]) -> bytes:
    """Return the page of an aggregate as a script, which a page that was opened from a folder may load."""
    return f"materializerPage({script_json(name)},{script_json(page)});".encode()


def write(pages: Pages, out: str | Path) -> Path:
    """Write a report, and return the path of its first page. A report that is there is replaced; its first page comes last.

    Args:
        pages: What it shows.
        out: A folder that is empty, is not there, or has a report.

    Raises:
        UsageError: If the folder has something else. Nothing was written.
        StorageError: If the disk is full or permission is refused.
    """
    out = Path(out)
    index = out / "index.html"
    if out.exists() and not out.is_dir():
        raise UsageError(f"'{out}' is a file", hint="name a folder")
    if out.exists() and any(out.iterdir()) and not _is_ours(index):
        raise UsageError(
            f"'{out}' has other files, which a report does not mix with", hint="name an empty folder, or a new one"
        )
    first, every = pages.every()
    with translated(str(out), "writing", wrote="some files of the report may be written"):
        (out / "data").mkdir(parents=True, exist_ok=True)
        for name in ASSETS:
            _put(out / name, asset(name))
        written = {_put(out / "data" / f"{name}.js", data_script(name, page)) for name, page in every}
        for old in set((out / "data").glob("*.js")) - written:
            old.unlink()
        return _put(index, first_html(first, is_served=False))


def _is_ours(index: Path) -> bool:
    return index.is_file() and MARK in index.read_text(encoding="utf-8", errors="replace")[:2000]


def _put(path: Path, data: bytes) -> Path:
    """Write a file whole, or not at all: a reader sees the old one or the new one."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)
    return path
