"""Running a library that was compiled with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import re
from pathlib import Path

from oplab.errors import OplabError
from oplab.toolchain.compiler import Compiler, find_compiler, is_macos, run


def sanitizer_env() -> dict[str, str]:
    """This process's environment for a Python process that loads a library compiled with ``sanitize=True``.

    AddressSanitizer replaces ``malloc``, so it has to be loaded before anything else: in a process that was started
    without it, loading such a library ends the process. Start a new one with this environment.

    It also sets ``OPLAB_SANITIZE``, at which ``oplab.session`` switches ONNX Runtime's memory arena off: a kernel that
    writes past its output lands in the arena, where AddressSanitizer sees nothing wrong.

    Raises:
        OplabError: the compiler has no sanitizer's runtime.
    """
    compiler = find_compiler()
    env = dict(os.environ)
    preload = "DYLD_INSERT_LIBRARIES" if is_macos() else "LD_PRELOAD"
    separator = ":" if is_macos() else " "
    already = [env[preload]] if env.get(preload) else []
    env[preload] = separator.join([*map(str, _runtimes(compiler)), *already])
    # Python and PyTorch leave memory to the system when they end, which is not a leak of the kernel. abort_on_error turns
    # a finding into a signal, so that no handler in between can swallow it.
    env["ASAN_OPTIONS"] = (
        "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:strict_init_order=1"
        # Ops of the lite API are freed through OrtCustomOp, which is smaller and has no virtual destructor.
        ":new_delete_type_mismatch=0"
    )
    env["UBSAN_OPTIONS"] = "halt_on_error=1:abort_on_error=1:print_stacktrace=1"
    if compiler.family != "gcc":  # gcc's runtime reads line numbers itself
        symbolizer = run([*compiler.command, "-print-prog-name=llvm-symbolizer"], timeout=30).log.strip()
        if Path(symbolizer).is_absolute():
            env["ASAN_SYMBOLIZER_PATH"] = symbolizer
    env["TBB_ENABLE_SANITIZERS"] = (
        "1"  # OpenVINO's threads load a library with RTLD_DEEPBIND, which AddressSanitizer refuses
    )
    env["OPLAB_SANITIZE"] = "1"
    return env


def _runtimes(compiler: Compiler) -> list[Path]:
    if compiler.family == "gcc":
        # libstdc++ too: AddressSanitizer looks for __cxa_throw when it starts, before Python has loaded any C++.
        names = ["libasan.so", "libstdc++.so.6"]
    elif compiler.family == "clang":
        machine = os.uname().machine
        names = [f"libclang_rt.asan-{machine}.so", "libclang_rt.asan.so", "libstdc++.so.6"]  # two layouts of LLVM
    else:
        names = ["libclang_rt.asan_osx_dynamic.dylib"]
    found = []
    for name in names:
        where = run([*compiler.command, f"-print-file-name={name}"], timeout=30).log.strip()
        if Path(where).is_absolute() and Path(where).exists():  # the bare name comes back where there is none
            found.append(_library(Path(where)))
    if not any("asan" in file.name for file in found):
        raise OplabError(
            f"{compiler} has no AddressSanitizer: {names[0]} was not found.",
            "Install it: `sudo dnf install libasan libubsan` (Fedora), `sudo apt install g++` (Debian, Ubuntu); "
            "or set CXX to another compiler.",
        )
    return found


def _library(file: Path) -> Path:
    """The library itself where a distribution put a linker script in its place, as Fedora does: ``INPUT ( /usr/... )``."""
    start = file.read_bytes()[:2000]
    if not start.startswith(b"\x7fELF"):
        named = re.search(rb"(/\S+\.so[.\d]*)", start)
        if named:
            return Path(named[1].decode())
    return file.resolve()
