"""``oplab::grid`` in PyTorch and ``oplab::Grid`` in ONNX Runtime, beside a reference that owes nothing to either."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest
import torch
from onnx import TensorProto

from oplab import ops
from tests.support.dtypes import DTYPES
from tests.support.grid import CORNERS, cloud, in_ort, in_torch, make_model, reference
from tests.support.models import retyped, rewired, sizes

pytestmark = pytest.mark.usefixtures("compiled")


RUNTIMES = pytest.mark.parametrize("run", [in_torch, in_ort])


class TestValues:
    @pytest.mark.parametrize("corner", CORNERS)
    @pytest.mark.parametrize("shape", [(1, 1), (7,), (50, 3), (40, 2, 3), (5, 1, 1), (6, 7)])
    @DTYPES
    @RUNTIMES
    def test_shapes_dtypes_and_corners(self, run, dtype, shape: tuple[int, ...], corner: str):
        feed = cloud(*shape, dtype=dtype, corner=corner)
        cluster = run(feed)
        assert cluster.dtype == np.int64 and cluster.shape == shape[:1]
        np.testing.assert_array_equal(cluster, reference(**feed))

    @RUNTIMES
    def test_by_hand(self, run):
        """Five points in cells of 5 x 5: three columns of cells, so a step in y is worth 3."""
        feed = {
            "pos": np.array([[0, 0], [11, 9], [2, 8], [2, 2], [8, 3]], np.float32),
            "size": np.full(2, 5, np.float32),
        }
        assert run(feed).tolist() == [0, 5, 3, 0, 1]
        feed["end"] = np.full(2, 19, np.float32)  # four columns now
        assert run(feed).tolist() == [0, 6, 4, 0, 1]
        feed["start"] = np.full(2, -5, np.float32)  # and five, and every point one cell further in both directions
        assert run(feed).tolist() == [6, 13, 11, 6, 7]

    @RUNTIMES
    def test_outside_of_start_and_end(self, run):
        """As torch_cluster: rounded towards zero below start, not held back beyond end."""
        pos = np.array([[-2.5], [-0.5], [0.5], [9.0]], np.float32)
        one = np.ones(1, np.float32)
        assert run({"pos": pos, "size": one, "start": 0 * one, "end": 3 * one}).tolist() == [-2, 0, 0, 9]

    @RUNTIMES
    def test_end_a_little_below_start(self, run):
        """Less than a cell: there is still one, and torch_cluster answers too."""
        pos = np.array([[0.3, 0.0], [0.3, 2.0]], np.float32)
        feed = {"pos": pos, "size": np.ones(2, np.float32), "start": np.array([0.5, 0.0], np.float32)}
        assert run(feed).tolist() == [0, 2]

    @pytest.mark.parametrize("corner", CORNERS)
    @pytest.mark.parametrize("shape", [(0, 3), (0, 2, 2), (0,)])
    @RUNTIMES
    def test_no_points(self, run, shape: tuple[int, ...], corner: str):
        cluster = run(cloud(*shape, corner=corner))
        assert cluster.dtype == np.int64 and cluster.shape == (0,)

    @RUNTIMES
    def test_the_largest_number(self, run):
        size, start = np.ones(1), np.zeros(1)
        largest = np.nextafter(2.0**63, 0)
        assert run({"pos": np.array([[largest]]), "size": size, "start": start}).tolist() == [int(largest)]

    @RUNTIMES
    def test_the_last_dimension_may_have_any_number_of_cells(self, run):
        feed = {"pos": np.array([[0.0, 0.0], [1.0, 1e300]]), "size": np.ones(2), "start": np.zeros(2)}
        feed["pos"] = feed["pos"][:1]
        feed["end"] = np.array([0.0, 1e300])
        assert run(feed).tolist() == [0]

    def test_threads_do_not_change_a_bit(self):
        feed = cloud(100_003, 3, corner="end")
        before = torch.get_num_threads()
        answers = [in_ort(feed, threads=threads) for threads in (1, 2, 5)]
        try:
            for threads in (1, 2, 5):
                torch.set_num_threads(threads)
                answers.append(in_torch(feed))
        finally:
            torch.set_num_threads(before)
        expected = reference(**feed)
        for answer in answers:
            np.testing.assert_array_equal(answer, expected)


@pytest.mark.skipif(
    importlib.util.find_spec("torch_cluster") is None, reason="`make deps-extra` installs torch_cluster"
)
class TestTorchCluster:
    def test_the_same_numbers(self):
        import torch_cluster  # noqa: F401  registers the operator

        shapes = [(1, 1), (7,), (50, 3), (40, 2, 3), (2000, 4)]
        for dtype, shape, corner in itertools.product((np.float32, np.float64), shapes, CORNERS):
            feed = {name: torch.from_numpy(value) for name, value in cloud(*shape, dtype=dtype, corner=corner).items()}
            theirs = torch.ops.torch_cluster.grid(feed["pos"], feed["size"], feed.get("start"), feed.get("end"))
            assert torch.equal(torch.ops.oplab.grid(**feed), theirs), (dtype, shape, corner)

    def test_the_same_schema(self):
        import torch_cluster  # noqa: F401

        theirs = torch.ops.torch_cluster.grid.default._schema.arguments
        ours = torch.ops.oplab.grid.default._schema.arguments
        assert [str(argument.type) for argument in ours] == [str(argument.type) for argument in theirs]


def bad(**changes) -> dict[str, np.ndarray]:
    """Four points in three dimensions, with something wrong."""
    feed = {"pos": np.arange(12, dtype=np.float32).reshape(4, 3), "size": np.ones(3, np.float32)}
    feed.update({name: np.asarray(value, np.float32) for name, value in changes.items()})
    return feed


def at(value: float, index: int = 1) -> np.ndarray:
    made = np.ones(3, np.float32)
    made[index] = value
    return made


# What is wrong, and the sentence that both runtimes answer.
REFUSED = {
    "pos a scalar": (bad(pos=1.0), "pos must have at least one dimension, but it is a scalar."),
    "pos without coordinates": (
        bad(pos=np.zeros((4, 0)), size=[]),
        "pos must have at least one coordinate for each point, but its shape is [4, 0].",
    ),
    "size too short": (
        bad(size=[1, 1]),
        "size must have one value for each of pos's 3 coordinates, but its shape is [2].",
    ),
    "size of rank 2": (
        bad(size=np.ones((1, 3))),
        "size must have one value for each of pos's 3 coordinates, but its shape is [1, 3].",
    ),
    "size a scalar": (bad(size=1), "size must have one value for each of pos's 3 coordinates, but its shape is []."),
    "start too long": (
        bad(start=np.zeros(4)),
        "start must have one value for each of pos's 3 coordinates, but its shape is [4].",
    ),
    "end too short": (
        bad(end=[9]),
        "end must have one value for each of pos's 3 coordinates, but its shape is [1].",
    ),
    "size zero": (bad(size=at(0)), "size must be positive, but size[1] is 0."),
    "size negative": (bad(size=at(-2)), "size must be positive, but size[1] is -2."),
    "size NaN": (bad(size=at(np.nan)), "size must be finite, but size[1] is nan."),
    "size infinite": (bad(size=at(np.inf)), "size must be finite, but size[1] is inf."),
    "start NaN": (bad(start=at(np.nan, 2)), "start must be finite, but start[2] is nan."),
    "end infinite": (bad(end=at(-np.inf, 0)), "end must be finite, but end[0] is -inf."),
    "pos NaN": (
        bad(pos=np.stack([at(0), at(np.nan)])),
        "pos must be finite, but coordinate 1 of point 1 is nan.",
    ),
    "pos infinite": (
        bad(pos=np.stack([at(0), at(-np.inf, 2)])),
        "pos must be finite, but coordinate 2 of point 1 is -inf.",
    ),
    "start and end swapped": (
        bad(start=[20, 20, 20], end=[0, 0, 0]),
        "end must not be a cell or more below start, but along dimension 0 start is 20, end is 0 and size is 1.",
    ),
    "end below the points": (
        bad(end=[0, 0, 0]),
        "end must not be a cell or more below start, but along dimension 1 start is 1 (the minimum of pos), end is 0 and "
        "size is 1.",
    ),
    "start above the points": (
        bad(start=[0, 0, 99]),
        "end must not be a cell or more below start, but along dimension 2 start is 99, end is 11 (the maximum of "
        "pos) and size is 1.",
    ),
    "one side has too many cells": (
        bad(size=at(1e-30)),
        "size is too small: from start to end there are more cells than int64 can count.",
    ),
    "all sides together have too many": (
        bad(size=np.full(3, 1e-10)),
        "size is too small: from start to end there are more cells than int64 can count.",
    ),
    "a quotient too large": (
        bad(start=[0, 0, 0], end=[1, 1, 1], pos=np.full((2, 3), 1e30)),
        "pos is too far from start: the cell of point 0 has a number that int64 cannot hold.",
    ),
    "a product too large": (
        bad(start=[0, 0, 0], end=[1e10, 1, 1], pos=[[0, 0, 0], [0, 1e10, 0]]),
        "pos is too far from start: the cell of point 1 has a number that int64 cannot hold.",
    ),
    "a sum too large": (
        bad(start=[0, 0, 0], end=[0, 0, 0], pos=[[9e18, 9e18, 0]]),
        "pos is too far from start: the cell of point 0 has a number that int64 cannot hold.",
    ),
    "a difference too large for the dtype": (
        bad(start=[-3e38, 0, 0], end=[0, 1, 1], pos=[[3e38, 0, 0]], size=[1e25, 1, 1]),
        "pos is too far from start: the cell of point 0 has a number that int64 cannot hold.",
    ),
}


class TestRefusals:
    @pytest.mark.parametrize("what", REFUSED)
    @RUNTIMES
    def test_a_sentence(self, run, what: str):
        feed, sentence = REFUSED[what]
        with pytest.raises(Exception) as caught:
            run(feed)
        assert sentence in str(caught.value)
        if run is in_ort:
            assert type(caught.value).__name__ == "InvalidArgument" and f"Grid: {sentence}" in str(caught.value)
        else:
            assert type(caught.value) is RuntimeError and "grid.cpp:" in str(caught.value)

    def test_the_first_bad_point_is_named_whatever_the_number_of_threads(self):
        pos = np.zeros((100_003, 1), np.float32)
        pos[70_000], pos[40_000], pos[99_999] = 1e30, 1e30, 1e30
        feed = {"pos": pos, "size": np.ones(1, np.float32), "start": np.zeros(1, np.float32)}
        for threads in (1, 4):
            with pytest.raises(Exception, match="the cell of point 40000 has"):
                in_ort(feed, threads=threads)
        with pytest.raises(RuntimeError, match="the cell of point 40000 has"):
            in_torch(feed)

    def test_a_session_goes_on_after_a_refusal(self):
        session = ops.session(make_model())
        feed, sentence = REFUSED["size zero"]
        good = bad()
        for _ in range(3):
            with pytest.raises(Exception, match="size must be positive"):
                session.run(None, feed)
            np.testing.assert_array_equal(session.run(None, good)[0], reference(**good))


SHAPE_REFUSALS = [what for what, (_, sentence) in REFUSED.items() if "its shape is" in sentence or "scalar" in sentence]


class TestInPyTorch:
    def test_schema(self):
        schema = str(torch.ops.oplab.grid.default._schema)
        assert schema == "oplab::grid(Tensor pos, Tensor size, Tensor? start=None, Tensor? end=None) -> Tensor"

    @pytest.mark.parametrize("what", SHAPE_REFUSALS)
    def test_the_fake_says_the_same(self, what: str):
        feed, sentence = REFUSED[what]
        on_meta = {name: torch.from_numpy(value).to("meta") for name, value in feed.items()}
        with pytest.raises(RuntimeError) as caught:
            torch.ops.oplab.grid(**on_meta)
        assert sentence in str(caught.value)

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize(
        "dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str
    )
    def test_only_float32_and_float64(self, dtype: torch.dtype, device: str):
        with pytest.raises(RuntimeError, match="pos must be float32 or float64, but it is "):
            torch.ops.oplab.grid(
                torch.zeros(4, 3, dtype=dtype, device=device), torch.ones(3, dtype=dtype, device=device)
            )

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("name", ["size", "start", "end"])
    def test_one_dtype(self, name: str, device: str):
        feed = {"pos": torch.zeros(4, 3, device=device), "size": torch.ones(3, device=device)}
        feed[name] = torch.ones(3, device=device, dtype=torch.float64)
        with pytest.raises(RuntimeError, match=f"{name} must have pos's dtype, but {name} is .*(Double|float64)"):
            torch.ops.oplab.grid(**feed)

    @pytest.mark.parametrize("name", ["size", "start", "end"])
    @pytest.mark.parametrize(("here", "there"), [("cpu", "meta"), ("meta", "cpu")])
    def test_one_device(self, name: str, here: str, there: str):
        feed = {"pos": torch.zeros(4, 3, device=here), "size": torch.ones(3, device=here)}
        feed[name] = torch.ones(3, device=there)
        with pytest.raises(
            RuntimeError, match=f"{name} must be on pos's device, but {name} is on {there} and pos is on"
        ):
            torch.ops.oplab.grid(**feed)

    def test_sparse(self):
        with pytest.raises(NotImplementedError, match="oplab::grid"):
            torch.ops.oplab.grid(torch.ones(2, 2).to_sparse(), torch.ones(2))

    def test_more_coordinates_than_can_be_counted(self):
        pos = torch.zeros(1).as_strided((0, 2**40, 2**40), (0, 0, 0))
        with pytest.raises(RuntimeError, match="pos has too many coordinates for each point: its shape is"):
            torch.ops.oplab.grid(pos, torch.ones(1))

    @pytest.mark.parametrize("corner", CORNERS)
    @pytest.mark.parametrize("grad", [False, True])
    def test_opcheck(self, corner: str, grad: bool):
        feed = {name: torch.from_numpy(value) for name, value in cloud(9, 3, corner=corner).items()}
        feed["pos"].requires_grad_(grad)
        torch.library.opcheck(torch.ops.oplab.grid.default, (), feed)

    @pytest.mark.parametrize("shape", [(0, 3), (4,), (5, 2, 2), (1, 1)])
    def test_opcheck_of_odd_shapes(self, shape: tuple[int, ...]):
        feed = {name: torch.from_numpy(value) for name, value in cloud(*shape, dtype=np.float64).items()}
        torch.library.opcheck(torch.ops.oplab.grid.default, (), feed)

    def test_layouts(self):
        wide = torch.randn(6, 40)
        size = torch.rand(12) + 0.1
        start = torch.full((1, 1), -9.0)
        for pos in (wide.T[:, :3], wide.T[::2, 1::2], wide[:3].T, wide[:1, :3].expand(7, 3)):
            feed = {"pos": pos, "size": size[::4], "start": start.expand(3, 1)[:, 0], "end": None}
            torch.library.opcheck(torch.ops.oplab.grid.default, (), feed)
            expected = reference(
                *(value.contiguous().numpy() for value in (pos, size[::4])), np.full(3, -9, np.float32)
            )
            assert torch.ops.oplab.grid(**feed).tolist() == expected.tolist()

    def test_a_lazily_negated_view(self):
        pos = torch.randn(5, 3, dtype=torch.complex64).conj().imag
        assert pos.is_neg()
        size = torch.ones(3)
        assert torch.equal(torch.ops.oplab.grid(pos, size), torch.ops.oplab.grid(pos.clone(), size))

    def test_no_gradient(self):
        cluster = torch.ops.oplab.grid(torch.randn(4, 3, requires_grad=True), torch.ones(3))
        assert not cluster.requires_grad

    def test_the_inputs_are_left_alone(self):
        feed = {name: torch.from_numpy(value) for name, value in cloud(20, 3, corner="both").items()}
        before = {name: value.clone() for name, value in feed.items()}
        torch.ops.oplab.grid(**feed)
        assert all(torch.equal(feed[name], before[name]) for name in feed)

    def test_dynamic_shapes_are_exported(self):
        class Voxels(torch.nn.Module):
            def forward(self, pos: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
                return torch.ops.oplab.grid(pos, size, end=size * 40)

        def example(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.rand(n, d), torch.full((d,), 0.25)

        points, d = torch.export.Dim("points"), torch.export.Dim("d")
        program = torch.export.export(Voxels(), example(6, 3), dynamic_shapes=({0: points, 1: d}, {0: d}))
        for pos, size in (example(11, 3), example(1, 2)):
            expected = torch.ops.oplab.grid(pos, size, end=size * 40)
            assert torch.equal(program.module()(pos, size), expected)

    def test_the_shape_of_unknown_sizes(self):
        """Points whose number only the data know: a mask before the operator."""

        class Kept(torch.nn.Module):
            def forward(self, pos: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
                return torch.ops.oplab.grid(pos[pos[:, 0] > 0], size)

        pos, size = torch.randn(30, 3), torch.ones(3)
        program = torch.export.export(Kept(), (pos, size))
        other = torch.randn(30, 3)
        assert torch.equal(program.module()(other, size), Kept()(other, size))


class TestInONNXRuntime:
    @DTYPES
    @pytest.mark.parametrize(
        ("inputs", "given"),
        [
            (("pos", "size"), ()),
            (("pos", "size", ""), ()),
            (("pos", "size", "", ""), ()),
            (("pos", "size", "start"), ("start",)),
            (("pos", "size", "start", ""), ("start",)),
            (("pos", "size", "", "end"), ("end",)),
            (("pos", "size", "start", "end"), ("start", "end")),
        ],
    )
    def test_every_way_to_leave_an_input_out(self, inputs: tuple[str, ...], given: tuple[str, ...], dtype):
        feed = cloud(30, 3, dtype=dtype, corner="both")
        feed = {name: value for name, value in feed.items() if name in ("pos", "size", *given)}
        (cluster,) = ops.session(make_model(inputs, dtype)).run(None, feed)
        np.testing.assert_array_equal(cluster, reference(**feed))

    @pytest.mark.parametrize(
        "inputs", [(), ("pos",), ("pos", ""), ("", "size"), ("pos", "size", "start", "end", "pos")]
    )
    def test_pos_and_size_are_required_and_there_is_no_fifth(self, inputs: tuple[str, ...]):
        model = rewired(make_model(tuple(dict.fromkeys(inputs))), inputs)
        with pytest.raises(Exception, match="input size|marked single|Node with schema"):
            ops.session(model)

    @pytest.mark.parametrize(("dtype", "shown"), [(TensorProto.INT64, "int64"), (TensorProto.FLOAT16, "float16")])
    @pytest.mark.parametrize("name", ["pos", "size", "start", "end"])
    def test_a_wrong_dtype_is_refused_when_loaded(self, name: str, dtype: int, shown: str):
        model = retyped(make_model(("pos", "size", "start", "end")), name, dtype)
        with pytest.raises(Exception, match=rf"tensor\({shown}\)' of input parameter \({name}\) of operator \(Grid\)"):
            ops.session(model)

    @pytest.mark.parametrize("name", ["pos", "size", "start", "end"])
    def test_two_dtypes_are_refused_when_loaded(self, name: str):
        model = retyped(make_model(("pos", "size", "start", "end")), name, TensorProto.DOUBLE)
        with pytest.raises(Exception, match="Grid"):
            ops.session(model)

    @pytest.mark.parametrize(
        ("pos", "expected"),
        [
            (["points", 3], ["points"]),
            ([None, 3], [None]),
            ([17, 3], [17]),
            (["points", "d", 2], ["points"]),
            (["points"], ["points"]),
        ],
    )
    @DTYPES
    @pytest.mark.parametrize("inputs", [("pos", "size"), ("pos", "size", "", "end")])
    def test_the_output_s_shape_is_known_before_it_runs(self, inputs, dtype, pos: list, expected: list):
        (output,) = ops.session(make_model(inputs, dtype, {"pos": pos})).get_outputs()
        assert output.type == "tensor(int64)" and sizes(output) == expected

    def test_an_input_of_unknown_rank(self):
        """ONNX Runtime reports it as a scalar: nothing may be said about the output then."""
        session = ops.session(make_model(shapes={"pos": None}))
        assert session.get_outputs()[0].shape in (None, [])
        assert session.run(None, cloud(5, 3))[0].shape == (5,)

    @pytest.mark.parametrize("version", [None, 1, 2])
    def test_any_version_of_the_domain_that_there_is(self, version: int | None):
        feed = cloud(5, 3)
        (cluster,) = ops.session(make_model(version=version)).run(None, feed)
        np.testing.assert_array_equal(cluster, reference(**feed))

    def test_one_session_from_many_threads(self):
        from concurrent.futures import ThreadPoolExecutor

        session = ops.session(make_model(("pos", "size", "", "end")), threads=2)
        feeds = [cloud(n, 3, corner="end") for n in (1, 500, 20_011, 0)]
        with ThreadPoolExecutor(4) as pool:
            for feed, (cluster,) in itertools.zip_longest(
                feeds * 8, pool.map(lambda feed: session.run(None, feed), feeds * 8)
            ):
                np.testing.assert_array_equal(cluster, reference(**feed))
