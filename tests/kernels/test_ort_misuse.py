"""What ``oplab.session`` and the kernels say to a wrong library, a wrong model or a wrong input: a sentence, no crash."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from oplab import OplabError, ops, paths
from oplab.onnxtools import domain
from oplab.toolchain import build
from oplab.toolchain.compiler import find_compiler, run
from oplab.toolchain.headers import runtime_api
from oplab.toolchain.recipes import SUFFIX, recipe
from tests.support import foo, kernels, my_add

NO_ENTRY = 'extern "C" int answer() { return 42; }'
CPP_NAME = """\
#include <onnxruntime_c_api.h>
OrtStatus* RegisterCustomOps(OrtSessionOptions*, const OrtApiBase*) { return nullptr; }
"""
NEWER = """\
#include <onnxruntime_cxx_api.h>
extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(VERSION));  // the null pointer for an API that is too new is not looked at
  static Ort::CustomOpDomain domain{"newer"};
  return Ort::GetApi().AddCustomOpDomain(options, domain);
}
"""
CRASHES = """\
#include <csignal>
extern "C" void* RegisterCustomOps(void*, void*) { std::raise(SIGSEGV); return nullptr; }
"""


pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory):
    """Compiles C++ as somebody else would, without this project's checks: ``foreign(name, text)``."""
    folder = tmp_path_factory.mktemp("foreign")

    def compile_one(name: str, text: str) -> Path:
        source, made = folder / f"{name}.cpp", folder / f"{name}{SUFFIX}"
        source.write_text(text)
        compiler = find_compiler()
        command = [*recipe("ort").compile_command(compiler), "-shared", str(source), "-o", str(made)]
        done = run(command, timeout=300)
        assert done.returncode == 0, done.log
        return made

    return compile_one


class TestLibraries:
    @pytest.fixture(autouse=True)
    def model(self):
        self.model = my_add.model()

    def refused(self, *libraries: Path, words: str) -> OplabError:
        with pytest.raises(OplabError) as caught:
            ops.session(self.model, libraries=libraries)
        assert re.search(words, caught.value.message) and caught.value.fix, caught.value
        return caught.value

    def test_no_entry_point(self, foreign):
        error = self.refused(foreign("empty", NO_ENTRY), words=r"empty\.\w+ has no function RegisterCustomOps")
        assert 'extern "C"' in error.fix

    def test_the_entry_point_under_its_cpp_name(self, foreign):
        error = self.refused(foreign("cpp", CPP_NAME), words="has the function RegisterCustomOps under its C.. name")
        assert 'extern "C"' in error.fix

    def test_the_library_for_pytorch(self):
        error = self.refused(build.library_path("torch"), words="is a library of PyTorch operators")
        assert "torch.ops.load_library" in error.fix

    @pytest.mark.parametrize("content", [b"", b"#include <cmath>\n"])
    def test_a_file_that_is_no_library(self, tmp_path: Path, content: bytes):
        (tmp_path / "kernel.so").write_bytes(content)
        self.refused(tmp_path / "kernel.so", words=r"kernel\.so is not a shared library")

    def test_headers_newer_than_the_runtime(self, foreign):
        newer = foreign("newer", NEWER.replace("VERSION", str(runtime_api() + 1)))
        self.refused(newer, words=rf"headers of ONNX Runtime 1\.{runtime_api() + 1}, newer than this runtime, 1\.")
        same = foreign("same", NEWER.replace("VERSION", str(runtime_api())))
        assert ops.session(self.model, libraries=[same]).run(None, my_add.pair(2))[0].shape == (2,)

    def test_a_library_that_ends_the_process(self, foreign):
        self.refused(foreign("crashes", CRASHES), words="the process ends with SIGSEGV")

    def test_twice(self):
        self.refused(ops.ort_library(), ops.ort_library(), words="is given twice")


class TestVersions:
    @pytest.mark.parametrize("version", [0, 3])
    def test_a_version_that_does_not_exist(self, version: int, tmp_path: Path):
        model = my_add.model(domains=(("oplab", version),))
        onnx.save(model, tmp_path / "m.onnx")
        for given in (model.SerializeToString(), tmp_path / "m.onnx", model):
            with pytest.raises(
                OplabError, match=f"imports version {version} of the domain oplab, which has the versions 1 and 2"
            ):
                ops.session(given)

    def test_in_a_function_of_the_model(self):
        model = my_add.model(nodes=[helper.make_node("twice", ["a", "b"], ["y"], domain="own")])
        node = helper.make_node("MyAdd", ["p", "q"], ["r"], domain="oplab")
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 7)]
        model.functions.append(helper.make_function("own", "twice", ["p", "q"], ["r"], [node], imports))
        model.opset_import.append(helper.make_opsetid("own", 1))
        with pytest.raises(OplabError, match="imports version 7"):
            ops.session(model)


class TestAttributes:
    def test_one_that_the_operator_lacks(self):
        with pytest.raises(OplabError, match="MyAdd has no attribute gamma: it has alpha, beta") as caught:
            ops.session(my_add.model(gamma=1.0))
        assert caught.value.fix
        with pytest.raises(OplabError, match="Foo has no attribute attr3: it has attr1, attr2"):
            ops.session(foo.make_model(attr1=1.0, attr2=2, attr3=3))

    def test_those_by_which_tensorrt_finds_a_plugin_are_taken(self):
        model = my_add.model(plugin_version="1", plugin_namespace="oplab")
        assert ops.session(model).get_outputs()

    def test_inside_a_branch(self):
        branch = [
            helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
            for node in (
                helper.make_node("MyAdd", ["a", "b"], ["z"], domain="oplab"),
                helper.make_node("MyAdd", ["a", "b"], ["z"], domain="oplab", aplha=2.0),
            )
        ]
        constant = helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.array(True)))
        choice = helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])
        with pytest.raises(OplabError, match="MyAdd has no attribute aplha"):
            ops.session(my_add.model(nodes=[constant, choice]))

    @pytest.mark.parametrize("name", domain.ATTRIBUTES)
    def test_the_table_holds_what_the_kernels_read(self, name: str):
        """A tensor is the wrong type for each of them: a kernel that does not read an attribute would not mind."""
        wrong = onnx.numpy_helper.from_array(np.ones(1, np.float32))
        right = {"attr1": 1.0, "attr2": 1, "nsample": 3}
        source = "\n".join(path.read_text() for path in (paths.root() / "csrc/ort_ops").glob("*.cpp"))
        assert f'(domain, "{name}"' in source
        for attribute in domain.ATTRIBUTES[name]:
            given = {key: right[key] for key in domain.ATTRIBUTES[name] if key in right} | {attribute: wrong}
            with pytest.raises(Exception, match=f"{name}: the attribute {attribute} must be"):
                ops.session(one_node(name, **given))

    def test_the_table_holds_every_kernel(self):
        source = "\n".join(path.read_text() for path in (paths.root() / "csrc/ort_ops").glob("*.cpp"))
        kernels = dict(re.findall(r'add_for<\w+, float, double[^>]*>\(domain, "(\w+)"(?:, (\d+))?\)', source))
        assert set(kernels) == set(domain.ATTRIBUTES)
        assert max(int(since or 1) for since in kernels.values()) == max(domain.VERSIONS)


def one_node(name: str, **attributes):
    """A model of one node with as many inputs as it must have, which is right but for the attributes given."""
    kernel = kernels.KERNELS[name]
    count = {"Grid": 2, "KNNQuery": 2, "DeformConv2d": 3, "VarSum": 1}.get(name, len(kernel.inputs))
    draft = kernels.right(name, np.float32)
    return replace(draft, inputs=kernel.inputs[:count], attributes=attributes).model()


class TestInputs:
    @pytest.mark.parametrize("name", domain.ATTRIBUTES)
    @pytest.mark.parametrize("to", [TensorProto.UINT16, TensorProto.STRING])
    def test_a_dtype_that_no_kernel_has(self, name: str, to: int):
        right = {"Foo": {"attr1": 1.0, "attr2": 2}, "KNNQuery": {"nsample": 3}}.get(name, {})
        model = one_node(name, **right)
        for end in model.graph.input:
            end.type.tensor_type.elem_type = to
        with pytest.raises(Exception, match=name):
            ops.session(model)

    def test_sizes_as_large_as_a_shape_can_be(self):
        """A shape is as large as int64 allows where one of its sizes is 0: no kernel may multiply the rest blindly."""
        for name, shapes, words in (
            ("Grid", [(0, 1 << 60), (1,)], f"Grid: size must have one value for each of pos's {1 << 60} coordinates"),
            ("DeformConv2d", [(0, 1, 1 << 31, 1 << 28), (1, 1, 1, 1), (1,)], "DeformConv2d: all sizes but N must be"),
            (
                "DeformConv2d",
                [(0, 1, 1 << 29, 1 << 29), (1, 1, 1, 1), (1,)],
                "DeformConv2d: offset must have the shape",
            ),
            ("MyAdd", [(0, 1 << 60), (0, 1 << 60)], ""),
            ("Foo", [(0, 1 << 60), (0, 1 << 60)], ""),
            ("VarSum", [(0, 1 << 60)], ""),
        ):
            right = {"attr1": 1.0, "attr2": 2} if name == "Foo" else {}
            session = ops.session(one_node(name, **right))
            values = [np.zeros(shape, np.float32) for shape in shapes]
            feed = dict(zip([end.name for end in session.get_inputs()], values, strict=True))
            if not words:
                assert session.run(None, feed)[0].shape == shapes[0]
                continue
            with pytest.raises(Exception) as caught:
                session.run(None, feed)
            assert words in str(caught.value)
