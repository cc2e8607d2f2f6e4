"""ONNX Runtime sessions that know the course's kernels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oplab.errors import OplabError
from oplab.onnxtools import domain, loading
from oplab.toolchain.build import compiled_library
from oplab.toolchain.library import check_library, refusal

if TYPE_CHECKING:
    import onnx
    import onnxruntime
    import torch

# Words of ONNX Runtime 1.31's messages; a test checks them.
_TWICE = "Domain already set in registry"
_UNKNOWN = "is not a registered function/op"


def ort_library() -> Path:
    """The shared library with the course's ONNX Runtime kernels, for ``SessionOptions.register_custom_ops_library``.

    Raises:
        OplabError: it is not compiled.
    """
    return compiled_library("ort")


def session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | torch.onnx.ONNXProgram,
    *,
    providers: Sequence[str] | None = None,
    threads: int | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    optimize: bool = True,
    folder: Path | None = None,
) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session that knows the kernels of the domain ``oplab``.

    ONNX Runtime prints nothing: its message about a failure is in the exception.

    Args:
        model: a path (weights in files next to it are found), serialized bytes, a ModelProto, an ``onnx_ir.Model``, or
            what ``torch.onnx.export`` returns.
        providers: execution providers in order of preference; the CPU alone by default.
        threads: threads inside one operator; ONNX Runtime chooses by default.
        libraries: further custom-op libraries, for example a compiled exercise. They come first: the course's kernels
            are added only where the model needs more. A library that registers the domain ``oplab`` itself therefore
            replaces the course's kernels, all of them: ONNX Runtime takes a domain from one library. Where a file next to
            a library declares its domain (``roi.toml`` for ``roi.so``, see :mod:`oplab.onnxtools.domain`), the model is
            checked as it is for the course's own.
        optimize: let ONNX Runtime fold and fuse nodes. Without it, each node of the file runs as it is there.
        folder: where the files with the weights of a ModelProto are.

    Raises:
        OplabError: the operators are not compiled, or a file or a provider is missing, or a library is not one for
            ONNX Runtime, or the model asks a domain that is known for a version or an attribute that it does not have.
        Exception: whatever ONNX Runtime raises for a model that it rejects.
    """
    import onnxruntime

    source = model.SerializeToString() if folder else loading.source(model)
    chosen = list(providers) if providers is not None else ["CPUExecutionProvider"]
    available = onnxruntime.get_available_providers()
    for provider in chosen:
        name = provider if isinstance(provider, str) else provider[0]
        if name not in available:
            raise OplabError(
                f"This ONNX Runtime has no {name}.",
                f"Choose among {', '.join(available)}, or install a build that has it.",
            )
    extra = [_existing(library) for library in libraries]

    def create(registered: Sequence[Path]) -> onnxruntime.InferenceSession:
        # New options for each session: registering a library twice on the same ones is an error.
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if threads is not None:
            options.intra_op_num_threads = threads
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if os.environ.get("OPLAB_SANITIZE"):  # see oplab.toolchain.sanitizer
            options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        if folder:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
            options.add_session_config_entry("session.disable_prepacking", "1")  # a second copy of large weights
        for library in registered:
            _register(options, library)
        return onnxruntime.InferenceSession(source, options, providers=chosen)

    if not extra:
        domain.check_model(source)
        return create([ort_library()])
    for library in extra:
        if extra.count(library) > 1:
            raise OplabError(f"The library {library.name} is given twice.", "ONNX Runtime takes a library once.")
        check_library(library)
    domain.check_model(source, [found for library in libraries if (found := domain.declaration(Path(library)))])
    try:
        return create(extra)
    except Exception as error:
        if _TWICE in str(error):
            names = ", ".join(library.name for library in extra)
            raise OplabError(
                f"Two of the libraries {names} register the same domain.",
                "ONNX Runtime takes each domain from one library: give one of them, or rename a domain.",
            ) from None
        if _UNKNOWN not in str(error):
            raise
        unknown = error
    failed = None
    try:
        made = create([*extra, ort_library()])
    except Exception as error:
        if _TWICE in str(error):  # the library has the domain and lacks one of its operators: the first error names it
            raise unknown from None
        failed = error
    domain.check_model(source)  # not before: until here the domain could have been the library's own
    if failed:
        raise failed
    return made


def _register(options: onnxruntime.SessionOptions, library: Path) -> None:
    try:
        options.register_custom_ops_library(str(library))
    except Exception as error:
        raise refusal(library, error) or error from None


def _existing(library: str | os.PathLike[str]) -> Path:
    path = Path(library)
    if not path.is_file():
        raise OplabError(f"There is no library {path}.", "Compile it first, or correct the path.")
    return path.resolve()
