"""The onnx package's own test cases, given to the course's kernels that compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.backend.test.case.node import collect_testcases

from oplab import ops
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
