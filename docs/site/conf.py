"""Sphinx's settings for the site that ``make site`` builds. ``tools/site.py`` lays out the sources that this reads."""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

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

_CHINESE = re.compile("[\u4e00-\u9fff]+")


class Chinese(SearchEnglish):
    """English words, and each two neighbours of Chinese text: neither a page nor a query has spaces between words."""

    lang = "zh"  # the name of the language, which names the stemmer, stays English
    js_splitter_code = """
function splitQuery(query) {
  const parts = query.split(/([\\u4e00-\\u9fff]+)|[^\\p{Letter}\\p{Number}_]+/u).filter(part => part);
  const pairs = part => (part.length < 2 ? [part] : [...part].slice(1).map((end, at) => part[at] + end));
  return parts.flatMap(part => (/[\\u4e00-\\u9fff]/.test(part) ? pairs(part) : [part]));
}
"""

    def split(self, input: str) -> list[str]:
        """The words of a text, in the way of ``splitQuery``."""
        found = super().split(_CHINESE.sub(" ", input))
        for part in _CHINESE.findall(input):
            found += [part[at : at + 2] for at in range(max(1, len(part) - 1))]
        return found

    def word_filter(self, word: str) -> bool:
        """Whether a word is in the index."""
        return bool(_CHINESE.match(word)) or super().word_filter(word)


def setup(app: Sphinx) -> None:
    """Sphinx calls this. Its own class for Chinese takes a query without spaces for one word."""
    app.add_search_language(Chinese)
