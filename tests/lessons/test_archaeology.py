"""The table of chapter 09 is true on this machine: every entry's status and replacement are tried, each night."""

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


@pytest.mark.nightly  # `make test` runs the snippets that chapter 09 itself shows
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_entry_is_true(row):
    assert row.old()
    assert not row.use or row.new(), "the replacement does not work"


def test_entries_and_probes_belong_together():
    assert len(set(IDS)) == len(IDS)
    assert set(probes.OLD) == set(IDS)
    assert set(probes.NEW) == {row.id for row in ROWS if row.use}


def test_an_entry_is_complete():
    for row in ROWS:
        assert row.status in STATUSES and row.api and row.says and row.today, row.id
        assert row.use or row.status == "works", f"{row.id}: what no longer works needs a replacement"
        assert re.fullmatch(r"\d\d(, \d\d)*", row.chapter), row.id
        names = {"torch": TORCH, "ort": ORT}[row.axis]
        if row.worked is not None:
            first, last = row.worked
            assert last in names and (not first or first in names), row.id
            assert last != names[-1] or row.status == "works", f"{row.id}: it works to this day"
            assert not row.since or row.since in names, row.id


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
