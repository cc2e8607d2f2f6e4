"""The drawings of the lessons: what they show is what they were given."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from oplab.figures import drawings, memory, resizing, symbolic
from oplab.figures.sequence import sequence


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
    (steps,) = axes.patches
    assert sum(steps.get_data().values) == pytest.approx(80 if scale else 0)
    label = axes.get_legend_handles_labels()[1][0]
    assert f"name ({20 if scale else 100} % of the values are equal" in label


def test_a_call_has_each_part_of_the_definition():
    parts = {"input X": "x,", "attribute axis": "axis_i=1)"}
    (axes,) = symbolic.definition_and_call('g.op("Op",', parts).axes
    assert _texts(axes) == ['g.op("Op",', "input X", "x,", "attribute axis", "axis_i=1)"]
    assert len(axes.lines) == len(parts)


def test_the_dispatch_table_marks_what_comes_from_above():
    figure = symbolic.dispatch_table({"one": [None, 7, 9], "mine": [9, 9, 9]}, [6, 7, 9], ["mine"])
    (axes,) = figure.axes
    assert _texts(axes) == ["–", "7", "9", "9▲", "9▲", "9"]


def test_photos_say_how_large_they_are():
    figure = resizing.photos({"small": np.zeros((2, 3, 3)), "large": np.zeros((4, 6, 3))})
    assert [axes.get_title() for axes in figure.axes] == ["small\n2 × 3", "large\n4 × 6"]


def test_each_reading_place_has_a_mark():
    (axes,) = resizing.reading_places({"one": [0, 1], "two": [0.5, 1.5, 2.5]}, pixels=3).axes
    assert [len(marks.get_offsets()) for marks in axes.collections] == [2, 3]
    assert len(axes.patches) == 2 * 3


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


def test_an_array_has_a_cell_for_each_value_and_dashed_ones_after_its_end():
    (axes,) = memory.array([1, 2.5], "x", beyond=2).axes
    assert [cell.get_linestyle() for cell in axes.patches] == ["-", "-", "--", "--"]
    assert [text for text in _texts(axes) if text.startswith("x[")] == ["x[0]", "x[1]", "x[2]", "x[3]"]
    assert _texts(axes).count("?") == 2 and "2.5" in _texts(axes)
