"""How nbval compares: everything but stderr, where other machines print warnings of their own (`tools/notebooks.py` refuses to
save a notebook that writes there), and but the lines that begin with ⏱, which depend on the processor and its load."""

import re

from oplab.grading.text import CLOCK

OUTPUT_LIMIT = 60  # seconds from one message of a finished cell to the next; nbval's 5 are short on a busy machine


def pytest_collectstart(collector):
    if collector.__class__.__name__ == "IPyNbFile":
        collector.skip_compare += ("stderr",)
        collector.sanitize_patterns[rf"(?m)^ *{re.escape(CLOCK)} .*\n?"] = ""


def pytest_itemcollected(item):
    if item.__class__.__name__ == "IPyNbCell":
        item.output_timeout = OUTPUT_LIMIT
