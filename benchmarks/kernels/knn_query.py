"""KNNQuery next to scipy's cKDTree (built and asked) and torch_cluster's knn, on clouds of many kinds."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree

from oplab import ops

from .harness import Case, Peer, Run
from .peers import torch_cluster
from .runners import bound, one_node

K = 16
KERNEL = "KNNQuery"


def cloud(kind: str, n: int) -> np.ndarray:
    """n points, float32 [n, 3]. "even" fills a box, "sphere" is a surface as a scan sees it; the others are the worst that we know."""
    random = np.random.default_rng(n)
    if kind == "even":
        points = random.random((n, 3))
    elif kind == "sphere":
        points = random.normal(size=(n, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    elif kind == "all equal":
        points = np.full((n, 3), 0.25)
    elif kind == "on a line":
        points = random.random((n, 1)) * [1, 2, 3]
    elif kind == "two heaps far apart":
        points = random.normal(0, 1e-3, (n, 3)) + 1000 * random.integers(0, 2, (n, 1))
    elif kind == "one far away":  # all the others share a cell
        points = random.random((n, 3))
        points[0] = 1e6
    else:
        raise ValueError(kind)
    return points.astype(np.float32)


def check(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
    """Equal distances. Indices may differ only where a tie is broken in another way, or by a rounding of float32."""
    (idx, dist), (other, far) = ours, theirs
    assert dist.shape == far.shape, f"shapes {dist.shape} and {far.shape}"
    wrong = np.abs(dist - far).max(initial=0)
    assert wrong <= 1e-5 * max(1.0, float(dist.max(initial=0))), f"distances differ by {wrong:g}"
    # A point that only they name has to be as far away as the last one of ours.
    strangers = ~(other[:, :, None] == idx[:, None, :]).any(2)
    gap = np.abs(far - dist[:, -1:])[strangers].max(initial=0)
    assert gap <= 1e-5 * max(1.0, float(dist.max(initial=0))), f"other neighbours, {gap:g} nearer or farther"


def same(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
    """Bit by bit."""
    for mine, other in zip(ours, theirs, strict=True):
        assert np.array_equal(mine, other), f"{(mine != other).sum()} of {mine.size} values differ"


def case(kind: str, n: int, *, peers: bool = False, threads: bool = False) -> Case:
    points = functools.cache(lambda: cloud(kind, n))

    def ours(threads: int) -> Run:
        feed = {"xyz": points(), "offset": np.array([n])}
        made = one_node("KNNQuery", feed, {"idx": np.int32, "dist": np.float32}, nsample=K)
        return bound(made, feed, threads)

    def in_torch(threads: int) -> Run:
        ops.load()
        xyz, offset = torch.from_numpy(points()), torch.tensor([n])
        return lambda: torch.ops.oplab.knn_query(K, xyz, offset)

    def scipy(threads: int) -> Run:
        xyz = points()

        def run() -> tuple[np.ndarray, np.ndarray]:
            dist, idx = cKDTree(xyz).query(xyz, K, workers=threads)
            return idx, dist

        return run

    def cluster(threads: int) -> Run:
        package, xyz = torch_cluster(), torch.from_numpy(points())
        # Its answer is a list of edges without distances, which all users of distances compute behind it: not measured here.
        run = lambda: package.knn(xyz, xyz, K, num_workers=threads)[1]  # noqa: E731
        return run

    def check_cluster(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
        xyz, idx = points().astype(np.float64), theirs[0].reshape(n, K)
        dist = np.linalg.norm(xyz[idx] - xyz[:, None], axis=2)
        order = np.argsort(dist, axis=1, kind="stable")
        check(mine, [np.take_along_axis(idx, order, 1), np.take_along_axis(dist, order, 1)])

    others = (
        Peer("scipy cKDTree", scipy),
        Peer("torch_cluster", cluster, None, check_cluster),
        Peer("ours in PyTorch", in_torch, None, same),
    )
    return Case(KERNEL, f"{n:,} points, {kind}, k = {K}", ours, others if peers else (), check, threads)


WORST = ("all equal", "on a line", "two heaps far apart", "one far away")


def cases(quick: bool) -> list[Case]:
    sizes = (300, 600) if quick else (5_000, 20_000, 50_000, 100_000, 200_000)
    compared = sizes if quick else (20_000, 100_000)
    made = []
    for kind in ("even", "sphere"):
        for n in sizes:
            made.append(case(kind, n, peers=n in compared, threads=n == compared[-1]))
    # No quadratic worst case: the time for each point has to stay about the same from one size to the next.
    for kind in WORST:
        for n in (sizes[0], sizes[-1]):
            made.append(case(kind, n))
    return made
