"""Figures as a lesson shows them: on the page's background, with text in the page's colour, and with words for those who cannot see."""

from __future__ import annotations

import io
import re
import warnings
from html import escape
from typing import TYPE_CHECKING, Any

from oplab.errors import OplabError
from oplab.figures import inline
from oplab.figures.palette import INK, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The text of an image, which has no page whose colour it could take: 4.6:1 on white, 4.1:1 on JupyterLab's dark background.
ALONE = "#757575"
# Points of a line, and of a cloud whose points have a colour each, from which they are saved as pixels: as paths they would be megabytes.
MANY, MANY_COLOURED = 2000, 150
_PIXELS = 96  # of CSS, in an inch
# The colour is stronger than the attribute that an image on its own needs.
_STYLE = ".oplab-plot{color:inherit;max-width:100%;height:auto}"


class Picture:
    """A figure with its words. As the last line of a cell it shows itself.

    Attributes:
        svg: the picture. Text and axes are ``currentColor``, the background is transparent.
        alt: what one sees, in words.
    """

    def __init__(self, svg: str, alt: str):
        self.svg, self.alt = svg, alt

    def __repr__(self) -> str:
        return self.alt

    @property
    def html(self) -> str:
        """The HTML of the output. `notebooks/conftest.py` knows its first words: how a figure is drawn differs by machine."""
        return (
            f'<div class="oplab-view oplab-figure"><style>{inline.STYLE}{_STYLE}</style>'
            f"{inline.picture(self.svg, self.alt)}{inline.script()}</div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.alt}


def picture(figure: Figure | str, alt: str) -> Picture:
    """A figure for a page, light or dark.

    Args:
        figure: a matplotlib figure, which is closed, or the text of an SVG whose root has a width and a height.
        alt: what one sees, in one or two sentences.
    """
    alt = " ".join(alt.split()) if isinstance(alt, str) else ""
    if not alt:
        raise OplabError("A figure needs its alt text: what one sees, in one or two sentences.")
    if not isinstance(figure, str):
        figure = _drawn(figure, alt)
    return Picture(_themed(figure, alt), alt)


def _drawn(figure: Any, alt: str) -> str:
    import matplotlib
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        raise OplabError(
            f"lab.figure was given a {type(figure).__name__}; it shows a matplotlib figure or the text of an SVG."
        )
    for axes in figure.axes:
        clouds = [
            entry
            for entry in axes.collections
            if max(len(entry.get_offsets()), len(entry.get_paths())) > MANY
            or len(entry.get_facecolor()) > MANY_COLOURED
            or (entry.get_array() is not None and entry.get_array().size > MANY_COLOURED)
        ]
        for artist in clouds + [line for line in axes.lines if len(line.get_xdata(orig=False)) > MANY]:
            with warnings.catch_warnings():  # those of 3d axes are said not to support it, and do
                warnings.simplefilter("ignore", UserWarning)
                artist.set_rasterized(True)
    stream = io.StringIO()
    # text stays text; identifiers in the file depend on the figure alone
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        figure.savefig(
            stream,
            format="svg",
            transparent=True,
            bbox_inches="tight",
            pad_inches=0.05,
            dpi=100,
            metadata={"Date": None},
        )
    plt.close(figure)
    return stream.getvalue()


def _themed(svg: str, alt: str) -> str:
    start = re.search(r"<svg\b[^>]*>", svg)
    size = start and [re.search(rf'\b{name}="([\d.]+)(pt|px)?"', start[0]) for name in ("width", "height")]
    if not start or not size or not all(size):
        raise OplabError("lab.figure was given a text that is not an SVG with a width and a height.")
    root = start[0]
    for name, found in zip(("width", "height"), size, strict=True):
        pixels = float(found[1]) * (_PIXELS / 72 if found[2] == "pt" else 1)
        root = root.replace(found[0], f'{name}="{pixels:.0f}"', 1)
    root = root.replace("<svg", f'<svg class="oplab-plot" role="img" aria-label="{escape(alt)}" color="{ALONE}"', 1)
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", svg[start.end() :], flags=re.DOTALL)
    body = body.replace("*{stroke-linejoin", ".oplab-plot *{stroke-linejoin")  # else it would hold for the whole page
    used = set(re.findall(r"#([\w.-]+)[\"')]", body))
    body = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", body)
    body = body.replace(INK, "currentColor").replace(PAPER, "var(--jp-layout-color0, #ffffff)")
    return root + body
