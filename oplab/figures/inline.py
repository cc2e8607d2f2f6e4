"""A picture in the output of a notebook cell.

It travels as an image in the HTML: GitHub shows such an image and strips an inline SVG, and nothing of it can clash with the page.
Where scripts may run, a few lines put the SVG itself in its place, so that its text can be selected and follows the theme.
The graphs of `oplab.viewer` and the figures of the lessons share it.
"""

from __future__ import annotations

import base64
from html import escape

# keep this small and stable: it is saved in every notebook. It expects `view`, the element around the picture.
FIND_VIEW = """const view = document.currentScript && document.currentScript.closest('.oplab-view');
if (!view) return;"""
SWAP = """const image = view.querySelector('img');
if (image) {
  const bytes = Uint8Array.from(atob(image.src.split(',')[1]), (c) => c.charCodeAt(0));
  const svg = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'image/svg+xml').documentElement;
  svg.style.cssText = `display:block;max-width:100%;min-width:${Math.round(svg.getAttribute('width') * 0.6)}px;height:auto`;
  image.replaceWith(document.importNode(svg, true));
}"""

# A page that forbids scripts forbids styles, too: then the words are seen, which are for screen readers otherwise.
STYLE = (
    ".oplab-view{position:relative}.oplab-words p{display:none}"
    ".oplab-words{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}"
    ".oplab-picture{max-height:85vh;overflow:auto}"
    "@media print{.oplab-picture{max-height:none}}"
)


def picture(svg: str, alt: str) -> str:
    """The element with the image, in the HTML of an output.

    Args:
        svg: the picture; its root has ``width`` and ``height`` in pixels, without a unit.
        alt: what is seen in it.
    """
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<div class="oplab-picture"><img alt="{escape(alt)}" style="max-width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{data}"></div>'
    )


def script(more: str = "") -> str:
    """The script that puts the SVG in the image's place, and then does what ``more`` says."""
    return f"<script>(() => {{\n{FIND_VIEW}\n{SWAP}{more and chr(10)}{more}\n}})()</script>"
