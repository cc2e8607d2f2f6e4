"""The drawings of the lessons: what they show is what they were given, and no mark is outside of its axes."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from oplab.figures import drawings, kernels, memory
from oplab.figures.sequence import sequence


def _texts(axes):
    return [text.get_text() for text in axes.texts]


def test_pipeline_has_each_box_apart_from_the_others_with_its_title_inside():
    stages, links = [("A", "a", drawings.BLUE), ("B", "b", drawings.GREEN)], [(0.5, "L", "l", drawings.ORANGE)]
    (axes,) = drawings.pipeline(stages, ["to"], links).axes
    assert [text for text in _texts(axes) if text] == ["A", "a", "B", "b", "to", "L", "l"]
    stages = [("A", "", drawings.BLUE)] * 3
    links = [(place, "L", "", drawings.ORANGE) for place in (0, 0.5, 1, 1.5, 2)]
    figure = drawings.pipeline(stages, ["", ""], links)
    boxes = [patch.get_extents() for patch in figure.axes[0].patches if patch.get_label() != "arrow"]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
    figure = drawings.pipeline([("Intermediate representation", "an ONNX file", drawings.GREEN)], [])
    figure.canvas.draw()
    (axes,) = figure.axes
    (box,) = axes.patches
    assert axes.texts[0].get_window_extent().width < box.get_window_extent().width


def test_errors_counts_every_value():
    for scale in (0.0, 1e-15, 1.0):
        gap = scale * np.random.default_rng(0).uniform(0.5, 1, (4, 50))
        gap[:, :10] = 0
        (axes,) = drawings.errors({"name": gap}, 1e-5).axes
        (steps,) = axes.patches
        assert sum(steps.get_data().values) == pytest.approx(80 if scale else 0)
        label = axes.get_legend_handles_labels()[1][0]
        assert f"name ({20 if scale else 100} % of the values are equal" in label


def test_sequence_has_a_row_for_each_call_and_bars_where_objects_live():
    phases = {"load": [(0, 1, "create"), (1, 2, "ask")], "run": [(2, 1, "answer")]}
    figure = sequence(["program", "runtime", "library"], phases, [(1, 0, 2, "object", drawings.BLUE)])
    (axes,) = figure.axes
    rows = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert rows["create"] < rows["ask"] < rows["answer"]
    arrows = [text for text in axes.texts if text.get_text() == ""]
    directions = [np.sign(arrow.xy[0] - arrow.get_position()[0]) for arrow in arrows]
    assert directions == [1, 1, -1]
    (bar,) = [line for line in axes.lines if line.get_linewidth() == 8]
    assert list(bar.get_ydata()) == [0, 2] and len(set(bar.get_xdata())) == 1


def test_an_array_has_a_cell_for_each_value_and_a_dashed_one_after_its_end():
    (axes,) = memory.array([1, 2.5], "x").axes
    assert [cell.get_linestyle() for cell in axes.patches] == ["-", "-", "--"]
    assert [text for text in _texts(axes) if text.startswith("x[")] == ["x[0]", "x[1]", "x[2]"]
    assert _texts(axes).count("?") == 1 and "2.5" in _texts(axes)


SECONDS = {
    "naive": np.array([2.0, 1.5, 900.0]),
    "fast": np.array([1e-4, 3e-4, 2e-4]),
    "peer": np.array([4e-3, 5e-3]),
}


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


def test_a_roofline_shows_each_step_and_both_limits():
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
