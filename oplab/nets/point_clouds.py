"""Point clouds of eight solids, made from formulas: what the classifier of chapter 16 is trained and tested on.

Several clouds of different sizes travel as one tensor of points and a tensor of offsets, as ``knn_query`` takes them:
``offset[i]`` is the number of points in the clouds 0 to i.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SOLIDS = ("sphere", "cube", "cylinder", "cone", "torus", "pyramid", "helix", "sheet")
"""The classes, in the order of the classifier's logits."""

NOISE = 0.02
"""Standard deviation of the noise on each coordinate; the solids are about two units across."""


def cloud(solid: str, points: int, rng: np.random.Generator) -> np.ndarray:
    """One cloud: points on the surface of a solid, turned at random, scaled by 0.8 to 1.2, with noise.

    Args:
        solid: one of :data:`SOLIDS`.
        points: how many, 1 or more.

    Returns:
        float32 (points, 3).
    """
    surface = _SURFACES[solid](points, rng)
    # a rotation that is uniform over all of them: Q of the QR decomposition of a normal matrix (Stewart, SIAM 1980)
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    turned = surface @ (q * np.sign(np.diag(r))).T
    return (turned * rng.uniform(0.8, 1.2) + rng.normal(scale=NOISE, size=(points, 3))).astype(np.float32)


def clouds(sizes: Sequence[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clouds of random solids, one after the other.

    Args:
        sizes: the number of points of each cloud.

    Returns:
        xyz float32 (n, 3), offset int64 (b,), and label int64 (b,), the index in :data:`SOLIDS`.
    """
    label = rng.integers(len(SOLIDS), size=len(sizes))
    parts = [cloud(SOLIDS[kind], size, rng) for kind, size in zip(label, sizes, strict=True)]
    xyz = np.concatenate(parts) if parts else np.zeros((0, 3), np.float32)
    return xyz, np.cumsum(sizes, dtype=np.int64), label


def _sphere(n: int, rng: np.random.Generator) -> np.ndarray:
    p = rng.normal(size=(n, 3))
    return p / np.linalg.norm(p, axis=1, keepdims=True)


def _cube(n: int, rng: np.random.Generator) -> np.ndarray:
    p = rng.uniform(-0.75, 0.75, size=(n, 3))
    p[np.arange(n), rng.integers(3, size=n)] = rng.choice([-0.75, 0.75], size=n)
    return p


def _disc(n: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    angle, r = rng.uniform(0, 2 * np.pi, size=n), radius * np.sqrt(rng.uniform(size=n))
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)


def _cylinder(n: int, rng: np.random.Generator) -> np.ndarray:
    radius, half = 0.6, 0.9
    flat = _disc(n, radius, rng)
    side = rng.uniform(size=n) < 2 * half / (2 * half + radius)  # the side's part of the area
    wall = radius * flat / np.linalg.norm(flat, axis=1, keepdims=True)
    z = np.where(side, rng.uniform(-half, half, size=n), rng.choice([-half, half], size=n))
    return np.column_stack([np.where(side[:, None], wall, flat), z])


def _cone(n: int, rng: np.random.Generator) -> np.ndarray:
    radius, height = 0.9, 1.7
    flat, slant = _disc(n, radius, rng), np.hypot(radius, height)
    side = rng.uniform(size=n) < slant / (slant + radius)
    # the base's disc, lifted to the cone: the height falls with the distance from the axis
    z = np.where(side, height * (1 - np.linalg.norm(flat, axis=1) / radius), 0.0)
    return np.column_stack([flat, z - height / 3])


def _torus(n: int, rng: np.random.Generator) -> np.ndarray:
    ring, tube = 0.75, 0.28
    around, across = rng.uniform(0, 2 * np.pi, size=(2, n))
    r = ring + tube * np.cos(across)
    return np.stack([r * np.cos(around), r * np.sin(around), tube * np.sin(across)], axis=1)


def _pyramid(n: int, rng: np.random.Generator) -> np.ndarray:
    half, height = 0.8, 1.5
    flat = rng.uniform(-half, half, size=(n, 2))
    slope = np.hypot(half, height)
    side = rng.uniform(size=n) < slope / (slope + half)
    z = np.where(side, height * (1 - np.abs(flat).max(axis=1) / half), 0.0)
    return np.column_stack([flat, z - height / 3])


def _helix(n: int, rng: np.random.Generator) -> np.ndarray:
    t = rng.uniform(-1, 1, size=n)
    angle = 3 * np.pi * t
    return np.stack([0.6 * np.cos(angle), 0.6 * np.sin(angle), 0.9 * t], axis=1)


def _sheet(n: int, rng: np.random.Generator) -> np.ndarray:
    flat = rng.uniform(-0.9, 0.9, size=(n, 2))
    return np.column_stack([flat, np.zeros(n)])


_SURFACES = {
    "sphere": _sphere,
    "cube": _cube,
    "cylinder": _cylinder,
    "cone": _cone,
    "torus": _torus,
    "pyramid": _pyramid,
    "helix": _helix,
    "sheet": _sheet,
}
