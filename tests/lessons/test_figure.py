"""Figures for everybody: words for each, colours that can be told apart, text in the page's colour."""

from __future__ import annotations

import re

import nbformat
import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.figures import palette
from oplab.figures.picture import picture
from tests.support import ROOT

LIGHT, DARK = "#ffffff", "#111111"  # the backgrounds of JupyterLab's two themes


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
