"""The course's kernels on their peers' cases: the onnx package's own, and random ones against torchvision and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from scipy.spatial import cKDTree
from torchvision.ops import deform_conv2d

from oplab import ops
from tests.support import deform_conv2d as deform
from tests.support import knn
from tests.support.models import one_node

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]
OURS = {
    "DeformConv": "DeformConv2d",
    "RMSNormalization": "RMSNorm",
    "Sum": "VarSum",
    "Add": "MyAdd",
    "Resize": "DynamicResize",
}
LEAST = {"DeformConv": 4, "RMSNormalization": 5, "Sum": 3, "Add": 1, "Resize": 2}


def attributes_of(node) -> dict | None:
    """The attributes of our node; None where the case asks for what ours does not promise."""
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    if node.op_type == "Resize":
        cubic = given.get("mode") == b"cubic" and given.get("cubic_coeff_a", -0.75) == -0.75
        plain = not set(given) - {"mode", "cubic_coeff_a", "coordinate_transformation_mode"}
        return {} if cubic and plain and "coordinate_transformation_mode" not in given else None
    if node.op_type == "RMSNormalization":
        return {"epsilon": given.get("epsilon", 1e-5)}
    return {"alpha": 1.0, "beta": 1.0} if node.op_type == "Add" else given


def test_the_same_results():
    ran = dict.fromkeys(OURS, 0)
    for case in collect_testcases(None):
        node, graph = case.model.graph.node[0], case.model.graph
        if node.op_type not in OURS or len(graph.node) != 1 or (attributes := attributes_of(node)) is None:
            continue
        for inputs, outputs in case.data_sets:
            values = dict(zip([end.name for end in graph.input], inputs, strict=True))
            if node.op_type == "Resize":
                values = {name: value for name, value in values.items() if name in (node.input[0], node.input[2])}
            names = [name for name in node.input if name in values or (not name and node.op_type != "Resize")]
            shapes = [np.shape(value) for value in values.values()]
            floats = all(np.asarray(value).dtype == np.float32 for value in values.values())
            same = node.op_type not in ("Add", "Sum") or len(set(shapes)) == 1
            last = node.op_type != "RMSNormalization" or (len(shapes[1]) == 1 and shapes[1][0] == shapes[0][-1])
            whole = len(values) == (2 if node.op_type == "Resize" else len([name for name in names if name]))
            if not (floats and same and last and whole):
                continue
            model = one_node(OURS[node.op_type], values, names, ("result",), **attributes)
            np.testing.assert_allclose(
                ops.session(model).run(None, values)[0], outputs[0], rtol=1e-4, atol=1e-5, err_msg=case.name
            )
            ran[node.op_type] += 1
    assert all(ran[name] >= count for name, count in LEAST.items()), ran


def test_random_deformable_convolutions(seed):
    draw = np.random.default_rng(seed)
    for number in range(100):
        group, offset_group = draw.choice([1, 2], 2)
        kernel, strides, dilations = (tuple(map(int, draw.integers(1, 4, 2))) for _ in range(3))
        pads = tuple(map(int, draw.integers(0, 3, 2))) * 2  # torchvision pads both ends alike
        feed, attributes = deform.make_feed(
            n=int(draw.integers(1, 3)),
            channels=4,
            size=tuple(map(int, draw.integers(8, 14, 2))),
            out_channels=6,
            kernel=kernel,
            strides=strides,
            pads=pads,
            dilations=dilations,
            group=int(group),
            offset_group=int(offset_group),
            reach=float(draw.choice([0, 1.5, 20])),
            seed=number,
        )
        x, weight, offset, bias, mask = map(torch.from_numpy, feed.values())
        wanted = deform_conv2d(x, offset, weight, bias, strides, pads[:2], dilations, mask)
        (got,) = ops.session(deform.make_model(**attributes)).run(None, feed)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=str(attributes))


def test_random_neighbours(seed):
    draw = np.random.default_rng(seed)
    for number in range(100):
        points, nsample = int(draw.integers(1, 300)), int(draw.integers(1, 20))
        xyz, _ = knn.cloud(
            str(draw.choice(["even", "normal", "on a plane", "on a sphere"])), points, np.float64, seed=number
        )
        queries = draw.normal(0, 1, (int(draw.integers(1, 50)), 3))
        nsample = min(nsample, points)
        feed = {"xyz": xyz, "offset": np.array([points]), "new_xyz": queries, "new_offset": np.array([len(queries)])}
        wanted = cKDTree(xyz).query(queries, nsample)[0].reshape(len(queries), nsample)
        np.testing.assert_allclose(knn.in_ort(nsample, feed)[1], wanted, rtol=1e-12)
