"""DeformConv2d beside ONNX Runtime's own DeformConv, torchvision and MMDeploy, on the layers of a network and on odd sizes.

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
from .harness import Case, Make, Peer, Run, close
from .peers import mmdeploy_library
from .rungs import ladder
from .runners import bound, model, one_node

KERNEL = "DeformConv2d"
CONSTANTS = ("W", "B")
# How many times as long as ours ONNX Runtime, torchvision and MMDeploy have to take, at least. Where the weights are many and
# the pixels few, the product is nearly all of the time on both sides, and less can be gained from sampling.
ASKED, FEW_PIXELS = (1.5, 12.0, 14.0), (1.2, None, None)
PLAIN = 0.5  # of ONNX Runtime, on a processor with nothing but the oldest set
RUNGS = ("Naive", "Hoisted", "Vectorised", "Blocked", "Parallel")


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
    targets: tuple[float | None, ...] | None = ASKED,
    **place: object,
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

    ort, vision, deploy = targets or (None, None, None)
    peers = [
        Peer("ORT DeformConv", in_onnx("DeformConv", ""), ort, plain=PLAIN if targets else None),
        Peer("torchvision", torchvision, vision),
    ]
    # Where channels × taps is no multiple of 8, MMDeploy's result comes from memory that it never wrote.
    if channels * kernel**2 % 8 == 0:
        peers.append(Peer("MMDeploy", mmdeploy, deploy))
    pixels, taps = n * size[0] * size[1], kernel * kernel
    words = [f"{n}×{channels}×{size[0]}×{size[1]}", f"{out_channels} out", f"{kernel}×{kernel}", "mask"]
    return Case(
        KERNEL,
        ", ".join(words + ([] if constant else ["weights fed"])),
        in_onnx(KERNEL, "oplab"),
        tuple(peers),
        close(1e-4, 1e-4),
        flops=2 * pixels * taps * channels * (out_channels + 4),  # the product, and four pixels for each sample
        bytes=4 * (pixels * (channels + out_channels + 3 * taps) + taps * channels * out_channels),
        unit="pixels",
        at=pixels,
        **place,
    )


def climbed(channels: int, size: int) -> Case:
    """The lesson's ladder, on its own problem: one image, 3×3, pad 1, no mask and no bias; the weights are fed."""

    @functools.cache
    def feed() -> dict[str, np.ndarray]:
        values = inputs(channels, (size, size), channels, 3, 1)
        return {name: values[name] for name in ("X", "W", "offset")}

    def in_onnx(op: str, domain: str) -> Make:
        return lambda threads: bound(one_node(op, feed(), {"Y": np.float32}, domain, pads=[1] * 4), feed(), threads)

    def torchvision(threads: int) -> Run:
        from torchvision.ops import deform_conv2d

        x, w, offset = (torch.from_numpy(value) for value in feed().values())
        return lambda: deform_conv2d(x, offset, w, padding=1)

    return Case(
        KERNEL,
        f"1×{channels}×{size}×{size}, {channels} out, 3×3, no mask, weights fed",
        in_onnx(KERNEL, "oplab"),
        (
            Peer("ORT DeformConv", in_onnx("DeformConv", "")),
            Peer("torchvision", torchvision),
            *ladder("14_deform.cpp", RUNGS, feed, "Y"),
        ),
        close(1e-4, 1e-4),
    )


def cases(quick: bool) -> list[Case]:
    if quick:
        return [
            climbed(5, 9),
            case(8, (9, 7), 5, series="8 channels", threads=True),
            case(3, (7, 9), 5, targets=None),
            case(4, (1, 97), 2, constant=False, targets=None),
            *product.cases(quick),
        ]
    made = [case(64, (s, s), 64, series="64 channels", threads=True) for s in (14, 28, 56, 128, 192)]
    made += [case(32, (s, s), 32, series="32 channels", threads=True) for s in (14, 32, 192)]
    made += [case(128, (s, s), 128, series="128 channels", threads=True) for s in (14, 28, 56, 192)]
    made += [case(*sizes, threads=True) for sizes in ((64, (64, 64), 27), (17, (1, 4093), 31))]
    made += [case(*sizes, targets=FEW_PIXELS, threads=True) for sizes in ((256, (14, 14), 256), (512, (7, 7), 512))]
    made += [
        case(3, (64, 64), 64, targets=None)
    ]  # with few channels there is little to gain from sampling them together
    made += [climbed(64, 40)]
    made += [case(*sizes, constant=False, threads=True) for sizes in ((64, (56, 56), 64), (128, (28, 28), 128))]
    return made + product.cases(quick)
