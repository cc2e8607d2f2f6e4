"""The output of a notebook cell that shows a graph: what is saved, and how it becomes interactive.

`oplab.figures.inline` says how the picture travels. Where scripts may run, a few lines ask the server for Netron. The output holds
no address, no time and nothing random: running a notebook again gives the same bytes.
"""

from __future__ import annotations

from html import escape

from oplab.figures import inline

# keep this small and stable: it is saved in every notebook; what it imports is not
_MOUNT = """const config = document.getElementById('jupyter-config-data');
const base = config ? JSON.parse(config.textContent).baseUrl : document.body.dataset.baseUrl;
if (base) import(new URL(base + 'oplab/viewer/mount.js', location.origin).href).then((m) => m.mount(view, base)).catch(() => {});"""


_UNTRUSTED = (
    "This notebook is not trusted yet, so this graph is only a picture. "
    "Run the cell, or choose Trust Notebook in the command palette."
)


def html(svg: str, alt: str, text: str, models: list[str], height: int) -> str:
    """The HTML of an output.

    Args:
        svg: the static picture.
        alt: what is in the picture, in a sentence or two.
        text: the graph in words.
        models: identifiers of the models that Netron can show.
        height: of Netron, in CSS pixels.
    """
    return (
        f'<div class="oplab-view" data-models="{escape(" ".join(models))}" data-height="{height}">'
        f"<style>{inline.STYLE}</style>"
        f'<div class="oplab-words"><p>{_UNTRUSTED}</p><pre>{escape(text)}</pre></div>'
        f"{inline.picture(svg, alt)}{inline.script(_MOUNT)}</div>"
    )
