"""The output of a notebook cell: what is saved, and how it becomes interactive.

The picture travels as an image in the HTML: GitHub shows such an image and strips an inline SVG, and nothing of it can
clash with the page. Where scripts may run, a few lines put the SVG itself in its place, so that its text can be selected and
follows the theme, and ask the server for Netron. The output holds no address, no time and nothing random: running a
notebook again gives the same bytes.
"""

from __future__ import annotations

import base64
from html import escape

# keep this small and stable: it is saved in every notebook; what it imports is not
_SCRIPT = """(() => {
const view = document.currentScript && document.currentScript.closest('.oplab-view');
if (!view) return;
const image = view.querySelector('img');
if (image) {
  const bytes = Uint8Array.from(atob(image.src.split(',')[1]), (c) => c.charCodeAt(0));
  const svg = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'image/svg+xml').documentElement;
  svg.style.cssText = `display:block;max-width:100%;min-width:${Math.round(svg.getAttribute('width') * 0.6)}px;height:auto`;
  image.replaceWith(document.importNode(svg, true));
}
const config = document.getElementById('jupyter-config-data');
const base = config ? JSON.parse(config.textContent).baseUrl : document.body.dataset.baseUrl;
if (base) import(new URL(base + 'oplab/viewer/mount.js', location.origin).href).then((m) => m.mount(view, base)).catch(() => {});
})()"""

_UNTRUSTED = (
    "The picture of this graph is hidden because this notebook is not trusted yet. "
    "Run the cell, or choose Trust Notebook in the command palette."
)


def html(svg: str, text: str, models: list[str], height: int) -> str:
    """The HTML of an output.

    Args:
        svg: the static picture.
        text: the same in words.
        models: identifiers of the models that Netron can show.
        height: of Netron, in CSS pixels.
    """
    picture = base64.b64encode(svg.encode()).decode()
    summary = escape(text.partition("\n")[0])
    return (
        f'<div class="oplab-view" data-models="{escape(" ".join(models))}" data-height="{height}">'
        # a page that forbids styles and pictures forbids both: then the words are seen
        "<style>.oplab-view{position:relative}.oplab-words p{display:none}"
        # the words are for screen readers, the picture for the others
        ".oplab-words{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}"
        ".oplab-picture{max-height:85vh;overflow:auto}"
        "@media print{.oplab-picture{max-height:none}}</style>"
        f'<div class="oplab-words"><p>{escape(_UNTRUSTED)}</p><pre>{escape(text)}</pre></div>'
        f'<div class="oplab-picture"><img alt="{summary}" style="max-width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{picture}"></div>'
        f"<script>{_SCRIPT}</script></div>"
    )
