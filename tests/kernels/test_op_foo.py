"""``oplab::foo_forward`` in PyTorch and ``oplab::Foo`` in ONNX Runtime: attr1*input1 + input2**attr2."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oplab import ops
from tests.support.dtypes import DTYPES
from tests.support.foo import EXPONENTS, make_model, pair, reference
from tests.support.models import sizes

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SHAPES = [(), (1,), (7,), (2, 3), (2, 0, 3), (0,), (3, 1, 4, 1, 5), (100_003,)]


pytestmark = pytest.mark.usefixtures("compiled")


def foo(*args, **kwargs):
    return torch.ops.oplab.foo_forward(*args, **kwargs)


def tensors(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    values = pair(*shape, dtype=np.float64).values()
    return tuple(torch.from_numpy(value).to(dtype).detach().requires_grad_(grad) for value in values)


def in_ort(feed: dict[str, np.ndarray], attr1: float, attr2: int, threads: int | None = None) -> np.ndarray:
    session = ops.session(make_model(feed["input1"].dtype.type, attr1=attr1, attr2=attr2), threads=threads)
    (y,) = session.run(None, feed)
    return y


def close(y: np.ndarray, expected: np.ndarray) -> None:
    assert y.dtype == expected.dtype and y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=4e-6 if y.dtype == np.float32 else 1e-14, atol=1e-6)


class TestValues:
    @pytest.mark.parametrize("shape", SHAPES)
    @DTYPES
    def test_shapes_and_dtypes_in_both(self, dtype, shape: tuple[int, ...]):
        feed = pair(*shape, dtype=dtype)
        expected = reference(**feed, attr1=0.5, attr2=3)
        in_torch = foo(*map(torch.from_numpy, feed.values()), 0.5, 3).numpy()
        close(in_torch, expected)
        close(in_ort(feed, 0.5, 3), expected)
        np.testing.assert_array_equal(in_ort(feed, 0.5, 3), in_torch)  # the same bits

    @pytest.mark.parametrize("attr2", EXPONENTS)
    @pytest.mark.parametrize("attr1", [0.0, 1.0, -2.5])
    def test_attributes_in_both(self, attr1: float, attr2: int):
        feed = pair(4, 5)
        expected = reference(**feed, attr1=attr1, attr2=attr2)
        close(foo(*map(torch.from_numpy, feed.values()), attr1, attr2).numpy(), expected)
        close(in_ort(feed, attr1, attr2), expected)

    def test_corners(self):
        """0**0 is 1, also here; NaN and infinity go through; 0 to a negative power is infinite."""
        b = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], np.float32)
        a = np.zeros(6, np.float32)
        wanted = {
            0: [1, 1, 1, 1, 1, 1],
            1: [0, 0, np.nan, np.inf, -np.inf, 1],
            2: [0, 0, np.nan, np.inf, np.inf, 1],
            -1: [np.inf, -np.inf, np.nan, 0, 0, 1],
        }
        for attr2, expected in wanted.items():
            np.testing.assert_array_equal(foo(torch.from_numpy(a), torch.from_numpy(b), 1.0, attr2).numpy(), expected)
            np.testing.assert_array_equal(in_ort({"input1": a, "input2": b}, 1.0, attr2), expected)

    @pytest.mark.parametrize("attr2", [2**24, 2**24 + 1, 2**53 - 1, 2**53, -(2**53)])
    @DTYPES
    def test_a_large_exponent_is_still_odd_or_even(self, dtype, attr2: int):
        a, b = np.zeros(1, dtype), np.full(1, -1, dtype)
        expected = 1 if attr2 % 2 == 0 else -1
        assert foo(torch.from_numpy(a), torch.from_numpy(b), 1.0, attr2).item() == expected
        assert in_ort({"input1": a, "input2": b}, 1.0, attr2).item() == expected

    def test_attr1_is_a_double_in_pytorch_and_a_float_in_onnx(self):
        feed = {"input1": np.ones(1), "input2": np.zeros(1)}
        assert foo(*map(torch.from_numpy, feed.values()), 0.1, 1).item() == 0.1
        assert in_ort(feed, 0.1, 1).item() == float(np.float32(0.1))

    def test_threads_do_not_change_a_bit(self):
        feed = pair(300_007)
        a, b = map(torch.from_numpy, feed.values())
        before = torch.get_num_threads()
        answers = [in_ort(feed, 1.5, 3, threads=threads) for threads in (1, 2, 5)]
        try:
            for threads in (1, 2, 5):
                torch.set_num_threads(threads)
                answers.append(foo(a, b, 1.5, 3).numpy())
        finally:
            torch.set_num_threads(before)
        for answer in answers[1:]:
            np.testing.assert_array_equal(answer, answers[0])


class TestInPyTorch:
    def test_schema(self):
        schema = str(torch.ops.oplab.foo_forward.default._schema)
        assert schema == "oplab::foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor"

    def test_layouts(self):
        a, b = tensors(8, 9)
        image1, image2 = (x.to(memory_format=torch.channels_last) for x in tensors(2, 3, 4, 5))
        lazily_negated = torch.randn(8, 9, dtype=torch.complex64).conj().imag
        assert lazily_negated.is_neg()
        for x, y in (
            (a.T, b.T),
            (a[1::2, 3:], b[::2, :-3]),
            (a[:, :1].expand(8, 9), b),
            (image1, image2),
            (lazily_negated, b),
        ):
            result = foo(x, y, 0.5, 2)
            torch.testing.assert_close(result, 0.5 * x + y**2)
            assert result.is_contiguous()
            torch.library.opcheck(torch.ops.oplab.foo_forward.default, (x, y, 0.5, 2))

    @pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 1)), ((2, 3), (3, 2)), ((1,), ())])
    def test_shapes_are_never_broadcast(self, a: tuple, b: tuple):
        """Nor in ONNX Runtime."""
        feed = {"input1": np.zeros(a, np.float32), "input2": np.zeros(b, np.float32)}
        tensors = [torch.from_numpy(value) for value in feed.values()]
        words = f"input1 and input2 must have the same shape, but input1 is {list(a)} and input2 is {list(b)}."
        for call in (
            lambda: foo(*tensors, 1.0, 2),
            lambda: foo(*(each.to("meta") for each in tensors), 1.0, 2),
            lambda: in_ort(feed, 1.0, 2),
        ):
            with pytest.raises(Exception) as caught:
                call()
            assert words in str(caught.value)

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_dtypes_are_never_promoted(self, device: str):
        words = "same dtype, but input1 is .*[Ff]loat.* and input2 is .*(Double|float64)"
        with pytest.raises(RuntimeError, match=words):
            foo(torch.zeros(2, device=device), torch.zeros(2, device=device, dtype=torch.float64), 1.0, 2)

    @pytest.mark.parametrize("dtype", [torch.int64, torch.complex64], ids=str)
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_only_real_floats(self, dtype: torch.dtype, device: str):
        x = torch.zeros(2, dtype=dtype, device=device)
        with pytest.raises(
            RuntimeError, match="input1 and input2 must be float32, float64, float16 or bfloat16, but they"
        ):
            foo(x, x, 1.0, 2)

    @pytest.mark.parametrize("attr2", [2**53 + 1, -(2**53) - 1])
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_an_exponent_that_a_double_cannot_hold(self, attr2: int, device: str):
        with pytest.raises(RuntimeError, match=f"attr2 must be between -2..53 and 2..53, but it is {attr2}"):
            foo(torch.zeros(2, device=device), torch.zeros(2, device=device), 1.0, attr2)

    def test_one_device(self):
        with pytest.raises(RuntimeError, match="input2 must be on input1's device, but input2 is on meta"):
            foo(torch.zeros(2), torch.zeros(2, device="meta"), 1.0, 2)

    @pytest.mark.parametrize("attr2", [0, 3])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_opcheck(self, dtype: torch.dtype, attr2: int):
        for shape, grad in (((2, 3), False), ((2, 3), True), ((), True), ((0, 3), True)):
            args = (*tensors(*shape, dtype=dtype, grad=grad), 0.5, attr2)
            torch.library.opcheck(torch.ops.oplab.foo_forward.default, args)

    @pytest.mark.parametrize("attr2", EXPONENTS)
    def test_gradients(self, attr2: int):
        pair = tensors(3, 4, dtype=torch.float64, grad=True)
        assert torch.autograd.gradcheck(lambda a, b: foo(a, b, -1.5, attr2), pair)
        assert torch.autograd.gradgradcheck(lambda a, b: foo(a, b, -1.5, attr2), pair)
        assert torch.autograd.gradcheck(lambda a, b: foo(a.T, b.T, 0.5, attr2), pair)

    @pytest.mark.parametrize("attr2", [0, 1, 2])
    def test_the_gradient_at_zero(self, attr2: int):
        a, b = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
        foo(a, b, 2.0, attr2).sum().backward()
        assert b.grad.tolist() == [float(attr2 == 1)] * 3 and a.grad.tolist() == [2.0] * 3

    @pytest.mark.parametrize(("dtype", "attr2"), [(torch.bfloat16, 258), (torch.float16, 2050)])
    def test_the_gradient_of_a_power_that_the_dtype_cannot_count(self, dtype: torch.dtype, attr2: int):
        """attr2 - 1 is odd, and no number of the dtype: rounded to an even one, the gradient at -1 had the wrong sign."""
        a, b = torch.ones(1, dtype=dtype), torch.full((1,), -1.0, dtype=dtype, requires_grad=True)
        foo(a, b, 1.0, attr2).sum().backward()
        assert b.grad.item() == torch.tensor(-float(attr2)).to(dtype).item()


class TestInONNXRuntime:
    @pytest.mark.parametrize(
        ("attributes", "words"),
        [
            ({"attr2": 2}, "Foo: the attribute attr1 is missing."),
            ({"attr1": 1.0}, "Foo: the attribute attr2 is missing."),
            ({"attr1": 1, "attr2": 2}, "Foo: the attribute attr1 must be a float"),
            ({"attr1": 1.0, "attr2": 2.0}, "Foo: the attribute attr2 must be an int"),
            ({"attr1": 1.0, "attr2": 2**60}, "Foo: the attribute attr2 must be between -2**53 and 2**53, but it is 1"),
        ],
    )
    def test_attributes_are_checked_when_the_session_is_made(self, attributes: dict, words: str):
        with pytest.raises(Exception) as caught:
            ops.session(make_model(**attributes))
        assert words in str(caught.value)

    @pytest.mark.parametrize("version", [2, None])
    def test_from_version_2_of_the_domain(self, version: int):
        (y,) = ops.session(make_model(version=version, attr1=1.0, attr2=2)).run(None, pair(2))
        close(y, reference(**pair(2), attr1=1.0, attr2=2))

    def test_version_1_has_no_foo(self):
        with pytest.raises(Exception, match=r"oplab:Foo\(-1\) is not a registered function/op"):
            ops.session(make_model(version=1, attr1=1.0, attr2=2))

    @pytest.mark.parametrize(
        ("shapes", "expected"),
        [
            ((["n", 3], ["n", 3]), ["n", 3]),
            ((None, [4, 3]), [4, 3]),
            (([None, 3], [5, None]), [5, 3]),
            ((None, None), []),
        ],
    )
    def test_the_output_s_shape_is_known_before_it_runs(self, shapes: tuple, expected: list):
        (output,) = ops.session(make_model(np.float64, shapes, attr1=1.0, attr2=2)).get_outputs()
        assert output.type == "tensor(double)" and sizes(output) == expected
