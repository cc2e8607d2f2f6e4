"""The operators of csrc/torch_ops under export with sizes that are data, torch.func, forward mode and autocast."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from oplab import ops
from tests.support.translations import dynamic_resize_translation, my_add_translation

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(7)


def doubles(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def operator(name: str):
    return getattr(torch.ops.oplab, name)


class Composed(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return operator("my_add")(operator("dynamic_resize")(a, scales), operator("dynamic_resize")(b, scales))


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class TestSizesThatAreData:
    def inputs(self, *factors: float) -> tuple[torch.Tensor, ...]:
        return torch.randn(1, 3, 4, 5), torch.randn(1, 3, 4, 5), torch.tensor([1, 1, *factors])

    def test_two_results_are_added_in_onnx_runtime(self):
        table = {
            torch.ops.oplab.my_add.default: my_add_translation,
            torch.ops.oplab.dynamic_resize.default: dynamic_resize_translation,
        }
        example = self.inputs(2.0, 3.0)
        program = torch.onnx.export(Composed(), example, dynamo=True, verbose=False, custom_translation_table=table)
        session = ops.session(program)
        fresh = self.inputs(1.5, 2.5)
        feed = {port.name: tensor.numpy() for port, tensor in zip(session.get_inputs(), fresh, strict=True)}
        (y,) = session.run(None, feed)
        assert y.shape == (1, 3, 6, 12)
        np.testing.assert_allclose(y, Composed()(*fresh), rtol=1e-6, atol=1e-6)

    def test_the_program_checks_the_sizes_that_it_could_not_compare(self):
        def differ(a, b, first, second):
            resize = operator("dynamic_resize")
            return operator("my_add")(resize(a, first), resize(b, second))

        a, b, scales = self.inputs(2.0, 3.0)
        program = torch.export.export(Call(differ), (a, b, scales, scales.clone())).module()
        torch.testing.assert_close(program(a, b, scales, scales), differ(a, b, scales, scales))
        with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression Eq\(u\d, u\d\)"):
            program(a, b, scales, torch.tensor([1, 1, 2, 2.0]))
        with pytest.raises(RuntimeError, match="a and b must have the same shape, but a is"):
            differ(a, b, scales, torch.tensor([1, 1, 2, 2.0]))

    @pytest.mark.parametrize("name", ["my_add", "foo_forward"])
    def test_sizes_that_are_known_are_compared_at_export(self, name: str):
        coefficients = (1.0, 2) if name == "foo_forward" else ()
        module = Call(lambda a, b: operator(name)(a, b, *coefficients))
        for b in (torch.ones(2, 4), torch.ones(2), torch.ones(2, 3, 1)):
            with pytest.raises(Exception, match=r"must have the same shape, but \w+ is \[2, 3\] and"):
                torch.export.export(module, (torch.ones(2, 3), b))

    def test_every_operator_takes_them(self):
        def all_of_them(mask, size, offset, scales):
            points = mask.nonzero().to(torch.float32)
            cloud = torch.cat([points, points[:, :1]], 1)
            idx, dist = operator("knn_query")(2, cloud, offset, cloud[:, :3], offset)
            image = operator("dynamic_resize")(cloud.t()[None, None], scales)
            return (
                operator("grid")(points, size, points[0], points[0] + 20),
                idx,
                dist,
                operator("foo_forward")(points, 2 * points, 0.5, 2),
                operator("my_add")(image, 2 * image),
            )

        def inputs(rows: int):
            mask = torch.rand(rows, 9) > 0.5
            count = torch.tensor([int(mask.sum())])
            return mask, torch.tensor([2.0, 3.0]), count, torch.tensor([1, 1, 2.0, 0.5])

        program = torch.export.export(
            Call(all_of_them), inputs(8), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC}, None, None, None),)
        )
        args = inputs(11)
        for got, expected in zip(program.module()(*args), all_of_them(*args), strict=True):
            torch.testing.assert_close(got, expected)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return operator("dynamic_resize")(x, torch.tensor([1, 1, 2, 1.5]))


def distances(xyz: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    return operator("knn_query")(2, xyz, torch.tensor([5]), queries, torch.tensor([3]))[1]


def own_distances(xyz: torch.Tensor) -> torch.Tensor:
    return operator("knn_query")(2, xyz, torch.tensor([5]))[1][:, 1:]


FUNCTIONS = {
    "my_add": (lambda a, b: operator("my_add")(a, b, -1.5, beta=0.25), [(3,), (3,)]),
    "my_add with its defaults": (lambda a, b: operator("my_add")(a, b), [(3,), (3,)]),
    "foo_forward": (lambda a, b: operator("foo_forward")(a, b, 0.5, 3), [(3,), (3,)]),
    "dynamic_resize": (scaled, [(1, 1, 2, 3)]),
    "knn_query": (distances, [(5, 3), (3, 3)]),
    "knn_query of itself": (own_distances, [(5, 3)]),
}
EACH = pytest.mark.parametrize("name", FUNCTIONS)


class TestDerivatives:
    """register_autograd of PyTorch 2.15 covers backward() alone: ours are for torch.func and forward mode, too."""

    def call(self, name: str):
        function, shapes = FUNCTIONS[name]
        return function, tuple(doubles(*shape) for shape in shapes)

    @EACH
    def test_gradcheck_in_both_directions(self, name: str):
        function, inputs = self.call(name)
        options = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
        assert torch.autograd.gradcheck(function, inputs, **options)
        assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True)

    @EACH
    def test_torch_func_agrees_with_autograd(self, name: str):
        function, inputs = self.call(name)
        inputs = tuple(x.detach() for x in inputs)
        tangents = tuple(torch.randn_like(x) for x in inputs)

        def loss(*args):
            return function(*args).pow(2).sum()

        y, tangent = torch.func.jvp(loss, inputs, tangents)
        expected_y, expected = torch.autograd.functional.jvp(loss, inputs, tangents)
        torch.testing.assert_close((y, tangent), (expected_y, expected))
        assert tangent != 0
        last = len(inputs) - 1
        leaf = inputs[last].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(*inputs[:last], leaf), leaf)
        torch.testing.assert_close(torch.func.grad(loss, last)(*inputs), gradient)

    @EACH
    def test_second_derivatives(self, name: str):
        """The mistake that this would catch: a Function called on the key Autograd gives zeros, for one level is lost."""
        function, (*others, x) = self.call(name)
        others = [other.detach() for other in others]

        def loss(x):
            return function(*others, x).pow(2).sum()

        expected = torch.autograd.functional.hessian(loss, x)
        assert expected.any()
        jacrev, jacfwd = torch.func.jacrev, torch.func.jacfwd
        for hessian in (torch.func.hessian(loss), jacrev(jacrev(loss)), jacrev(jacfwd(loss))):
            torch.testing.assert_close(hessian(x.detach()), expected)

    @pytest.mark.parametrize("name", ["my_add", "dynamic_resize"])
    def test_forward_mode_twice(self, name: str):
        function, (*others, x) = self.call(name)
        others = [other.detach() for other in others]
        loss = lambda x: function(*others, x).pow(2).sum()  # noqa: E731
        expected = torch.autograd.functional.hessian(loss, x)
        torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(loss))(x.detach()), expected)

    @pytest.mark.parametrize("name", ["foo_forward", "knn_query"])
    def test_forward_mode_twice_is_refused_where_it_would_be_wrong(self, name: str):
        """PyTorch's issue 197867: what a Function saves has no tangents of the other levels."""
        function, inputs = self.call(name)
        inputs = tuple(x.detach() for x in inputs)
        with pytest.raises(NotImplementedError, match=f"{name}: forward mode inside forward mode"):
            torch.func.jacfwd(torch.func.jacfwd(lambda *args: function(*args).sum()))(*inputs)

    @EACH
    def test_vmap(self, name: str):
        function, shapes = FUNCTIONS[name]
        batch = [torch.randn(4, *shape, dtype=torch.float64) for shape in shapes]
        expected = torch.stack([function(*row) for row in zip(*batch, strict=True)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # PyTorch's own loop warns that it is slow
            torch.testing.assert_close(torch.func.vmap(function)(*batch), expected)
            last = [x.movedim(0, -1) for x in batch]
            torch.testing.assert_close(torch.func.vmap(function, in_dims=-1)(*last), expected)
        if len(batch) == 2:
            first = torch.func.vmap(function, in_dims=(0, None))(batch[0], batch[1][0])
            torch.testing.assert_close(first, torch.stack([function(row, batch[1][0]) for row in batch[0]]))

    def test_what_a_kernel_refuses_is_refused_there_too(self):
        for transform in (torch.func.grad, torch.func.jacfwd, lambda f: torch.func.vmap(f)):
            with pytest.raises(RuntimeError, match="a and b must have the same shape"):
                transform(lambda a: operator("my_add")(a, a[..., :-1]).sum())(torch.ones(3, 4))


class TestAutocast:
    """bfloat16 and float32 meet inside autocast; the operators compute in float32 there, as PyTorch's interpolate does."""

    half = staticmethod(lambda *shape: torch.randn(shape).bfloat16())

    @pytest.fixture(autouse=True)
    def autocast(self):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            yield

    def test_mixed_inputs(self):
        a, b = self.half(3, 4), torch.randn(3, 4)
        assert torch.equal(operator("my_add")(a, b, 2.0), 2 * a.float() + 2 * b)
        assert operator("foo_forward")(b, a, 0.5, 2).dtype == torch.float32

    def test_after_a_layer(self):
        """The dtype that the layer returns is autocast's, and is one that dynamic_resize has no kernel for."""
        features = torch.nn.Conv2d(3, 2, 1)(torch.randn(1, 3, 4, 5))
        scales = torch.tensor([1, 1, 2, 3.0])
        assert features.dtype == torch.bfloat16
        resized = operator("dynamic_resize")(features, scales)
        with torch.autocast("cpu", enabled=False):
            torch.testing.assert_close(resized, operator("dynamic_resize")(features.float(), scales))

    def test_points(self):
        points = self.half(6, 3)
        idx, dist = operator("knn_query")(2, points, torch.tensor([6]))
        assert dist.dtype == torch.float32 and idx[:, 0].tolist() == list(range(6))
        assert operator("grid")(points, torch.ones(3)).dtype == torch.int64

    def test_gradients_have_their_inputs_dtypes(self):
        a, b = self.half(1, 1, 2, 2).requires_grad_(), torch.randn(1, 1, 2, 2, requires_grad=True)
        scales = torch.tensor([1, 1, 2, 2.0])
        operator("my_add")(
            operator("dynamic_resize")(a, scales), operator("dynamic_resize")(b, scales)
        ).sum().backward()
        assert a.grad.dtype == torch.bfloat16 and b.grad.dtype == torch.float32
