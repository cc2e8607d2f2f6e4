"""Chapter 18: one operator, several engines.

`make check EX=c18` grades this file and
`csrc/c18_openvino_extension.cpp`. OpenVINO is an extra of the course:
`make deps-engines` installs it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from oplab import todo


def conversion() -> list:
    """Teach OpenVINO two of the course's operators, with OpenVINO's
    own.

    Returns a list for :meth:`openvino.Core.add_extension`, one
    extension for each operator::

        >>> core = openvino.Core()
        >>> core.add_extension(conversion())
        >>> program = core.compile_model(core.read_model("model.onnx"), "CPU")

    - ``oplab::MyAdd(a, b; alpha = 3, beta = 2) -> alpha * a + beta *
      b``. The shapes of a and b are the same: a model that declares two
      shapes that cannot be the same is refused.
    - ``oplab::DynamicResize(x, scales) -> y`` is ONNX's Resize of
      x[N, C, H, W] with mode "cubic", cubic_coeff_a -0.75 and
      coordinate_transformation_mode "half_pixel", without antialias.
      ``scales`` has four float32, of which the first two are 1. A side
      of y is ``floor(side * scale)``, and the scale decides about the
      place of each pixel, not the quotient of the two sides.

    a, b, x and the result have one type: float16, float32 or float64.
    Axes may be dynamic, and ``scales`` may be computed in the model.
    What the model knows about shapes is not lost: y of a DynamicResize
    has the N and C of x.

    ``openvino.opset13`` has all that you need. About 25 lines.
    """
    from openvino import opset13
    from openvino.frontend.onnx import ConversionExtension

    # ANSWER c18.conversion: map MyAdd and DynamicResize to OpenVINO's own operators
    def my_add(node):
        a, b = node.get_input(0), node.get_input(1)
        alpha, beta = (
            opset13.constant(node.get_attribute(name, default), a.get_element_type())
            for name, default in (("alpha", 3.0), ("beta", 2.0))
        )
        terms = opset13.multiply(a, alpha), opset13.multiply(b, beta)
        # Without it, a[2, 3] and b[1, 3] would be broadcast.
        return opset13.add(*terms, auto_broadcast="NONE").outputs()

    def dynamic_resize(node):
        x, scales = node.get_input(0), node.get_input(1)
        # With all four axes, N and C of y would be data, and not those of x.
        sides = opset13.slice(scales, [2], [4], [1])
        return opset13.interpolate(
            x,
            sides,
            mode="cubic",
            shape_calculation_mode="scales",  # "sizes" would compute the scale again, from the sides
            axes=opset13.constant([2, 3], dtype="int64"),
            coordinate_transformation_mode="half_pixel",
            cube_coeff=-0.75,
        ).outputs()

    return [
        ConversionExtension("MyAdd", "oplab", my_add),
        ConversionExtension("DynamicResize", "oplab", dynamic_resize),
    ]
    # END


def differ(
    model: onnx.ModelProto,
    cases: list[dict[str, np.ndarray]],
    recorded: dict[str, list[dict[str, np.ndarray] | None]],
    allowed: dict[str, list[Callable[..., np.ndarray]]],
) -> list[tuple[str, int, str, str]]:
    """Find which engine is wrong, at which node and in which case.

    Args:
        model: a model of stock operators, an `onnx.ModelProto`. Its
            nodes are sorted.
        cases: the inputs of each case, arrays by name.
        recorded: by engine, what it computed in each case: arrays by
            name, inner values of the model and its outputs. A value
            that the engine does not show is missing. If the engine
            refused the case, there is None.
        allowed: by the name of a node's first output, other readings of
            the standard: functions that take the node's input arrays
            (None for an input that is left out) and return the output.
            Such a node has one output, and it is always recorded.

    Returns a list of (engine, number of the case, first output of the
    node, what differs), in the order of `recorded`, of the cases, and
    of the nodes. A node is wrong if, from the inputs that *the engine*
    had, ONNX's reference computes something else, and so does each
    allowed reading. Where the engine shows no value, go on with what
    the reference computes from the values that this engine had; it is
    not compared. A refused case gives no entry. What differs is the
    first of

    - `"dtype"`;
    - `"shape"`;
    - `"values"`: NaN has to be where the expected value has NaN, an
      infinity where it has one of the same sign, and elsewhere
      `|got - expected| <= atol + rtol * |expected|`. rtol and atol are
      1e-2 and 1e-3 for float16, 1e-4 and 1e-5 for float32, 1e-9 and
      1e-10 for float64. All other types have to be equal.

    Of a node with several outputs, the first one that differs counts,
    and the entry has the name of the node's first output. Where
    readings are allowed and none of them fits, it is the difference
    from the reference. The arguments stay as they are. About 40 lines.
    """

    # ANSWER c18.differ: find which engine computes which node wrongly, in which case
    limits = {"float16": (1e-2, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-9, 1e-10)}

    def alone(node, inputs):
        given = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
        ports = [
            [onnx.ValueInfoProto(name=one) for one in names] for names in (given, node.output)
        ]
        graph = helper.make_graph([node], "one", *ports)
        one = helper.make_model(
            graph, opset_imports=model.opset_import, ir_version=model.ir_version
        )
        return ReferenceEvaluator(one).run(None, given)

    def difference(got, expected):
        expected = np.asarray(expected)
        if got.dtype != expected.dtype:
            return "dtype"
        if got.shape != expected.shape:
            return "shape"
        if got.dtype.name not in limits:
            return "" if np.array_equal(got, expected) else "values"
        rtol, atol = limits[got.dtype.name]
        wide = got.astype(np.float64), expected.astype(np.float64)
        return "" if np.allclose(*wide, rtol, atol, equal_nan=True) else "values"

    found = []
    constants = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
    }
    for engine, runs in recorded.items():
        for number, (feed, run) in enumerate(zip(cases, runs, strict=True)):
            if run is None:
                continue
            values = {"": None, **constants, **feed}
            for node in model.graph.node:
                inputs = [values[name] for name in node.input]
                outputs = dict(zip(node.output, alone(node, inputs), strict=True))
                shown = {name: run[name] for name in node.output if name in run}
                whats = [difference(run[name], outputs[name]) for name in shown]
                what = next(filter(None, whats), "")
                first = node.output[0]
                others = [[reading(*inputs)] for reading in allowed.get(first, ())]
                if what and all(difference(run[first], other) for (other,) in others):
                    found.append((engine, number, first, what))
                values.update(outputs | shown)
    return found
    # END
