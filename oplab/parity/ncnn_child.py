"""``python -m oplab.parity.ncnn_child FOLDER``: runs a model in ncnn, in the process that :mod:`oplab.parity.ncnn` starts.

pnnx takes no node that ONNX Runtime does not know. The model is therefore cut at the course's operators: pnnx converts the pieces
between them, each with the sizes that its inputs have, and an operator of the course is a net of one layer.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import ncnn
import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper, shape_inference

from oplab.errors import first_line
from oplab.onnxtools import loading
from oplab.onnxtools.subgraphs import reads
from oplab.parity import ncnn_layers
from oplab.parity.tested import Unavailable

Values = dict[str, np.ndarray]
Run = Callable[[Values], None]  # adds a piece's outputs to the values
_UNKNOWN = re.compile(r"layer (\S+) not exists or registered")
_INPUT = re.compile(r'"in(\d+)", ncnn\.Mat\(in\d+\.numpy\(\), batch_index=(\d+)\)')
_OUTPUT = re.compile(r"\bout(\d+)\.numpy\(batch_index=(\d+)\)")
_CONSTANTS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}


class Model:
    """A model in pieces: runs of ONNX's own nodes, and between them nodes of the course's domain."""

    def __init__(self, path: str, folder: Path, cache: Path):
        model = loading.load(path)
        self.proto = inliner.inline_local_functions(model) if model.functions else model
        self.folder, self.cache = folder, cache
        self.constants = {one.name: numpy_helper.to_array(one) for one in self.proto.graph.initializer}
        nodes = [node for node in self.proto.graph.node if not self._is_constant(node)]
        grouped = groupby(enumerate(nodes), lambda one: one[0] if one[1].domain == "oplab" else -1)
        self.pieces = [[node for _, node in group] for _, group in grouped]
        self.outputs = [value.name for value in self.proto.graph.output]
        self.prepared: list[Run] = []

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
            return False
        (attribute,) = node.attribute
        if attribute.name == "value":
            self.constants[node.output[0]] = numpy_helper.to_array(attribute.t)
        elif attribute.name in _CONSTANTS:
            value = helper.get_attribute_value(attribute)
            self.constants[node.output[0]] = np.array(value, _CONSTANTS[attribute.name])
        else:
            return False
        return True

    def first(self, feed: Values) -> list[np.ndarray]:
        """The outputs. A piece is converted when the sizes of its inputs are known."""
        values = {**self.constants, **feed}
        for number, nodes in enumerate(self.pieces):
            (self.folder / "at").write_text(_names(nodes), encoding="utf-8")
            prepare = self._operator if nodes[0].domain == "oplab" else self._converted
            self.prepared.append(prepare(number, nodes, values))
            self.prepared[-1](values)
        return [values[name] for name in self.outputs]

    def again(self, feed: Values) -> None:
        """The same with what was converted."""
        values = {**self.constants, **feed}
        for run in self.prepared:
            run(values)

    def _operator(self, number: int, nodes: list[onnx.NodeProto], values: Values) -> Run:
        (node,) = nodes
        names = list(node.input)
        while names and not names[-1]:
            names.pop()
        if "" in names:
            raise Unavailable(f"ncnn's layers take no omitted input before another one ({node.op_type})")
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        kept: list[ncnn.Layer] = []
        net = _net()
        ncnn_layers.register(net, node.op_type, attributes, kept)
        net.load_param_mem(ncnn_layers.line_of(node.op_type, len(names), attributes))
        net.load_model(ncnn.DataReaderFromEmpty())
        kinds = ncnn_layers.OUTPUTS.get(node.op_type, "f")

        def run(values: Values) -> None:
            assert kept or node.op_type not in ncnn_layers.LAYERS
            arrays = [values[name] for name in names]
            ncnn_layers.check(node.op_type, arrays)
            for place, (name, array) in enumerate(zip(names, arrays, strict=True)):
                if place in ncnn_layers.INTEGERS.get(node.op_type, ()):
                    if array.size and np.abs(array).max() > np.iinfo(np.int32).max:
                        raise Unavailable(f"ncnn has no int64, and {name} does not fit in int32")
                    arrays[place] = array.astype(np.int32)
                elif array.dtype != np.float32:
                    raise Unavailable(f"ncnn computes in float32: it takes no {array.dtype} ({name})")
                _not_empty(name, array)
            if node.op_type == "MyAdd":  # element by element, so each number of dimensions will do
                mats = [ncnn_layers.mat(array.reshape(-1)) for array in arrays]
            else:
                mats = [ncnn_layers.mat(array) for array in arrays]
            found = _extract(net, {f"in{i}": one for i, one in enumerate(mats)}, len(kinds), nodes)
            for name, one, kind in zip(node.output, found, kinds, strict=False):
                array = np.array(one.numpy(kind))
                values[name] = array.reshape(arrays[0].shape) if node.op_type == "MyAdd" else array

        return run

    def _converted(self, number: int, nodes: list[onnx.NodeProto], values: Values) -> Run:
        made = {name for node in nodes for name in node.output}
        taken = list(dict.fromkeys(name for node in nodes for name in reads(node) if name not in made))
        later = {name for piece in self.pieces[number + 1 :] for node in piece for name in reads(node)}
        given = [name for node in nodes for name in node.output if name and (name in later or name in self.outputs)]
        inputs = [name for name in taken if name not in self.constants]
        for name in inputs:
            if values[name].dtype != np.float32:
                raise Unavailable(f"ncnn computes in float32: it takes no {values[name].dtype} ({name})")
            _not_empty(name, values[name])
        constants = [name for name in taken if name in self.constants]
        piece, kinds = self._piece(nodes, {name: values[name] for name in inputs}, constants, given)
        folder = self._pnnx(piece, nodes)
        net = _net()
        mark = _mark()
        code = net.load_param(str(folder / "piece.ncnn.param"))
        if code or net.load_model(str(folder / "piece.ncnn.bin")):
            said = _said(mark)
            if unknown := _UNKNOWN.findall(said):
                raise Unavailable(f"ncnn has no layer for {', '.join(dict.fromkeys(unknown))} ({said})")
            raise Unavailable(f"ncnn does not load what pnnx made of {_names(nodes)}: {said}")
        program = (folder / "piece_ncnn.py").read_text(encoding="utf-8")
        batch_in = {int(one): int(index) for one, index in _INPUT.findall(program)}
        batch_out = {int(one): int(index) for one, index in _OUTPUT.findall(program)}
        for place, name in enumerate(inputs):
            dimensions = values[name].ndim - (batch_in.get(place, 233) != 233)
            if not 1 <= dimensions <= 4:
                raise Unavailable(
                    f"ncnn has tensors of 1 to 4 dimensions besides the batch, and {name} has {dimensions}"
                )

        def run(values: Values) -> None:
            # An input of which only the size was needed is none of ncnn's: pnnx has made a constant of the size.
            mats = {
                f"in{place}": ncnn_layers.mat(values[name], batch_in.get(place, 233))
                for place, name in enumerate(inputs)
                if f"in{place}" in net.input_names()
            }
            for place, one in enumerate(_extract(net, mats, len(given), nodes)):
                array = np.array(one.numpy(batch_index=batch_out.get(place, 233)))
                shape = kinds.get(given[place])
                # ncnn's results have no sizes 1 in front; ONNX's rules say where they were.
                fits = shape is not None and int(np.prod(shape)) == array.size
                values[given[place]] = array.reshape(shape) if fits else array

        return run

    def _piece(
        self, nodes: list[onnx.NodeProto], inputs: Values, constants: list[str], outputs: list[str]
    ) -> tuple[onnx.ModelProto, dict[str, list[int]]]:
        """A model of these nodes with fixed sizes, and the shapes of those outputs that ONNX's rules know."""
        ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, one.shape) for name, one in inputs.items()]
        untyped = [onnx.ValueInfoProto(name=name) for name in outputs]
        tensors = [numpy_helper.from_array(np.asarray(self.constants[name]), name) for name in constants]
        graph = helper.make_graph(nodes, "piece", ends, untyped, tensors)
        opsets = [one for one in self.proto.opset_import if one.domain in ("", "ai.onnx")]
        piece = helper.make_model(graph, opset_imports=opsets, ir_version=self.proto.ir_version)
        inferred = shape_inference.infer_shapes(piece, data_prop=True)
        shapes = {}
        for value in inferred.graph.output:
            kind = value.type.tensor_type
            if kind.elem_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.UNDEFINED):
                dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
                raise Unavailable(f"ncnn computes in float32: it gives no {dtype} ({value.name})")
            if kind.HasField("shape") and all(one.HasField("dim_value") for one in kind.shape.dim):
                shapes[value.name] = [one.dim_value for one in kind.shape.dim]
        for value in piece.graph.output:
            shape = shapes.get(value.name)
            value.CopyFrom(helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, shape))
        return piece, shapes

    def _pnnx(self, piece: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> Path:
        data = piece.SerializeToString(deterministic=True)
        folder = self.cache / hashlib.sha256(data).hexdigest()
        if (folder / "done").exists():
            return folder
        folder.mkdir(exist_ok=True)
        (folder / "piece.onnx").write_bytes(data)
        spec = importlib.util.find_spec("pnnx")  # importing it imports PyTorch
        assert spec and spec.submodule_search_locations
        program = Path(spec.submodule_search_locations[0]) / "pnnx"
        # fp16=1, the default, rounds the weights.
        command = [str(program), "piece.onnx", "fp16=0"]
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        made = (folder / "piece.ncnn.param").is_file() and (folder / "piece_ncnn.py").is_file()
        if done.returncode or not made:
            lines = [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
            last = re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]) if lines else "nothing"
            ended = f" and ends with {signal.Signals(-done.returncode).name}" if done.returncode < 0 else ""
            raise Unavailable(f"pnnx does not convert {_names(nodes)}: it says {last!r}{ended}")
        (folder / "done").touch()
        return folder


def _net() -> ncnn.Net:
    """A net that computes in float32. Which of these ncnn would use depends on the processor, and so would the verdict."""
    net = ncnn.Net()
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
        setattr(net.opt, f"use_{name}", False)
    net.opt.use_winograd_convolution = False
    net.opt.use_vulkan_compute = False
    return net


def _extract(net: ncnn.Net, mats: dict[str, ncnn.Mat], outputs: int, nodes: list[onnx.NodeProto]) -> list[ncnn.Mat]:
    extractor = net.create_extractor()
    mark = _mark()
    found = []
    for name, one in mats.items():
        extractor.input(name, one)
    for number in range(outputs):
        code, one = extractor.extract(f"out{number}")
        if code or one.empty():
            said = _said(mark)
            raise RuntimeError(f"ncnn returns {code} for {_names(nodes)}" + (f": {said}" if said else ""))
        found.append(one)
    return found


def _not_empty(name: str, array: np.ndarray) -> None:
    if not array.size:
        shape = ", ".join(map(str, array.shape))
        raise Unavailable(f"ncnn has no empty tensors ({name} is {array.dtype}[{shape}])")


def _names(nodes: list[onnx.NodeProto]) -> str:
    names = list(dict.fromkeys(node.op_type for node in nodes))
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")


def _mark() -> int:
    """The end of what ncnn has written to the standard error so far, which is a file."""
    return os.lseek(2, 0, os.SEEK_END)


def _said(mark: int) -> str:
    lines = os.pread(2, 4000, mark).decode(errors="replace").splitlines()
    return "; ".join(line.strip() for line in lines if line.strip())


def _answer(folder: Path) -> dict[str, Any]:
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    feed = {name: np.load(folder / f"in{number}.npy") for number, name in enumerate(job["inputs"])}
    try:
        model = Model(job["model"], folder, Path(job["cache"]))
        outputs = model.first(feed)
        for number, array in enumerate(outputs):
            np.save(folder / f"out{number}.npy", array)
        seconds = []
        for _ in range(job["repeats"]):
            start = time.perf_counter()
            model.again(feed)
            seconds.append(time.perf_counter() - start)
    except Unavailable as error:
        return {"unavailable": str(error)}
    except Exception as error:
        kind = "" if isinstance(error, RuntimeError) else f"{type(error).__name__}: "
        return {"failed": kind + first_line(error)}
    return {"outputs": len(outputs), "milliseconds": statistics.median(seconds) * 1000 if seconds else None}


def main(folder: Path) -> None:
    """Reads the job and the inputs, and writes the outputs and ``answer.json``."""
    words = os.open(folder / "words.txt", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(words, 2)  # ncnn's own words go there
    answer = json.dumps(_answer(folder))
    (folder / "answer.json").write_text(answer, encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # destructors of nets with Python layers may end the process, and the answer is there


if __name__ == "__main__":
    main(Path(sys.argv[1]))
