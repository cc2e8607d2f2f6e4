"""The folders of runs: none is left behind for long, none of a living run is taken away."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from oplab.course.manifest import load
from oplab.grading.grader import grade
from oplab.grading.scratch import scratch_folder, sweep
from tests.support import ROOT

HOLDER = """
import sys
from pathlib import Path
from oplab.grading.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "left").write_text("something")
    print(folder, flush=True)
    input()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a scratch folder until it reads a line or is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_run_goes_with_the_next_run(tmp_path):
    process, folder = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (folder / "left").is_file()
    with scratch_folder(tmp_path) as mine:
        assert [path.name for path in tmp_path.iterdir()] == [mine.name]
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_living_run_stays(tmp_path):
    process, folder = holder(tmp_path)
    assert sweep(tmp_path) == 0 and (folder / "left").is_file()
    process.communicate("\n")
    assert not folder.exists()


def test_folders_of_others_stay(tmp_path):
    (tmp_path / "oplab-of-another-tool").mkdir()
    (tmp_path / "a-file").write_text("")
    (tmp_path / "oplab-link").symlink_to(tmp_path)
    assert sweep(tmp_path) == 0 and len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_was_removed_from_a_run_does_not_come_back(tmp_path, monkeypatch):
    """When a command is killed, its grading process works on for a moment, and the next command removes the folder under it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    course = load(ROOT)

    def remove(exercise, outcome):
        if outcome is None:
            for folder in tmp_path.iterdir():
                shutil.rmtree(folder)

    (found,) = grade(course, course.select(["c00.export"]), ROOT / "solutions", listener=remove).exercises
    assert found.status == "grader_error" and "No such file or directory" in found.message
    assert list(tmp_path.iterdir()) == []
