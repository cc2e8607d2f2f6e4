"""``oplab::knn_query`` in PyTorch and ``oplab::KNNQuery`` in ONNX Runtime, beside a reference that owes nothing to either."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from oplab import ops
from tests.support.dtypes import DTYPES
from tests.support.knn import CLOUDS, NAMES, cloud, in_ort, in_torch, make_model, reference
from tests.support.models import sizes

pytestmark = pytest.mark.usefixtures("compiled")


RUNTIMES = pytest.mark.parametrize("run", [in_torch, in_ort])


def agree(nsample: int, feed: dict[str, np.ndarray]) -> None:
    """Both runtimes give the reference's results."""
    expected_idx, expected_dist = reference(nsample, **feed)
    for idx, dist in (in_torch(nsample, feed), in_ort(nsample, feed)):
        assert idx.dtype == np.int32 and dist.dtype == feed["xyz"].dtype
        np.testing.assert_array_equal(idx, expected_idx)
        np.testing.assert_array_equal(dist, expected_dist)


class TestValues:
    @pytest.mark.parametrize("kind", CLOUDS)
    @DTYPES
    def test_clouds(self, dtype, kind: str):
        for n, batches, nsample in ((1, 1, 1), (900, 1, 16), (700, 3, 3), (300, 2, 70)):
            xyz, offset = cloud(kind, n, dtype, batches)
            nsample = min(nsample, int(np.diff(offset, prepend=0).max()))
            agree(nsample, {"xyz": xyz, "offset": offset})
            for other in (kind, "normal"):
                new_xyz, new_offset = cloud(other, 150, dtype, batches, seed=1)
                agree(nsample, {"xyz": xyz, "offset": offset, "new_xyz": new_xyz, "new_offset": new_offset})

    @RUNTIMES
    def test_by_hand(self, run):
        """Two batches, of three points and of one. The first new point is equally far from two: the lower index wins."""
        xyz = np.array([[0, 0, 0], [3, 4, 0], [0, 0, 2], [9, 9, 9]], np.float32)
        offset = np.array([3, 4])
        idx, dist = run(2, {"xyz": xyz, "offset": offset})
        assert idx.tolist() == [[0, 2], [1, 0], [2, 0], [3, -1]]
        np.testing.assert_array_equal(dist, np.array([[0, 2], [0, 5], [0, 2], [0, 0]], np.float32))
        new = {"new_xyz": np.array([[3, 4, 1], [9, 9, 6]], np.float32), "new_offset": np.array([1, 2])}
        idx, dist = run(3, {"xyz": xyz, "offset": offset, **new})
        assert idx.tolist() == [[1, 0, 2], [3, -1, -1]]
        np.testing.assert_allclose(dist, [[1, 26**0.5, 26**0.5], [3, 0, 0]], rtol=1e-6)

    @RUNTIMES
    def test_ties_go_to_the_lower_index(self, run):
        xyz = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, -1], [0, 0, 0]], np.float32)
        idx, _ = run(3, {"xyz": xyz, "offset": np.array([5])})
        assert idx[4].tolist() == [4, 0, 1]
        many = {"xyz": np.zeros((5000, 3), np.float32), "offset": np.array([1000, 5000])}
        idx, dist = run(4, many)
        assert (idx[:1000] == [0, 1, 2, 3]).all() and (idx[1000:] == [1000, 1001, 1002, 1003]).all() and not dist.any()

    @pytest.mark.parametrize("offset", [[0, 0, 7, 7, 12, 12], [12], [0, 12]])
    @DTYPES
    def test_batches_without_points(self, dtype, offset: list[int]):
        xyz, _ = cloud("even", 12, dtype)
        feed = {"xyz": xyz, "offset": np.array(offset)}
        agree(5, feed)
        new_offset = np.minimum(2 * np.arange(1, len(offset) + 1), 11)
        agree(5, {**feed, "new_xyz": cloud("normal", new_offset[-1], dtype)[0], "new_offset": new_offset})
        empty = {"new_xyz": np.empty((0, 3), dtype), "new_offset": np.zeros(len(offset), np.int64)}
        agree(5, {**feed, **empty})

    @pytest.mark.parametrize("offset", [[], [0], [0, 0, 0]])
    @RUNTIMES
    def test_a_cloud_without_points(self, run, offset: list[int]):
        """No batch can have been meant, so any nsample is answered, with padding."""
        feed = {"xyz": np.empty((0, 3), np.float32), "offset": np.array(offset, np.int64)}
        idx, dist = run(4, feed)
        assert idx.shape == dist.shape == (0, 4)
        if offset:
            queries = {"new_xyz": np.ones((3, 3), np.float32), "new_offset": np.full(len(offset), 3)}
            idx, dist = run(4, {**feed, **queries})
            assert idx.shape == (3, 4) and (idx == -1).all() and not dist.any()

    @DTYPES
    def test_offsets_of_int32(self, dtype):
        xyz, offset = cloud("normal", 200, dtype, 3)
        new_xyz, new_offset = cloud("even", 40, dtype, 3)
        feed = {"xyz": xyz, "offset": offset.astype(np.int32)}
        agree(7, feed)
        agree(7, {**feed, "new_xyz": new_xyz, "new_offset": new_offset.astype(np.int32)})

    @pytest.mark.parametrize("kind", ["even", "in one place", "two heaps far apart"])
    def test_one_thread_and_many_and_both_runtimes_give_the_same_bits(self, kind: str):
        xyz, offset = cloud(kind, 5000, batches=4)
        feed = {"xyz": xyz, "offset": offset}
        threads = torch.get_num_threads()
        found = [in_ort(9, feed, threads=1), in_ort(9, feed, threads=4)]
        try:
            for count in (1, 4):
                torch.set_num_threads(count)
                found.append(in_torch(9, feed))
        finally:
            torch.set_num_threads(threads)
        for idx, dist in found[1:]:
            np.testing.assert_array_equal(idx, found[0][0])
            np.testing.assert_array_equal(dist, found[0][1])

    @pytest.mark.parametrize("kind", ["in one place", "on an axis", "two heaps far apart", "one far away"])
    def test_it_does_not_become_quadratic(self, kind: str):
        """200 000 points: each beside each would be 40 thousand million distances, a minute and more."""
        xyz, offset = cloud(kind, 200_000)
        idx, _ = in_torch(4, {"xyz": xyz, "offset": offset})
        some = np.arange(0, 200_000, 20_011)
        new = {"new_xyz": xyz[some], "new_offset": np.array([len(some)])}
        np.testing.assert_array_equal(idx[some], reference(4, xyz, offset, **new)[0])


def bad(nsample: int = 2, **changed) -> tuple[int, dict[str, np.ndarray]]:
    feed = {"xyz": np.arange(15).reshape(5, 3), "offset": [2, 5], "new_xyz": np.ones((2, 3)), "new_offset": [1, 2]}
    feed |= changed
    types = {name: np.int64 if "offset" in name else np.float32 for name in NAMES}
    return nsample, {name: np.asarray(value, types[name]) for name, value in feed.items() if value is not None}


def with_value(value: float, n: int) -> np.ndarray:
    points = np.zeros((n, 3))
    points[1, 2] = value
    return points


REFUSED = {
    "nsample zero": (bad(0), "nsample must be at least 1, but it is 0."),
    "nsample larger than every batch": (
        bad(4),
        "nsample must not be larger than the largest batch, but nsample is 4 and the largest batch has 3 points.",
    ),
    "xyz of rank 1": (bad(xyz=np.zeros(3)), "xyz must have the shape [n, 3], but its shape is [3]."),
    "xyz flat": (bad(xyz=np.zeros((5, 2))), "xyz must have the shape [n, 3], but its shape is [5, 2]."),
    "new_xyz flat": (bad(new_xyz=np.zeros((2, 4))), "new_xyz must have the shape [n, 3], but its shape is [2, 4]."),
    "offset of rank 2": (bad(offset=[[2, 5]]), "offset must have one dimension, but its shape is [1, 2]."),
    "new_offset a scalar": (bad(new_offset=2), "new_offset must have one dimension, but its shape is []."),
    "one batch too many": (
        bad(new_offset=[0, 1, 2]),
        "new_offset must have one value for each of offset's 2 batches, but it has 3.",
    ),
    "only new_xyz": (
        bad(new_offset=None),
        "new_xyz and new_offset must come together, but only new_xyz is given.",
    ),
    "offset decreases": (
        bad(offset=[3, 2, 5], new_offset=[0, 1, 2]),
        "offset must not decrease, but offset[0] is 3 and offset[1] is 2.",
    ),
    "offset negative": (bad(offset=[-1, 5]), "offset must not be negative, but offset[0] is -1."),
    "offset exceeds": (bad(offset=[6, 5]), "offset must not exceed the 5 points of xyz, but offset[0] is 6."),
    "offset ends early": (bad(offset=[2, 4]), "offset must end at the 5 points of xyz, but offset[1] is 4."),
    "no batch": (bad(offset=[], new_offset=[]), "offset must end at the 5 points of xyz, but it is empty."),
    "new_offset exceeds": (
        bad(new_offset=[0, 3]),
        "new_offset must not exceed the 2 points of new_xyz, but new_offset[1] is 3.",
    ),
    "xyz NaN": (bad(xyz=with_value(np.nan, 5)), "xyz must be finite, but coordinate 2 of point 1 is nan."),
    "xyz infinite": (bad(xyz=with_value(-np.inf, 5)), "xyz must be finite, but coordinate 2 of point 1 is -inf."),
    "new_xyz NaN": (bad(new_xyz=with_value(np.nan, 2)), "new_xyz must be finite, but coordinate 2 of point 1 is nan."),
}


class TestRefusals:
    @pytest.mark.parametrize("what", REFUSED)
    @RUNTIMES
    def test_a_sentence(self, run, what: str):
        (nsample, feed), sentence = REFUSED[what]
        with pytest.raises(Exception) as caught:
            run(nsample, feed)
        assert sentence in str(caught.value)
        if run is in_torch:
            assert type(caught.value) is RuntimeError and "knn_query.cpp:" in str(caught.value)
            if any(words in sentence for words in ("shape is", "at least 1", "batches, but", "together")):
                with pytest.raises(RuntimeError) as caught:  # the fake says the same
                    run(nsample, feed, device="meta")
                assert sentence in str(caught.value)
        else:
            assert f"KNNQuery: {sentence}" in str(caught.value)


class TestInPyTorch:
    def test_schema(self):
        schema = str(torch.ops.oplab.knn_query.default._schema)
        assert schema == (
            "oplab::knn_query(int nsample, Tensor xyz, Tensor offset, Tensor? new_xyz=None, Tensor? new_offset=None) -> "
            "(Tensor idx, Tensor dist)"
        )

    @staticmethod
    def feed(device: str = "cpu") -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(value).to(device) for name, value in bad()[1].items()}

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize(
        ("name", "dtype", "sentence"),
        [
            ("xyz", torch.float16, "xyz must be float32 or float64, but it is "),
            ("xyz", torch.int64, "xyz must be float32 or float64, but it is "),
            ("offset", torch.int16, "offset must be int64 or int32, but it is "),
            ("offset", torch.float32, "offset must be int64 or int32, but it is "),
            ("offset", torch.int32, "new_offset must have offset's dtype, but new_offset is "),
            ("new_xyz", torch.float64, "new_xyz must have xyz's dtype, but new_xyz is "),
            ("new_offset", torch.int32, "new_offset must have offset's dtype, but new_offset is "),
        ],
        ids=str,
    )
    def test_dtypes(self, name: str, dtype: torch.dtype, sentence: str, device: str):
        feed = self.feed(device)
        feed[name] = feed[name].to(dtype)
        with pytest.raises(RuntimeError, match=sentence):
            torch.ops.oplab.knn_query(2, **feed)

    @pytest.mark.parametrize("name", NAMES[1:])
    def test_one_device(self, name: str):
        feed = self.feed()
        feed[name] = feed[name].to("meta")
        with pytest.raises(RuntimeError, match=f"{name} must be on xyz's device, but {name} is on meta and xyz is on"):
            torch.ops.oplab.knn_query(2, **feed)

    @pytest.mark.parametrize("inputs", [2, 4])
    def test_opcheck(self, inputs: int):
        """With gradients, without ``test_aot_dispatch_dynamic``: it adds all outputs up, starting with idx, and cannot add a float
        to an integer. ``test_compiled_gradients`` stands in for it."""
        feed = dict(itertools.islice(self.feed().items(), inputs))
        torch.library.opcheck(torch.ops.oplab.knn_query.default, (2,), feed)
        feed = {name: value.requires_grad_(value.is_floating_point()) for name, value in feed.items()}
        tests = ("test_schema", "test_autograd_registration", "test_faketensor")
        torch.library.opcheck(torch.ops.oplab.knn_query.default, (2,), feed, test_utils=tests)
        empty = torch.empty(0, 3, dtype=torch.float64), torch.tensor([0, 0], dtype=torch.int32)
        torch.library.opcheck(torch.ops.oplab.knn_query.default, (2, *empty * (inputs // 2)))

    def test_compiled_gradients(self):
        def run(*tensors: torch.Tensor) -> torch.Tensor:
            return (torch.ops.oplab.knn_query(3, *tensors)[1] ** 2).sum()

        compiled = torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=True)
        for n in (9, 40):
            xyz, offset = (torch.from_numpy(value) for value in cloud("normal", n, batches=2))
            new_xyz, new_offset = (torch.from_numpy(value) for value in cloud("even", 5, batches=2))
            found = []
            for function in (run, compiled):
                leaves = [xyz.clone().requires_grad_(), offset, new_xyz.clone().requires_grad_(), new_offset]
                found.append(torch.autograd.grad(function(*leaves), leaves[::2]))
            torch.testing.assert_close(*found)

    def test_gradients(self):
        xyz, offset = (torch.from_numpy(value) for value in cloud("normal", 14, np.float64))
        new_xyz, _ = (torch.from_numpy(value) for value in cloud("normal", 5, np.float64, seed=7))
        offset, new_offset = torch.tensor([3, 14]), torch.tensor([2, 5])  # the first batch is padded
        xyz.requires_grad_()
        new_xyz.requires_grad_()

        def dist(*points: torch.Tensor) -> torch.Tensor:
            rest = (points[1], new_offset) if len(points) == 2 else ()
            return torch.ops.oplab.knn_query(4, points[0], offset, *rest)[1]

        for points in ((xyz,), (xyz, new_xyz)):
            assert torch.autograd.gradcheck(dist, points)
            assert torch.autograd.gradgradcheck(dist, points)

    def test_gradients_where_there_is_no_direction(self):
        xyz = torch.zeros(3, 3, requires_grad=True)
        new = torch.zeros(2, 3, requires_grad=True)
        _, dist = torch.ops.oplab.knn_query(2, xyz, torch.tensor([0, 3]), new, torch.tensor([1, 2]))
        dist.sum().backward()
        assert not xyz.grad.any() and not new.grad.any()
        nothing = torch.empty(0, 3, requires_grad=True)
        _, dist = torch.ops.oplab.knn_query(2, nothing, torch.tensor([0]), new, torch.tensor([2]))
        dist.sum().backward()
        assert nothing.grad.shape == (0, 3) and not new.grad.any()

    def test_layouts(self):
        wide = torch.randn(7, 40, dtype=torch.float64)
        offsets = torch.tensor([[10, 0], [20, 0]])
        negated = torch.randn(20, 3, dtype=torch.complex128).conj().imag
        assert negated.is_neg()
        for xyz in (wide.T[:20, :3], wide.T[::2, 1::2], wide[:1, :3].expand(20, 3), wide[:3].T[:20], negated):
            feed = {
                "xyz": xyz,
                "offset": offsets[:, 0],
                "new_xyz": wide[:, 3:9:2],
                "new_offset": torch.tensor([7]).expand(2),
            }
            torch.library.opcheck(torch.ops.oplab.knn_query.default, (4,), feed)
            idx, dist = torch.ops.oplab.knn_query(4, **feed)
            expected_idx, expected_dist = reference(
                4, *(value.resolve_neg().contiguous().numpy() for value in feed.values())
            )
            assert idx.is_contiguous() and dist.is_contiguous()
            assert idx.tolist() == expected_idx.tolist() and dist.tolist() == expected_dist.tolist()


class TestInONNXRuntime:
    def test_nsample_is_required_and_an_int(self):
        with pytest.raises(Exception, match="KNNQuery: the attribute nsample is missing"):
            ops.session(make_model(None))
        with pytest.raises(Exception, match="KNNQuery: the attribute nsample must be an int"):
            ops.session(make_model(2.0))

    @pytest.mark.parametrize(
        ("inputs", "shapes", "expected"),
        [
            (NAMES[:2], {"xyz": ["n", 3]}, ["n", 6]),
            ((*NAMES[:2], "", ""), {"xyz": ["n", 3]}, ["n", 6]),
            (NAMES, {"xyz": ["n", 3], "new_xyz": ["m", 3]}, ["m", 6]),
            (NAMES, {"xyz": ["n", 3]}, []),  # new_xyz has no rank
            (NAMES[:2], {"xyz": [None, 3]}, [None, 6]),
        ],
    )
    def test_the_outputs_shapes_are_known_before_it_runs(self, inputs, shapes, expected: list):
        idx, dist = ops.session(make_model(6, inputs, np.float64, shapes=shapes)).get_outputs()
        assert idx.type == "tensor(int32)" and sizes(idx) == expected
        assert dist.type == "tensor(double)" and sizes(dist) == expected
