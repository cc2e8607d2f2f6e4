"""The figures of the chapters about kernels: no mark is outside of its axes, and each has a name."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pytest

from oplab.figures import kernels

SECONDS = {
    "naive": np.array([2.0, 1.5, 900.0]),
    "fast": np.array([1e-4, 3e-4, 2e-4]),
    "peer": np.array([4e-3, 5e-3]),
}


@pytest.mark.parametrize("limit", [None, ("the limit", 1e-7)])
def test_no_mark_of_a_ladder_is_outside_of_its_axis(limit):
    (axes,) = kernels.ladder(SECONDS, ["peer"], limit).axes
    low, high = axes.get_xlim()
    for line in axes.lines:
        assert all(low <= x <= high for x in line.get_xdata())
    assert [label.get_text() for label in axes.get_yticklabels()] == ["naive  1500 ms", "fast  0.1 ms", "peer  4 ms"]


def test_a_ladder_names_its_marks():
    figure = kernels.ladder(SECONDS, ["peer"], ("the limit", 1e-3))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["this chapter's kernel", "another implementation", "the limit"]


def test_a_roofline_shows_each_rung_and_both_limits():
    runs = {name: np.array([value]) for name, value in (("naive", 1.0), ("fast", 0.01))}
    (axes,) = kernels.roofline(10, 100, {"add": (0.25, 1e9, runs), "matmul": (50, 1e9, runs)}).axes
    words = [text.get_text() for text in axes.texts]
    assert words.count("naive") == words.count("fast") == 2
    assert {"memory", "arithmetic"} <= set(words)
    low, high = axes.get_ylim()
    assert all(low <= y <= high for line in axes.lines[1:] for y in line.get_ydata())


def test_long_listings_are_cut():
    lines = [("●", f"instruction {number}") for number in range(40)]
    left, right = kernels.listings({"long": lines, "short": lines[:3]}).axes
    assert left.texts[-1].get_text() == "… and 19 more"
    assert right.texts[-1].get_text() == "instruction 2"
