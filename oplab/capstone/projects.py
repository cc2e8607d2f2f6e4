"""What a report is about: a network that was delivered, and inputs to test it with. The two projects of chapter 16."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.capstone.figures import figure
from oplab.errors import OplabError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPORTERS = {"torchscript": "TorchScript path", "dynamo": "dynamo path"}
Feeds = Mapping[str, np.ndarray]


@dataclass
class Project:
    """A network that was delivered: the module, a file for each exporter, a kernel, and inputs to test them with.

    Attributes:
        title: what the report calls it.
        module: the PyTorch module that the files were made from, in eval mode.
        folder: where ``torchscript.onnx`` and ``dynamo.onnx`` are.
        library: the compiled kernel; None uses the course's own.
        operator: the custom operator, as ``lab::KNN``.
        cases: inputs by the name of the case; sizes other than those of the export are among them.
        picture: draws what the network does, with ``run(exporter, feeds) -> array``.
        facts: sentences with numbers about the results of ONNX Runtime, with the same ``run``.
        reference: operators for ``onnx.reference``, which is then compared as well.
        nodes: how many nodes of the operator each file has to have; None where one or more are right.
    """

    title: str
    module: Any
    folder: Path
    library: Path | None
    operator: str
    cases: Mapping[str, Feeds]
    picture: Callable[[Run], Figure]
    facts: Callable[[Run], list[str]] = field(default=lambda run: [])
    reference: tuple[type, ...] = ()
    nodes: int | None = 1

    def file(self, exporter: str) -> Path:
        """The path of one exporter's model.

        Args:
            exporter: a key of :data:`EXPORTERS`.
        """
        path = self.folder / f"{exporter}.onnx"
        if not path.is_file():
            raise OplabError(
                f"{self.title}: there is no {path.name}.", "Export it into the folder that your function gets."
            )
        return path


Run = Callable[[str, Feeds], np.ndarray]


def super_resolution(
    module: Any, folder: Path, library: Path | None = None, operator: str = "lab::DynamicResize"
) -> Project:
    """The project whose factor is an input.

    Args:
        module: ``module(photo, factor)``: float32 (N, 1 or 3, H, W) and a float32 scalar.
        folder: has ``torchscript.onnx`` and ``dynamo.onnx``.
        library: the compiled kernel; None uses the course's own.
        operator: the custom operator of the two files.
    """
    from oplab.nets import photos
    from oplab.nets.srcnn import shrink

    small = _numpy(shrink(_tensor(photos.to_nchw(photos.photo("chelsea", (120, 180)))), 3))

    def case(factor: float, photo: np.ndarray = small) -> Feeds:
        return {"photo": photo, "factor": np.array(factor, np.float32)}

    def picture(run: Run) -> Figure:
        drawn, axes = figure(1, 3, (10, 2.6))
        axes[0].imshow(np.clip(photos.to_image(small), 0, 1))
        axes[0].set_title("the input", fontsize=10)
        for place, factor in zip(axes[1:], (1.7, 3.0), strict=True):
            large = run("dynamo", case(factor))
            place.imshow(np.clip(photos.to_image(large), 0, 1))
            place.set_title(f"factor {factor:g}: {large.shape[2]} x {large.shape[3]} pixels", fontsize=10)
        for place in axes:
            place.axis("off")
        return drawn

    cases = {f"factor {factor:g}": case(factor) for factor in (0.5, 1.7, 3)}
    cases["4 photos, factor 2"] = case(2, np.repeat(small[:, :, :24, :32], 4, axis=0))
    return Project("super-resolution", module, folder, library, operator, cases, picture)


def point_cloud(module: Any, folder: Path, library: Path | None = None, operator: str = "lab::KNN") -> Project:
    """The classifier of point clouds.

    Args:
        module: ``module(xyz, offset)``: float32 (points, 3) and int64 (clouds,), the end of each cloud.
        folder: has ``torchscript.onnx`` and ``dynamo.onnx``.
        library: the compiled kernel; None uses the course's own.
        operator: the custom operator of the two files.
    """
    from oplab.nets.point_clouds import SOLIDS, cloud, clouds

    rng = np.random.default_rng(16)

    def case(sizes: Sequence[int]) -> tuple[Feeds, np.ndarray]:
        xyz, offset, label = clouds(sizes, rng)
        # on a lattice distances are exact, so two ways to compute them find the same neighbours
        return {"xyz": np.round(xyz * 64).astype(np.float32) / 64, "offset": offset}, label

    held_out, label = case([128] * 200)
    one_each = {"xyz": np.concatenate([cloud(name, 200, rng) for name in SOLIDS]), "offset": np.arange(200, 1601, 200)}

    def facts(run: Run) -> list[str]:
        in_torch = _numpy(module(*map(_tensor, held_out.values()))).argmax(1)
        found = [f"PyTorch calls {np.mean(in_torch == label):.1%} of {len(label)} held-out clouds by their names."]
        for exporter, words in EXPORTERS.items():
            called = run(exporter, held_out).argmax(1)
            same = "the same name for every cloud" if (called == in_torch).all() else "NOT the same names"
            found.append(f"{words}: {np.mean(called == label):.1%} in ONNX Runtime, {same}.")
        return found

    def picture(run: Run) -> Figure:
        from oplab.figures.drawings import INK, RED

        drawn, axes = figure(2, 4, (10, 5.2), projection="3d")
        called = run("dynamo", one_each).argmax(1)
        for number, (place, name) in enumerate(zip(axes, SOLIDS, strict=True)):
            x, y, z = one_each["xyz"][200 * number : 200 * (number + 1)].T
            right = SOLIDS[called[number]] == name
            place.scatter(x, y, z, s=5, c=z, cmap="viridis")
            said = name if right else f"{name}, called {SOLIDS[called[number]]}"
            place.set_title(said, fontsize=10, color=INK if right else RED, pad=0)
            place.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
            place.axis("off")
        return drawn

    cases = {}
    for name, sizes in {
        "1 cloud of 100": [100],
        "3 clouds, one of 5": [5, 300, 64],
        "8 clouds of 128": [128] * 8,
        "1 cloud of 2000": [2000],
    }.items():
        cases[name] = case(sizes)[0]
    return Project("point cloud", module, folder, library, operator, cases, picture, facts)


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


def _numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy()
