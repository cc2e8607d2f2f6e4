"""The drawings of the lessons: what they show is what they were given, and no mark is outside of its axes."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from oplab.figures import drawings, kernels


def test_errors_counts_every_value():
    for scale in (0.0, 1e-15, 1.0):
        gap = scale * np.random.default_rng(0).uniform(0.5, 1, (4, 50))
        gap[:, :10] = 0
        (axes,) = drawings.errors({"name": gap}, 1e-5).axes
        (steps,) = axes.patches
        assert sum(steps.get_data().values) == pytest.approx(80 if scale else 0)
        label = axes.get_legend_handles_labels()[1][0]
        assert f"name ({20 if scale else 100} % of the values are equal" in label


SECONDS = {"naive": np.array([2.0, 1.5, 900.0]), "fast": np.array([1e-4, 3e-4, 2e-4]), "peer": np.array([4e-3, 5e-3])}


def test_no_mark_of_a_ladder_is_outside_of_its_axis_and_each_has_a_name():
    for limit in (None, ("the limit", 1e-7)):
        figure = kernels.ladder(SECONDS, ["peer"], limit)
        (axes,) = figure.axes
        low, high = axes.get_xlim()
        for line in axes.lines:
            assert all(low <= x <= high for x in line.get_xdata())
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["naive  1500 ms", "fast  0.1 ms", "peer  4 ms"]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["this chapter's kernel", "another implementation", "the limit"]
