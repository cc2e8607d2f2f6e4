"""Chapter 11: three ways to run a custom operator before any C++ is
written.

``reference_knn`` returns a class, ``pyop_my_add`` declares Python
kernels and rewrites a model for them, ``function_my_add`` puts an
operator's definition into a model. The grader calls each of them in a
separate process.

Check one with ``make check EX=c11.reference_knn``.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper
from onnx.reference.op_run import OpRun

from oplab import todo


def reference_knn() -> type[OpRun]:
    """The k nearest neighbours, as a class for ``onnx.reference``.

    The operator ``oplab::KNNQuery``, version 1::

        KNNQuery(xyz, offset, new_xyz?, new_offset?; nsample) -> idx, dist

    Args of the node:
        xyz: float32 [n, 3], the points. The batches follow one another.
        offset: int64 [b], entry i is the total number of points in
        batches 0 to i: [3, 7] is a
            batch of 3 and one of 4.
        new_xyz, new_offset: float32 [m, 3] and int64 [b], the points to
        find neighbours for,
            and their batches. If both are omitted (left out, or the
            empty name), they default to ``xyz`` and ``offset``, and m
            is n.
        nsample: INT, the number of neighbours. It is always set.

    Results of the node:
        idx: int32 [m, nsample]. Row i has the rows of ``xyz`` that are
        nearest to new point i,
            nearest first, within the batch of that point. If two are
            equally far away, the lower index comes first. A point is
            its own neighbour.
        dist: float32 [m, nsample], their Euclidean distances
        (not squared).

    If a batch has fewer than nsample points, the rest of the row is -1
    in idx and 0 in dist. A batch may be empty.

    Returns:
        A class that ``ReferenceEvaluator(model, new_ops=[...])`` finds
        for these nodes::

            >>> evaluator = ReferenceEvaluator(model, new_ops=[reference_knn()])
            >>> points = np.array([[0, 0, 0], [3, 4, 0], [1, 0, 0], [9, 9, 9]], np.float32)
            >>> feeds = {"xyz": points, "offset": np.array([3, 4])}
            >>> idx, dist = evaluator.run(None, feeds)  # nsample = 2
            >>> idx.tolist(), dist[:3].tolist()
            ([[0, 2], [1, 2], [2, 0], [3, -1]], [[0.0, 1.0], [0.0, 4.472136], [0.0, 1.0]])

    Not allowed (contains the answer): ``oplab.ops.reference``,
    ``torch_cluster``. About 20 lines.
    """

    # ANSWER c11.reference_knn: return an OpRun class that finds neighbours within each batch
    class KNNQuery(OpRun):
        op_domain = "oplab"

        def _run(self, xyz, offset, new_xyz=None, new_offset=None, nsample=None):
            if new_xyz is None:
                new_xyz, new_offset = xyz, offset
            idx = np.full((len(new_xyz), nsample), -1, np.int32)
            dist = np.zeros((len(new_xyz), nsample), np.float32)
            first = new_first = 0
            for last, new_last in zip(offset.tolist(), new_offset.tolist(), strict=True):
                for query in range(new_first, new_last):
                    away = np.sqrt(((xyz[first:last] - new_xyz[query]) ** 2).sum(axis=1))
                    nearest = np.argsort(away, kind="stable")[:nsample]
                    idx[query, : len(nearest)] = first + nearest
                    dist[query, : len(nearest)] = away[nearest]
                first, new_first = last, new_last
            return idx, dist

    return KNNQuery
    # END


def pyop_my_add(model: onnx.ModelProto) -> onnx.ModelProto:
    """Run ``oplab::MyAdd`` in ONNX Runtime with Python kernels of
    ``onnxruntime_extensions``.

    The operator is ``MyAdd(a, b; alpha=3.0, beta=2.0) -> y``, which is
    alpha * a + beta * b. ``a``, ``b`` and ``y`` have the same dtype,
    float or double, and the attributes are FLOAT.

    The function declares the kernels with ``@onnx_op``, and returns a
    model in which every ``oplab::MyAdd`` of the graph is a node of the
    domain ``ai.onnx.contrib``, the domain of such kernels. Nothing else
    changes: not the names, not the order, and no node that has only the
    type or only the domain. The MyAdd nodes may have both attributes,
    one of them or none, and their inputs may be float or double, of any
    rank::

        >>> options = onnxruntime.SessionOptions()
        >>> options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        >>> content = pyop_my_add(model).SerializeToString()
        >>> session = onnxruntime.InferenceSession(content, options)

    The grader calls it once: a kernel can be declared only once in a
    process. The attributes in its models are sixteenths, for example
    -1.6875, because such a kernel gets only six digits of them.

    Args:
        model: a model with MyAdd nodes in its main graph.

    Returns:
        The model for the Python kernels. It imports the domains that it
        uses. It may be ``model`` itself, modified.

    About 20 lines.
    """

    # ANSWER c11.pyop_my_add: declare two kernels; set the domain and attributes of the nodes
    from onnxruntime_extensions import PyOp, onnx_op

    def kernel(a, b, alpha, beta):
        return alpha * a + beta * b

    attributes = {"alpha": PyOp.dt_float, "beta": PyOp.dt_float}
    for dtype in (PyOp.dt_float, PyOp.dt_double):
        onnx_op(op_type="MyAdd", inputs=[dtype, dtype], outputs=[dtype], attrs=attributes)(
            kernel
        )

    for node in model.graph.node:
        if (node.domain, node.op_type) == ("oplab", "MyAdd"):
            node.domain = "ai.onnx.contrib"
            given = {attribute.name for attribute in node.attribute}
            for name, value in (("alpha", 3.0), ("beta", 2.0)):
                if name not in given:
                    node.attribute.append(helper.make_attribute(name, value))
    model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    return model
    # END


def function_my_add(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put the definition of ``oplab::MyAdd`` into a model, which then
    needs no library.

    The operator is ``MyAdd(a, b; alpha=3.0, beta=2.0) -> y``, which is
    alpha * a + beta * b. ``a``, ``b`` and ``y`` have the same dtype,
    float or double, and the attributes are FLOAT.

    No node of the graph changes; the model gets one model-local
    function. It works for all MyAdd nodes: float or double, with both
    attributes, one or none::

        >>> ready = function_my_add(model)
        >>> [(function.domain, function.name) for function in ready.functions]
        [('oplab', 'MyAdd')]
        >>> onnx.checker.check_model(ready, full_check=True)
        >>> onnxruntime.InferenceSession(ready.SerializeToString())  # no library is registered

    Args:
        model: a model that imports ONNX's own operators in version 15
            or later, not always the same. It may have other functions,
            and its import of ``oplab`` may be missing.

    Returns:
        The model with the function. It imports the domains that it
        uses. It may be ``model`` itself, modified.

    About 20 lines.
    """

    # ANSWER c11.function_my_add: attach a function with both attributes and their defaults
    def from_attribute(name):
        node = helper.make_node("Constant", [], [name])
        kind = onnx.AttributeProto.FLOAT
        node.attribute.add(name="value_float", type=kind, ref_attr_name=name)
        return node

    body = [
        from_attribute("alpha"),
        from_attribute("beta"),
        helper.make_node("CastLike", ["alpha", "a"], ["alpha_like_a"]),
        helper.make_node("CastLike", ["beta", "b"], ["beta_like_b"]),
        helper.make_node("Mul", ["alpha_like_a", "a"], ["left"]),
        helper.make_node("Mul", ["beta_like_b", "b"], ["right"]),
        helper.make_node("Add", ["left", "right"], ["y"]),
    ]
    standard = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    defaults = [helper.make_attribute("alpha", 3.0), helper.make_attribute("beta", 2.0)]
    made = helper.make_function(
        "oplab", "MyAdd", ["a", "b"], ["y"], body, standard, attribute_protos=defaults
    )
    model.functions.append(made)
    if all(entry.domain != "oplab" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("oplab", 1))
    return model
    # END
