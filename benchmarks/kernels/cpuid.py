"""Makes the processor an older one for all libraries that this process loads later. Nothing here imports one of them."""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path

from oplab.errors import OplabError
from oplab.paths import build_dir
from oplab.toolchain.compiler import find_compiler, run

SOURCE = Path(__file__).with_name("cpuid.cpp")
LEVELS = {"avx2": 1, "plain": 2}


def hide(simd: str) -> bool:
    """From here on, libraries find a processor whose best set of instructions is ``simd``: "avx2" or "plain".

    Returns:
        Whether anything had to be hidden: not on a processor whose best set it is.

    Raises:
        OplabError: a program cannot answer here what the processor can do.
    """
    flags = Path("/proc/cpuinfo")
    if simd == "avx2" and flags.is_file() and "avx512f" not in flags.read_text():
        return False
    compiler = find_compiler()
    digest = hashlib.sha256((SOURCE.read_text() + str(compiler)).encode()).hexdigest()[:12]
    folder = build_dir() / "bench"
    folder.mkdir(exist_ok=True)
    made = folder / f"cpuid-{digest}.so"
    if not made.exists():
        part = made.with_suffix(f".{os.getpid()}")
        done = run(
            [*compiler.command, "-std=c++17", "-O2", "-fPIC", "-shared", str(SOURCE), "-o", str(part)], timeout=120
        )
        if done.returncode:
            raise OplabError(f"{SOURCE.name} does not compile: {done.log.strip().splitlines()[0]}")
        part.replace(made)
    if ctypes.CDLL(str(made)).hide(LEVELS[simd]) != 0:
        raise OplabError(
            f"--as {simd} is not possible here: the instruction CPUID cannot be intercepted (Linux on x86-64 can where "
            "/proc/cpuinfo has the flag cpuid_fault).",
            f"Use --simd {simd}: our kernels use that set, the peers all that the processor has.",
        )
    return True
