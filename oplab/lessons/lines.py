"""Lines that fit into the output of a notebook's cell."""

from __future__ import annotations

import textwrap


def wrapped(text: str, first: str = "", *, later: str | None = None) -> str:
    """Lines that fit between JupyterLab's side bar and the edge of a window of 1280 pixels, which would break inside a word."""
    return textwrap.fill(
        text,
        92,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )
