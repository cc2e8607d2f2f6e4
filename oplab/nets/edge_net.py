"""EdgeNet: the point-cloud classifier of chapter 16, with weights that were trained here.

Its layers are those of Y. Wang, Y. Sun, Z. Liu, S. Sarma, M. Bronstein, J. Solomon, "Dynamic Graph CNN for Learning on Point
Clouds", ACM TOG 2019 (arXiv 1801.07829): each point looks at its nearest neighbours. The neighbours are found once, in space.

``tools/train_edge_net.py`` makes the weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from oplab.nets import weights
from oplab.nets.point_clouds import SOLIDS

NEIGHBOURS = 12
"""How many neighbours each point looks at, itself among them."""

Neighbours = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""``(xyz float (n, 3), offset int64 (b,), k) -> idx int64 (n, k)``: rows of xyz, of the point's own cloud alone, nearest first."""


def neighbours(xyz: torch.Tensor, offset: torch.Tensor, k: int) -> torch.Tensor:
    """The k nearest points of each point, with the course's operator ``oplab::knn_query``.

    A cloud of fewer than k points has no k-th neighbour, and the operator returns -1. Here the point's first neighbour replaces it:
    a maximum over the row does not change when an entry is there twice.

    Returns:
        int64 (n, k).

    Raises:
        RuntimeError: every cloud has fewer than k points; the operator refuses that.
    """
    idx, _ = torch.ops.oplab.knn_query(k, xyz, offset)
    idx = idx.to(torch.int64)
    return torch.where(idx < 0, idx[:, :1], idx)


class EdgeConv(nn.Module):
    """What a point's neighbourhood looks like: the largest answer of a linear layer to "here I am, and there you are".

    Shapes:
        x: float (n, inputs), a feature vector for each point; idx: int64 (n, k).
        output: float (n, outputs).
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.edge = nn.Linear(2 * inputs, outputs)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        """Features (n, inputs) and neighbours (n, k), int64, to features (n, outputs)."""
        here = x[:, None, :].expand(-1, idx.shape[1], -1)
        edges = torch.cat([here, x[idx] - here], dim=2)  # (n, k, 2 * inputs)
        return torch.relu(self.norm(self.edge(edges).amax(dim=1)))


class EdgeNet(nn.Module):
    """Says which solid a cloud of points shows. 18 280 parameters.

    Clouds of any number and any sizes are classified at once. Its neighbours come from ``self.knn``, which can be replaced: that is
    where your own operator goes.

    Shapes:
        xyz: float32 (n, 3), the points of all clouds, one cloud after the other.
        offset: int64 (b,), the number of points in the clouds 0 to i; each cloud has at least one point.
        output: float32 (b, 8), a logit for each of :data:`oplab.nets.point_clouds.SOLIDS`.

    Args:
        knn: finds the neighbours; the course's operator by default (:func:`neighbours`).
    """

    def __init__(self, knn: Neighbours = neighbours) -> None:
        super().__init__()
        self.knn = knn
        self.conv1 = EdgeConv(3, 32)
        self.conv2 = EdgeConv(32, 64)
        self.mix = nn.Linear(96, 128)
        self.norm = nn.BatchNorm1d(128)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(128, len(SOLIDS))

    def forward(self, xyz: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        """A logit for each cloud and solid: (n, 3), (b,) -> (b, 8)."""
        idx = self.knn(xyz, offset, NEIGHBOURS)
        near = self.conv1(xyz, idx)
        far = self.conv2(near, idx)
        points = torch.relu(self.norm(self.mix(torch.cat([near, far], dim=1))))
        # the largest value of each feature in each cloud; nothing is below 0 after a ReLU, so the zeros never count
        number = torch.arange(xyz.shape[0])
        cloud = (number[:, None] >= offset[None, :]).sum(dim=1)  # (n,): which cloud a point belongs to
        start = torch.zeros(offset.shape[0], points.shape[1])
        pooled = start.scatter_reduce(0, cloud[:, None].expand_as(points), points, "amax")
        return self.head(self.drop(pooled))


def load_edge_net(knn: Neighbours = neighbours) -> EdgeNet:
    """EdgeNet with the trained weights, on the CPU, float32, in eval mode, its parameters without gradient.

    Raises:
        OplabError: the weights file is missing or is not the one that belongs to this class.
    """
    return weights.load(EdgeNet(knn), "edge_net")
