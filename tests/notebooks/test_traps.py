"""Known ways in which a notebook test passes while testing nothing. Each trap is planted, and something has to fail."""

from __future__ import annotations

import copy
import re
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


def changed(notebook, number, source):
    """A copy whose cell has another source, and the outputs of the old one."""
    made = copy.deepcopy(notebook)
    code(made, number).source = source
    return made


def nbval(folder: Path, planted: dict[str, nbformat.NotebookNode], *options: str) -> subprocess.CompletedProcess[str]:
    """What `make test` would print about these notebooks."""
    for name, notebook in planted.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")
    shutil.copy(ROOT / "notebooks" / "conftest.py", folder)
    plugins = ["-p", "pytest_no_silent_skips", "-p", "no:cacheprovider", "--nbval"]
    command = [sys.executable, "-m", "pytest", *plugins, *(f"{name}.ipynb" for name in planted), *options]
    env = environment(COLUMNS="200")
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


# A name, the cell that has another source, and whether its output is another one, too.
ALWAYS = {
    "clean": (1, 'print("one")', False),
    "a line with the clock": (1, 'print("one\\n    ⏱ 9/10 points\\n    ⏱ 0.4 times the speed of scipy")', False),
    "other words": (1, 'print("two")', True),
    "no picture": (3, "pass", True),  # PNG is not compared, but it has to be there
}
AT_NIGHT = {
    "no words": (1, "pass", True),
    "a clock further on": (1, 'print("one ⏱ 0.4 s")', True),
    "another value": (2, "2 + 3", True),
    "other html": (4, 'HTML("<b>bolt</b>")', True),
    "an error": (1, "1 / 0", True),
}


@pytest.mark.parametrize("planted", [ALWAYS, pytest.param(AT_NIGHT, marks=pytest.mark.nightly)], ids=["always", "more"])
def test_another_output_is_red_and_nothing_else(planted, clean, tmp_path):
    done = nbval(tmp_path, {name: changed(clean, *change) for name, (*change, _) in planted.items()})
    failed = set(re.findall(r"^FAILED (.*?)\.ipynb::", done.stdout, re.MULTILINE))
    assert failed == {name for name, (*_, red) in planted.items() if red}, done.stdout + done.stderr
    assert done.returncode == 1


@pytest.mark.nightly
def test_a_cell_that_runs_too_long_is_red_and_so_are_the_later_ones(clean, tmp_path):
    """nbval marks cells after a time-out as expected failures, even 1/0: with our plug-in these count."""
    notebook = changed(changed(clean, 1, "import time; time.sleep(60)"), 2, "1 / 0")
    done = nbval(tmp_path, {"slow": notebook}, "--nbval-cell-timeout=3")
    assert done.returncode == 1 and "Timeout" in done.stdout + done.stderr


@pytest.mark.nightly
def test_a_kernel_that_dies_is_red_within_the_cell_limit(clean, tmp_path):
    notebook = changed(clean, 1, "import os; os.kill(os.getpid(), 11)")
    assert nbval(tmp_path, {"dead": notebook}, "--nbval-cell-timeout=5").returncode == 1


def stripped(notebook):
    for cell in notebooks.code_cells(notebook):
        cell.outputs = []


def never_run(notebook):
    code(notebook, 2).execution_count = None


def tagged(notebook):
    code(notebook, 1).metadata["tags"] = [sorted(notebooks.FORBIDDEN_TAGS)[0]]


def excused(notebook):
    code(notebook, 1).source += "  # NBVAL_SKIP"


def ends_in_an_error(notebook):
    code(notebook, 1).outputs = [nbformat.v4.new_output("error", ename="KeyError", evalue="'x'", traceback=[])]


def warns(notebook):
    code(notebook, 1).outputs.append(nbformat.v4.new_output("stream", name="stderr", text="UserWarning: x"))


def prints(text):
    def change(notebook):
        code(notebook, 1).outputs[0].text = text

    return change


def test_what_cannot_be_trusted_is_refused(clean):
    for change, words in (
        (stripped, "its outputs are not those that were made with it"),
        (never_run, "code cell 2 has execution count None"),
        (tagged, "has the tag"),
        (excused, "has the tag NBVAL"),
        (ends_in_an_error, "code cell 1 ends in KeyError"),
        (warns, "writes to stderr"),
        (prints("error 0.30000000000000004\n"), "prints 0.30000000000000004: round it"),
        (prints("<object at 0x7f6686bd19e0>"), "which differs by machine"),
        (prints("saved in /tmp/x"), "which differs by machine"),
        (prints(f"saved in {notebooks.ROOT}/build"), "the folder of this clone"),
    ):
        notebook = copy.deepcopy(clean)
        change(notebook)
        assert words in notebooks.problems(notebook)[0]


def test_another_input_than_the_source_is_noticed(clean, tmp_path):
    source = tmp_path / "00_trap.py"
    source.write_text(SOURCE.replace("2 + 2", "2 + 3"))
    nbformat.write(clean, tmp_path / "trap.ipynb")
    assert "are not those of src/00_trap.py" in notebooks.disagreement(source, tmp_path / "trap.ipynb")
    assert "is missing" in notebooks.disagreement(source, tmp_path / "none.ipynb")


def test_what_depends_on_the_processor_is_refused(clean):
    for line, words in (
        ("the check took 1.3 s", "a duration"),
        ("12 ms a call", "a duration"),
        ("copies 11.2 GB/s", "a speed"),
        ("the grid is faster by more than 5: True", "a comparison of speeds"),
        ("2.4 times as fast", "a ratio of durations"),
        ("max error 1.2e-07", "an unrounded error"),
        ("largest error: 0e+00", "an unrounded error"),
        ("2 cores", "a number of cores"),
        ("host       y       float32[1000]  equal", "floats that are equal"),
    ):
        notebook = copy.deepcopy(clean)
        code(notebook, 1).outputs[0].text = f"one\n{line}\n"
        assert [f"code cell 1 prints {words}" in text for text in notebooks.problems(notebook)] == [True], line
        code(notebook, 1).outputs[0].text = f"one\n    ⏱ {line}\n"
        assert notebooks.problems(notebook) == [], line
    for line in (
        "  c04.asinh        2 points, about 10 minutes",
        "✓ c04.asinh  passed  2/2 points",
        "within 1e-05: True",
        "1099511627776 at [2, 3]",
        "grid     cluster  int64[500]  equal",
        "2 threads, 50 runs: the same bits in all of them: True",
    ):
        notebook = copy.deepcopy(clean)
        code(notebook, 1).outputs[0].text = f"{line}\n"
        assert notebooks.problems(notebook) == [], line


def test_an_assertion_about_a_duration_is_refused(clean):
    for source, words in (
        ("seconds = race(contestants)\ngain = ratio(seconds)\nassert gain > 1.5", "line 3, asserts a duration"),
        ("assert one.seconds < other.seconds", "line 1, asserts a duration"),
        ("start = time.perf_counter()\nfor _ in range(3):\n    print(time.perf_counter() - start)", "line 3, prints"),
        ("seconds = race(contestants)\nprint('faster:', seconds > 1)", "line 2, prints a duration"),
        ("seconds = race(contestants)\nprint(f'    ⏱ {seconds:.1f}')", ""),
        ("done = race(contestants)\ndone = run()\nassert done == 0", ""),
        ("name = race(contestants)\nall = {name: 1 for name in names}\nassert all", ""),
    ):
        found = notebooks.problems(changed(clean, 2, source))
        assert len(found) == bool(words) and words in "".join(found), source
