"""How nbval compares: everything but stderr, where other machines print warnings of their own (`tools/notebooks.py` refuses to
save a notebook that writes there), but the lines that begin with ⏱, which depend on the processor and its load, and but what the
text/plain of an output has as well: figures, whose SVG differs by matplotlib's version and by font, and listings. Styles, and
what a notebook says while it is not trusted, are not compared either."""

import re

from oplab.timing import CLOCK

OUTPUT_LIMIT = 60  # seconds from one message of a finished cell to the next; nbval's 5 are short on a busy machine


def pytest_collectstart(collector):
    if collector.__class__.__name__ == "IPyNbFile":
        collector.skip_compare += ("stderr",)
        collector.sanitize_patterns[rf"(?m)^ *{re.escape(CLOCK)} .*\n?"] = ""
        collector.sanitize_patterns[r'(?s)<div class="oplab-(?:view oplab-figure|code)">.*'] = "its words are compared"
        collector.sanitize_patterns[r"<style>[^<]*</style>"] = ""
        collector.sanitize_patterns[r'(<div class="oplab-words">)<p>[^<]*</p>'] = r"\1"


def pytest_itemcollected(item):
    if item.__class__.__name__ == "IPyNbCell":
        item.output_timeout = OUTPUT_LIMIT
