"""Static quantisation of a model with a custom operator: the calibration has no library."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.calibrate import MinMaxCalibrater
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

from oplab import ops
from tests.clinic.tools import refusal
from tests.support.models import model_of

WEIGHT = numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")


def float_model() -> onnx.ModelProto:
    """MatMul, MyAdd, MatMul."""
    model = model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("MyAdd", ["h", "h"], ["s"], domain="oplab", alpha=0.5, beta=0.5),
            helper.make_node("MatMul", ["s", "w"], ["y"]),
        ],
        {"x": "f4"},
        {"y": "f4"},
        {"x": [1, 4], "y": [1, 4]},
    )
    model.graph.initializer.append(WEIGHT)
    model.graph.value_info.append(helper.make_tensor_value_info("s", 1, [1, 4]))  # shape inference ends at MyAdd
    return model


class Samples(CalibrationDataReader):
    """Eight inputs between -1 and 1."""

    def __init__(self):
        self._rows = iter([{"x": np.sin(np.arange(4, dtype=np.float32) + i)[None]} for i in range(8)])

    def get_next(self):
        """The next one, or None."""
        return next(self._rows, None)


class Calibrater(MinMaxCalibrater):
    """Calibrates with a session that has the library."""

    def create_inference_session(self) -> None:
        """As the class does it, with one line more."""
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(str(ops.ort_library()))
        self.infer_session = onnxruntime.InferenceSession(self.augmented_model_path, options)


def happens() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        message = refusal(Exception, quantize_static, float_model(), Path(folder, "int8.onnx"), Samples())
    return "oplab:MyAdd(-1) is not a registered function/op" in message


def way_around() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "float.onnx")
        onnx.save(float_model(), path)
        calibrater = Calibrater(path, augmented_model_path=str(Path(folder, "augmented.onnx")))
        calibrater.augment_graph()
        calibrater.create_inference_session()
        calibrater.collect_data(Samples())
        ranges = calibrater.compute_data()
    quantizer = QDQQuantizer(
        float_model(),
        per_channel=False,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8,
        tensors_range=ranges,
        nodes_to_quantize=[],
        nodes_to_exclude=[],
        op_types_to_quantize=["MatMul"],
        extra_options={},
    )
    quantizer.quantize_model()
    quantized = quantizer.model.model
    assert [node.op_type for node in quantized.graph.node].count("DequantizeLinear") >= 4
    feed = Samples().get_next()
    wanted, found = (ops.session(model).run(None, feed)[0] for model in (float_model(), quantized))
    assert not np.array_equal(wanted, found)
    assert np.allclose(wanted, found, atol=0.05)
