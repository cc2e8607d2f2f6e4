"""How each kind of library is compiled: flags, include folders, what it is linked with.

The flags are in ``csrc/*/compile_flags.txt``, one on each line. CMake and this module read that file, so an exercise is
compiled exactly as the course's own operators are.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain.compiler import Compiler, is_macos
from oplab.toolchain.headers import api_version, ort_include, runtime_version

Kind = Literal["torch", "ort", "openvino", "cpp", "host"]
KINDS: tuple[Kind, ...] = (
    "torch",
    "ort",
)  # of the course's own libraries, in csrc; openvino's is made where it is installed
SUFFIX = ".dylib" if is_macos() else ".so"
Sanitizer = Literal["address", "thread", "pieces"]
# -g1 has the line numbers and nothing else: where each variable is would nearly double the compiler's time.
_REPORT = ("-fno-omit-frame-pointer", "-g1")
# Not optimised under AddressSanitizer and UndefinedBehaviorSanitizer: with their checks the optimiser doubles the compiler's time, and
# saves less than that in any test of ours. vptr checks would need type information across libraries.
SANITIZE: dict[Sanitizer, tuple[str, ...]] = {
    # GCC leaves float-cast-overflow (NaN or 1e30 as an integer) out of `undefined`.
    "address": ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize=vptr", *_REPORT, "-O0"),
    "thread": ("-fsanitize=thread", *_REPORT, "-O1"),
    # Linked with pieces_source(), not with ThreadSanitizer. Not optimised: what the source shares is found, whatever a compiler removes.
    "pieces": ("-fsanitize=thread", *_REPORT, "-O0"),
}


def chosen(sanitize: bool | Sanitizer) -> Sanitizer | None:
    """``True`` is AddressSanitizer with UndefinedBehaviorSanitizer: what a learner's ``--sanitize`` means."""
    return "address" if sanitize is True else sanitize or None


@dataclass(frozen=True)
class Recipe:
    """Everything but the source that decides what the compiler makes.

    Attributes:
        kind: ``torch`` (stable ABI operators), ``ort`` (custom-op library of ONNX Runtime), ``openvino`` (extensions of OpenVINO),
            ``cpp`` (C functions, no library), ``host``
            (a program on ONNX Runtime's C++ library) or ``libtorch`` (a program on PyTorch's C++ library).
        flags: from ``compile_flags.txt``, with the include folders.
        link: what follows the sources when a shared library or a program is linked.
        includes: the project's own header folders, whose content is part of a cache key.
        versions: the library whose headers are used, with its version.
    """

    kind: Kind | Literal["libtorch"]
    flags: tuple[str, ...]
    link: tuple[str, ...]
    includes: tuple[Path, ...]
    versions: str

    @property
    def suffix(self) -> str:
        """How the name of what is made ends: that of a shared library, or nothing for a program."""
        return "" if self.kind in ("host", "libtorch") else SUFFIX

    def with_headers(self, headers: Path) -> Recipe:
        """This recipe with a project's copies of the headers and of the list of exported names, in place of ``csrc``'s."""
        ours = [f"-I{folder}" for folder in self.includes]
        script = headers / "exports.map"
        link = [
            f"-Wl,--version-script={script}" if "version-script=" in flag and script.is_file() else flag
            for flag in self.link
        ]
        return replace(self, flags=tuple(f for f in self.flags if f not in ours), link=tuple(link), includes=(headers,))

    def compile_command(self, compiler: Compiler, *, sanitize: bool | Sanitizer = False) -> list[str]:
        """The command up to the sources."""
        if compiler.family == "gcc":
            short = ["-fmax-errors=5"]
        else:
            short = ["-ferror-limit=5", "-fshow-overloads=best"]  # without it, notes on 900 overloads of the lite API
        plain = ["-fdiagnostics-color=never", *short]
        return [*compiler.command, *self.flags, *SANITIZE.get(chosen(sanitize), ()), *plain]

    def link_flags(self, compiler: Compiler, *, sanitize: bool | Sanitizer = False) -> list[str]:
        """What follows the sources or object files in the command that links."""
        which = chosen(sanitize)
        if which is None:
            return list(self.link)
        if which == "pieces":
            exported = (
                "-Wl,-exported_symbol,_oplab_*"
                if is_macos()
                else f"-Wl,--version-script={pieces_source().with_suffix('.map')}"
            )
            return [*(flag for flag in self.link if "version-script" not in flag), exported]
        # clang links its sanitizer statically unless told otherwise, and a library cannot bring its own.
        shared = ["-shared-libsan"] if compiler.family == "clang" else []
        asked = [flag for flag in SANITIZE[which] if "sanitize" in flag]
        return [*self.link, *asked, *shared]


def pieces_source() -> Path:
    """What takes ThreadSanitizer's place in a library compiled with ``"pieces"``: see :class:`oplab.checks.schedules.WatchedSession`."""
    return Path(__file__).resolve().parents[1] / "checks" / "pieces.cpp"


def source_folder(kind: Kind) -> Path:
    """The folder of the course's own sources of one kind: ``csrc/torch_ops``, ``csrc/ort_ops`` or ``csrc/openvino_ops``."""
    return paths.root() / "csrc" / f"{kind}_ops"


def recipe(kind: Kind) -> Recipe:
    """The recipe for one kind."""
    return {"torch": _torch, "ort": _ort, "openvino": _openvino, "cpp": _cpp, "host": _host}[kind]()


def _flags(kind: Kind) -> tuple[str, ...]:
    file = source_folder(kind) / "compile_flags.txt"
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise OplabError(f"{file} cannot be read: {error.strerror}.", "Restore it: `git checkout csrc`.") from None
    return tuple(line.strip() for line in lines if line.strip())


def torch_folder() -> Path:
    """Where PyTorch is installed, found without importing it (which takes more than a second)."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise OplabError("PyTorch is not installed for this Python.", "Run `make setup` in the course's folder.")
    return Path(spec.origin).parent


def _torch() -> Recipe:
    torch, own = torch_folder(), source_folder("torch")
    # -isystem: no warnings about PyTorch's headers, which a reader cannot change.
    flags = (
        *_flags("torch"),
        f"-I{own}",
        f"-isystem{torch / 'include'}",
        f"-isystem{torch / 'include/torch/csrc/api/include'}",
    )
    if is_macos():
        link: tuple[str, ...] = ("-dynamiclib", f"-L{torch / 'lib'}", "-ltorch_cpu", f"-Wl,-rpath,{torch / 'lib'}")
    else:
        # -z defs: a function that is declared and never defined is an error now, not when the library is loaded.
        link = ("-shared", f"-L{torch / 'lib'}", "-ltorch_cpu", "-Wl,-z,defs")
    return Recipe("torch", flags, link, (own,), f"torch {importlib.metadata.version('torch')}")


def _ort() -> Recipe:
    headers, own = ort_include(), source_folder("ort")
    flags = (*_flags("ort"), f"-I{own}", f"-isystem{headers}")
    # Only the entry point is visible: two libraries may then each have a class MyAdd without mixing them up. The lite
    # API reaches ONNX Runtime through a table of functions, so nothing of it is linked and every symbol must be defined.
    if is_macos():
        link: tuple[str, ...] = (
            "-dynamiclib",
            "-Wl,-exported_symbol,_RegisterCustomOps",
            "-Wl,-u,_RegisterCustomOps",
        )
    else:
        link = (
            "-shared",
            "-Wl,-z,defs",
            f"-Wl,--version-script={own / 'exports.map'}",
            "-Wl,--defsym=oplab_entry=RegisterCustomOps",
        )
    return Recipe("ort", flags, link, (own,), f"ORT API {api_version(headers)}")


def openvino_folder() -> Path | None:
    """Where OpenVINO is installed, found without importing it; None where it is not. Its wheel has headers and libraries."""
    spec = importlib.util.find_spec("openvino")
    return Path(spec.origin).parent if spec and spec.origin else None


def _openvino() -> Recipe:
    folder, own = openvino_folder(), source_folder("openvino")
    if folder is None:
        raise OplabError(
            "OpenVINO is not installed for this Python.", "Run `make deps-engines` in the course's folder."
        )
    flags = (*_flags("openvino"), f"-I{own}", f"-isystem{folder / 'include'}")
    pattern = "lib{}.[0-9]*.dylib" if is_macos() else "lib{}.so.[0-9]*"
    linked = []
    for name in ("openvino", "openvino_onnx_frontend"):
        found = sorted((folder / "libs").glob(pattern.format(name)))
        if not found:
            raise OplabError(
                f"OpenVINO's package has no library: nothing in {folder / 'libs'} is called lib{name}.",
                "Install it again: `.venv/bin/python -m pip install --force-reinstall --no-deps openvino`.",
            )
        linked.append(str(found[-1]))
    shared = ("-dynamiclib",) if is_macos() else ("-shared", "-Wl,-z,defs")
    link = (*shared, f"-L{folder / 'libs'}", *linked, f"-Wl,-rpath,{folder / 'libs'}")
    return Recipe("openvino", flags, link, (own,), f"OpenVINO {importlib.metadata.version('openvino')}")


def _cpp() -> Recipe:
    """C++ and its standard library alone, compiled as the kernels are. Its ``extern "C"`` functions are what a caller finds."""
    link = ("-dynamiclib",) if is_macos() else ("-shared", "-Wl,-z,defs")
    return Recipe("cpp", _flags("ort"), link, (), "C++")


def _host() -> Recipe:
    """A program of one file that runs models with ONNX Runtime's C++ API."""
    headers, runtime = ort_include(), ort_runtime()
    # A program is linked with ONNX Runtime, so the C++ classes may find their table of functions by themselves.
    flags = [flag for flag in _flags("ort") if flag != "-DORT_API_MANUAL_INIT"]
    # -L: a confined compiler may read that folder. The rpath is where the build has put the names that the program looks for.
    link = (f"-L{runtime.parent}", str(runtime), f"-Wl,-rpath,{paths.build_dir() / 'lib'}")
    versions = f"ORT API {api_version(headers)}, ONNX Runtime {runtime_version()}"
    return Recipe("host", (*flags, f"-isystem{headers}"), link, (), versions)


def host_recipe(*, kernels: bool = True) -> Recipe:
    """How ``csrc/host`` is compiled: as the kernels, which it links, and against ONNX Runtime itself.

    Args:
        kernels: link the course's kernels; a program of one's own has others, among its sources.
    """
    as_kernels = _ort()
    origin = "@loader_path" if is_macos() else "$ORIGIN"
    linked = [str(kernels_path())] if kernels else []
    link = (*linked, str(ort_runtime()), f"-Wl,-rpath,{origin}")
    versions = f"{as_kernels.versions}, ONNX Runtime {runtime_version()}"
    return Recipe("host", as_kernels.flags, link, as_kernels.includes, versions)


def libtorch_recipe() -> Recipe:
    """How a program on PyTorch's C++ library is compiled. It finds the library where the package has it."""
    torch = torch_folder()
    # -O0: nearly all of the compiler's time goes into the header, and the work is done in the library.
    include = (f"-isystem{torch / 'include'}", f"-isystem{torch / 'include/torch/csrc/api/include'}")
    link = (f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch / 'lib'}")
    version = f"torch {importlib.metadata.version('torch')}"
    return Recipe("libtorch", ("-std=c++20", "-O0", *include), link, (), version)


def host_folder() -> Path:
    """The folder of the host program's sources, ``csrc/host``."""
    return paths.root() / "csrc" / "host"


def kernels_path() -> Path:
    """The object files of ``csrc/ort_ops`` in one archive, for a program that has the kernels in itself."""
    return paths.build_dir() / "lib" / "liboplab_ort_kernels.a"


def ort_runtime() -> Path:
    """ONNX Runtime's own shared library, inside the installed package; found without importing it."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        raise OplabError("ONNX Runtime is not installed for this Python.", "Run `make setup` in the course's folder.")
    folder = Path(spec.origin).parent / "capi"
    found = sorted(folder.glob("libonnxruntime.[0-9]*.dylib" if is_macos() else "libonnxruntime.so.[0-9]*"))
    if not found:
        raise OplabError(
            f"The package of ONNX Runtime has no shared library: nothing in {folder} is called libonnxruntime.",
            "Install it again: `.venv/bin/python -m pip install --force-reinstall onnxruntime`.",
        )
    return found[-1]


def ort_runtime_names(runtime: Path) -> list[str]:
    """The names under which a program looks for ONNX Runtime's library when it starts.

    ``libonnxruntime.so.1.31.1`` calls itself ``libonnxruntime.so.1`` (its soname), a name that the package does not have.
    """
    parts = runtime.name.split(".")  # libonnxruntime so 1 31 1, or libonnxruntime 1 31 1 dylib
    major = f"{parts[0]}.{parts[1]}.dylib" if is_macos() else ".".join(parts[:3])
    return list(dict.fromkeys([major, runtime.name]))
