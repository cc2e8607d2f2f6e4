"""oplab.checks.schedules: a kernel's pieces in an order of ours, in ONNX Runtime's C library."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

from oplab import ops
from oplab.checks import schedules
from oplab.toolchain import build, headers

SIZE = 5 * 4096  # five pieces of VarSum's


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory):
    build.build_all(say=lambda line: None)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("VarSum", ["a", "b"], ["y"], domain="oplab")], "g", ends[:2], ends[2:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return schedules.ScheduledSession(model, ops.ort_library(), tmp_path_factory.mktemp("scheduled"))


def feed(size: int) -> dict[str, np.ndarray]:
    a, b = np.random.default_rng(1).normal(size=(2, size)).astype(np.float32)
    return {"a": a, "b": b}


@pytest.mark.parametrize("label", schedules.ORDERS)
def test_the_pieces_run_in_our_order(scheduled, label):
    seen = []

    def order(total):
        seen.extend(schedules.ORDERS[label](total))
        return seen

    given = feed(SIZE)
    got = scheduled.run(given, {"y": ((SIZE,), "float32")}, order)["y"]
    assert sorted(seen) == list(range(5)) and scheduled.pieces == [5]
    np.testing.assert_array_equal(got, given["a"] + given["b"])


def test_a_piece_that_is_not_called_is_missing(scheduled):
    """It is our order that counts, and nobody else calls the rest: NaN is what an output holds before the run."""
    got = scheduled.run(feed(SIZE), {"y": ((SIZE,), "float32")}, lambda total: [2])["y"]
    assert np.flatnonzero(~np.isnan(got)).tolist() == list(range(2 * 4096, 3 * 4096))


def test_a_refusal_is_a_sentence(scheduled):
    given = {"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)}
    with pytest.raises(RuntimeError, match="VarSum: all inputs must have the same shape"):
        scheduled.run(given, {"y": ((3,), "float32")}, range)


def test_places_in_the_table_are_those_of_the_header():
    text = (headers.ort_include() / "onnxruntime_c_api.h").read_text(encoding="utf-8")
    table = text[text.index("struct OrtApi {") :]
    table = re.sub(r"/\*.*?\*/|//[^\n]*", "", table[: table.index("\n};")], flags=re.DOTALL)
    entry = (
        r"ORT_API2_STATUS\((\w+)|ORT_CLASS_RELEASE2?\((\w+)\)|\(ORT_API_CALL\s*\*\s*(\w+)\)|ORT_API_T\(\w+\s*,\s*(\w+)"
    )
    names = [next(filter(None, found)) for found in re.findall(entry, table)]
    places = {
        "GetErrorMessage": schedules._GET_ERROR_MESSAGE,
        "CreateEnv": schedules._CREATE_ENV,
        "CreateSessionFromArray": schedules._CREATE_SESSION_FROM_ARRAY,
        "Run": schedules._RUN,
        "CreateSessionOptions": schedules._CREATE_SESSION_OPTIONS,
        "CreateTensorWithDataAsOrtValue": schedules._CREATE_TENSOR,
        "CreateCpuMemoryInfo": schedules._CREATE_CPU_MEMORY_INFO,
        "KernelContext_ParallelFor": schedules._PARALLEL_FOR,
    }
    assert {name: names.index(name) for name in places} == places
    assert names.index("Status") == schedules._RELEASE_STATUS and names.index("Value") == schedules._RELEASE_VALUE
    assert len(names) <= schedules._ENTRIES, "a kernel may call what the copy of the table lacks"
