"""The drawings of the lessons: what they show is what they were given."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from oplab.figures import drawings


def _texts(axes):
    return [text.get_text() for text in axes.texts]


def test_pipeline_has_each_box_and_arrow():
    figure = drawings.pipeline(
        [("A", "a", drawings.BLUE), ("B", "b", drawings.GREEN)], ["to"], [(0.5, "L", "l", drawings.ORANGE)]
    )
    (axes,) = figure.axes
    assert [text for text in _texts(axes) if text] == ["A", "a", "B", "b", "to", "L", "l"]


def test_pipeline_boxes_do_not_overlap():
    stages = [("A", "", drawings.BLUE)] * 3
    links = [(place, "L", "", drawings.ORANGE) for place in (0, 0.5, 1, 1.5, 2)]
    figure = drawings.pipeline(stages, ["", ""], links)
    boxes = [patch.get_extents() for patch in figure.axes[0].patches if patch.get_label() != "arrow"]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_titles_fit_into_their_boxes():
    figure = drawings.pipeline([("Intermediate representation", "an ONNX file", drawings.GREEN)], [])
    figure.canvas.draw()
    (axes,) = figure.axes
    (box,) = axes.patches
    assert axes.texts[0].get_window_extent().width < box.get_window_extent().width


def test_zoom_shows_the_window():
    image = np.random.default_rng(0).random((20, 30, 3))
    figure = drawings.zoom({"one": image, "two": image[::-1]}, top=4, left=7, size=9)
    upper, lower = figure.axes[:2], figure.axes[2:]
    assert [axes.get_title() for axes in upper] == ["one", "two"]
    np.testing.assert_array_equal(lower[0].images[0].get_array(), image[4:13, 7:16])
    np.testing.assert_array_equal(lower[1].images[0].get_array(), image[::-1][4:13, 7:16])


@pytest.mark.parametrize("scale", [0.0, 1e-15, 1.0])
def test_errors_counts_every_value(scale):
    gap = scale * np.random.default_rng(0).uniform(0.5, 1, (4, 50))
    gap[:, :10] = 0
    (axes,) = drawings.errors({"name": gap}, 1e-5).axes
    shares = [patch.get_height() for patch in axes.patches]
    assert sum(shares) == pytest.approx(80 if scale else 0)
    label = axes.get_legend_handles_labels()[1][0]
    assert f"name ({20 if scale else 100} % of the values are equal" in label
