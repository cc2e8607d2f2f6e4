"""The nearest points by brute force: shared by chapters 07, 08, 11, 13 and 16."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


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
