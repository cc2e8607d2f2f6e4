"""What GCC made of the kernels in ``csrc``: fused multiply-adds where they must be and nowhere else, and sums that stay in registers.

A kernel that lacks one of these gives right answers, several times slower.
"""

from __future__ import annotations

import platform
import re

import pytest
from machine_code import Function, Instruction, functions, inner_loops

from oplab.toolchain import build, recipes
from oplab.toolchain.compiler import find_compiler, run

FUSED = re.compile(r"vfn?m(add|sub)|fn?m(la|ls|add|sub)\b")
CALL = re.compile(r"callq?|jmpq?|bl?$")
# Of each set: the function that is compiled for it, the instruction that adds a product to a sum, and how many of them one turn of
# the product's inner loop has: the registers of a block of sums, rows x panels x registers of a panel (matrix_tile.h).
Set = tuple[str, str, int]
X86_64: dict[str, Set] = {
    "avx512": ("run_with_avx512", r"vfmadd\d+p[sd]", 12 * 2 * 1),
    "avx2": ("run_with_avx2", r"vfmadd\d+p[sd]", 6 * 1 * 2),
    "plain": ("run_plain", r"addp[sd]", 3 * 1 * 4),
}
AARCH64: dict[str, Set] = {
    "neon": ("run_with_neon", r"fmla", 4 * 1 * 4),
    "plain": ("run_plain", r"fadd", 3 * 1 * 4),
}
HERE = X86_64 if platform.machine() in ("x86_64", "AMD64") else AARCH64


def check_product(code: list[Function], simd: Set, dtype: str) -> None:
    """Whether the inner loop of DeformConv2d's product is what the source promises for a set of instructions."""
    name, adds, count = simd
    jobs = [each for each in code if f"{name}<" in each.name and "::Tile," in each.name and f"<{dtype}>" in each.name]
    assert jobs, f"there is no {name}<Tile, …> for {dtype}"

    def sums(loop: list[Instruction]) -> int:
        return sum(re.fullmatch(adds, each.mnemonic) is not None for each in loop)

    loop = max((loop for job in jobs for loop in inner_loops(job)), key=sums)
    shown = "\n".join(map(str, loop))
    assert sums(loop) == count, f"the product's loop has {sums(loop)} {adds}, not {count}:\n{shown}"
    # A sum that is kept in memory is written there in every turn.
    in_memory = [str(each) for each in loop if each.stores or each.on_stack]
    assert not in_memory, f"{in_memory} in the product's loop:\n{shown}"


def check_only_jobs_are_fused(code: list[Function]) -> None:
    """Outside the jobs a sum has the same bits on every processor."""
    fused = [each.name for each in code if any(FUSED.match(line.mnemonic) for line in each.code)]
    assert not [name for name in fused if "run_with_" not in name]


@pytest.fixture(scope="module")
def libraries() -> dict[str, list[Function]]:
    compiler = find_compiler()
    if compiler.family != "gcc":
        pytest.skip("it is read as GCC writes it")
    build.build_all(say=lambda line: None)
    # objdump is part of binutils, which GCC needs.
    objdump = run([*compiler.command, "-print-prog-name=objdump"], timeout=30).log.strip()
    return {kind: functions(build.library_path(kind), objdump) for kind in recipes.KINDS}


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("simd", HERE)
def test_the_product_keeps_its_sums_in_registers(libraries, simd: str, dtype: str):
    check_product(libraries["ort"], HERE[simd], dtype)


@pytest.mark.parametrize("kind", recipes.KINDS)
def test_nothing_else_is_fused(libraries, kind: str):
    check_only_jobs_are_fused(libraries[kind])


@pytest.mark.skipif(HERE is AARCH64, reason="only x86-64 has registers that an older processor lacks")
@pytest.mark.parametrize("kind", recipes.KINDS)
def test_what_every_processor_runs_uses_the_registers_of_sse2(libraries, kind: str):
    wide = [each for each in libraries[kind] if any(re.search("%[yz]mm", line.operands) for line in each.code)]
    assert wide
    assert not [each.name for each in wide if not re.search("run_with_avx(2|512)<", each.name)]


@pytest.mark.parametrize("kind", recipes.KINDS)
def test_a_job_calls_no_function_of_ours(libraries, kind: str):
    """It would be compiled for the oldest processor: `always_inline` is missing."""
    calls = [
        f"{job.name} calls {line.operands}"
        for job in libraries[kind]
        if "run_with_" in job.name
        for line in job.code
        if CALL.match(line.mnemonic)
        and "oplab::" in line.operands
        and job.name.split(" [clone")[0] not in line.operands
    ]
    assert not calls
