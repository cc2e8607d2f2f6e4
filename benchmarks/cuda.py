"""MyAdd and KNNQuery on a GPU next to their peers there, and next to the course's kernels on the CPU, in one run.

    make cuda; PYTHONPATH=build/onnxruntime-gpu .venv/bin/python -m benchmarks.cuda [--rounds 15]

Needs a GPU, and the package onnxruntime-gpu (docs/operators.md, Kernels for CUDA). All tensors stay in the memory where they are
computed. Results are compared first, and where two differ, nothing is measured. The kernels take turns, round by round; each time is the
median of its rounds. A ratio is how many times as long as ours the peer takes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper

from benchmarks import tables
from benchmarks.kernels.runners import model, one_node
from oplab import ops, paths

GPU, DEVICE = "CUDAExecutionProvider", "cuda"


@dataclass(frozen=True)
class Kernel:
    """``run`` returns when the work is done; ``results`` are those of the last run, in the CPU's memory."""

    run: Callable[[], object]
    results: Callable[[], list[np.ndarray]]


Peers = dict[str, Kernel]


def in_ort(session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray], on_host: Sequence[str] = ()) -> Kernel:
    """A session with inputs that are already where it wants them: on the GPU, but those in ``on_host``. The outputs stay there, too."""
    device = DEVICE if session.get_providers()[0] == GPU else "cpu"
    binding = session.io_binding()
    for name, each in feed.items():
        place = "cpu" if name in on_host else device
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(each, place, 0))
    for output in session.get_outputs():
        binding.bind_output(output.name, device, 0)
    return Kernel(lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu)


def in_torch(compute: Callable[[], tuple[torch.Tensor, ...]]) -> Kernel:
    def run() -> tuple[torch.Tensor, ...]:
        made = compute()
        torch.cuda.synchronize()
        return made

    return Kernel(run, lambda: [each.cpu().numpy() for each in run()])


def my_add(size: int, dtype: type) -> tuple[str, Peers]:
    random = np.random.default_rng(0)
    feed = {name: random.standard_normal(size).astype(dtype) for name in "ab"}
    scales = {"two": np.array(0.5, dtype), "three": np.array(-7, dtype)}
    nodes = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(v)) for name, v in scales.items()]
    nodes += [
        helper.make_node("Mul", ["a", "two"], ["left"]),
        helper.make_node("Mul", ["b", "three"], ["right"]),
        helper.make_node("Add", ["left", "right"], ["y"]),
    ]
    a, b = (torch.from_numpy(each).to(DEVICE) for each in feed.values())
    mine = one_node("MyAdd", feed, {"y": dtype}, alpha=0.5, beta=-7.0)
    return f"MyAdd, {size:,} × {np.dtype(dtype)}", {
        "ours": in_ort(on_gpu(mine), feed),
        "ONNX Runtime, Mul, Mul, Add": in_ort(on_gpu(model(nodes, feed, {"y": dtype}), own=False), feed),
        "PyTorch, 0.5 * a - 7 * b": in_torch(lambda: (0.5 * a - 7 * b,)),
        "ours on the CPU": in_ort(ops.session(mine), feed),
    }


def knn_query(points: int, nsample: int) -> tuple[str, Peers]:
    xyz = np.random.default_rng(0).random((points, 3), dtype=np.float32)
    feed = {"xyz": xyz, "offset": np.array([points])}
    mine = one_node("KNNQuery", feed, {"idx": np.int32, "dist": np.float32}, nsample=nsample)
    cloud = torch.from_numpy(xyz).to(DEVICE)

    def with_topk() -> tuple[torch.Tensor, ...]:
        found = []
        for part in cloud.split(4096):  # all distances at once would need points² numbers
            dist, idx = torch.cdist(part, cloud, compute_mode="donot_use_mm_for_euclid_dist").topk(
                nsample, largest=False
            )
            found.append((idx.int(), dist))
        return tuple(torch.cat(each) for each in zip(*found, strict=True))

    return f"KNNQuery, {points:,} points, nsample {nsample}", {
        "ours": in_ort(on_gpu(mine), feed, on_host=("offset",)),
        "PyTorch, cdist and topk": in_torch(with_topk),
        "ours on the CPU": in_ort(ops.session(mine), feed),
    }


def on_gpu(made: onnx.ModelProto, own: bool = True) -> onnxruntime.InferenceSession:
    libraries = [paths.build_dir() / "lib" / "oplab_cuda_ops.so"] if own else []
    session = ops.session(made, libraries=libraries, providers=[GPU, "CPUExecutionProvider"])
    if session.get_providers()[0] != GPU:
        sys.exit("This ONNX Runtime could not start its CUDAExecutionProvider: are the driver, CUDA and cuDNN there?")
    return session


def differ(peers: Peers) -> str | None:
    """The peer whose result is not ours. The course's kernels have the same bits on both processors.

    PyTorch and ONNX Runtime round in other places. A distance may differ in its last digit, and with it the order of two neighbours.
    """
    for kernel in peers.values():
        kernel.run()
    ours = peers["ours"].results()
    for name, kernel in peers.items():
        for mine, theirs in zip(ours, kernel.results(), strict=True):
            if name.startswith("ours"):
                equal = np.array_equal(mine, theirs)
            elif mine.dtype.kind == "i":
                equal = np.mean(mine == theirs) > 0.999
            else:
                equal = np.allclose(theirs, mine, rtol=4 * np.finfo(mine.dtype).eps, atol=32 * np.finfo(mine.dtype).eps)
            if not equal:
                return name
    return None


def measure(peers: Peers, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in peers}
    for turn in range(rounds):
        names = list(peers)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            peers[name].run()
            times[name].append(time.perf_counter() - start)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which the kernels take turns (default: 15)")
    options = parser.parse_args()
    if GPU not in onnxruntime.get_available_providers() or not torch.cuda.is_available():
        sys.exit("Needs a GPU, and the package onnxruntime-gpu: docs/operators.md, Kernels for CUDA, has the command.")

    onnxruntime.preload_dlls()  # the CUDA libraries that PyTorch's packages have brought
    print(
        f"{torch.cuda.get_device_name()}; torch {torch.__version__}, onnxruntime {onnxruntime.__version__}; "
        f"{torch.get_num_threads()} threads on the CPU"
    )
    rows = []
    cases = [my_add(1 << 16, np.float32), my_add(1 << 26, np.float32), my_add(1 << 26, np.float16)]
    cases += [knn_query(points, 16) for points in (2_000, 20_000)]
    for title, peers in cases:
        if unequal := differ(peers):
            print(f"{title}: ours is not equal to: {unequal}. Nothing was measured.")
            return 2
        times = measure(peers, options.rounds)
        for peer, samples in times.items():
            ratio = statistics.median(theirs / mine for mine, theirs in zip(times["ours"], samples, strict=True))
            rows.append([title, peer, f"{1e3 * statistics.median(samples):.3f}", f"{ratio:.2f}"])
    print(tables.text(rows, ["case", "kernel", "ms", "ratio to ours"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
