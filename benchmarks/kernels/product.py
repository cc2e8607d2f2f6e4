"""The matrix product of DeformConv2d alone, next to the peak of its set of instructions: the ratio is the share of the peak."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oplab.errors import OplabError
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.recipes import recipe, source_folder

from .harness import Case, Peer, Run
from .limits import multiply_adds
from .peers import compiled
from .processor import SETS

SOURCE = Path(__file__).with_name("product.cpp")
SHARE = 0.65


@functools.cache
def _library() -> ctypes.CDLL:
    """``product.cpp``, compiled with the flags of the kernels.

    Raises:
        Missing: it does not compile.
    """
    command = [*recipe("ort").compile_command(find_compiler()), "-shared", "-pthread"]
    included = [file for file in sorted(source_folder("ort").parent.glob("*/*")) if file.suffix in (".h", ".cpp")]
    library = ctypes.CDLL(str(compiled(SOURCE, command, included)))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.product.argtypes = [ctypes.c_char_p, pointer, pointer, number, number, number, ctypes.c_int, pointer]
    return library


def case(simd: str, channels: int, side: int, out_channels: int, repeats: int) -> Case:
    """The product of one image of ``side`` × ``side`` pixels and a kernel of 3×3, so many times in a call."""
    terms = 9 * channels

    @functools.cache
    def feed() -> tuple[np.ndarray, np.ndarray, int]:
        tile, depth = ctypes.c_int64(), ctypes.c_int64()
        _library().product_sizes(ctypes.byref(tile), ctypes.byref(depth))
        random = np.random.default_rng(0)
        samples = random.standard_normal((tile.value, depth.value), np.float32)
        return samples, random.standard_normal((terms, out_channels), np.float32), -(-(side**2) // tile.value) * repeats

    def ours(threads: int) -> Run:
        samples, weights, tiles = feed()
        sums = np.zeros((len(samples), out_channels), np.float32)
        sizes = (terms, out_channels, tiles, threads, sums.ctypes.data)

        def call() -> np.ndarray:
            if _library().product(simd.encode(), samples.ctypes.data, weights.ctypes.data, *sizes):
                raise OplabError(f"{SOURCE.name} cannot compute with {simd} here")
            return sums

        call()
        return call

    def peak(threads: int) -> Run:
        samples, _, tiles = feed()
        return multiply_adds(simd, 2.0 * tiles * len(samples) * terms * out_channels, threads)

    def check(ours: Sequence[np.ndarray], _: Sequence[np.ndarray]) -> None:
        samples, weights, _ = feed()
        rows = np.tile(samples.astype(np.float64), -(-terms // samples.shape[1]))[:, :terms]
        wrong = np.abs(rows @ weights - ours[0]).max()
        assert wrong < 1e-3, f"the product is wrong by {wrong:g}"

    return Case(
        "DeformConv2d",
        f"product alone, 1×{channels}×{side}×{side}, {out_channels} out, 3×3, {simd}",
        ours,
        (Peer(f"peak of {simd}", peak, SHARE),),
        check,
        threads=True,
        simd=simd,
    )


def cases(quick: bool) -> list[Case]:
    return [case(simd, 64, 8 if quick else 56, 64, 1 if quick else 4) for simd in SETS]
