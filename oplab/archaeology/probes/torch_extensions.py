"""C++ operators of PyTorch, and TensorRT."""

from __future__ import annotations

import inspect
from typing import Any

from oplab.archaeology.probes.exports import (
    TORCH_HOME,
    fails,
)
from oplab.archaeology.probes.table import new, old


def _cpp_extension() -> Any:
    import logging

    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it warns where CUDA has no runtime
    from torch.utils import cpp_extension

    return cpp_extension


@old("torch_header")
def _() -> str:
    text = (TORCH_HOME / "include" / "torch" / "csrc" / "api" / "include" / "torch" / "torch.h").read_text()
    guard = text.index("#ifdef TORCH_API_INCLUDE_EXTENSION_H")
    assert text.index("#include <torch/extension.h>") > guard
    assert "-DTORCH_API_INCLUDE_EXTENSION_H" in inspect.getsource(_cpp_extension())
    return "torch.h includes extension.h where TORCH_API_INCLUDE_EXTENSION_H is defined"


@new("torch_header")
def _() -> str:
    assert (TORCH_HOME / "include" / "torch" / "csrc" / "stable" / "library.h").is_file()
    return "torch/csrc/stable/library.h"


@old("pybind_module")
def _() -> str:
    assert "-DTORCH_EXTENSION_NAME=" in inspect.getsource(_cpp_extension())
    assert (TORCH_HOME / "include" / "pybind11" / "pybind11.h").is_file()
    return "the macro is defined, and pybind11 is in the wheel"


@old("torch_library")
def _() -> str:
    include = TORCH_HOME / "include" / "torch"
    assert "#define TORCH_LIBRARY(" in (include / "library.h").read_text(encoding="utf-8")
    assert "STABLE_TORCH_LIBRARY" in (include / "csrc" / "stable" / "library.h").read_text(encoding="utf-8")
    return "both macros are in the wheel's headers"


@old("cpp_extension")
def _() -> str:
    made = _cpp_extension().CppExtension("my_lib", ["my_add.cpp"])
    assert made.name == "my_lib" and "torch" in made.libraries
    assert issubclass(_cpp_extension().BuildExtension, object)
    return f"Extension({made.name!r}, {made.sources})"


@old("cuda_extension")
def _() -> str:
    module = _cpp_extension()
    flags = {"cxx": ["-O2"], "nvcc": ["-O2"]}
    words = {"name": "my_lib", "sources": ["a.cpp", "a.cu"], "include_dirs": ["./include"], "extra_compile_args": flags}
    if module.CUDA_HOME is None:
        fails(OSError, "CUDA_HOME", lambda: module.CUDAExtension(**words))
    else:
        assert "cudart" in module.CUDAExtension(**words).libraries
    return "an Extension where a CUDA toolkit is found, else an OSError about CUDA_HOME"


@old("setup_py")
def _() -> str:
    from setuptools.command import develop, install

    assert "pip" in inspect.getsource(develop) and "Deprecat" in inspect.getsource(develop)
    assert "setup.py install is deprecated" in inspect.getsource(install)
    return "both are marked as deprecated; develop calls pip"


@new("setup_py")
def _() -> str:
    from importlib.metadata import version

    assert int(version("setuptools").split(".")[0]) >= 64  # builds editable installs for pip (PEP 660)
    return "setuptools builds for pip"


@old("tensorrt")
def _() -> str:
    import importlib.util

    found = importlib.util.find_spec("tensorrt") is not None
    import onnxruntime

    assert hasattr(onnxruntime.SessionOptions, "register_custom_ops_library")
    return "ONNX Runtime: register_custom_ops_library" + ("" if not found else "; TensorRT is installed")
