"""The report of chapter 16 about the project of your own operator: ``oplab capstone DIR``."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.capstone.answers import crash
from oplab.capstone.comparison import Kept, write
from oplab.capstone.figures import figure
from oplab.capstone.projects import EXPORTERS, Feeds, Project, Run
from oplab.errors import OplabError, first_line
from oplab.project.build import Say, build_project
from oplab.project.layout import Project as Layout
from oplab.toolchain.library import torch_refusal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What tests/example.py defines, and what the package's export.py and reference.py do.
_EXAMPLE = ("Model", "example_args", "cases", "dynamic_shapes")


def report_on(layout: Layout, folder: Path | None = None, *, say: Say = print) -> Kept:
    """Build a project, export its example with both exporters, compare, measure, and keep the report.

    Args:
        folder: where reports are kept; ``build/capstone`` in the project by default.
    """
    build_project(layout, say=say)
    with tempfile.TemporaryDirectory(prefix="oplab-capstone-") as work:
        made = _project(layout, Path(work))
        if ended := crash(made):
            raise OplabError(f"{layout.operator}: {ended}", "The sanitizers find the line: `oplab test`.")
        say("Comparing and measuring ...")
        kept = write([made], folder or layout.folder / "build" / "capstone")
    say(kept.summary())
    return kept


def _project(layout: Layout, work: Path) -> Project:
    """What chapter 16's report is about: the module, and the files that both exporters make of it."""
    from onnx.reference.op_run import OpRun

    export = _imported(
        layout, f"{layout.package}.export", layout.sources / "export.py", layout.folder / "src", ("export",)
    )
    # After the package, which it imports.
    example = _imported(layout, "example", layout.example, layout.example.parent, _EXAMPLE)
    name = layout.operator.rpartition("::")[2]
    source = layout.sources / "reference.py"
    reference = _imported(layout, f"{layout.package}.reference", source, layout.folder / "src", (name,))
    found, domain = getattr(reference, name), layout.operator.partition("::")[0]
    if not isinstance(found, type) or not issubclass(found, OpRun) or found.op_domain != domain:
        raise OplabError(
            f"{layout.operator} has no reference: {name} in {source} is not an OpRun of the domain {domain}.",
            f'Write class {name}(OpRun) with op_domain = "{domain}" and _run().',
        )
    try:
        module = example.Model().eval()
        cases = example.cases(np.random.default_rng(0))
    except Exception as error:  # whatever the user's code raises
        raise _stopped(layout.example, error) from None
    if not isinstance(cases, Mapping) or not cases or not all(map(_is_case, cases.values())):
        raise OplabError(
            f"{layout.example}: cases(rng) must return a dict of at least one case, {{name: {{input: array}}}}.",
            "`oplab new-operator` makes an example.",
        )
    for exporter in EXPORTERS:
        try:
            export.export(
                module, example.example_args(), work / f"{exporter}.onnx", exporter, dynamic=example.dynamic_shapes
            )
        except Exception as error:
            raise OplabError(
                f"The example cannot be exported over the {EXPORTERS[exporter]}: {type(error).__name__}: {first_line(error)}",
                f"Look at export() in {layout.sources / 'export.py'}.",
            ) from None
    return Project(
        title=layout.package.replace("_", " "),
        module=module,
        folder=work,
        library=layout.library("ort"),
        operator=layout.operator,
        cases=cases,
        picture=lambda run: _picture(module, cases, run),
        reference=(found,),
        nodes=None,
    )


def _is_case(case: Any) -> bool:
    return isinstance(case, Mapping) and all(isinstance(array, np.ndarray) for array in case.values())


def _imported(layout: Layout, name: str, file: Path, folder: Path, wanted: tuple[str, ...]) -> ModuleType:
    """One of the project's modules, imported as its tests import it."""
    if not file.is_file():
        raise OplabError(
            f"The project has no {file}.", "Restore it: the report needs it. `oplab new-operator` makes one."
        )
    added = [str(folder), str(layout.folder / "src")]  # an example imports the package
    sys.path[:0] = added
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise _stopped(file, error) from None
    finally:
        for place in added:
            sys.path.remove(place)
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise OplabError(
            f"Python has another module {name}: {module.__file__}.", "Uninstall it, or rename the project."
        )
    absent = [one for one in wanted if not hasattr(module, one)]
    if absent:
        raise OplabError(
            f"{file} does not define {' and '.join(absent)}.", "The report needs it. `oplab new-operator` makes one."
        )
    return module


def _stopped(file: Path, error: Exception) -> OplabError:
    if isinstance(error, OSError) and (refused := torch_refusal(error)):
        return refused
    return OplabError(f"{file} stops with {type(error).__name__}: {first_line(error)}", "`oplab test` says more.")


def _picture(module: Any, cases: Mapping[str, Feeds], run: Run) -> Figure:
    """The first output of the largest case in PyTorch and in ONNX Runtime, and how far the two are apart."""
    import torch

    name, feeds = max(cases.items(), key=lambda case: sum(array.size for array in case[1].values()))
    with torch.no_grad():
        made = module(*(torch.from_numpy(np.ascontiguousarray(array)) for array in feeds.values()))
    theirs = _plane((made[0] if isinstance(made, (tuple, list)) else made).numpy())
    ours = _plane(run("dynamo", feeds))
    drawn, axes = figure(1, 3, (10, 3))
    difference = np.abs(ours - theirs)
    pictures = {
        f"PyTorch, {name}": theirs,
        "ONNX Runtime": ours,
        f"difference, at most {difference.max(initial=0):.1e}": difference,
    }
    for place, (title, plane) in zip(axes, pictures.items(), strict=True):
        shown = place.imshow(plane, aspect="auto", interpolation="nearest", cmap="viridis")
        if plane.any():  # one colour needs no scale
            drawn.colorbar(shown, ax=place)
        place.set_title(title, fontsize=10)
    return drawn


def _plane(array: np.ndarray) -> np.ndarray:
    """The last two dimensions of an array, the first of all others."""
    values = np.atleast_2d(np.asarray(array, np.float64))
    return values.reshape(-1, *values.shape[-2:])[0]
