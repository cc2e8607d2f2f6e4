"""DeformConv2d next to ONNX Runtime's own DeformConv, torchvision and MMDeploy, on the layers of a network and on odd sizes.

X, offset and mask are inputs; W and B are constants of the model, as they are where a network is deployed. The last cases feed
the weights as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from . import product
from .harness import Case, Peer, Run, close
from .peers import mmdeploy_library
from .runners import bound, model

KERNEL = "DeformConv2d"
CONSTANTS = ("W", "B")
# How many times as long as ours ONNX Runtime has to take, at least. Where the weights are many and the pixels few, the product is
# nearly all of the time on both sides, and less can be gained from sampling.
TARGET, FEW_PIXELS = 1.5, 1.2


def with_constants(made: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with some of its inputs as initializers."""
    kept = [each for each in made.graph.input if each.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return made


def inputs(channels: int, size: Sequence[int], out_channels: int, kernel: int, n: int) -> dict[str, np.ndarray]:
    """Stride 1, and as many zeros around as keep the size. Offsets of 1.5 pixels, as a trained network has them."""
    random, taps = np.random.default_rng(0), kernel * kernel
    feed = {
        "X": random.standard_normal((n, channels, *size)),
        "W": random.standard_normal((out_channels, channels, kernel, kernel)) / np.sqrt(channels * taps),
        "offset": random.normal(0, 1.5, (n, 2 * taps, *size)),
        "B": random.standard_normal(out_channels),
        "mask": random.uniform(0, 1, (n, taps, *size)),
    }
    return {name: value.astype(np.float32) for name, value in feed.items()}


def case(
    channels: int,
    size: tuple[int, int],
    out_channels: int,
    kernel: int = 3,
    n: int = 1,
    constant: bool = True,
    target: float | None = TARGET,
    threads: bool = False,
) -> Case:
    values = functools.cache(lambda: inputs(channels, size, out_channels, kernel, n))
    pad = kernel // 2
    constants = CONSTANTS if constant else ()

    def alone(op: str, domain: str, names: Sequence[str], threads: int, libraries=(), **attributes) -> Run:
        feed = {name: values()[name] for name in names}
        node = helper.make_node(op, list(names), ["Y"], domain=domain, **attributes)
        made = model([node], feed, {"Y": np.float32}, {"mmdeploy": 1} if domain == "mmdeploy" else None)
        made = with_constants(made, {name: feed.pop(name) for name in constants})
        return bound(made, feed, threads, libraries)

    def in_onnx(op: str, domain: str):
        return lambda threads: alone(op, domain, list(values()), threads, pads=[pad] * 4)

    def mmdeploy(threads: int) -> Run:
        names = ["X", "offset", "mask", "W", "B"]
        attributes = {"stride": [1, 1], "padding": [pad] * 2, "dilation": [1, 1], "groups": 1, "deform_groups": 1}
        return alone("MMCVModulatedDeformConv2d", "mmdeploy", names, threads, [mmdeploy_library()], **attributes)

    def torchvision(threads: int) -> Run:
        from torchvision.ops import deform_conv2d

        x, w, offset, b, mask = (torch.from_numpy(value) for value in values().values())
        return lambda: deform_conv2d(x, offset, w, b, padding=pad, mask=mask)

    peers = [Peer("ORT DeformConv", in_onnx("DeformConv", ""), target), Peer("torchvision", torchvision)]
    # Where channels × taps is not a multiple of 8, MMDeploy's result comes from memory that it never wrote.
    if channels * kernel**2 % 8 == 0:
        peers.append(Peer("MMDeploy", mmdeploy))
    words = [f"{n}×{channels}×{size[0]}×{size[1]}", f"{out_channels} out", f"{kernel}×{kernel}", "mask"]
    name = ", ".join(words + ([] if constant else ["weights fed"]))
    return Case(KERNEL, name, in_onnx(KERNEL, "oplab"), tuple(peers), close(1e-4, 1e-4), threads)


def cases(quick: bool) -> list[Case]:
    if quick:
        return [
            case(8, (9, 7), 5, threads=True),
            case(3, (7, 9), 5, target=None),
            case(4, (1, 97), 2, constant=False, target=None),
            *product.cases(quick),
        ]
    made = [case(64, (s, s), 64, threads=True) for s in (14, 28, 56, 128, 192)]
    made += [case(32, (s, s), 32, threads=True) for s in (14, 32, 192)]
    made += [case(128, (s, s), 128, threads=True) for s in (14, 28, 56, 192)]
    made += [case(*sizes, threads=True) for sizes in ((64, (64, 64), 27), (17, (1, 4093), 31))]
    made += [case(*sizes, target=FEW_PIXELS, threads=True) for sizes in ((256, (14, 14), 256), (512, (7, 7), 512))]
    made += [
        case(3, (64, 64), 64, target=None)
    ]  # with few channels there is little to gain from sampling them together
    made += [case(*sizes, constant=False, threads=True) for sizes in ((64, (56, 56), 64), (128, (28, 28), 128))]
    return made + product.cases(quick)
