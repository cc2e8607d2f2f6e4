"""The operators of csrc/torch_ops in PyTorch: values, dtypes, layouts, errors, fakes, gradients."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from oplab import OplabError, ops
from oplab.ops import torch_ops
from oplab.toolchain import build

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


pytestmark = pytest.mark.usefixtures("compiled")


def pair(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    a, b = (torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad) for _ in range(2))
    return a, b


def reference(a: torch.Tensor, b: torch.Tensor, alpha: float = 3.0, beta: float = 2.0) -> torch.Tensor:
    """In double, rounded once, so that it owes nothing to the kernel's way of computing."""
    return (alpha * a.double() + beta * b.double()).to(a.dtype)


def my_add(*args, **kwargs):
    return torch.ops.oplab.my_add(*args, **kwargs)


class TestValues:
    @pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 0, 3), (0,), (3, 1, 4, 1, 5), (1 << 20,)])
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_shapes_and_dtypes(self, shape: tuple[int, ...], dtype: torch.dtype):
        a, b = pair(*shape, dtype=dtype)
        y = my_add(a, b)
        assert y.shape == a.shape and y.dtype == dtype and y.is_contiguous()
        torch.testing.assert_close(y, reference(a, b))

    def test_the_coefficients(self):
        a, b = pair(5)
        torch.testing.assert_close(my_add(a, b, 2.0, 1.0), reference(a, b, 2, 1))
        torch.testing.assert_close(my_add(a, b, beta=-0.5), reference(a, b, 3, -0.5))
        assert torch.equal(my_add(a, b, alpha=0.0, beta=1.0), b)

    def test_the_coefficients_of_doubles_are_doubles(self):
        a, b = pair(5, dtype=torch.float64)
        assert torch.equal(my_add(a, b, 0.1, 0.2), 0.1 * a + 0.2 * b)

    def test_bit_for_bit_as_eager(self):
        a, b = pair(100_003)
        assert torch.equal(my_add(a, b), 3 * a + 2 * b)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_threads_do_not_change_a_bit(self, threads: int):
        a, b = pair(300_007)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            assert torch.equal(my_add(a, b), 3 * a + 2 * b)
        finally:
            torch.set_num_threads(before)

    def test_nan_and_infinity(self):
        a = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0])
        b = torch.tensor([1.0, 1.0, float("inf"), float("nan")])
        torch.testing.assert_close(my_add(a, b), 3 * a + 2 * b, equal_nan=True)


class TestLayouts:
    def test_transposed(self):
        a, b = pair(4, 6)
        torch.testing.assert_close(my_add(a.T, b.T), reference(a.T, b.T))
        torch.testing.assert_close(my_add(a, b.T.contiguous().T), reference(a, b))

    def test_slices_and_steps(self):
        a, b = pair(8, 9)
        torch.testing.assert_close(my_add(a[1::2, 3:], b[::2, :-3]), reference(a[1::2, 3:], b[::2, :-3]))

    def test_expanded(self):
        a, b = pair(3, 1)
        torch.testing.assert_close(my_add(a.expand(3, 5), b.expand(3, 5)), reference(a, b).expand(3, 5))

    def test_channels_last(self):
        a, b = (x.to(memory_format=torch.channels_last) for x in pair(2, 3, 4, 5))
        y = my_add(a, b)
        torch.testing.assert_close(y, reference(a, b))
        assert y.is_contiguous()

    def test_a_lazily_negated_view(self):
        a = torch.randn(5, dtype=torch.complex64).conj().imag
        assert a.is_neg()
        b = torch.randn(5)
        torch.testing.assert_close(my_add(a, b), reference(a, b))

    def test_the_inputs_are_left_alone_and_never_returned(self):
        a, b = pair(3, 4)
        before = a.clone(), b.clone()
        for y in (my_add(a, b), my_add(a, b, 1.0, 0.0), my_add(a, a, 0.0, 1.0)):
            assert y.untyped_storage().data_ptr() not in (
                a.untyped_storage().data_ptr(),
                b.untyped_storage().data_ptr(),
            )
        assert torch.equal(a, before[0]) and torch.equal(b, before[1])


class TestRefusals:
    @pytest.mark.parametrize(("a", "b"), [((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 3), (3, 2)), ((1,), ()), ((0,), (1,))])
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_shapes_are_never_broadcast(self, a: tuple, b: tuple, device: str):
        words = f"a and b must have the same shape, but a is {list(a)} and b is {list(b)}."
        with pytest.raises(RuntimeError) as caught:
            my_add(torch.zeros(a, device=device), torch.zeros(b, device=device))
        assert words in str(caught.value)

    def test_two_devices_are_refused(self):
        """One tensor without data, and the fake is called: it must not promise a result on the other one's device."""
        for devices in (("cpu", "meta"), ("meta", "cpu")):
            with pytest.raises(RuntimeError, match="b must be on a's device"):
                my_add(*(torch.ones(3, device=device) for device in devices))

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_dtypes_are_never_promoted(self, device: str):
        with pytest.raises(RuntimeError, match="same dtype, but a is .*[Ff]loat.* and b is .*(Double|float64)"):
            my_add(torch.zeros(2, device=device), torch.zeros(2, device=device, dtype=torch.float64))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_only_real_floats(self, dtype: torch.dtype, device: str):
        with pytest.raises(RuntimeError, match="must be float32, float64, float16 or bfloat16, but they are "):
            my_add(torch.zeros(2, dtype=dtype, device=device), torch.zeros(2, dtype=dtype, device=device))

    def test_an_error_names_the_operator_and_the_file_but_no_folder(self):
        with pytest.raises(RuntimeError) as caught:
            my_add(torch.zeros(2), torch.zeros(3))
        assert "my_add, my_add.cpp:" in str(caught.value)

    def test_sparse(self):
        with pytest.raises((RuntimeError, NotImplementedError)):
            my_add(torch.zeros(2, 2).to_sparse(), torch.zeros(2, 2).to_sparse())


class TestRegistration:
    def test_schema(self):
        schema = str(torch.ops.oplab.my_add.default._schema)
        assert schema == "oplab::my_add(Tensor a, Tensor b, float alpha=3., float beta=2.) -> Tensor"

    @pytest.mark.parametrize("grad", [False, True])
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_opcheck(self, dtype: torch.dtype, grad: bool):
        a, b = pair(2, 3, dtype=dtype, grad=grad)
        torch.library.opcheck(torch.ops.oplab.my_add.default, (a, b))

    @pytest.mark.parametrize("shape", [(), (0, 3), (1, 1)])
    def test_opcheck_of_odd_shapes(self, shape: tuple[int, ...]):
        torch.library.opcheck(torch.ops.oplab.my_add.default, pair(*shape, grad=True), {"alpha": 0.5})

    def test_opcheck_of_odd_layouts(self):
        a, b = pair(4, 6)
        image, other = (x.to(memory_format=torch.channels_last) for x in pair(2, 3, 4, 5))
        for args in ((a.T, b.T), (a[::2], b[1::2]), (a[:, :1].expand(4, 6), b), (image, other)):
            torch.library.opcheck(torch.ops.oplab.my_add.default, args)

    def test_opcheck_catches_a_wrong_fake(self):
        """The net that the tests above rely on has no hole."""
        with torch.library._scoped_library("test_wrong_fake", "DEF") as library:
            library.define("my_add(Tensor a, Tensor b) -> Tensor")
            library.impl("my_add", lambda a, b: torch.ops.oplab.my_add(a, b), "CPU")
            library._register_fake("my_add", lambda a, b: a.new_empty(a.shape + (1,)))
            with pytest.raises(Exception, match="test_faketensor"):
                torch.library.opcheck(torch.ops.test_wrong_fake.my_add.default, pair(2, 3))

    def test_gradients(self):
        a, b = pair(3, 4, dtype=torch.float64, grad=True)
        assert torch.autograd.gradcheck(my_add, (a, b))
        assert torch.autograd.gradcheck(lambda a, b: my_add(a, b, -1.5, beta=0.25), (a, b))
        assert torch.autograd.gradgradcheck(my_add, (a, b))
        assert torch.autograd.gradcheck(lambda a, b: my_add(a.T, b.T), (a, b))

    def test_the_gradient_of_one_input_alone(self):
        a, b = pair(3, 4)
        a.requires_grad_()
        my_add(a, b, 5.0).sum().backward()
        assert torch.equal(a.grad, torch.full_like(a, 5.0)) and b.grad is None

    def test_gradients_keep_their_dtype(self):
        a, b = pair(3, dtype=torch.bfloat16, grad=True)
        my_add(a, b).sum().backward()
        assert a.grad.dtype == b.grad.dtype == torch.bfloat16

    def test_dynamic_shapes_are_exported(self):
        class Net(torch.nn.Module):
            def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                return torch.ops.oplab.my_add(a, b, alpha=2.0)

        rows = torch.export.Dim("rows", min=1, max=100)
        program = torch.export.export(Net(), pair(4, 3), dynamic_shapes=({0: rows}, {0: rows}))
        a, b = pair(9, 3)
        torch.testing.assert_close(program.module()(a, b), reference(a, b, 2))


class TestLoading:
    def test_again(self):
        ops.load()
        ops.load()

    @pytest.mark.nightly
    def test_from_threads(self):
        code = """
from concurrent.futures import ThreadPoolExecutor
from oplab import ops
with ThreadPoolExecutor(8) as pool:
    list(pool.map(lambda _: ops.load(), range(16)))
import torch
print(torch.ops.oplab.my_add(torch.ones(1), torch.ones(1)).item())
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        assert done.stdout.strip() == "5.0", done.stderr

    def test_importing_is_light(self):
        code = "import sys, oplab.ops; print([n for n in ('torch', 'onnxruntime', 'onnx') if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        assert done.stdout.strip() == "[]", done.stderr

    def test_not_compiled(self, tmp_path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(build, "library_path", lambda kind: tmp_path / f"no_{kind}.so")
        monkeypatch.setattr(torch_ops, "_loaded", False)
        with pytest.raises(OplabError, match="not compiled") as caught:
            ops.load()
        assert "make setup" in caught.value.fix

    def test_a_damaged_library(self, tmp_path, monkeypatch: pytest.MonkeyPatch):
        damaged = tmp_path / "damaged.so"
        damaged.write_bytes(b"not a library")
        monkeypatch.setattr(build, "library_path", lambda kind: damaged)
        monkeypatch.setattr(torch_ops, "_loaded", False)
        with pytest.raises(OplabError, match="cannot be loaded into PyTorch") as caught:
            ops.load()
        assert "make setup" in caught.value.fix
