"""The committed notebooks are what their sources give, and can be trusted: whole, executed, comparable."""

from __future__ import annotations

import nbformat
import pytest

from notebooks import disagreement, problems
from tests.support import ROOT

SOURCES = sorted((ROOT / "notebooks" / "src").glob("*.py"))


def test_there_are_sources():
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_inputs_are_those_of_the_source(source):
    assert disagreement(source, ROOT / "notebooks" / f"{source.stem}.ipynb") == ""


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_cell_was_run_and_can_be_compared(source):
    notebook = nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", as_version=4)
    assert problems(notebook) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_has_a_picture_and_a_graph(source):
    notebook = nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", as_version=4)
    data = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert any("image/png" in entry or "image/jpeg" in entry for entry in data), "a lesson has a picture for each idea"
    assert any("data:image/svg+xml;base64," in entry.get("text/html", "") for entry in data), "a lesson shows a graph"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_is_small_enough_for_git(source):
    assert (ROOT / "notebooks" / f"{source.stem}.ipynb").stat().st_size < 2 << 20
