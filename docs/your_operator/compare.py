"""Measures the operator next to eager PyTorch: python benchmarks/compare.py"""

import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("src", "tests")]

import numpy as np
import torch
from example import inputs
from one_node import ATTRIBUTES, model, session
from rotated_roi_align import ort_library, rotated_roi_align


def eager(x, rois, spatial_scale, output_height, output_width, sampling_ratio):
    """The same for boxes inside of the image: grid_sample, then the mean of each bin."""
    rows, columns = output_height * sampling_ratio, output_width * sampling_ratio
    _, cx, cy, w, h, theta = rois.T[:, :, None, None] * torch.tensor(1.0)
    s = spatial_scale
    v = ((torch.arange(rows) + 0.5) / rows - 0.5)[:, None] * h * s
    u = ((torch.arange(columns) + 0.5) / columns - 0.5) * w * s
    px = cx * s + u * theta.cos() - v * theta.sin()
    py = cy * s + u * theta.sin() + v * theta.cos()
    grid = torch.stack([px / x.shape[3], py / x.shape[2]], -1) * 2 - 1
    samples = torch.nn.functional.grid_sample(x[rois[:, 0].long()], grid, align_corners=False)
    return torch.nn.functional.avg_pool2d(samples, sampling_ratio)


def milliseconds(call):
    call()
    times = []
    for _ in range(11):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def main():
    threads = torch.get_num_threads()
    run = session(model(), ort_library, threads).run
    print(f"{threads} threads, float32, 2 images of 3 x 100 x 100, median of 11 runs in ms")
    print(f"{'boxes':>10} {'eager':>9} {'operator':>9} {'ONNX Runtime':>13}")
    for count in (10, 100, 1000):
        feed = inputs(np.random.default_rng(0), 2, count, 100, 100)
        feed["rois"][:, 1:5] = feed["rois"][:, 1:5] / 4 + 50  # inside of the scaled image
        feed["rois"][:, 3:5] -= 40
        tensors = {name: torch.from_numpy(one) for name, one in feed.items()}
        times = (
            milliseconds(lambda: eager(**tensors, **ATTRIBUTES)),
            milliseconds(lambda: rotated_roi_align(**tensors, **ATTRIBUTES)),
            milliseconds(lambda: run(None, feed)),
        )
        print(f"{count:>10} {times[0]:>9.3f} {times[1]:>9.3f} {times[2]:>13.3f}")
        torch.testing.assert_close(
            eager(**tensors, **ATTRIBUTES), rotated_roi_align(**tensors, **ATTRIBUTES), atol=1e-4, rtol=1e-4
        )


if __name__ == "__main__":
    main()
