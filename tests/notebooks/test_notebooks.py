"""The committed notebooks are what their sources give, and can be trusted: whole, executed, comparable."""

from __future__ import annotations

import shutil

import nbformat
import pytest

import notebooks
from notebooks import disagreement, problems, take_text
from tests.support import ROOT

SOURCES = sorted((ROOT / "notebooks" / "src").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_inputs_are_those_of_the_source(source):
    assert disagreement(source, ROOT / "notebooks" / f"{source.stem}.ipynb") == ""


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_cell_was_run_and_can_be_compared(source):
    file = ROOT / "notebooks" / f"{source.stem}.ipynb"
    notebook = nbformat.read(file, as_version=4)
    assert problems(notebook) == []
    assert file.stat().st_size < 2 << 20, "too large for git"
    data = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    html = [entry.get("text/html", "") for entry in data]
    assert any("oplab-figure" in text for text in html), "a lesson has a picture for each idea"
    if not source.stem.startswith("A"):  # an appendix is not about models
        assert any("data:image/svg+xml;base64," in text for text in html), "a lesson shows a graph"


class TestText:
    """``--text``: a correction of the prose does not cost the minutes that the cells take."""

    @pytest.fixture
    def lesson(self, tmp_path, monkeypatch):
        """Source and notebook of the shortest lesson, in a folder of their own."""
        (tmp_path / "notebooks" / "src").mkdir(parents=True)
        monkeypatch.setattr(notebooks, "ROOT", tmp_path)
        source = tmp_path / "notebooks" / "src" / SOURCES[0].name
        shutil.copy(SOURCES[0], source)
        notebook = f"{source.stem}.ipynb"
        return source, shutil.copy(ROOT / "notebooks" / notebook, tmp_path / "notebooks" / notebook)

    def test_new_text_keeps_the_outputs(self, lesson):
        source, target = lesson
        before = nbformat.read(target, as_version=4)
        source.write_text(source.read_text().replace("# # ", "# # Again: ", 1))
        assert disagreement(source, target) and take_text(source) == "" == disagreement(source, target)
        after = nbformat.read(target, as_version=4)
        assert after.cells[0].source.startswith("# Again: ")
        assert problems(after) == []
        assert [cell.get("outputs") for cell in after.cells] == [cell.get("outputs") for cell in before.cells]

    def test_new_code_has_to_run(self, lesson):
        source, target = lesson
        before = target.read_bytes()
        source.write_text(source.read_text() + "\n# %%\nprint(1)\n")
        assert "have to run" in take_text(source)
        assert target.read_bytes() == before
