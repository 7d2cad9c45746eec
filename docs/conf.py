"""How the documentation becomes a site; `make docs` builds it, and any broken reference is an error."""

project = "materializer"
author = "the materializer authors"
copyright = author  # noqa: A001 (Sphinx asks for it under this name)
html_title = "materializer"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
release = "development"  # the name of a tag, where `python -m tests.docs.site` builds that one
nitpicky = False  # types of docstrings name foreign classes; links between pages are always checked

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# shown as they stand: commands, output, plans
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_custom_sections = ["Shape", "Source"]
napoleon_use_rtype = False

html_theme = "furo"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
# the pages and the search are the way in; an index of method names alone is none
html_use_index = False
html_domain_indices = False
# the theme's own, but for its versions and advertisements of a host; ours are in _templates
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ],
}
