"""The table of chapter 09 is true on this machine: every entry's status and replacement are tried."""

from __future__ import annotations

import importlib.metadata
import re

import matplotlib
import pytest

matplotlib.use("agg")

from oplab import archaeology
from oplab.archaeology import ORT, STATUSES, TORCH, probes

ROWS = archaeology.rows()
IDS = [row.id for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_status_is_true(row):
    assert row.old()


@pytest.mark.parametrize("row", [row for row in ROWS if row.use], ids=lambda row: row.id)
def test_the_replacement_works(row):
    assert row.new is not None, "the table names a replacement that nothing tries"
    assert row.new()


def test_entries_and_probes_belong_together():
    assert len(set(IDS)) == len(IDS)
    assert set(probes.OLD) == set(IDS)
    assert set(probes.NEW) <= set(IDS)
    assert [row.id for row in ROWS if row.id in probes.NEW and not row.use] == []


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_an_entry_is_complete(row):
    assert set(row.notes) <= {"N0", "N1", "N2", "N3", "N4"} and row.notes
    assert row.status in STATUSES and row.api and row.says and row.today
    assert row.use or row.status == "works", "what no longer works needs a replacement"
    assert re.fullmatch(r"\d\d(, \d\d)*", row.chapter)
    names = {"torch": TORCH, "ort": ORT}[row.axis]
    if row.worked is not None:
        first, last = row.worked
        assert last in names and (not first or first in names)
        assert last != names[-1] or row.status == "works", "a form that works to this day has the status works"
        assert row.since is None or not row.since or row.since in names


def test_every_note_has_entries_of_each_kind():
    for note in ("N0", "N1", "N2", "N3", "N4"):
        assert sum(note in row.notes for row in ROWS) >= 10


def test_the_last_column_is_the_version_that_runs_here():
    for package, names in (("torch", TORCH), ("onnxruntime", ORT)):
        assert ".".join(importlib.metadata.version(package).split(".")[:2]) == names[-1]


def test_probes_leave_the_registry_as_it_was():
    from torch.onnx._internal.torchscript_exporter.registration import registry

    archaeology.find("register_op").new()  # the first export fills the registry
    before = registry.all_functions()
    for id in ("register_op", "prim_pythonop", "elu_removed", "edit_symbolic_files"):
        for probe in (archaeology.find(id).old, archaeology.find(id).new):
            if probe:
                probe()
    assert registry.all_functions() == before


def test_probes_do_not_mind_what_is_registered_already():
    import torch

    torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("Neg", x), 9)
    torch.onnx.register_custom_op_symbolic("aten::elu", lambda g, x, *rest: g.op("Neg", x), 9)
    try:
        assert archaeology.find("mode_onnx").old() == "UnsupportedOperatorError"
        assert archaeology.find("elu_removed").old() == "UnsupportedOperatorError"
        assert probes.ops(probes.export(torch.asinh, probes.X)) == ["Neg"]
        assert probes.ops(probes.export(torch.nn.functional.elu, probes.X)) == ["Neg"]
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::elu", 9)
        torch.onnx.unregister_custom_op_symbolic("aten::asinh", 9)


def test_the_timeline_has_a_row_for_each_entry_with_versions():
    figure = archaeology.timeline()
    labels = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert len(labels) == sum(row.worked is not None for row in ROWS)


def test_the_timeline_s_words_do_not_overlap():
    figure = archaeology.timeline()
    figure.canvas.draw()
    for axes in figure.axes:
        for labels in (axes.get_yticklabels(), axes.get_xticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text() and not label.get_rotation()]
            assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])


def test_markdown_has_one_line_for_each_entry():
    assert len(archaeology.markdown(ROWS).splitlines()) == len(ROWS) + 2
    assert sum(archaeology.counts().values()) == len(ROWS)


def test_an_unknown_entry_is_named():
    with pytest.raises(KeyError, match="no entry 'nothing'"):
        archaeology.find("nothing")
