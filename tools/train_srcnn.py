"""Train SRCNN on scikit-image's photos and write oplab/nets/srcnn.npz.

    python tools/train_srcnn.py                 # trains (minutes on 2 cores), then prints the table
    python tools/train_srcnn.py --more          # goes on from the weights in oplab/nets
    python tools/train_srcnn.py --check         # prints the table for the weights in oplab/nets

Ctrl-C ends the training and keeps the best weights so far. The held-out photos take no part in training, and "best" is
judged on strips of the training photos that are set aside for it.

The committed weights come from two runs: ``--steps 10000 --share-x2 0.25`` (when this script did not yet average the
weights), then ``--more --steps 3000 --rate 1e-3 --seed 1``. The first run was worse than bicubic at x2 on four
set-aside strips and on one held-out photo; that is why the second, and the default, give half of the patches to x2.
The same seed gives the same weights on the same machine and torch only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oplab.errors import OplabError
from oplab.nets import weights
from oplab.nets.photos import photo, to_nchw
from oplab.nets.srcnn import SRCNN, brightness, crop, enlarge, load_srcnn, psnr, shrink

# The motorcycle is a stereo pair: both views are on the same side of the fence.
TRAINING = (
    "motorcycle_left",
    "motorcycle_right",
    "camera",
    "brick",
    "grass",
    "gravel",
    "coins",
    "immunohistochemistry",
    "moon",
    "page",
    "text",
    "retina",
    "hubble_deep_field",
)
HELD_OUT = ("astronaut", "coffee", "chelsea", "rocket")
FACTORS = (2, 3)

PATCH = 48
BATCH = 16
EVERY = 250  # steps between two looks at the set-aside strips
STRIP = 72  # rows at the bottom of each training photo that only choose the best weights
WEIGHTS = Path(__file__).resolve().parent.parent / "oplab" / "nets" / "srcnn.npz"

Pair = tuple[torch.Tensor, torch.Tensor]  # input and target of the net, each (N, C, H, W)


def pair(image: torch.Tensor, factor: int) -> Pair:
    """Input and target of the net for one photo (1, C, H, W): shrunk and enlarged again, and the photo itself."""
    return enlarge(shrink(image, factor), factor), crop(image, factor)


def planes(name: str) -> list[torch.Tensor]:
    """One photo as brightness planes (1, 1, H, W): at its own size, and smaller, where its detail is finer."""
    image = brightness(torch.from_numpy(to_nchw(photo(name))))
    height, width = image.shape[2:]
    sizes = [(round(height * s), round(width * s)) for s in (1.0, 0.75, 0.5) if min(height, width) * s >= 2 * STRIP]
    return [
        nn.functional.interpolate(image, size=size, mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)
        for size in sizes
    ]


def training_data() -> tuple[dict[int, list[Pair]], list[Pair]]:
    """Pairs to train on, by factor, and the strips that choose the best weights."""
    train: dict[int, list[Pair]] = {factor: [] for factor in FACTORS}
    choose = []
    for name in TRAINING:
        # the first plane has the photo's own size: its strip is what chooses
        for number, plane in enumerate(planes(name)):
            strip = round(STRIP * plane.shape[2] / photo(name).shape[0])
            for factor in FACTORS:
                train[factor].append(pair(plane[:, :, :-strip], factor))
                if number == 0:
                    choose.append(pair(plane[:, :, -strip:], factor))
    return train, choose


class Patches:
    """Random patches, turned and mirrored in eight ways; a larger photo is drawn more often."""

    def __init__(self, pairs: dict[int, list[Pair]], share_x2: float, seed: int):
        self.pairs, self.share = [], np.empty(0)
        for factor, share in zip(FACTORS, (share_x2, 1 - share_x2), strict=True):
            fit = [(x[0, 0].numpy(), y[0, 0].numpy()) for x, y in pairs[factor] if min(x.shape[2:]) >= PATCH]
            # the square root keeps the two largest photos from being most of what is seen
            area = np.array([x.size for x, _ in fit], dtype=np.float64) ** 0.5
            self.pairs += fit
            self.share = np.append(self.share, share * area / area.sum())
        self.random = np.random.default_rng(seed)

    def draw(self) -> Pair:
        """A batch of inputs and targets, each (BATCH, 1, PATCH, PATCH)."""
        x, y = (np.empty((BATCH, 1, PATCH, PATCH), np.float32) for _ in range(2))
        for i, which in enumerate(self.random.choice(len(self.pairs), BATCH, p=self.share)):
            source = self.pairs[which]
            top, left = (self.random.integers(0, n - PATCH + 1) for n in source[0].shape)
            turns, mirror = self.random.integers(4), self.random.integers(2)
            for out, plane in zip((x, y), source, strict=True):
                patch = np.rot90(plane[top : top + PATCH, left : left + PATCH], turns)
                out[i, 0] = patch[:, ::-1] if mirror else patch
        return torch.from_numpy(x), torch.from_numpy(y)


def detail(net: SRCNN, x: torch.Tensor) -> torch.Tensor:
    """What the net does to a brightness plane: forward without the colours, which spares two thirds of the data."""
    return x + net.conv3(net.relu(net.conv2(net.relu(net.conv1(x)))))


@torch.inference_mode()
def score(net: SRCNN, pairs: Sequence[Pair]) -> float:
    """Mean gain in PSNR over bicubic, in dB."""
    gains = [psnr(detail(net, x).clamp(0, 1), y) - psnr(x.clamp(0, 1), y) for x, y in pairs]
    return float(np.mean(gains))


def train(steps: int, seed: int, rate: float, share_x2: float, start_net: SRCNN | None) -> SRCNN:
    """Train, from nothing or from a net; returns the weights that did best on the strips. Ctrl-C ends it early."""
    torch.manual_seed(seed)
    pairs, choose = training_data()
    patches = Patches(pairs, share_x2, seed)
    net = SRCNN().to(memory_format=torch.channels_last)
    for conv in (net.conv1, net.conv2):
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        nn.init.zeros_(conv.bias)
    # begins at "add nothing", which is the bicubic result
    nn.init.normal_(net.conv3.weight, std=1e-3)
    nn.init.zeros_(net.conv3.bias)
    if start_net is not None:
        net.load_state_dict(start_net.state_dict())
    adam = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, max_lr=rate, total_steps=steps, pct_start=0.05)

    # the mean of the last few hundred steps' weights: steadier than any one of them, so stopping early costs little
    mean = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.995))

    best, best_state = -np.inf, None
    start = time.monotonic()
    try:
        for step in range(1, steps + 1):
            x, y = patches.draw()
            # Charbonnier's loss: like L1, smooth at zero; less ruled by a few strong edges than the squared error
            loss = ((detail(net, x) - y) ** 2 + 1e-6).sqrt().mean()
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            adam.step()
            schedule.step()
            mean.update_parameters(net)
            if step % EVERY == 0 or step == steps:
                gain = score(mean.module, choose)
                if gain > best:
                    best, best_state = gain, {k: v.clone() for k, v in mean.module.state_dict().items()}
                spent = time.monotonic() - start
                print(
                    f"step {step:6d} of {steps}   loss {loss.item():.5f}   strips {gain:+.2f} dB   best {best:+.2f} dB"
                    f"   {spent:4.0f} s, {spent / step * (steps - step):4.0f} s to go",
                    flush=True,
                )
    except KeyboardInterrupt:
        print("\nStopped by Ctrl-C.")
        if best_state is None:
            raise SystemExit(f"Nothing is kept: the first look at the result comes after {EVERY} steps.") from None
    net.load_state_dict(best_state)
    return net.eval()


@torch.inference_mode()
def table(net: SRCNN) -> bool:
    """Print PSNR on the whole held-out photos (RGB, clipped to [0, 1]); true if SRCNN is better on every one."""
    print(f"{'held-out photo':16s} {'factor':>6s} {'bicubic':>9s} {'SRCNN':>9s} {'gain':>8s}")
    better = True
    for factor in FACTORS:
        rows = []
        for name in HELD_OUT:
            x, y = pair(torch.from_numpy(to_nchw(photo(name))), factor)
            rows.append((name, psnr(x.clamp(0, 1), y), psnr(net(x).clamp(0, 1), y)))
        rows.append(("mean", *(float(np.mean([r[i] for r in rows])) for i in (1, 2))))
        for name, bicubic, ours in rows:
            print(f"{name:16s} {'x' + str(factor):>6s} {bicubic:6.2f} dB {ours:6.2f} dB {ours - bicubic:+5.2f} dB")
            better &= ours > bicubic
    return better


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="evaluate the committed weights; train nothing")
    parser.add_argument("--steps", type=int, default=6000, help="training steps (default: 6000)")
    parser.add_argument(
        "--more", action="store_true", help="go on from the weights in oplab/nets instead of from nothing"
    )
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate (default: 0.002)")
    parser.add_argument("--share-x2", type=float, default=0.5, help="part of the patches with factor 2 (default: 0.5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=WEIGHTS, help="where the weights go (default: oplab/nets/srcnn.npz)"
    )
    options = parser.parse_args(argv)
    if options.steps < 1 or options.threads < 1:
        parser.error("--steps and --threads must be 1 or more")
    if not 0 <= options.share_x2 <= 1 or not options.rate > 0:
        parser.error("--share-x2 must be from 0 to 1, and --rate above 0")
    torch.set_num_threads(options.threads)
    if options.check:
        net = load_srcnn()
    else:
        start = time.monotonic()
        weights.writable(options.out)
        net = train(options.steps, options.seed, options.rate, options.share_x2, load_srcnn() if options.more else None)
        print(f"Trained for {time.monotonic() - start:.0f} s.")
        weights.save(net, options.out)
    if not table(net):
        print("SRCNN does not beat bicubic on every held-out photo.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except OplabError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit("Stopped by Ctrl-C; no file was changed.") from None
