"""Compare and measure each project, and keep the report: a folder with the page, the models and the kernels."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oplab import paths
from oplab.capstone.page import operators, page, section
from oplab.capstone.projects import EXPORTERS, Project
from oplab.errors import OplabError
from oplab.files import write_atomically
from oplab.onnxtools.loading import load
from oplab.parity.arrays import WrongAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from oplab.parity.report import Report

BACKENDS = ("eager", "ort", "host")
# The sums of a convolution or a matrix product are rounded in another order in each runtime.
TOLERANCES = {"float32": (1e-3, 1e-4)}


@dataclass(frozen=True)
class Kept:
    """A report that was written.

    Attributes:
        path: its page.
        passed: whether every exporter's model agrees with PyTorch in ONNX Runtime and in the C++ program, and has the custom operator.
        parities: the report of :func:`oplab.parity.parity`, by project and exporter.
        problems: what does not agree, a sentence each.
        figures: the pictures with their words, by project.
    """

    path: Path
    passed: bool
    parities: Mapping[tuple[str, str], Report]
    problems: tuple[str, ...]
    figures: Mapping[str, tuple[tuple[Figure, str], ...]]

    def summary(self) -> str:
        """A line for each project and exporter, the same on every machine."""
        lines = []
        for (title, exporter), report in self.parities.items():
            ran = [name for name in (*BACKENDS, "reference") if name in report.ran]
            lines.append(
                f"{title:18}{EXPORTERS[exporter]:18}{', '.join(ran)} on {report.cases} inputs: {report.summary()}"
            )
        return "\n".join([*lines, *self.problems])


def write(projects: Sequence[Project], folder: Path | None = None, notes: Sequence[str] = ()) -> Kept:
    """Compare and measure each project, and keep the report.

    Args:
        folder: where reports are kept; ``build/capstone`` by default.
    """
    if not projects:
        raise OplabError(
            "There is nothing to report: there is no project.", "Solve c16.super_resolution or c16.point_cloud first."
        )
    parities: dict[tuple[str, str], Report] = {}
    figures: dict[str, tuple[tuple[Figure, str], ...]] = {}
    problems: list[str] = []
    sections = []
    for project in projects:
        found = {exporter: _compared(project, exporter) for exporter in EXPORTERS}
        wrong = _problems(project, found)
        problems += wrong
        parities |= {(project.title, exporter): report for exporter, report in found.items()}
        text, figures[project.title] = section(project, found, is_right=not wrong)
        sections.append(text)
    passed = not problems
    home = _new_folder(folder or paths.build_dir() / "capstone")
    for project in projects:
        _keep_files(project, home)
    write_atomically(home / "report.html", page(sections, passed, problems, notes))
    return Kept(home / "report.html", passed, parities, tuple(problems), figures)


def _compared(project: Project, exporter: str) -> Report:
    from oplab.parity.comparison import parity

    libraries = [project.library] if project.library else []
    return parity(
        project.file(exporter),
        list(project.cases.values()),
        _backends(project),
        module=project.module,
        tolerances=TOLERANCES,
        libraries=libraries,
        reference=project.reference,
        times=True,
    )


def _backends(project: Project) -> tuple[str, ...]:
    return (*BACKENDS, "reference") if project.reference else BACKENDS


def _problems(project: Project, found: Mapping[str, Report]) -> list[str]:
    problems = []
    for exporter, report in found.items():
        where = f"{project.title}, {EXPORTERS[exporter]}: "
        try:
            report.expect(*_backends(project))
        except WrongAnswer as error:
            problems.append(where + str(error))
        if getattr(project.module, "training", False) is True:
            problems.append(
                f"{project.title}: the returned module is in train mode. Call eval() before you export and compare."
            )
            break
        count = operators(load(project.file(exporter)))[project.operator]
        if count != project.nodes and (project.nodes is not None or count == 0):
            expected = project.nodes or "at least 1"
            problems.append(f"{where}the graph has {count} nodes {project.operator}, not {expected}.")
    return problems


def _new_folder(home: Path) -> Path:
    """An empty folder with the next number. Two reports that are written at the same time get two numbers."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(p.name[7:]) for p in home.glob("report-*") if p.name[7:].isdigit()), default=0)
        while True:
            made = home / f"report-{number:03}"
            try:
                made.mkdir()
                return made
            except FileExistsError:
                number += 1
    except OSError as error:
        raise OplabError(
            f"{home} cannot be written: {error.strerror}.", "Free some space, or choose another folder."
        ) from None


def _keep_files(project: Project, home: Path) -> None:
    folder = home / project.title.replace(" ", "-")
    folder.mkdir()
    for exporter in EXPORTERS:
        shutil.copy2(project.file(exporter), folder)
    if project.library:
        shutil.copy2(project.library, folder / f"kernel{project.library.suffix}")
