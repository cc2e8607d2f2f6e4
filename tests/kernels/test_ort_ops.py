"""The kernels of csrc/ort_ops in ONNX Runtime, and ``oplab.session``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import oplab
from oplab import OplabError, ops
from oplab.ops import sessions
from oplab.toolchain import build
from tests.support import my_add, run_python
from tests.support.dtypes import DTYPES
from tests.support.my_add import model, pair, run

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory):
    """Compiles a learner's library with one kernel: ``learner(domain, name)``."""
    folder = tmp_path_factory.mktemp("learner")

    def compile_one(domain: str = "oplab", name: str = "MyAdd") -> Path:
        source = folder / f"{domain}_{name}.cpp"
        source.write_text(my_add.learner(domain, name))
        return build.compile_library(source, "ort", cache=folder)

    return compile_one


class TestMyAdd:
    @pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 0, 3), (0,), (2, 1, 3, 1, 2, 1), (1 << 20,)])
    @DTYPES
    def test_shapes_and_dtypes(self, shape: tuple[int, ...], dtype):
        feed = pair(*shape, dtype=dtype)
        y = run(ops.session(model(dtype=dtype)), feed)
        assert y.shape == shape and y.dtype == dtype
        expected = dtype(3) * feed["a"] + dtype(2) * feed["b"]
        np.testing.assert_array_equal(y, expected)

    def test_attributes(self):
        feed = pair(5)
        for alpha, beta in ((1.5, -1.0), (0.0, 1.0), (2.0, 1.0)):
            y = run(ops.session(model(alpha=alpha, beta=beta)), feed)
            np.testing.assert_array_equal(y, np.float32(alpha) * feed["a"] + np.float32(beta) * feed["b"])
        np.testing.assert_array_equal(run(ops.session(model(alpha=1.0)), feed), feed["a"] + 2 * feed["b"])
        np.testing.assert_array_equal(run(ops.session(model(beta=1.0)), feed), 3 * feed["a"] + feed["b"])

    @pytest.mark.parametrize("value", [3, "3", [3.0, 1.0]])
    def test_an_attribute_of_the_wrong_type_is_not_the_default(self, value):
        with pytest.raises(Exception, match="MyAdd: the attribute alpha must be a float"):
            ops.session(model(alpha=value))

    @pytest.mark.parametrize(("a", "b"), [((2, 3), (3, 2)), ((2, 3), (2, 1)), ((1,), ())])
    def test_shapes_that_differ(self, a: tuple, b: tuple):
        session = ops.session(model())
        with pytest.raises(Exception) as caught:
            session.run(None, {"a": np.zeros(a, np.float32), "b": np.zeros(b, np.float32)})
        words = f"MyAdd: a and b must have the same shape, but a is {list(a)} and b is {list(b)}."
        assert words in str(caught.value)
        assert type(caught.value).__name__ == "InvalidArgument"
        assert run(session, pair(2, 3)).shape == (2, 3)  # the session goes on

    @pytest.mark.parametrize("inputs", [["a"], ["a", ""], ["a", "b", "b"], []])
    def test_a_wrong_number_of_inputs_is_refused_when_loaded(self, inputs: list[str]):
        with pytest.raises(Exception, match="input size|marked single|Node with schema"):
            ops.session(model(nodes=[helper.make_node("MyAdd", inputs, ["y"], domain="oplab")]))

    def test_dtypes_that_differ_are_refused_when_loaded(self):
        nodes = [
            helper.make_node("Cast", ["b"], ["c"], to=TensorProto.DOUBLE),
            helper.make_node("MyAdd", ["a", "c"], ["y"], domain="oplab"),
        ]
        with pytest.raises(Exception, match="MyAdd"):
            ops.session(model(nodes=nodes))

    def test_nan_and_infinity(self):
        a = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
        b = np.array([1, 1, np.inf, np.nan], np.float32)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(run(ops.session(model()), {"a": a, "b": b}), 3 * a + 2 * b)


class TestSession:
    def test_many_alive_at_once(self):
        sessions = [ops.session(model(alpha=float(i))) for i in range(20)]
        feed = pair(4)
        for i, session in enumerate(sessions):
            np.testing.assert_allclose(run(session, feed), i * feed["a"] + 2 * feed["b"], rtol=1e-6)

    def test_what_a_model_can_be(self, tmp_path: Path):
        feed = pair(3)
        path = tmp_path / "m.onnx"
        onnx.save(model(), path)
        proto = model()
        for given in (path, str(path), proto, proto.SerializeToString(), bytearray(proto.SerializeToString())):
            np.testing.assert_array_equal(run(ops.session(given), feed), 3 * feed["a"] + 2 * feed["b"])
        assert oplab.session is ops.session

    def test_an_exported_program(self):
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.asinh(x)

        x = torch.randn(3)
        program = torch.onnx.export(Net().eval(), (x,), dynamo=True, verbose=False)
        (y,) = ops.session(program).run(None, {program.model.graph.inputs[0].name: x.numpy()})
        np.testing.assert_allclose(y, torch.asinh(x).numpy(), rtol=1e-5)

    @pytest.fixture
    def external(self, tmp_path: Path) -> Path:
        weights = onnx.numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
        made = model(nodes=[helper.make_node("MyAdd", ["a", "w"], ["y"], domain="oplab")])
        made.graph.initializer.append(weights)
        (tmp_path / "deep").mkdir()
        path = tmp_path / "deep" / "m.onnx"
        onnx.save(made, path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
        assert (tmp_path / "deep" / "m.onnx.data").is_file()
        return path

    def test_external_data_beside_a_path(self, external: Path, monkeypatch: pytest.MonkeyPatch):
        feed = pair(1000)
        expected = 3 * feed["a"] + 2 * np.arange(1000, dtype=np.float32)
        np.testing.assert_array_equal(run(ops.session(external), feed), expected)
        monkeypatch.chdir(external.parent.parent)
        np.testing.assert_array_equal(run(ops.session("deep/m.onnx"), feed), expected)
        np.testing.assert_array_equal(run(ops.session(onnx.load(external)), feed), expected)

    def test_external_data_without_a_path_is_a_sentence(self, external: Path):
        proto = onnx.load(external, load_external_data=False)
        with pytest.raises(OplabError, match="keeps its weights in a file") as caught:
            ops.session(proto)
        assert "path" in caught.value.fix

    def test_bad_calls(self, tmp_path: Path):
        for call, words in (
            (lambda: ops.session(tmp_path / "gone.onnx"), "There is no model"),
            (lambda: ops.session(3), "not int"),
            (lambda: ops.session(model(), providers=["NoSuchProvider"]), "has no NoSuchProvider"),
            (lambda: ops.session(model(), libraries=[tmp_path / "gone.so"]), "There is no library"),
        ):
            with pytest.raises(OplabError, match=words):
                call()

    def test_onnxruntime_prints_nothing(self):
        code = """
from tests.support.my_add import model, pair
import numpy as np
from oplab import ops
session = ops.session(model())
try:
    session.run(None, {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})
except Exception:
    print("raised")
"""
        done = run_python(code)
        assert (done.stdout.strip(), done.stderr) == ("raised", "")


class TestLibraries:
    def test_a_learner_s_kernel_replaces_ours(self, learner):
        feed = pair(2, 2)
        session = ops.session(model(), libraries=[learner()])
        assert run(session, feed).tolist() == [[42, 42], [42, 42]]
        np.testing.assert_array_equal(run(ops.session(model()), feed), 3 * feed["a"] + 2 * feed["b"])

    @pytest.mark.nightly
    def test_ours_are_added_beside_another_domain(self, learner):
        nodes = [
            helper.make_node("Other", ["a", "b"], ["c"], domain="test.other"),
            helper.make_node("MyAdd", ["c", "b"], ["y"], domain="oplab"),
        ]
        both = model(nodes=nodes, domains=(("oplab", 1), ("test.other", 1)))
        feed = pair(3)
        y = run(ops.session(both, libraries=[learner("test.other", "Other")]), feed)
        np.testing.assert_array_equal(y, 3 * np.float32(42) + 2 * feed["b"])

    @pytest.mark.nightly
    def test_an_operator_that_the_learner_s_domain_lacks(self, learner):
        with pytest.raises(Exception, match="oplab:MyAdd.* is not a registered function/op"):
            ops.session(model(), libraries=[learner("oplab", "AnotherName")])

    @pytest.mark.nightly
    def test_the_same_domain_twice(self, learner):
        with pytest.raises(OplabError, match="register the same domain"):
            ops.session(model(), libraries=[learner(), learner("oplab", "AnotherName")])

    def test_onnxruntime_s_words_for_a_domain_twice(self):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for _ in range(2):
            options.register_custom_ops_library(str(ops.ort_library()))
        with pytest.raises(Exception, match=sessions._TWICE):
            onnxruntime.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
