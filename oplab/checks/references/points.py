"""The nearest points by brute force: shared by chapters 07, 08, 11, 13 and 16."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from oplab.parity.arrays import expect_close


def neighbours(
    feeds: Mapping[str, np.ndarray],
    k: int,
    *,
    ties: int = 1,
    batches: bool = True,
    local: bool = False,
    skip: int = 0,
    itself: bool = True,
    batch_of: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """KNNQuery by its definition, in float64: nearest first, ties by index; the keywords make known wrong answers.

    Args:
        feeds: xyz (n, 3) and offset (b,), the end of each batch; where other points ask, new_xyz and new_offset.
        ties: 1 to the lower index, -1 to the higher one.
        batches: False takes neighbours from all batches.
        local: indices from the batch's first point on.
        skip: how many of the nearest are left out.
        itself: False leaves out the point that asks.
        batch_of: the batch of each point that asks, if it is not the one that new_offset gives.

    Returns:
        idx int32 (m, k), -1 where a batch has too few points, and dist float32 (m, k), 0 there.
    """
    xyz, offset = feeds["xyz"].astype(np.float64), feeds["offset"]
    asking, ends = feeds.get("new_xyz", feeds["xyz"]).astype(np.float64), feeds.get("new_offset", offset)
    idx, dist = np.full((len(asking), k), -1, np.int32), np.zeros((len(asking), k), np.float32)
    if batch_of is None:
        batch_of = np.searchsorted(ends, np.arange(len(asking)), side="right")
    own = np.searchsorted(offset, np.arange(len(xyz)), side="right")
    for q, (point, batch) in enumerate(zip(asking, batch_of, strict=True)):
        among = np.flatnonzero(own == batch) if batches else np.arange(len(xyz))
        among = among if itself else among[among != q]
        squares = ((xyz[among] - point) ** 2).sum(1)
        nearest = np.lexsort((ties * among, squares))[skip : skip + k]
        idx[q, : len(nearest)] = among[nearest] - (among[0] if local and len(among) else 0)
        dist[q, : len(nearest)] = np.sqrt(squares[nearest])
    return idx, dist


_FILLS: dict[str, Callable[[np.ndarray], np.ndarray | int]] = {
    "-1": lambda idx: -1,
    "its first entry": lambda idx: idx[:, :1],
    "0, which is a point": lambda idx: 0,
    "the point itself": lambda idx: np.arange(len(idx))[:, None],
}


def filled(idx: np.ndarray, fill: str) -> np.ndarray:
    """What the rows of :func:`neighbours` are where they end with ``fill``, one of -1, its first entry, and two mistakes."""
    return np.where(idx < 0, _FILLS[fill](idx), idx) if idx.size else idx


def expect_idx(
    got: np.ndarray,
    feeds: Mapping[str, np.ndarray],
    k: int,
    *,
    fill: str = "-1",
    dtype: type = np.int32,
    likely: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Demand the indices of the nearest points.

    Args:
        fill: what a row that is too short ends with.
        likely: more known mistakes.

    Raises:
        WrongAnswer: they are others, or of another dtype.
    """
    idx = neighbours(feeds, k)[0]
    expected = filled(idx, fill).astype(dtype)
    if got.dtype == expected.dtype and np.array_equal(got, expected):
        return  # the rest is for the message
    ends, others = feeds.get("new_offset", feeds["offset"]), "new_xyz" in feeds
    batch, steps = 0, []  # one batch on at most for each query
    for row in range(len(idx)):
        batch = min(batch + int(row >= ends[batch]), len(ends) - 1)
        steps.append(batch)
    mistakes: dict[str, dict[str, Any]] = {
        "Of equally near points the higher index comes first.": {"ties": -1},
        "The neighbours come from all batches: a query looks at the points of its own batch only.": {"batches": False},
        "The indices count from the first point of the batch; they have to count from the first of xyz.": {
            "local": True
        },
        "A batch without queries is not skipped: two batches in a row may end at the same query.": {
            "batch_of": np.array(steps, int)
        },
    }
    if others:
        by_points = np.searchsorted(feeds["offset"], np.arange(len(idx)), side="right").clip(max=len(ends) - 1)
        mistakes["offset is used for the queries too: their batches end at new_offset."] = {"batch_of": by_points}
    else:
        mistakes["The point itself is left out; it is its own nearest neighbour."] = {"itself": False}
    known = {cause: filled(neighbours(feeds, k, **mistake)[0], fill) for cause, mistake in mistakes.items()}
    fills = [*_FILLS][:3] if fill == "-1" or others else [*_FILLS]  # a point is mostly its own first entry
    for other in fills:
        known[f"A row that is too short ends with {fill}; here it ends with {other}."] = filled(idx, other)
    if got.ndim == 2 and got.shape[1] != k:
        cause = f"k is {k} here, and each row has {got.shape[1]} entries: k is an argument."
        known[cause] = filled(neighbours(feeds, got.shape[1])[0], fill)
    known = {cause: wrong for cause, wrong in known.items() if not np.array_equal(wrong, expected)} | dict(likely or {})
    if got.shape == expected.shape and got.size:
        known |= {cause: got for cause in _in_the_result(got, expected, feeds)}
    expect_close(got, expected, name="idx", likely=known)


def _in_the_result(got: np.ndarray, expected: np.ndarray, feeds: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Causes that wrong indices show by themselves."""
    if np.array_equal(got, expected):
        yield f"The indices are right; they have to be {expected.dtype}."
    count = int(np.argmin((got == expected).all(axis=0)))  # the columns before the first wrong one
    if count >= 16:
        yield f"The first {count} entries of each row are right: there may be more of them than any fixed number."
    if not -1 <= got.min() <= got.max() < len(feeds["xyz"]) or np.any((got < 0) != (expected < 0)):
        return
    asking = feeds.get("new_xyz", feeds["xyz"]).astype(np.float64)[:, None]
    gaps = [((feeds["xyz"].astype(np.float64)[rows] - asking) ** 2).sum(2) for rows in (got, expected)]
    if np.array_equal(*(np.searchsorted(feeds["offset"], rows, side="right") for rows in (got, expected))):
        if np.array_equal(*gaps):
            yield (
                "Of equally near points the lower index comes first; a sort by the distance alone, or topk, leaves them in any order."
            )
        if np.abs(feeds["xyz"]).max() >= 500:
            yield "Around such coordinates |p|² + |q|² - 2pq loses what p - q has: subtract first, then square."
    if np.array_equal(np.sort(got), np.sort(expected)):
        yield "These are the right points in another order: the nearest comes first."
