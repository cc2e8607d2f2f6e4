"""Figures for everybody: words for each, colours that can be told apart, text in the page's colour."""

from __future__ import annotations

import itertools
import re

import nbformat
import numpy as np
import pytest

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


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB (D65) of linear RGB."""
    matrix = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    )
    x, y, z = (matrix @ np.clip(rgb, 0, 1)) / [0.95047, 1.0, 1.08883]
    fx, fy, fz = (np.cbrt(v) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def ciede2000(one: np.ndarray, other: np.ndarray) -> float:
    """Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", 2005."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    dh = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(dh / 2))
    light, c = (l1 + l2) / 2, (c1 + c2) / 2
    h = h1 + h2 if c1 * c2 == 0 else ((h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + 360) / 2)
    t = (
        1
        - 0.17 * np.cos(np.radians(h - 30))
        + 0.24 * np.cos(np.radians(2 * h))
        + 0.32 * np.cos(np.radians(3 * h + 6))
        - 0.20 * np.cos(np.radians(4 * h - 63))
    )
    turn = 30 * np.exp(-(((h - 275) / 25) ** 2))
    rc = 2 * np.sqrt(c**7 / (c**7 + 25**7))
    sl, sc, sh = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2), 1 + 0.045 * c, 1 + 0.015 * c * t
    dl, dc, dhue = (l2 - l1) / sl, (c2 - c1) / sc, hue / sh
    return float(np.sqrt(dl**2 + dc**2 + dhue**2 - np.sin(np.radians(2 * turn)) * rc * dc * dhue))


def distance(one: str, other: str, eye: str) -> float:
    return ciede2000(*(lab(EYES[eye] @ linear(colour)) for colour in (one, other)))


def test_the_formula_gives_the_published_number():
    """A pair of the paper's table of test data."""
    assert abs(ciede2000(np.array([50, 2.6772, -79.7751]), np.array([50, 0, -82.7485])) - 2.0425) < 1e-4


@pytest.mark.parametrize("eye", EYES)
def test_every_two_colours_can_be_told_apart(eye):
    near = {
        pair: round(distance(*pair, eye), 1)
        for pair in itertools.combinations(palette.CYCLE, 2)
        if distance(*pair, eye) < APART
    }
    assert not near


@pytest.mark.parametrize("eye", ["deuteranope", "protanope"])
def test_a_red_and_a_green_of_one_lightness_would_be_noticed(eye):
    assert distance("#c8323c", "#5a8a2e", "normal") > 40
    assert distance("#a05a3c", "#6e7a2e", eye) < APART


@pytest.mark.parametrize("colour", palette.CYCLE)
def test_a_mark_is_seen_on_both_backgrounds(colour):
    assert contrast(colour, LIGHT) >= 3 and contrast(colour, DARK) >= 3


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


@pytest.mark.parametrize("alt", ["", " \n", None])
def test_a_figure_without_words_is_refused(figure, alt):
    with pytest.raises(OplabError, match="alt text"):
        picture(figure, alt)


def test_what_is_no_picture_is_refused():
    with pytest.raises(OplabError, match="was given a list"):
        picture([1], "a list")
    with pytest.raises(OplabError, match="not an SVG"):
        picture("<p>text</p>", "a text")


@pytest.mark.parametrize("chapter", load(ROOT).chapters, ids=lambda chapter: chapter.stem)
def test_each_picture_of_a_lesson_has_words(chapter):
    notebook = nbformat.read(ROOT / chapter.notebook, as_version=4)
    bare = []
    for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            images = re.findall(r"<img\b[^>]*>", html)
            if {"image/png", "image/svg+xml", "image/jpeg"} & set(data):
                bare.append(f"code cell {number + 1}: a picture without words, use lab.figure")
            bare += [f"code cell {number + 1}: {tag[:60]}" for tag in images if not re.search(r'alt="[^"]+', tag)]
    assert not bare
