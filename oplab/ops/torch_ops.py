"""The course's operators in PyTorch: ``load()``, and for each of them a fake, derivatives and what autocast does."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from oplab.errors import OplabError
from oplab.toolchain.build import compiled_library

if TYPE_CHECKING:
    import torch

_load_lock = threading.Lock()
_loaded = False


def load() -> None:
    """Makes ``torch.ops.oplab`` available, with fakes and backwards. Calling it again does nothing.

    Raises:
        OplabError: the operators are not compiled, or were compiled for another PyTorch.
    """
    global _loaded
    with _load_lock:
        if _loaded:
            return
        import torch

        library = compiled_library("torch")
        try:
            torch.ops.load_library(str(library))
        except OSError as error:
            raise OplabError(
                f"{library} cannot be loaded into PyTorch {torch.__version__}: {error.__cause__ or error}.",
                "Run `make setup` in the course's folder to compile the operators again.",
            ) from None
        _register_my_add()
        _register_grid()
        _register_foo()
        _register_knn_query()
        _register_dynamic_resize()
        _loaded = True


# What PyTorch needs in addition to a kernel, operator by operator: a fake (shapes and dtypes without data, for export and
# torch.compile), derivatives, and what autocast does. A fake compares size by size with torch._check: on a size that is
# data (a result of dynamic_resize) the check becomes a condition of the exported program, where `==` of two shapes asks for
# a value that does not exist yet.


def _register_my_add() -> None:
    import torch

    @torch.library.register_fake("oplab::my_add")
    def fake(a: torch.Tensor, b: torch.Tensor, alpha: float = 3.0, beta: float = 2.0) -> torch.Tensor:
        _check_same_shape("a", a, "b", b)
        torch._check(
            a.dtype == b.dtype, lambda: f"a and b must have the same dtype, but a is {a.dtype} and b is {b.dtype}."
        )
        torch._check(
            a.dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16),
            lambda: f"a and b must be float32, float64, float16 or bfloat16, but they are {a.dtype}.",
        )
        _check_device("a", a, "b", b)
        return torch.empty_like(a, memory_format=torch.contiguous_format)

    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        _, _, ctx.alpha, ctx.beta = inputs

    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        return grad * ctx.alpha, grad * ctx.beta, None, None

    def jvp(ctx: Any, a: torch.Tensor, b: torch.Tensor, *_: None) -> torch.Tensor:
        return torch.ops.oplab.my_add(a, b, ctx.alpha, ctx.beta)

    def vmap(info: Any, in_dims: tuple, a: torch.Tensor, b: torch.Tensor, alpha: float, beta: float) -> tuple:
        a, b = _batched(info, in_dims, a, b)
        return torch.ops.oplab.my_add(a, b, alpha, beta), 0

    _register_derivatives("my_add", setup_context, backward, jvp, vmap)
    torch.library.register_autocast("oplab::my_add", "cpu", torch.float32)


def _register_grid() -> None:
    import torch

    @torch.library.register_fake("oplab::grid")
    def fake(
        pos: torch.Tensor, size: torch.Tensor, start: torch.Tensor | None = None, end: torch.Tensor | None = None
    ) -> torch.Tensor:
        torch._check(pos.dim() >= 1, lambda: "pos must have at least one dimension, but it is a scalar.")
        d = math.prod(pos.shape[1:])
        torch._check(
            d >= 1,
            lambda: f"pos must have at least one coordinate for each point, but its shape is {list(pos.shape)}.",
        )
        torch._check(
            pos.dtype in (torch.float32, torch.float64),
            lambda: f"pos must be float32 or float64, but it is {pos.dtype}.",
        )
        for name, tensor in (("size", size), ("start", start), ("end", end)):
            if tensor is not None:
                _check_along(pos, d, name, tensor)
        return pos.new_empty([pos.shape[0]], dtype=torch.int64)

    torch.library.register_autocast("oplab::grid", "cpu", torch.float32)

    def _check_along(pos: torch.Tensor, d: int, name: str, tensor: torch.Tensor) -> None:
        def words() -> str:
            return (
                f"{name} must have one value for each of pos's {d} coordinates, but its shape is {list(tensor.shape)}."
            )

        torch._check(tensor.dim() == 1, words)
        torch._check(tensor.shape[0] == d, words)
        torch._check(
            tensor.dtype == pos.dtype,
            lambda: f"{name} must have pos's dtype, but {name} is {tensor.dtype} and pos is {pos.dtype}.",
        )
        _check_device("pos", pos, name, tensor)


def _register_foo() -> None:
    import torch

    @torch.library.register_fake("oplab::foo_forward")
    def fake(input1: torch.Tensor, input2: torch.Tensor, attr1: float, attr2: int) -> torch.Tensor:
        _check_same_shape("input1", input1, "input2", input2)
        torch._check(
            input1.dtype == input2.dtype,
            lambda: (
                f"input1 and input2 must have the same dtype, but input1 is {input1.dtype} and input2 is "
                f"{input2.dtype}."
            ),
        )
        torch._check(
            input1.dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16),
            lambda: f"input1 and input2 must be float32, float64, float16 or bfloat16, but they are {input1.dtype}.",
        )
        torch._check(abs(attr2) <= 2**53, lambda: f"attr2 must be between -2**53 and 2**53, but it is {attr2}.")
        _check_device("input1", input1, "input2", input2)
        return torch.empty_like(input1, memory_format=torch.contiguous_format)

    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        _, input2, ctx.attr1, ctx.attr2 = inputs
        ctx.save_for_backward(input2)
        ctx.save_for_forward(input2)

    def slope(ctx: Any) -> torch.Tensor:
        (input2,) = ctx.saved_tensors
        # In double, as the kernel: pow would round the exponent to the tensor's dtype, 257 to 256 in bfloat16. And where the exponent is
        # 0 the derivative is 0 everywhere, also at 0, where the formula gives 0 * inf.
        slope = ctx.attr2 * input2.double() ** (ctx.attr2 - 1) if ctx.attr2 else torch.zeros_like(input2)
        return slope.to(input2.dtype)

    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        return grad * ctx.attr1, grad * slope(ctx), None, None

    def jvp(ctx: Any, input1: torch.Tensor, input2: torch.Tensor, *_: None) -> torch.Tensor:
        _refuse_forward_twice("foo_forward")
        return ctx.attr1 * input1 + slope(ctx) * input2

    def vmap(info: Any, in_dims: tuple, input1: torch.Tensor, input2: torch.Tensor, attr1: float, attr2: int) -> tuple:
        input1, input2 = _batched(info, in_dims, input1, input2)
        return torch.ops.oplab.foo_forward(input1, input2, attr1, attr2), 0

    _register_derivatives("foo_forward", setup_context, backward, jvp, vmap)
    torch.library.register_autocast("oplab::foo_forward", "cpu", torch.float32)


def _register_knn_query() -> None:
    import torch

    def check_points(name: str, points: torch.Tensor) -> None:
        def words() -> str:
            return f"{name} must have the shape [n, 3], but its shape is {list(points.shape)}."

        torch._check(points.dim() == 2, words)
        torch._check(points.shape[1] == 3, words)

    def check_offset(name: str, offset: torch.Tensor) -> None:
        torch._check(
            offset.dim() == 1, lambda: f"{name} must have one dimension, but its shape is {list(offset.shape)}."
        )

    def check_same(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
        torch._check(
            tensor.dtype == other.dtype,
            lambda: (
                f"{name} must have {other_name}'s dtype, but {name} is {tensor.dtype} and {other_name} is {other.dtype}."
            ),
        )

    @torch.library.register_fake("oplab::knn_query")
    def fake(
        nsample: int,
        xyz: torch.Tensor,
        offset: torch.Tensor,
        new_xyz: torch.Tensor | None = None,
        new_offset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        torch._check(nsample >= 1, lambda: f"nsample must be at least 1, but it is {nsample}.")
        check_points("xyz", xyz)
        check_offset("offset", offset)
        torch._check(
            (new_xyz is None) == (new_offset is None),
            lambda: (
                "new_xyz and new_offset must come together, but only "
                f"{'new_offset' if new_xyz is None else 'new_xyz'} is given."
            ),
        )
        if new_xyz is not None and new_offset is not None:
            check_points("new_xyz", new_xyz)
            check_offset("new_offset", new_offset)
            torch._check(
                new_offset.shape[0] == offset.shape[0],
                lambda: (
                    f"new_offset must have one value for each of offset's {offset.shape[0]} batches, but it has "
                    f"{new_offset.shape[0]}."
                ),
            )
        torch._check(
            xyz.dtype in (torch.float32, torch.float64),
            lambda: f"xyz must be float32 or float64, but it is {xyz.dtype}.",
        )
        torch._check(
            offset.dtype in (torch.int64, torch.int32),
            lambda: f"offset must be int64 or int32, but it is {offset.dtype}.",
        )
        _check_device("xyz", xyz, "offset", offset)
        if new_xyz is not None and new_offset is not None:
            check_same("new_xyz", new_xyz, "xyz", xyz)
            check_same("new_offset", new_offset, "offset", offset)
            _check_device("xyz", xyz, "new_xyz", new_xyz)
            _check_device("xyz", xyz, "new_offset", new_offset)
        m = (xyz if new_xyz is None else new_xyz).shape[0]
        return xyz.new_empty([m, nsample], dtype=torch.int32), xyz.new_empty([m, nsample])

    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        _, xyz, _, new_xyz, _ = inputs
        idx, dist = output
        ctx.mark_non_differentiable(idx)
        ctx.save_for_backward(xyz, new_xyz, idx, dist)
        ctx.save_for_forward(xyz, new_xyz, idx, dist)

    def gaps(ctx: Any) -> tuple:
        """What each query sees: which neighbours count, their rows in xyz, and the vectors from them (m, nsample, 3)."""
        xyz, new_xyz, idx, dist = ctx.saved_tensors
        queries = xyz if new_xyz is None else new_xyz
        # At distance 0 the slope has no direction: it is 0, as in torch.cdist. It is 0 too where idx is -1. Both are sent to
        # a point after the last one, which there is even where the cloud has none.
        counts = (idx >= 0) & (dist > 0)
        found = torch.where(counts, idx, xyz.shape[0]).flatten()
        return counts, found, queries.unsqueeze(1) - rows(xyz, found, idx)

    def rows(xyz: torch.Tensor, found: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        return torch.cat([xyz, xyz.new_zeros(1, 3)])[found].reshape(*idx.shape, 3)

    def backward(ctx: Any, _: Any, grad: torch.Tensor) -> tuple:
        xyz, new_xyz, _, dist = ctx.saved_tensors
        n = xyz.shape[0]
        counts, found, gap = gaps(ctx)
        slope = torch.where(counts, grad / torch.where(counts, dist, 1), 0)
        push = slope.unsqueeze(2) * gap
        to_queries = push.sum(1)
        to_xyz = xyz.new_zeros(n + 1, 3).index_add(0, found, -push.reshape(-1, 3))[:n]
        if new_xyz is None:
            return None, to_xyz + to_queries, None, None, None
        return None, to_xyz, None, to_queries, None

    def jvp(ctx: Any, _: Any, xyz: torch.Tensor, __: Any, new_xyz: torch.Tensor | None, ___: Any) -> tuple:
        _refuse_forward_twice("knn_query")
        counts, found, gap = gaps(ctx)
        queries = xyz if new_xyz is None else new_xyz
        moved = queries.unsqueeze(1) - rows(xyz, found, counts)
        dist = torch.where(counts, ctx.saved_tensors[-1], 1)
        return None, torch.where(counts, (gap * moved).sum(2) / dist, 0)

    _register_derivatives("knn_query", setup_context, backward, jvp, _one_by_one("knn_query"))
    torch.library.register_autocast("oplab::knn_query", "cpu", torch.float32)


def _register_dynamic_resize() -> None:
    import torch

    def check(name: str, images: torch.Tensor, height: int, width: int, scales: torch.Tensor) -> None:
        torch._check(
            images.dim() == 4,
            lambda: f"{name} must have the shape [N, C, H, W], but its shape is {list(images.shape)}.",
        )
        for size in (height, width):
            torch._check(
                size >= 1,
                lambda: f"x must have a height and a width of at least 1, but its shape is {list(images.shape)}.",
            )

        def words() -> str:
            return f"scales must have the shape [4], but its shape is {list(scales.shape)}."

        torch._check(scales.dim() == 1, words)
        torch._check(scales.shape[0] == 4, words)
        torch._check(
            images.dtype in (torch.float32, torch.float64),
            lambda: f"{name} must be float32 or float64, but it is {images.dtype}.",
        )
        torch._check(scales.dtype == torch.float32, lambda: f"scales must be float32, but it is {scales.dtype}.")
        _check_device(name, images, "scales", scales)

    @torch.library.register_fake("oplab::dynamic_resize")
    def fake(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        check("x", x, *(x.shape[2:] if x.dim() == 4 else (1, 1)), scales)
        ctx = torch.library.get_ctx()  # the values of scales are not known: neither is the size
        return x.new_empty([x.shape[0], x.shape[1], ctx.new_dynamic_size(min=1), ctx.new_dynamic_size(min=1)])

    @torch.library.register_fake("oplab::dynamic_resize_backward")
    def fake_backward(grad: torch.Tensor, scales: torch.Tensor, height: int, width: int) -> torch.Tensor:
        check("grad", grad, height, width, scales)
        return grad.new_empty([grad.shape[0], grad.shape[1], height, width])

    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        x, scales = inputs
        ctx.size = x.shape[2:]
        ctx.save_for_backward(scales)
        ctx.save_for_forward(scales)

    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        return torch.ops.oplab.dynamic_resize_backward(grad, *ctx.saved_tensors, *ctx.size), None

    def jvp(ctx: Any, x: torch.Tensor, _: Any) -> torch.Tensor:
        return torch.ops.oplab.dynamic_resize(x, *ctx.saved_tensors)  # linear in x, and scales has no derivative

    def setup_context_twice(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        _, scales, *ctx.size = inputs
        ctx.save_for_backward(scales)
        ctx.save_for_forward(scales)

    def backward_twice(ctx: Any, grad: torch.Tensor) -> tuple:
        return torch.ops.oplab.dynamic_resize(grad, *ctx.saved_tensors), None, None, None

    def jvp_twice(ctx: Any, grad: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.ops.oplab.dynamic_resize_backward(grad, *ctx.saved_tensors, *ctx.size)

    _register_derivatives("dynamic_resize", setup_context, backward, jvp, _one_by_one("dynamic_resize"))
    name = "dynamic_resize_backward"
    _register_derivatives(name, setup_context_twice, backward_twice, jvp_twice, _one_by_one(name))
    torch.library.register_autocast("oplab::dynamic_resize", "cpu", torch.float32)


_derivatives: Any = None  # a torch.library.Library: what it registers goes when it goes


def _register_derivatives(name: str, setup_context: Any, backward: Any, jvp: Any, vmap: Any) -> None:
    """Derivatives of ``oplab::name`` in both directions, for backward(), torch.autograd.forward_ad and torch.func.

    The arguments are the methods of an autograd.Function. torch.library.register_autograd (PyTorch 2.15) takes the first
    two, and covers backward() alone: torch.func.grad raises, and torch.func.jvp gives a tangent of zeros and no error.
    """
    import torch

    global _derivatives
    if _derivatives is None:
        _derivatives = torch.library.Library("oplab", "IMPL")
    operator = getattr(torch.ops.oplab, name).default
    defaults = [argument.default_value for argument in operator._schema.arguments]

    def forward(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():  # this is what the key Autograd calls
            return operator(*args)

    methods = {
        "forward": forward,
        "setup_context": setup_context,
        "backward": backward,
        "jvp": jvp,
        "vmap": vmap,
    }
    function = type(name, (torch.autograd.Function,), {key: staticmethod(method) for key, method in methods.items()})

    def apply(*args: Any) -> Any:
        return function.apply(*args, *defaults[len(args) :])  # the dispatcher leaves out what has its default value

    def autograd(*args: Any) -> Any:
        wanted = torch.is_grad_enabled() and torch._C._any_requires_grad(*args)
        if wanted or torch.autograd.forward_ad._current_level >= 0:
            return apply(*args)
        return forward(*args)  # a Function costs more than a small kernel

    _derivatives.impl(name, autograd, "Autograd")
    # This key comes first where torch.func is at work. A Function knows what to do there, level by level; called by the key
    # Autograd it would see one level only, and a derivative of a derivative would be wrong.
    _derivatives.impl(name, apply, "FuncTorchDynamicLayerFrontMode")


def _refuse_forward_twice(name: str) -> None:
    """For a jvp that uses saved tensors: in PyTorch 2.15 they have lost the tangents of the other levels (issue 197867)."""
    import torch

    levels = [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()]
    if levels.count(torch._C._functorch.TransformType.Jvp) > 1:
        raise NotImplementedError(
            f"{name}: forward mode inside forward mode (jacfwd of jacfwd) would give a wrong second derivative. "
            "Use torch.func.hessian or jacrev for one of the two."
        )


def _batched(info: Any, in_dims: tuple, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """The tensors with their batch dimension first, for the vmap of an elementwise operator."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, in_dims, strict=False)
    ]


def _one_by_one(name: str) -> Any:
    """The vmap of an operator that has no batched kernel: a loop, as PyTorch does where nothing is registered."""
    import torch

    operator = getattr(torch.ops.oplab, name)

    def vmap(info: Any, in_dims: tuple, *args: Any) -> tuple:
        rows = []
        for i in range(info.batch_size):
            row = [arg if dim is None else arg.select(dim, i) for arg, dim in zip(args, in_dims, strict=True)]
            rows.append(operator(*row))
        if isinstance(rows[0], tuple):
            results = tuple(torch.stack(result) for result in zip(*rows, strict=True))
            return results, (0,) * len(results)
        return torch.stack(rows), 0

    return vmap


def _check_same_shape(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    import torch

    def words() -> str:
        return (
            f"{name} and {other_name} must have the same shape, but {name} is {list(tensor.shape)} and {other_name} is "
            f"{list(other.shape)}."
        )

    torch._check(tensor.dim() == other.dim(), words)
    for m, n in zip(tensor.shape, other.shape, strict=True):
        torch._check(m == n, words)


def _check_device(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """Only a fake meets two devices: the dispatcher calls it as soon as one tensor is on the device ``meta``."""
    import torch

    torch._check(
        tensor.device == other.device,
        lambda: (
            f"{other_name} must be on {name}'s device, but {other_name} is on {other.device} and {name} is on "
            f"{tensor.device}."
        ),
    )
