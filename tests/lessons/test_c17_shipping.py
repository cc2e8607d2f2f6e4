"""What chapter 17 takes for granted: where the tables of older versions end, and the boxes of its drawing."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from oplab.figures import shipping
from oplab.toolchain.headers import ort_include
from tests.support import ROOT

PROGRAM = (ROOT / "notebooks" / "cpp" / "17_older_runtime.cpp").read_text(encoding="utf-8")


def functions() -> list[tuple[str, int]]:
    """(name, the version that its comment names, or 0) of each function of OrtApi, in the order of the table."""
    text = (ort_include() / "onnxruntime_c_api.h").read_text(encoding="utf-8")
    text = text[text.index("struct OrtApi {") :]
    text = text[: text.index("\n};")]
    found, since = [], 0
    pattern = r"\\since Version 1\.(\d+)|ORT_API2_STATUS\((\w+)|ORT_CLASS_RELEASE\((\w+)|\(ORT_API_CALL\* *(\w+)\)"
    for match in re.finditer(pattern, text):
        version, *names = match.groups()
        if version:
            since = int(version)
        else:
            found.append((next(filter(None, names)), since))
            since = 0
    return found


def test_the_older_tables_end_where_the_headers_say():
    """Each branch of end_of_table: all before the function is old enough, and the function is not."""
    ends = re.findall(r"newest < (\d+)\) return offsetof\(OrtApi, (\w+)\)", PROGRAM)
    assert [int(version) for version, _ in ends] == [17, 18, 20]
    table = functions()
    assert len(table) > 250
    for version, name in ends:
        place = [each for each, _ in table].index(name)
        assert table[place][1] == int(version)
        assert max(since for _, since in table[:place]) < int(version)


def test_parallel_for_is_as_new_as_the_kernel_assumes():
    kernel = (ROOT / "notebooks" / "cpp" / "17_my_add.h").read_text(encoding="utf-8")
    assert f"api_version >= {dict(functions())['KernelContext_ParallelFor']}" in kernel


def test_no_two_boxes_overlap_and_each_is_inside():
    (axes,) = shipping.loading().axes
    boxes = [patch.get_bbox() for patch in axes.patches[: len(shipping._BOXES)]]
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for box in boxes:
        assert left < box.x0 < box.x1 < right and bottom < box.y0 < box.y1 < top
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("title", [box[0] for box in shipping._BOXES.values()])
def test_a_title_fits_into_its_box(title):
    figure = shipping.loading()
    (axes,) = figure.axes
    (text,) = [each for each in axes.texts if each.get_text() == title]
    inside = text.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    box = next(box for box in axes.patches if box.get_window_extent().contains(*inside.get_points().mean(axis=0)))
    around = box.get_window_extent()
    assert around.x0 < inside.x0 and inside.x1 < around.x1
