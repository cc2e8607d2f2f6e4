"""``make cuda``: ``csrc/cuda``, compiled with NVIDIA's compiler, which is installed in ``build/cuda-toolkit``.

Compiling needs no GPU. The library ``build/lib/oplab_cuda_ops.so`` has the kernels of ``csrc/ort_ops`` as well, because ONNX Runtime
takes a domain from one library.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import extras

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain import build, cache
from oplab.toolchain.compile import must_succeed
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, Compiler, find_compiler, run
from oplab.toolchain.diagnostics import shown
from oplab.toolchain.recipes import kernels_path, recipe

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "csrc" / "cuda"
NAME = "oplab_cuda_ops"
Say = Callable[[str], object]


class HostCompilerRefused(OplabError):
    """nvcc does not take the compiler for the C++ around the kernels."""


def library() -> Path:
    """What is made."""
    return paths.build_dir() / "lib" / f"{NAME}.so"


def objects() -> Path:
    """The folder of the object files that the library was linked from."""
    return paths.build_dir() / "cuda-objects"


def toolkit() -> Path:
    """The folder of the compiler: ``bin/nvcc``, ``include``, ``lib``."""
    return paths.build_dir() / "cuda-toolkit" / "nvidia" / "cu13"


def check_platform(system: str = sys.platform, machine: str = platform.machine()) -> None:
    """Raises:
    OplabError: NVIDIA has no compiler in Python packages for this system and processor.
    """
    if system != "linux" or machine not in ("x86_64", "aarch64"):
        raise OplabError(
            f"NVIDIA's packages with the CUDA compiler are for Linux on x86-64 and AArch64; this is {system} on {machine}.",
            "The kernels for the CPU are compiled by `make setup` and need none of it.",
        )


def install(say: Say) -> bool:
    """Puts the compiler in its folder, if it is not there in these versions.

    Raises:
        OplabError: pip could not install it.
    """
    size, folder = "115 MB to fetch, 310 MB on disk", paths.build_dir() / "cuda-toolkit"
    return extras.install_apart("cuda", folder, "NVIDIA's compiler", size=size, say=say)


def flags() -> list[str]:
    """The lines of ``nvcc_flags.txt``."""
    return (SOURCES / "nvcc_flags.txt").read_text().split()


def commands(compiler: Compiler, scratch: Path, made: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each source with the command that compiles it; the last one links."""
    how = recipe("ort")
    include = toolkit() / "include"
    linked = []
    for source in sorted([*SOURCES.glob("*.cu"), *SOURCES.glob("*.cpp")]):
        target = scratch / f"{source.name}.o"
        if source.suffix == ".cu":
            first = [str(toolkit() / "bin" / "nvcc"), "-ccbin", compiler.command[-1], *flags()]
        else:
            first = [*how.compile_command(compiler), f"-isystem{include}"]
        yield source, [*first, "-c", str(source), "-o", str(target)]
        linked.append(str(target))
    # CUDA's runtime is in the library: a machine without CUDA loads it. The driver is opened when a kernel runs.
    static = [str(toolkit() / "lib" / "libcudart_static.a"), "-ldl", "-lpthread", "-lrt"]
    kernels = str(kernels_path())
    yield (
        SOURCES / "register.cpp",
        [*compiler.command, *linked, kernels, *static, *how.link_flags(compiler), "-o", str(made)],
    )


def fingerprint(compiler: Compiler) -> str:
    """Differs where the library may differ."""
    watched = [*SOURCES.glob("*"), *(ROOT / "csrc" / "common").glob("*"), *(ROOT / "csrc" / "ort_ops").glob("*")]
    parts: list[str | bytes] = [
        compiler.identity,
        recipe("ort").versions,
        *extras.requirements("cuda"),
        Path(__file__).read_bytes(),
    ]
    for file in sorted(watched):
        parts += [file.name, file.read_bytes()]
    return cache.digest(*parts)


def explained(log: str, compiler: Compiler) -> None:
    """Raises:
    HostCompilerRefused: nvcc calls that compiler for the C++ around the kernels, and knows the versions that it was tested with.
    """
    refused = re.search(r"unsupported (?:GNU|clang) version! (.*?)!", log)
    if refused:
        raise HostCompilerRefused(
            f"nvcc {extras.requirements('cuda')[0].partition('==')[2]} does not take {compiler}: {refused[1]}.",
            "Set CXX to an older one, for example `make cuda CXX=g++-14`.",
        )


def compile_library(say: Say) -> bool:
    """Compiles and links, if something changed since the last time.

    Raises:
        BuildFailed: a source does not compile.
        OplabError: there is no compiler for the host's part, or nvcc does not take it.
    """
    made = library()
    stamp = made.with_suffix(".json")
    compiler = find_compiler()
    key = fingerprint(compiler)
    if made.is_file() and extras.recorded(stamp) == {"key": key, "size": made.stat().st_size}:
        return False
    with cache.scratch(made.parent) as scratch:
        steps = list(commands(compiler, scratch, scratch / made.name))
        for number, (source, command) in enumerate(steps, start=1):
            start = time.monotonic()
            done = run(
                command, timeout=OWN_SOURCES_TIMEOUT, cwd=scratch, limited=False, environ={"TMPDIR": str(scratch)}
            )
            if done.returncode:
                explained(done.log, compiler)
            must_succeed(done, source, OWN_SOURCES_TIMEOUT)
            what = "the library" if number == len(steps) else f"csrc/cuda/{source.name}"
            say(f"[{number}/{len(steps)}] {what}: {time.monotonic() - start:.1f} s")
        for file in scratch.glob("*.o"):  # a test links them in another way
            os.replace(file, paths.created(objects()) / file.name)
        os.replace(scratch / made.name, made)
        stamp.write_text(json.dumps({"key": key, "size": made.stat().st_size}))
    return True


def make(say: Say) -> Path:
    """Installs and compiles what is missing. Returns the library.

    Raises:
        OplabError: it cannot be made here; the sentence says why.
    """
    check_platform()
    build.build_all(say=lambda line: None if "up to date" in line else say(line))
    with cache.one_build(paths.build_dir() / "lib" / ".cuda.lock", say):
        changed = install(say)
        changed = compile_library(say) or changed
    say(f"{shown(library())} is {'ready' if changed else 'up to date'}.")
    return library()


def main() -> int:
    try:
        make(lambda line: print(line, flush=True))
    except OplabError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
