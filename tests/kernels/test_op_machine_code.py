"""What GCC made of the kernels in ``csrc``: fused multiply-adds where they must be and nowhere else, and sums that stay in registers.

A kernel that lacks one of these gives right answers, several times slower.
"""

from __future__ import annotations

import platform
import re

import pytest

from oplab.toolchain import build, recipes
from oplab.toolchain.compiler import find_compiler, run
from tests.support.machine_code import AARCH64, X86_64, Function, check_only_jobs_are_fused, check_product, functions

pytestmark = pytest.mark.nightly

CALL = re.compile(r"callq?|jmpq?|bl?$")
HERE = X86_64 if platform.machine() in ("x86_64", "AMD64") else AARCH64


@pytest.fixture(scope="module")
def libraries() -> dict[str, list[Function]]:
    compiler = find_compiler()
    if compiler.family != "gcc":
        pytest.skip("it is read as GCC writes it")
    build.build_all(say=lambda line: None)
    # objdump is part of binutils, which GCC needs.
    objdump = run([*compiler.command, "-print-prog-name=objdump"], timeout=120).log.strip()
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
