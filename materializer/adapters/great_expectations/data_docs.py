"""Data Docs: views that show all data as plain text, and results that JSON can hold.

Great Expectations escapes the parameters of its sentences, but not table cells and headers, which contain failing values and
names of suites and columns. Here every text of a page is escaped before the template gets it. The library finds the
classes by their names in the configuration that :func:`escaped_site` returns.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from great_expectations.render.view.view import DefaultJinjaIndexPageView, DefaultJinjaPageView

_LEFT: Final = frozenset({"html_success_icon", "formatted_json", "markdown"})
"""Keys of texts that are the library's own markup, or that the library escapes itself."""
_OWN_MARKUP: Final = '<span class="mr-3 triangle"></span>'
_SECTIONS: Final = ("expectations", "validations", "profiling")


def escaped_site(site: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a site of Data Docs with views that escape."""
    page, index = (
        {"module_name": __name__, "class_name": view.__name__} for view in (EscapingPageView, EscapingIndexPageView)
    )
    builder = {"class_name": "DefaultSiteIndexBuilder", **site.get("site_index_builder", {}), "view": index}
    return {
        **site,
        "site_index_builder": builder,
        "site_section_builders": {name: {"view": page} for name in _SECTIONS},
    }


def write_plain_results(store: Any) -> None:
    """Make a store of validation results write each outcome as a boolean of Python.

    Quantiles of Great Expectations 1.24 are met or not by a boolean of numpy, which its store cannot write. The store
    changes in this process only: in the project on disk it stays the library's own.
    """
    serialize = store.serialize

    def plain(validation: Any) -> Any:
        for result in validation.results:
            result.success = bool(result.success)
        return serialize(validation)

    store.serialize = plain


def escaped(part: Any, key: str = "") -> Any:
    """Return a part of a page with all its texts escaped.

    Args:
        part: Nested dictionaries and lists with texts and numbers.
        key: The key of the part in its parent.

    Examples:
        >>> escaped({"table": [["a<b", 1]], "params": {"html_success_icon": "<i/>"}})
        {'table': [['a&lt;b', 1]], 'params': {'html_success_icon': '<i/>'}}
    """
    if isinstance(part, Mapping):
        return {name: escaped(value, name) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [escaped(value, key) for value in part]
    if not isinstance(part, str) or key in _LEFT:
        return part
    return _OWN_MARKUP.join(html.escape(text) for text in part.split(_OWN_MARKUP))


class EscapingPageView(DefaultJinjaPageView):  # type: ignore[misc]  # the library is untyped where it is not installed
    """A page about one suite or one validation."""

    def render(self, document: Any, template: str | None = None, **kwargs: Any) -> str:
        """Return the page as HTML."""
        self._validate_document(document)
        page = self._get_template(template or self._template)
        return str(page.render(escaped(document.to_json_dict()), **kwargs))

    @staticmethod
    def _escape_template_param_value(value: Any) -> Any:
        """Return a parameter unchanged, because every text is already escaped."""
        return value


class EscapingIndexPageView(EscapingPageView, DefaultJinjaIndexPageView):  # type: ignore[misc]  # as above
    """The page that links to all others."""

    _template = DefaultJinjaIndexPageView._template  # noqa: SLF001 - a subclass, and the order of its bases
