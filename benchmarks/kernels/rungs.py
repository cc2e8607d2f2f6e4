"""The rungs that chapter 14 climbs, as contestants: their C++ is the lesson's files, so the picture shows what it teaches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import helper

from oplab.errors import OplabError
from oplab.toolchain.build import compile_library

from .harness import Make, Missing, Peer, Run
from .runners import bound, model

FILES = Path(__file__).resolve().parents[2] / "notebooks" / "cpp"


@functools.cache
def library(file: str) -> Path:
    """A file of the lesson as a custom-op library of the domain ``lesson``.

    Raises:
        Missing: it cannot be compiled here.
    """
    try:
        return compile_library(FILES / file, "ort")
    except OplabError as error:
        raise Missing(f"the lesson's {file} does not compile here ({str(error).splitlines()[0][:160]})") from None


def ladder(
    file: str, operators: Sequence[str], feed: Callable[[], Mapping[str, np.ndarray]], output: str
) -> tuple[Peer, ...]:
    """A rung for each of ``operators``, which ``file`` registers under these names. ``feed()`` gives the inputs by name."""

    def rung(op: str) -> Make:
        def make(threads: int) -> Run:
            values = feed()
            node = helper.make_node(op, list(values), [output], domain="lesson")
            made = model([node], values, {output: np.float32}, {"lesson": 1})
            return bound(made, values, threads, [library(file)])

        return make

    return tuple(Peer(op.lower(), rung(op), rung=True) for op in operators)
