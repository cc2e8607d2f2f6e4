"""Sphinx's settings for the site that ``make site`` builds. ``tools/site.py`` lays out the sources that this reads."""

from __future__ import annotations

import oplab

project = "Operator Lab"
author = "The Operator Lab maintainers"
project_copyright = "Operator Lab; code Apache-2.0, text CC BY 4.0"
version = release = oplab.__version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_*"]

# The lessons were executed when they were made; the site shows these outputs.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 4
# Names of code blocks that Pygments does not know, as GitHub shows them: as plain text.
suppress_warnings = ["misc.highlighting_failure", "mystnb.unknown_mime_type"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "sphinx_book_theme"
html_title = "Operator Lab"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {
    "use_download_button": True,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "navigation_with_keys": True,
}
html_context = {"default_mode": "auto"}
html_show_sphinx = False
