"""The version of this package, as it is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_text() -> str:
    """Return the version, or a text that says that the package is not installed."""
    try:
        return version("materializer")
    except PackageNotFoundError:
        return "0+not-installed"
