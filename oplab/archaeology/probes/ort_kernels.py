"""ONNX Runtime kernels in C++: ``then.cpp``, which no longer compiles, and ``now.cpp``."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import onnx

from oplab.archaeology import HERE
from oplab.archaeology.probes.exports import (
    fails,
    run,
    same,
)
from oplab.archaeology.probes.table import new, old


@functools.cache
def compiler_log() -> str:
    """The compiler's errors about ``then.cpp``, with the headers and flags of the course."""
    from oplab.toolchain.compiler import find_compiler
    from oplab.toolchain.compiler import run as call
    from oplab.toolchain.recipes import recipe

    compiler = find_compiler()
    limits = ("-fmax-errors=", "-ferror-limit=")
    command = [word for word in recipe("ort").compile_command(compiler) if not word.startswith(limits)]
    done = call([*command, "-fsyntax-only", str(HERE / "then.cpp")], timeout=120)
    assert done.returncode, "then.cpp compiles, which the table says it does not"
    return done.log


def unknown_names() -> list[str]:
    """The names of the old API that today's headers do not have, found in the errors of GCC or Clang."""
    words = {
        "Ort::CustomOpApi": "CustomOpApi",
        "OrtTensorDimensions": "OrtTensorDimensions",
        "ORT_UNUSED_PARAMETER": "ORT_UNUSED_PARAMETER",
        "onnxruntime::kCpuExecutionProvider": "['\u2018]onnxruntime['\u2019]|kCpuExecutionProvider",
    }
    errors = [line for line in compiler_log().splitlines() if "error" in line]
    return [name for name, pattern in words.items() if any(re.search(pattern, line) for line in errors)]


def _unknown(*names: str) -> str:
    missing = [name for name in names if name not in unknown_names()]
    assert not missing, f"the compiler does not complain about {missing}"
    return f"does not compile: {', '.join(names)} is not declared"


def _headers() -> str:
    from oplab.toolchain.headers import ort_include

    return "".join(file.read_text(errors="replace") for file in sorted(ort_include().glob("onnxruntime_c*.h")))


@old("custom_op_api")
def _() -> str:
    assert "struct CustomOpApi" not in _headers()
    return _unknown("Ort::CustomOpApi")


@old("create_kernel", "shape_info_handles")
def _() -> str:
    return _unknown("Ort::CustomOpApi")


@old("tensor_dimensions")
def _() -> str:
    assert "OrtTensorDimensions" not in _headers()
    return _unknown("OrtTensorDimensions")


@old("cpu_provider_name")
def _() -> str:
    return _unknown("onnxruntime::kCpuExecutionProvider")


@old("unused_parameter")
def _() -> str:
    return _unknown("ORT_UNUSED_PARAMETER")


@functools.cache
def ported() -> Path:
    """The library compiled from ``now.cpp``; it is kept in the cache of ``build/``."""
    from oplab.toolchain.build import compile_library

    return compile_library(HERE / "now.cpp", "ort")


def foo(scale: str | None = None) -> onnx.ModelProto:
    """A model with one node ``archaeology::Foo``.

    Args:
        scale: the name of the optional third input; ``""`` is an empty input, None leaves it out.
    """
    helper, kinds = onnx.helper, onnx.TensorProto
    inputs = [helper.make_tensor_value_info(name, kinds.FLOAT, None) for name in ("x", "y")]
    if scale:
        inputs.append(helper.make_tensor_value_info(scale, kinds.INT64, None))
    names = ["x", "y"] + ([] if scale is None else [scale])
    made = helper.make_node("Foo", names, ["out"], domain="archaeology")
    graph = helper.make_graph([made], "g", inputs, [helper.make_tensor_value_info("out", kinds.FLOAT, None)])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("archaeology", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@new(
    "custom_op_api",
    "create_kernel",
    "tensor_dimensions",
    "shape_info_handles",
    "cpu_provider_name",
    "unused_parameter",
    "tensorrt",
)
@old("custom_op_base", "domain_add")
def _() -> str:
    for shape in ((3,), (2, 3, 4), (0, 5), ()):
        x, y = np.random.default_rng(9).normal(size=(2, *shape)).astype(np.float32)
        got = run(foo(), x, y, library=ported())
        assert got.shape == shape
        same(got, x + y)
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    # The code of a status: an exception that leaves a kernel loses it.
    for first, second in (((6,), (4,)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((), (1,)), ((4,), (0,))):
        x, y = np.ones(first, np.float32), np.ones(second, np.float32)
        words = f"Foo: x is {list(first)} and y is {list(second)}: they must be equal."
        fails(InvalidArgument, words, functools.partial(run, foo(), x, y, library=ported()))
    fails(InvalidArgument, "it is [2]", lambda: run(foo(scale="k"), x, x, np.int64([1, 2]), library=ported()))
    return "now.cpp compiles and runs"


@old("input_type_by_index", "input_optional")
def _() -> str:
    x, y = np.random.default_rng(9).normal(size=(2, 4)).astype(np.float32)
    same(run(foo(scale="k"), x, y, np.int64(5), library=ported()), 5 * (x + y))
    same(run(foo(scale=""), x, y, library=ported()), x + y)
    same(run(foo(), x, y, library=ported()), x + y)
    return "an int64 input next to floats: given, empty, and left out"


@old("compute_stream")
def _() -> str:
    assert "KernelContext_GetGPUComputeStream" in _headers()
    return "a pointer that the op stores; the context has its own"


@new("compute_stream")
def _() -> str:
    assert "void* GetGPUComputeStream() const" in _headers()
    return "KernelContext::GetGPUComputeStream() is declared"
