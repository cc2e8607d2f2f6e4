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
    def test_any_layout(self):
        a, b = pair(8, 9)
        image, other = (x.to(memory_format=torch.channels_last) for x in pair(2, 3, 4, 5))
        negated = torch.randn(8, 9, dtype=torch.complex64).conj().imag
        assert negated.is_neg()
        for x, y in ((a.T, b.T), (a[1::2, 3:], b[::2, :-3]), (a[:, :1].expand(8, 9), b), (image, other), (negated, b)):
            result = my_add(x, y)
            torch.testing.assert_close(result, reference(x, y))
            assert result.is_contiguous()
            torch.library.opcheck(torch.ops.oplab.my_add.default, (x, y))

    def test_the_inputs_are_left_alone_and_never_returned(self):
        a, b = pair(3, 4)
        before = a.clone(), b.clone()
        given = {each.untyped_storage().data_ptr() for each in (a, b)}
        for y in (my_add(a, b), my_add(a, b, 1.0, 0.0), my_add(a, a, 0.0, 1.0)):
            assert y.untyped_storage().data_ptr() not in given
        assert torch.equal(a, before[0]) and torch.equal(b, before[1])


class TestRefusals:
    @pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 1)), ((2, 3), (3, 2)), ((1,), ())])
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_shapes_are_never_broadcast(self, a: tuple, b: tuple, device: str):
        words = f"a and b must have the same shape, but a is {list(a)} and b is {list(b)}."
        with pytest.raises(RuntimeError) as caught:
            my_add(torch.zeros(a, device=device), torch.zeros(b, device=device))
        assert words in str(caught.value)
        assert device == "meta" or "my_add, my_add.cpp:" in str(caught.value)  # the operator and the file, no folder

    def test_two_devices_are_refused(self):
        """One tensor without data, and the fake is called: it must not promise a result on the other one's device."""
        for devices in (("cpu", "meta"), ("meta", "cpu")):
            with pytest.raises(RuntimeError, match="b must be on a's device"):
                my_add(*(torch.ones(3, device=device) for device in devices))

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_dtypes_are_never_promoted(self, device: str):
        with pytest.raises(RuntimeError, match="same dtype, but a is .*[Ff]loat.* and b is .*(Double|float64)"):
            my_add(torch.zeros(2, device=device), torch.zeros(2, device=device, dtype=torch.float64))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.complex64], ids=str)
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_only_real_floats(self, dtype: torch.dtype, device: str):
        x = torch.zeros(2, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match="must be float32, float64, float16 or bfloat16, but they are "):
            my_add(x, x)


class TestRegistration:
    def test_schema(self):
        schema = str(torch.ops.oplab.my_add.default._schema)
        assert schema == "oplab::my_add(Tensor a, Tensor b, float alpha=3., float beta=2.) -> Tensor"

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_opcheck(self, dtype: torch.dtype):
        for shape, grad in (((2, 3), False), ((2, 3), True), ((), True), ((0, 3), True)):
            torch.library.opcheck(torch.ops.oplab.my_add.default, pair(*shape, dtype=dtype, grad=grad), {"alpha": 0.5})

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


class TestLoading:
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
