"""The rungs that chapter 14 climbs, as contestants: their C++ is taken out of the lesson, so the picture shows what it teaches."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import helper

from oplab.errors import OplabError
from oplab.toolchain.build import compile_exercise

from .harness import Make, Missing, Peer, Run
from .peers import bench_dir
from .runners import bound, model

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "src" / "14_fast_kernels.py"


@functools.cache
def texts() -> dict[str, str]:
    """The lesson's C++, by the name of the constant that holds it."""
    tree = ast.parse(LESSON.read_text(encoding="utf-8"))
    assigned = [each for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)]
    return {each.targets[0].id: each.value.value for each in assigned if isinstance(each.targets[0], ast.Name)}


@functools.cache
def library(name: str, parts: tuple[str, ...], operators: tuple[tuple[str, str], ...]) -> Path:
    """A custom-op library of the domain ``lesson``. ``operators`` are pairs: the operator's name, its C++ kernel.

    Raises:
        Missing: it cannot be compiled here.
    """
    made = "\n  ".join(f'static const oplab::Op<{kernel}> op{op}{{"{op}"}};' for op, kernel in operators)
    added = "\n    ".join(f"made.Add(&op{op});" for op, _ in operators)
    source = bench_dir() / f"{name}.cpp"
    source.write_text("".join(texts()[part] for part in parts) + texts()["ENTRY"] % (made, added), encoding="utf-8")
    try:
        return compile_exercise(source, "ort")
    except OplabError as error:
        raise Missing(f"the lesson's {name} do not compile here ({str(error).splitlines()[0][:160]})") from None


def ladder(
    name: str,
    parts: Sequence[str],
    kernels: Mapping[str, str],
    feed: Callable[[], Mapping[str, np.ndarray]],
    output: str,
) -> tuple[Peer, ...]:
    """A rung for each of ``kernels``: its name in the lesson, and the C++ that it is. ``feed()`` gives the inputs by name."""

    def rung(op: str) -> Make:
        def make(threads: int) -> Run:
            values = feed()
            node = helper.make_node(op, list(values), [output], domain="lesson")
            made = model([node], values, {output: np.float32}, {"lesson": 1})
            return bound(made, values, threads, [library(name, tuple(parts), tuple(kernels.items()))])

        return make

    return tuple(Peer(op.lower(), rung(op), rung=True) for op in kernels)
