"""The course's colours, and matplotlib's style.

The seven colours are hues of Okabe and Ito's palette with the lightness moved, so that

- each has a contrast of at least 3:1 both on white and on #111111, JupyterLab's dark background: enough for a line, a bar or a point;
- every two differ by at least 15 (CIEDE2000) for normal, deuteranopic and protanopic eyes.

Text is never coloured: no colour has 4.5:1 on both backgrounds. It is :data:`INK`, which a picture turns into the text colour of the page.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BLUE, ORANGE, GREEN, PURPLE = "#0064e2", "#e47400", "#29a68b", "#7f5379"
SKY, RED, GREY = "#23a0be", "#bd2508", "#6a6357"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY)

# Two colours that no drawing needs for itself: `oplab.figures.picture` replaces them by the page's own.
INK = "#0b0c0d"
"""Text and axes: the page's text colour."""
PAPER = "#fdfcfb"
"""What has to hide something below it: the page's background."""

STYLE = Path(__file__).with_name("matplotlibrc")


def use() -> None:
    """Make the course's style matplotlib's default. Imports nothing: an import of matplotlib that comes later reads the style then."""
    os.environ["MATPLOTLIBRC"] = str(STYLE)
    if "matplotlib" in sys.modules:
        import matplotlib

        matplotlib.rcParams.update(matplotlib.rc_params_from_file(STYLE, use_default_template=False))
