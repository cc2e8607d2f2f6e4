"""What is wrong with a file that is given as a custom-op library, in a sentence, before it can end the process.

ONNX Runtime loads whatever it is told to and calls ``RegisterCustomOps`` in it. A library that was compiled with headers
newer than the runtime then gets a null pointer for its table of functions, and using it is a segmentation fault.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import signal
import subprocess
import sys
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain.headers import runtime_api

ENTRY = "RegisterCustomOps"
_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")  # Linux; macOS, one processor or several
_MANGLED = b"_Z17RegisterCustomOps"  # its name where `extern "C"` is missing
_TORCH = b"libtorch"
# ELF's numbers for a processor, in bytes 18 and 19 of a file; those of this Python are compared with a library's.
_PROCESSORS = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}

# Calls the entry point with a table that has one function, GetApi: it reports the version that is requested, and ends the process.
_PROBE = """
import ctypes, os, sys
version = ctypes.create_string_buffer(sys.argv[2].encode())
def get_api(wanted):
    os.write(1, str(wanted).encode())
    os._exit(0)
functions = (ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(get_api),
             ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(version)))
table = (ctypes.c_void_p * 2)(*(ctypes.cast(function, ctypes.c_void_p) for function in functions))
ctypes.CDLL(sys.argv[1]).RegisterCustomOps(None, table)
"""


def check_library(library: Path) -> None:
    """Refuses a file that ONNX Runtime could not load, or that would end the process.

    A library that this project compiled is known to have the right headers, and is not probed. Any other file is loaded in
    its own process (about 40 ms, once for each content).
    """
    with library.open("rb") as file:
        start = file.read(20)
    if start[:4] not in _MAGIC:
        raise OplabError(
            f"{library.name} is not a shared library.",
            "Give the compiled file (.so, or .dylib on macOS), not its source.",
        )
    _check_processor(library, start)
    if paths.build_dir().resolve() in library.resolve().parents:
        return
    stat = library.stat()
    wanted = _api_asked_for(library, stat.st_mtime_ns, stat.st_size)
    if wanted is not None and wanted > runtime_api():
        raise OplabError(
            f"{library.name} was compiled with headers of ONNX Runtime 1.{wanted}, newer than this runtime, "
            f"1.{runtime_api()}.",
            "Compile it with the headers of this runtime, or with older ones.",
        )


def _check_processor(library: Path, start: bytes) -> None:
    theirs, ours = _processor(start), _own_processor()
    if theirs is not None and ours is not None and theirs != ours:
        raise OplabError(
            f"{library.name} was compiled for {_PROCESSORS.get(theirs, f'another processor (ELF machine {theirs})')}, "
            f"and this Python runs on {_PROCESSORS.get(ours, f'ELF machine {ours}')}.",
            "Compile it for this processor.",
        )


def torch_refusal(error: OSError) -> OplabError | None:
    """An explanation of what ``torch.ops.load_library`` raises for a library; None for any other exception.

    Args:
        error: the exception, with the loader's as its cause.
    """
    named = re.search(r"Could not load this library: (.+)$", str(error))
    if named is None:
        return None
    library = Path(named[1])
    try:  # the loader calls a library for another processor a file that does not exist
        with library.open("rb") as file:
            _check_processor(library, file.read(20))
    except OSError:
        pass
    except OplabError as refused:
        return refused
    said = str(error.__cause__ or error)
    symbol = re.search(r"undefined symbol: ((?:aoti_)?torch_\w+)", said)
    if symbol:
        return OplabError(
            f"{library.name} was compiled for a newer PyTorch than {importlib.metadata.version('torch')}, which has no {symbol[1]}.",
            "Compile it with an older TORCH_TARGET_VERSION, or use a newer PyTorch.",
        )
    return OplabError(f"{library.name} cannot be loaded: {said.removeprefix(f'{library}: ')}.", "Compile it again.")


def _processor(start: bytes) -> int | None:
    """The processor that a file is compiled for, from its first 20 bytes; None where it is not an ELF file."""
    if len(start) < 20 or start[:4] != _MAGIC[0]:
        return None
    return int.from_bytes(start[18:20], "big" if start[5] == 2 else "little")


@functools.cache
def _own_processor() -> int | None:
    try:
        with open(sys.executable, "rb") as file:
            return _processor(file.read(20))
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _api_asked_for(library: Path, changed: int, size: int) -> int | None:
    """The version of ONNX Runtime's API that a library's entry point asks for; None where that cannot be found out."""
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(library), f"1.{runtime_api()}.0"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None  # no process may be started here: leave it to ONNX Runtime
    if done.stdout.isdigit():
        return int(done.stdout)
    if done.returncode < 0:
        raise OplabError(
            f"{library.name} cannot be registered: the process ends with {signal.Signals(-done.returncode).name} in it.",
            f"Look at what {ENTRY} and the library's static objects do before they have ONNX Runtime's table of functions.",
        )
    return None


def refusal(library: Path, error: Exception) -> OplabError | None:
    """An explanation of ONNX Runtime's error at registering a library; None where its own message is clear."""
    said = str(error)
    content = library.read_bytes()
    if _TORCH in content and ("libtorch" in said or ENTRY in said):
        return OplabError(
            f"{library.name} is a library of PyTorch operators and has no kernels for ONNX Runtime.",
            f"Load it with `torch.ops.load_library`, and give a library that has {ENTRY} here.",
        )
    if f"undefined symbol: {ENTRY}" in said or f"{ENTRY}): symbol not found" in said:
        if _MANGLED in content:
            return OplabError(
                f"{library.name} has the function {ENTRY} under its C++ name, where ONNX Runtime does not find it.",
                f'Declare it `extern "C" OrtStatus* {ENTRY}(...)`.',
            )
        return OplabError(
            f"{library.name} has no function {ENTRY}, so ONNX Runtime cannot ask it for its kernels.",
            f'Write `extern "C" OrtStatus* {ENTRY}(OrtSessionOptions*, const OrtApiBase*)`, and export it.',
        )
    if "Failed to load library" in said:
        return OplabError(f"{library.name} cannot be loaded: {said.rpartition('error: ')[2]}.", "Compile it again.")
    return None
