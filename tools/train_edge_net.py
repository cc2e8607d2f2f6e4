"""Train EdgeNet on clouds of eight solids and write oplab/nets/edge_net.npz.

    python tools/train_edge_net.py              # trains (minutes on 2 cores), then prints the table
    python tools/train_edge_net.py --more       # goes on from the weights in oplab/nets
    python tools/train_edge_net.py --check      # prints the table for the weights in oplab/nets

Every cloud is made when it is needed, so no cloud is seen twice in training. Ctrl-C ends the training and keeps the best weights so
far; "best" is judged on clouds of their own seed, and the table on those of a third.

The committed weights come from a run with the defaults. The same seed gives the same weights on the same machine and torch only.
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oplab import ops
from oplab.errors import OplabError
from oplab.nets import weights
from oplab.nets.edge_net import EdgeNet, load_edge_net
from oplab.nets.point_clouds import SOLIDS, clouds

BATCH = 32  # clouds in a step
SIZES = (96, 257)  # points of a cloud: from, below
EVERY = 100  # steps between two looks at the clouds that choose
CHOOSING, HELD_OUT = 7001, 7002  # seeds that training never uses: its own is below 7000
WEIGHTS = Path(__file__).resolve().parent.parent / "oplab" / "nets" / "edge_net.npz"

Clouds = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # xyz (n, 3), offset (b,), label (b,)


def draw(count: int, rng: np.random.Generator) -> Clouds:
    """Fresh clouds of random solids and sizes."""
    xyz, offset, label = (torch.from_numpy(part) for part in clouds(rng.integers(*SIZES, size=count), rng))
    return xyz, offset, label


@torch.inference_mode()
def confusion(net: EdgeNet, count: int, seed: int) -> np.ndarray:
    """How often each solid (row) was called each solid (column)."""
    rng = np.random.default_rng(seed)
    found = np.zeros((len(SOLIDS), len(SOLIDS)), np.int64)
    net.eval()
    for _ in range(0, count, BATCH):
        xyz, offset, label = draw(BATCH, rng)
        np.add.at(found, (label.numpy(), net(xyz, offset).argmax(dim=1).numpy()), 1)
    return found


def train(steps: int, seed: int, rate: float, start_net: EdgeNet | None) -> EdgeNet:
    """Train, from nothing or from a net; returns the weights that did best on the clouds that choose. Ctrl-C ends it early."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = EdgeNet()
    if start_net is not None:
        net.load_state_dict(start_net.state_dict())
    adam = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, max_lr=rate, total_steps=steps)
    best, best_state = -1.0, None
    start = time.monotonic()
    try:
        for step in range(1, steps + 1):
            net.train()
            xyz, offset, label = draw(BATCH, rng)
            loss = nn.functional.cross_entropy(net(xyz, offset), label)
            adam.zero_grad()
            loss.backward()
            adam.step()
            schedule.step()
            if step % EVERY == 0 or step == steps:
                found = confusion(net, 640, CHOOSING)
                right = float(np.trace(found) / found.sum())
                if right > best:
                    best, best_state = right, {k: v.clone() for k, v in net.state_dict().items()}
                spent = time.monotonic() - start
                print(
                    f"step {step:5d} of {steps}   loss {loss.item():.4f}   right {right:6.1%}   best {best:6.1%}"
                    f"   {spent:4.0f} s, {spent / step * (steps - step):4.0f} s to go",
                    flush=True,
                )
    except KeyboardInterrupt:
        print("\nStopped by Ctrl-C.")
        if best_state is None:
            raise SystemExit(f"Nothing is kept: the first look at the result comes after {EVERY} steps.") from None
    net.load_state_dict(best_state)
    return net.eval()


def table(net: EdgeNet) -> bool:
    """Print what the net calls the held-out clouds; true if more than 95 % are called by their names."""
    found = confusion(net, 1600, HELD_OUT)
    print(f"{'held-out clouds':16s}" + "".join(f"{name:>9s}" for name in SOLIDS))
    for name, row in zip(SOLIDS, found, strict=True):
        print(f"{name:16s}" + "".join(f"{count or '.':>9}" for count in row))
    right = np.trace(found) / found.sum()
    print(f"{np.trace(found)} of {found.sum()} are right: {right:.1%}")
    return bool(right > 0.95)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="evaluate the committed weights; train nothing")
    parser.add_argument("--steps", type=int, default=2000, help="training steps (default: 2000)")
    parser.add_argument("--more", action="store_true", help="go on from the weights in oplab/nets")
    parser.add_argument("--rate", type=float, default=5e-3, help="the highest learning rate (default: 0.005)")
    parser.add_argument("--seed", type=int, default=0, help="below 7000; the seeds above choose and test (default: 0)")
    parser.add_argument("--threads", type=int, default=1, help="a second one gains nothing here (default: 1)")
    parser.add_argument(
        "--out", type=Path, default=WEIGHTS, help="where the weights go (default: oplab/nets/edge_net.npz)"
    )
    options = parser.parse_args(argv)
    if options.steps < 2 or options.threads < 1:
        parser.error("--steps must be 2 or more, and --threads 1 or more")
    if not 0 <= options.seed < 7000 or not options.rate > 0:
        parser.error("--seed must be from 0 to 6999, and --rate above 0")
    torch.set_num_threads(options.threads)
    ops.load()
    if options.check:
        net = load_edge_net()
    else:
        start = time.monotonic()
        weights.writable(options.out)
        net = train(options.steps, options.seed, options.rate, load_edge_net() if options.more else None)
        print(f"Trained for {time.monotonic() - start:.0f} s.")
        weights.save(net, options.out)
    if not table(net):
        print("EdgeNet calls fewer than 95 % of the held-out clouds by their names.", file=sys.stderr)
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
