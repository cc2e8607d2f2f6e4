"""The learner's answers: compile the kernels, run the functions, and report about them."""

from __future__ import annotations

import re
import signal
import tempfile
import traceback
from pathlib import Path

from oplab import paths
from oplab.capstone.comparison import Kept, write
from oplab.capstone.projects import EXPORTERS, Project, point_cloud, super_resolution


def yours(work: Path) -> tuple[list[Project], list[str]]:
    """The projects that are solved in the track in use, and a sentence for each that is not.

    Args:
        work: a folder for the exported models.
    """
    from oplab.course.stubs import Todo, is_stubs_error
    from oplab.lessons import Answers
    from oplab.nets.edge_net import load_edge_net
    from oplab.nets.srcnn import load_srcnn
    from oplab.ops.torch_ops import load as load_operators
    from oplab.toolchain.build import BuildFailed, compile_library

    load_operators()
    track = _track_folder()
    answers_file = track / "c16_capstone.py"
    answers = Answers(answers_file)
    wanted = (
        ("super_resolution", "resize_kernel", load_srcnn, super_resolution),
        ("point_cloud", "knn_kernel", lambda: load_edge_net().train(), point_cloud),
    )
    projects, missing = [], []
    for name, kernel, net, project in wanted:
        try:
            library = compile_library(track / "csrc" / f"c16_{kernel}.cpp", "ort")
        except BuildFailed as error:
            id, file = f"c16.{kernel}", f"csrc/c16_{kernel}.cpp"
            if is_stubs_error(id, str(error)):
                missing.append(f"{name}: {id} is not written yet: {file}. `oplab hint {id}` helps.")
            else:
                missing.append(f"{name}: {str(error).splitlines()[0]} `oplab check {id}` says more.")
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        function = getattr(answers, name)
        try:
            module = function(net(), folder)
        except Todo as error:
            missing.append(f"{name}: {error}")
            continue
        except Exception as error:  # whatever the learner's function raises
            missing.append(f"{name}: {_raised(error, answers_file)} `oplab check c16.{name}` says more.")
            continue
        made = project(module, folder, library)
        absent = next((f"{e}.onnx" for e in EXPORTERS if not (folder / f"{e}.onnx").is_file()), None)
        ended = None if absent else crash(made)
        if not callable(module):
            missing.append(f"{name} returned {module!r:.60}, not the module that the two files were made from.")
        elif absent:
            missing.append(f"{name} wrote no {absent} into the folder that it got.")
        elif ended:
            missing.append(f"{name}: {ended} `oplab check c16.{kernel} --sanitize` finds the line.")
        else:
            projects.append(made)
    return projects, missing


def _raised(error: Exception, file: Path) -> str:
    """An exception in one sentence: what caused it, and where in the learner's file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    cause: BaseException = error
    while cause.__cause__ is not None:  # an exporter's exception says less than the one inside it
        cause = cause.__cause__
    words = (str(cause).strip().splitlines() or [""])[0][:300].rstrip(".")
    return f"{type(cause).__name__}: {words}{f' ({file.name}, line {lines[-1]})' if lines else ''}."


def crash(project: Project) -> str | None:
    """A sentence if the kernel crashes, else None. It runs in the C++ program: a crash would end this process or the notebook, too."""
    from oplab.parity.comparison import parity

    assert project.library is not None
    one = project.file(next(iter(EXPORTERS)))  # the other file has the same kernel
    for row in parity(one, list(project.cases.values()), ["host"], libraries=[project.library]).rows:
        status = re.fullmatch(r"it ended with status -(\d+)", row.reason)
        if row.verdict == "failed" and status:
            return f"your kernel crashes: the C++ program was ended by {signal.Signals(int(status[1])).name}."
    return None


def _track_folder() -> Path:
    """The folder of the answers in use: exercises or solutions."""
    return paths.part(paths.root(), paths.track())


def report(folder: Path | None = None) -> Kept | None:
    """Compile your kernels, export your networks, compare, measure, and keep the report; None if nothing is solved yet.

    Prints the results, and a line for each project that is not solved.

    Args:
        folder: where reports are kept; ``build/capstone`` by default.
    """
    with tempfile.TemporaryDirectory(prefix="oplab-capstone-") as work:
        projects, missing = yours(Path(work))
        for line in missing:
            print(line)
        if not projects:
            print("There is nothing to report yet.")
            return None
        kept = write(projects, folder, notes=missing)
    print(kept.summary())
    return kept
