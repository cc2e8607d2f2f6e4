"""``oplab::grid`` in PyTorch and ``oplab::Grid`` in ONNX Runtime, beside a reference that owes nothing to either."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest
import torch

from oplab import ops
from tests.support.dtypes import DTYPES
from tests.support.grid import CORNERS, cloud, in_ort, in_torch, make_model, reference
from tests.support.models import sizes

pytestmark = pytest.mark.usefixtures("compiled")


RUNTIMES = pytest.mark.parametrize("run", [in_torch, in_ort])


class TestValues:
    @pytest.mark.parametrize("corner", CORNERS)
    @pytest.mark.parametrize("shape", [(1, 1), (7,), (50, 3), (40, 2, 3), (6, 7)])
    @DTYPES
    def test_shapes_dtypes_and_corners(self, dtype, shape: tuple[int, ...], corner: str):
        feed = cloud(*shape, dtype=dtype, corner=corner)
        expected = reference(**feed)
        for cluster in (in_torch(feed), in_ort(feed)):
            assert cluster.dtype == np.int64 and cluster.shape == shape[:1]
            np.testing.assert_array_equal(cluster, expected)

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

    @pytest.mark.parametrize("corner", CORNERS)
    @pytest.mark.parametrize("shape", [(0, 3), (0, 2, 2)])
    @RUNTIMES
    def test_no_points(self, run, shape: tuple[int, ...], corner: str):
        cluster = run(cloud(*shape, corner=corner))
        assert cluster.dtype == np.int64 and cluster.shape == (0,)

    @RUNTIMES
    def test_the_largest_number(self, run):
        size, start = np.ones(1), np.zeros(1)
        largest = np.nextafter(2.0**63, 0)
        assert run({"pos": np.array([[largest]]), "size": size, "start": start}).tolist() == [int(largest)]

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
    "start too long": (
        bad(start=np.zeros(4)),
        "start must have one value for each of pos's 3 coordinates, but its shape is [4].",
    ),
    "size zero": (bad(size=at(0)), "size must be positive, but size[1] is 0."),
    "size NaN": (bad(size=at(np.nan)), "size must be finite, but size[1] is nan."),
    "start NaN": (bad(start=at(np.nan, 2)), "start must be finite, but start[2] is nan."),
    "pos NaN": (
        bad(pos=np.stack([at(0), at(np.nan)])),
        "pos must be finite, but coordinate 1 of point 1 is nan.",
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
    "one side has too many cells": (
        bad(size=at(1e-30)),
        "size is too small: from start to end there are more cells than int64 can count.",
    ),
    "a quotient too large": (
        bad(start=[0, 0, 0], end=[1, 1, 1], pos=np.full((2, 3), 1e30)),
        "pos is too far from start: the cell of point 0 has a number that int64 cannot hold.",
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
            if "its shape is" in sentence or "scalar" in sentence:
                with pytest.raises(RuntimeError) as caught:  # the fake says the same
                    run(feed, device="meta")
                assert sentence in str(caught.value)

    def test_the_first_bad_point_is_named_whatever_the_number_of_threads(self):
        pos = np.zeros((100_003, 1), np.float32)
        pos[70_000], pos[40_000], pos[99_999] = 1e30, 1e30, 1e30
        feed = {"pos": pos, "size": np.ones(1, np.float32), "start": np.zeros(1, np.float32)}
        for threads in (1, 4):
            with pytest.raises(Exception, match="the cell of point 40000 has"):
                in_ort(feed, threads=threads)
        with pytest.raises(RuntimeError, match="the cell of point 40000 has"):
            in_torch(feed)


class TestInPyTorch:
    def test_schema(self):
        schema = str(torch.ops.oplab.grid.default._schema)
        assert schema == "oplab::grid(Tensor pos, Tensor size, Tensor? start=None, Tensor? end=None) -> Tensor"

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.int64], ids=str)
    def test_only_float32_and_float64(self, dtype: torch.dtype, device: str):
        pos, size = (torch.ones(shape, dtype=dtype, device=device) for shape in ((4, 3), 3))
        with pytest.raises(RuntimeError, match="pos must be float32 or float64, but it is "):
            torch.ops.oplab.grid(pos, size)

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("name", ["size", "start", "end"])
    def test_one_dtype(self, name: str, device: str):
        feed = {"pos": torch.zeros(4, 3, device=device), "size": torch.ones(3, device=device)}
        feed[name] = torch.ones(3, device=device, dtype=torch.float64)
        with pytest.raises(RuntimeError, match=f"{name} must have pos's dtype, but {name} is .*(Double|float64)"):
            torch.ops.oplab.grid(**feed)

    @pytest.mark.parametrize("name", ["size", "start", "end"])
    def test_one_device(self, name: str):
        feed = {"pos": torch.zeros(4, 3), "size": torch.ones(3), name: torch.ones(3, device="meta")}
        with pytest.raises(RuntimeError, match=f"{name} must be on pos's device, but {name} is on meta and pos is on"):
            torch.ops.oplab.grid(**feed)

    @pytest.mark.parametrize("corner", ["neither", "both"])
    @pytest.mark.parametrize("grad", [False, True])
    def test_opcheck(self, corner: str, grad: bool):
        feed = {name: torch.from_numpy(value) for name, value in cloud(9, 3, corner=corner).items()}
        feed["pos"].requires_grad_(grad)
        torch.library.opcheck(torch.ops.oplab.grid.default, (), feed)
        assert not torch.ops.oplab.grid(**feed).requires_grad

    def test_layouts(self):
        wide = torch.randn(6, 40)
        size = torch.rand(12) + 0.1
        start = torch.full((1, 1), -9.0)
        negated = torch.randn(5, 3, dtype=torch.complex64).conj().imag
        assert negated.is_neg()
        for pos in (wide.T[:, :3], wide.T[::2, 1::2], wide[:3].T, wide[:1, :3].expand(7, 3), negated):
            feed = {"pos": pos, "size": size[::4], "start": start.expand(3, 1)[:, 0], "end": None}
            torch.library.opcheck(torch.ops.oplab.grid.default, (), feed)
            points, sides = (value.resolve_neg().contiguous().numpy() for value in (pos, size[::4]))
            expected = reference(points, sides, np.full(3, -9, np.float32))
            assert torch.ops.oplab.grid(**feed).tolist() == expected.tolist()


class TestInONNXRuntime:
    @pytest.mark.parametrize(
        ("pos", "expected"),
        [
            ([None, 3], [None]),
            ([17, 3], [17]),
            (["points", "d", 2], ["points"]),
        ],
    )
    def test_the_output_s_shape_is_known_before_it_runs(self, pos: list, expected: list):
        (output,) = ops.session(make_model(shapes={"pos": pos})).get_outputs()
        assert output.type == "tensor(int64)" and sizes(output) == expected
