"""Figures for everybody: words for each, colours that can be told apart, text in the page's colour."""

from __future__ import annotations

import itertools
import re

import nbformat
import numpy as np
import pytest
from skimage.color import deltaE_ciede2000, xyz2lab
from skimage.color.colorconv import xyz_from_rgb

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.figures import palette
from oplab.figures.picture import picture
from tests.support import ROOT

APART = 15.0  # CIEDE2000; 1 is the smallest difference that a person sees
LIGHT, DARK = "#ffffff", "#111111"  # the backgrounds of JupyterLab's two themes
# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 2009,
# severity 1.0; the matrices hold for linear RGB.
EYES = {
    "normal": np.eye(3),
    "deuteranope": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanope": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, eye: str) -> float:
    """CIEDE2000, as this eye sees both."""
    labs = (xyz2lab(np.clip(EYES[eye] @ linear(colour), 0, 1) @ xyz_from_rgb.T) for colour in (one, other))
    return float(deltaE_ciede2000(*labs))


def test_every_two_colours_can_be_told_apart_by_each_eye():
    for eye, pair in itertools.product(EYES, itertools.combinations(palette.CYCLE, 2)):
        assert distance(*pair, eye) >= APART, (eye, pair)
    # A red and a green of one lightness would be noticed.
    assert distance("#c8323c", "#5a8a2e", "normal") > 40
    assert all(distance("#a05a3c", "#6e7a2e", eye) < APART for eye in ("deuteranope", "protanope"))


def test_a_mark_is_seen_on_both_backgrounds():
    for colour in palette.CYCLE:
        assert contrast(colour, LIGHT) >= 3 and contrast(colour, DARK) >= 3, colour


@pytest.fixture
def figure():
    import matplotlib.pyplot as plt

    palette.use()
    made, axes = plt.subplots()
    axes.plot([1, 2], [3, 4])
    axes.set(xlabel="batch size", ylabel="accuracy, %")
    return made


def test_a_figure_has_words_and_takes_the_pages_colours(figure):
    import matplotlib.pyplot as plt

    made = picture(figure, "a line\n  that rises")
    assert repr(made) == made._repr_mimebundle_()["text/plain"] == made.alt == "a line that rises"
    assert 'role="img"' in made.svg and 'aria-label="a line that rises"' in made.svg
    assert ">batch size</text>" in made.svg and palette.INK not in made.svg and "currentColor" in made.svg
    assert "<metadata" not in made.svg and not re.search(r'id="patch_1".{0,400}fill: #', made.svg, re.DOTALL)
    assert '<img alt="a line that rises"' in made.html
    assert not plt.fignum_exists(figure.number)


def test_what_has_no_words_or_is_no_picture_is_refused(figure):
    for alt in (" \n", None):
        with pytest.raises(OplabError, match="alt text"):
            picture(figure, alt)
    with pytest.raises(OplabError, match="was given a list"):
        picture([1], "a list")
    with pytest.raises(OplabError, match="not an SVG"):
        picture("<p>text</p>", "a text")


def test_each_picture_of_a_lesson_has_words():
    bare = []
    for chapter in load(ROOT).chapters:
        notebook = nbformat.read(ROOT / chapter.notebook, as_version=4)
        for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
            where = f"{chapter.stem}, code cell {number + 1}"
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                images = re.findall(r"<img\b[^>]*>", "".join(data.get("text/html", "")))
                if {"image/png", "image/svg+xml", "image/jpeg"} & set(data):
                    bare.append(f"{where}: a picture without words, use lab.figure")
                bare += [f"{where}: {tag[:60]}" for tag in images if not re.search(r'alt="[^"]+', tag)]
    assert not bare
