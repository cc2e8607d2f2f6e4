"""Known ways in which a notebook test passes while testing nothing. Each trap is planted, and something has to turn red."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import notebooks
from tests.support import ROOT, environment

SOURCE = """\
# %% [markdown]
# A lesson.

# %%
print("one")

# %%
2 + 2

# %%
import matplotlib.pyplot as plt
figure = plt.figure(figsize=(1, 1))

# %%
from IPython.display import HTML
HTML("<b>bold</b>")
"""


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A small executed notebook without a fault."""
    source = tmp_path_factory.mktemp("src") / "00_trap.py"
    source.write_text(SOURCE)
    notebook = notebooks.read_source(source)
    notebooks.execute(notebook)
    assert notebooks.problems(notebook) == []
    return notebook


def code(notebook, number):
    return list(notebooks.code_cells(notebook))[number - 1]


def nbval(folder: Path, notebook, *options: str) -> str:
    """What `make test` would print about this notebook."""
    nbformat.write(notebook, folder / "trap.ipynb")
    shutil.copy(ROOT / "notebooks" / "conftest.py", folder)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_no_silent_skips",
        "-p",
        "no:cacheprovider",
        "--nbval",
        "trap.ipynb",
    ]
    env = environment(COLUMNS="200")
    done = subprocess.run([*command, *options], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    return f"rc={done.returncode}\n{done.stdout}{done.stderr}"


def test_a_clean_notebook_is_green(clean, tmp_path):
    assert nbval(tmp_path, clean).startswith("rc=0")


def test_stripped_outputs_are_noticed(clean):
    notebook = copy.deepcopy(clean)
    for cell in notebooks.code_cells(notebook):
        cell.outputs = []
    assert "its outputs are not those that were made with it" in notebooks.problems(notebook)[0]


def test_a_cell_that_was_never_run_is_noticed(clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 2).execution_count = None
    assert "code cell 2 has execution count None" in notebooks.problems(notebook)[0]


@pytest.mark.parametrize("tag", sorted(notebooks.FORBIDDEN_TAGS))
def test_tags_that_excuse_a_cell_are_refused(tag, clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).metadata["tags"] = [tag]
    assert f"has the tag {tag}" in notebooks.problems(notebook)[0]


def test_an_excuse_in_a_comment_is_refused(clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).source += "  # NBVAL_SKIP"
    assert "has the tag NBVAL" in notebooks.problems(notebook)[0]


def test_an_unrounded_float_is_refused(clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).outputs[0].text = "error 0.30000000000000004\n"
    assert "prints 0.30000000000000004: round it" in notebooks.problems(notebook)[0]


def test_an_address_or_a_path_is_refused(clean):
    for text in ("<object at 0x7f6686bd19e0>", "saved in /tmp/x"):
        notebook = copy.deepcopy(clean)
        code(notebook, 1).outputs[0].text = text
        assert "which differs by machine" in notebooks.problems(notebook)[0]


def test_the_folder_of_the_clone_is_refused(clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).outputs[0].text = f"saved in {notebooks.ROOT}/build"
    assert "the folder of this clone" in notebooks.problems(notebook)[0]


def test_an_error_output_is_refused(clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).outputs = [nbformat.v4.new_output("error", ename="KeyError", evalue="'x'", traceback=[])]
    assert "code cell 1 ends in KeyError" in notebooks.problems(notebook)[0]


def test_a_warning_on_stderr_is_refused(clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).outputs.append(nbformat.v4.new_output("stream", name="stderr", text="UserWarning: x"))
    assert "writes to stderr" in notebooks.problems(notebook)[0]


def test_another_input_than_the_source_is_noticed(clean, tmp_path):
    source = tmp_path / "00_trap.py"
    source.write_text(SOURCE.replace("2 + 2", "2 + 3"))
    nbformat.write(clean, tmp_path / "trap.ipynb")
    assert "are not those of src/00_trap.py" in notebooks.disagreement(source, tmp_path / "trap.ipynb")
    assert "is missing" in notebooks.disagreement(source, tmp_path / "none.ipynb")


@pytest.mark.parametrize(
    ("number", "source"),
    [
        (1, 'print("two")'),
        (1, ""),
        (2, "2 + 3"),
        (3, "pass"),  # the picture is gone: PNG is not compared, but it has to be there
        (4, 'HTML("<b>bolt</b>")'),
        (1, "1 / 0"),
    ],
)
def test_another_output_is_red(number, source, clean, tmp_path):
    notebook = copy.deepcopy(clean)
    cell = code(notebook, number)
    cell.source = source or "pass"
    assert nbval(tmp_path, notebook).startswith("rc=1")


CLOCK_LINES = 'print("one\\n    ⏱ 9/10 points\\n    ⏱ 0.4 times the speed of scipy")'


@pytest.mark.parametrize(("source", "rc"), [(CLOCK_LINES, 0), ('print("one ⏱ 0.4 s")', 1)], ids=["begins", "goes on"])
def test_a_line_that_begins_with_the_clock_is_not_compared(source, rc, clean, tmp_path):
    """And nothing else is left out: not the lines around it, not a line that has the mark further on."""
    notebook = copy.deepcopy(clean)
    code(notebook, 1).source = source
    assert nbval(tmp_path, notebook).startswith(f"rc={rc}")


FIGURE = """\
from oplab.figures.picture import picture
picture('<svg width="9" height="9"><text>{drawn}</text></svg>', "{words}")"""


@pytest.mark.parametrize(("drawn", "words", "rc"), [("b", "one", 0), ("a", "two", 1)], ids=["drawing", "words"])
def test_of_a_figure_the_words_are_compared_and_not_the_drawing(drawn, words, rc, clean, tmp_path):
    notebook = copy.deepcopy(clean)
    code(notebook, 2).source = FIGURE.format(drawn="a", words="one")
    notebooks.execute(notebook)
    code(notebook, 2).source = FIGURE.format(drawn=drawn, words=words)
    assert nbval(tmp_path, notebook).startswith(f"rc={rc}")


def test_a_cell_that_runs_too_long_is_red_and_so_are_the_later_ones(clean, tmp_path):
    """nbval marks cells after a time-out as expected failures, even 1/0: with our plug-in these count."""
    notebook = copy.deepcopy(clean)
    code(notebook, 1).source = "import time; time.sleep(60)"
    code(notebook, 2).source = "1 / 0"
    text = nbval(tmp_path, notebook, "--nbval-cell-timeout=3")
    assert text.startswith("rc=1")
    assert "Timeout" in text


def test_a_kernel_that_dies_is_red_within_the_cell_limit(clean, tmp_path):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).source = "import os; os.kill(os.getpid(), 11)"
    assert nbval(tmp_path, notebook, "--nbval-cell-timeout=5").startswith("rc=1")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("the check took 1.3 s", "a duration"),
        ("12 ms a call", "a duration"),
        ("copies 11.2 GB/s", "a speed"),
        ("the grid is faster by more than 5: True", "a comparison of speeds"),
        ("2.4 times as fast", "a ratio of durations"),
        ("max error 1.2e-07", "an unrounded error"),
        ("largest error: 0e+00", "an unrounded error"),
        ("2 cores", "a number of cores"),
        ("host       y       float32[1000]  equal", "floats that are equal"),
    ],
)
def test_what_depends_on_the_processor_is_refused(line, words, clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).outputs[0].text = f"one\n{line}\n"
    assert [f"code cell 1 prints {words}" in text for text in notebooks.problems(notebook)] == [True]
    code(notebook, 1).outputs[0].text = f"one\n    ⏱ {line}\n"
    assert notebooks.problems(notebook) == []


@pytest.mark.parametrize(
    "line",
    [
        "  c04.asinh        2 points, about 10 minutes",
        "✓ c04.asinh  passed  2/2 points",
        "within 1e-05: True",
        "1099511627776 at [2, 3]",
        "grid     cluster  int64[500]  equal",
        "2 threads, 50 runs: the same bits in all of them: True",
    ],
)
def test_what_holds_on_every_processor_is_not_refused(line, clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 1).outputs[0].text = f"{line}\n"
    assert notebooks.problems(notebook) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("seconds = race(contestants)\ngain = ratio(seconds)\nassert gain > 1.5", "line 3, asserts a duration"),
        ("assert one.seconds < other.seconds", "line 1, asserts a duration"),
        ("start = time.perf_counter()\nfor _ in range(3):\n    print(time.perf_counter() - start)", "line 3, prints"),
        ("seconds = race(contestants)\nprint('faster:', seconds > 1)", "line 2, prints a duration"),
        ("seconds = race(contestants)\nprint(f'    ⏱ {seconds:.1f}')", ""),
        ("done = race(contestants)\ndone = run()\nassert done == 0", ""),
        ("name = race(contestants)\nall = {name: 1 for name in names}\nassert all", ""),
    ],
)
def test_an_assertion_about_a_duration_is_refused(source, words, clean):
    notebook = copy.deepcopy(clean)
    code(notebook, 2).source = source
    found = notebooks.problems(notebook)
    assert len(found) == bool(words) and words in "".join(found)
