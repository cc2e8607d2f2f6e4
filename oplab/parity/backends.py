"""One model in several backends: eager PyTorch, its export, ONNX's reference evaluator, ONNX Runtime, and C++.

``ready(name, tested)`` prepares a backend once and returns a function from inputs to outputs.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from oplab.errors import first_line
from oplab.onnxtools import domain, loading
from oplab.parity.modules import arguments, as_array, evaluating, returned
from oplab.parity.tested import REPEATS, Feed, ModelUnderTest, Runner, RunResult, Unavailable, timed

NAMES = ("eager", "exported", "reference", "ort", "host")
# Other engines, which `make deps-engines` installs. They run only where they are named: a table is then the same on every machine.
ENGINES = ("openvino", "ncnn")
ALL = (*NAMES, *ENGINES)
HOST_DTYPES = ("float16 float32 float64 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64").split()


def ready(name: str, tested: ModelUnderTest) -> Runner:
    """A backend that is ready to run the model.

    Returns:
        A function from arrays by input name to the outputs. It may raise Unavailable as well.

    Raises:
        Unavailable: the backend cannot be used; the text is the reason.
        Exception: whatever the backend raises for a model that it refuses.
    """
    if name == "openvino":
        from oplab.parity.openvino import openvino_runner

        return openvino_runner(tested)
    if name == "ncnn":
        from oplab.parity.ncnn import ncnn_runner

        return ncnn_runner(tested)
    return {"eager": _eager, "exported": _exported, "reference": _reference, "ort": _ort, "host": _host}[name](tested)


# --- PyTorch


def _eager(tested: ModelUnderTest) -> Runner:
    if tested.module is None:
        raise Unavailable("no PyTorch module or function was given (module=)")

    def run(feed: Feed) -> RunResult:
        args, kwargs = arguments(tested.module, {name: _tensor(array) for name, array in feed.items()})
        with evaluating(tested.module):
            return timed(tested, lambda: _arrays(tested.module(*args, **kwargs)))

    return run


def _exported(tested: ModelUnderTest) -> Runner:
    program = getattr(tested.model, "exported_program", None)
    if program is None and tested.module is None:
        raise Unavailable("neither a PyTorch module (module=) nor an ONNXProgram was given")
    import torch
    from torch.utils import _pytree as pytree

    def run_program(feed: Feed) -> RunResult:
        spec = program.call_spec.in_spec
        if spec.num_leaves != len(feed):
            raise Unavailable(f"the exported program takes {spec.num_leaves} inputs, and the ONNX model {len(feed)}")
        args, kwargs = pytree.tree_unflatten([_tensor(array) for array in feed.values()], spec)
        module = program.module()
        with evaluating(module):
            return timed(tested, lambda: _arrays(module(*args, **kwargs)))

    def run_module(feed: Feed) -> RunResult:
        args, kwargs = arguments(tested.module, {name: _tensor(array) for name, array in feed.items()})
        with evaluating(tested.module):
            try:
                # The shapes are those of this feed: the comparison is about values, not about dynamic shapes.
                module = torch.export.export(_as_module(tested.module), args, kwargs, strict=False).module()
            except Exception as error:
                raise Unavailable(f"torch.export: {first_line(error)}") from None
            return timed(tested, lambda: _arrays(module(*args, **kwargs)))

    return run_module if program is None else run_program


def _as_module(module: Any) -> Any:
    import torch

    if isinstance(module, torch.nn.Module):
        return module

    class Function(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return module(*args, **kwargs)

    return Function()


def _tensor(array: np.ndarray) -> Any:
    import torch

    try:
        return torch.from_numpy(array.copy())
    except TypeError as error:
        raise Unavailable(f"PyTorch does not take {array.dtype}: {first_line(error)}") from None


def _arrays(value: Any) -> list[np.ndarray]:
    return [as_array(leaf) for leaf in returned(value)]


# --- ONNX


def _reference(tested: ModelUnderTest) -> Runner:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeImplementationError

    from oplab.ops.reference import OPERATORS

    own = {(operator.op_domain, operator.__name__) for operator in tested.reference}
    operators = [*tested.reference, *(one for one in OPERATORS if (one.op_domain, one.__name__) not in own)]
    proto = loading.load(tested.source) if isinstance(tested.source, str) else tested.proto
    try:
        evaluator = ReferenceEvaluator(proto, new_ops=operators)
    except (NotImplementedError, RuntimeImplementationError) as error:
        raise Unavailable(f"onnx.reference: {first_line(error)}") from None

    overflows: dict[str, None] = {}
    terms: dict[str, float] = {}

    def watched(run: Callable[..., Any], node: onnx.NodeProto) -> Callable[..., Any]:
        """``run`` of a node, whose errors say which node it was, as ONNX Runtime's do."""
        title = f"{node.op_type} node {node.name or node.output[0]!r}"

        @functools.wraps(run)
        def named(*args: Any, **kwargs: Any) -> Any:
            try:
                with np.errstate(all="ignore"):
                    results = run(*args, **kwargs)
                    if _overflows(node.op_type, results, args, lambda *wide: run(*wide, **kwargs)):
                        overflows[title] = None
            except Exception as error:
                error.add_note(title)
                raise
            if node.output[0] in tested.outputs and (term := _largest_term(node.op_type, args)):
                terms[node.output[0]] = term
            return results

        return named

    for node in evaluator.rt_nodes_:
        node.run = watched(node.run, node.onnx_node)

    def run(feed: Feed) -> RunResult:
        overflows.clear()
        terms.clear()
        ran = timed(tested, lambda: [np.asarray(y) for y in evaluator.run(None, dict(feed))])
        return replace(ran, overflows=tuple(overflows), terms=dict(terms))

    return run


def _overflows(operator: str, results: Any, args: Any, run: Callable[..., Any]) -> bool:
    """Whether a float16 result of a node is infinite or NaN where float32 (for a Cast: its input) has a number."""
    lost = [getattr(one, "dtype", None) == np.float16 and ~np.isfinite(one) for one in results]
    if not any(map(np.any, lost)):
        return False
    try:
        wide = args if operator == "Cast" else run(*map(_wide, args))
    except Exception:  # it does not take float32: then its result is what it is
        return False
    return any(bool((bad & np.isfinite(one)).any()) for bad, one in zip(lost, wide, strict=False) if np.any(bad))


def _wide(value: Any) -> Any:
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float16 else value


def _largest_term(operator: str, args: Any) -> float | None:
    """The largest magnitude of a term of a sum, or a bound of it; None for an operator that adds nothing up."""
    sizes = [float(np.abs(one).max(initial=0)) for one in args if getattr(one, "dtype", np.dtype("O")).kind == "f"]
    if operator in ("Add", "Sub", "Sum", "Mean", "ReduceSum", "ReduceMean"):
        return max(sizes, default=None)
    if operator in ("MatMul", "Gemm", "Conv", "ConvTranspose") and len(sizes) > 1:
        return max([sizes[0] * sizes[1], *sizes[2:3]])
    return None


def _ort(tested: ModelUnderTest) -> Runner:
    from oplab.ops.sessions import session as open_session

    session = open_session(tested.model, libraries=tested.libraries)
    return lambda feed: timed(tested, lambda: [np.asarray(y) for y in session.run(None, dict(feed))])


# --- C++

_UNKNOWN = "is not a registered function/op"


def _host(tested: ModelUnderTest) -> Runner:
    from oplab.toolchain.build import host_path

    program = host_path()
    if not program.is_file():
        raise Unavailable("build/lib/oplab_host is not compiled; `make setup` does it")
    # The program reads no declarations: a misspelt attribute would silently have its default there.
    if tested.libraries:
        declared = [found for library in tested.libraries if (found := domain.declaration(Path(library)))]
        domain.check_model(tested.source, declared)
    else:
        domain.check_model(tested.source)
    libraries = [word for library in tested.libraries for word in ("--library", str(Path(library).resolve()))]
    # As oplab.session: the given libraries first, the course's kernels only where the model needs them too.
    ways = (
        [libraries, [*libraries, "--in-process"]] if libraries else [["--in-process"] if tested.uses_our_domain else []]
    )

    def run(feed: Feed) -> RunResult:
        for name, array in feed.items():
            if str(array.dtype) not in HOST_DTYPES:
                raise Unavailable(f"the program reads no {array.dtype} ({name})")
        with tempfile.TemporaryDirectory(prefix="oplab-host-") as folder:
            return call(feed, Path(folder))

    def call(feed: Feed, folder: Path) -> RunResult:
        if isinstance(tested.source, str):
            model = str(Path(tested.source).resolve())
        else:
            model = str(folder / "model.onnx")
            Path(model).write_bytes(tested.source)
        words = [str(program), model, "--outputs", str(folder / "out")]
        for number, (name, array) in enumerate(feed.items()):
            np.save(folder / f"{number}.npy", array)
            words += ["--input", f"{name}={folder / f'{number}.npy'}"]
        if tested.timed:
            words += ["--repeat", str(REPEATS), "--warmup", "1"]
        for way in ways:
            done = subprocess.run([*words, *way], capture_output=True, text=True, errors="replace")
            if done.returncode == 0 or _UNKNOWN not in done.stderr:
                break
        if done.returncode:
            said = done.stderr.strip() or f"it ended with status {done.returncode}"
            raise RuntimeError(said.removeprefix("oplab_host: "))
        # One line for each output, in the model's order; the path after the last arrow is in our own folder.
        files = re.findall(r"^.* -> (.*\.npy)$", done.stdout, re.MULTILINE)
        median = re.search(r"median (\S+) ms", done.stdout)
        return RunResult([np.load(file) for file in files], float(median[1]) if median else None)

    return run
