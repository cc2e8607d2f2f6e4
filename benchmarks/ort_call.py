"""What one call of MyAdd costs beside one of ONNX Runtime's own Add, on few numbers, in one run.

    python benchmarks/ort_call.py [--size 1000] [--rounds 30] [--most 1.5]

The two sessions take turns, round by round, so that a busy machine slows both alike, and the fastest round of each counts.
On so few numbers nearly all of the time is the call itself: ONNX Runtime's Python binding, the session, the kernel's
arguments. The exit status is 1 where MyAdd takes more than `--most` times as long as Add.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from oplab import ops

CALLS = 2000  # in one round


def model(name: str, domain: str) -> bytes:
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["n"]) for each in "aby"]
    node = helper.make_node(name, ["a", "b"], ["y"], domain=domain)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
    graph = helper.make_graph([node], "g", ends[:2], ends[2:])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, help="numbers in each input (default: 1000)")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of 2000 calls (default: 30)")
    parser.add_argument("--most", type=float, default=1.5, help="the ratio beyond which the exit status is 1")
    options = parser.parse_args()

    # Both through the same options: oplab.session adds a library, which Add does not mind.
    sessions = {name: ops.session(model(name, domain), threads=1) for name, domain in (("MyAdd", "oplab"), ("Add", ""))}
    random = np.random.default_rng(0)
    feed = {name: random.standard_normal(options.size).astype(np.float32) for name in "ab"}
    fastest = dict.fromkeys(sessions, float("inf"))
    for _ in range(options.rounds):
        for name, session in sessions.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                session.run(None, feed)
            fastest[name] = min(fastest[name], (time.perf_counter() - start) / CALLS)

    ratio = fastest["MyAdd"] / fastest["Add"]
    print(f"ONNX Runtime {onnxruntime.__version__}, {options.size} floats, best of {options.rounds} rounds")
    for name, seconds in fastest.items():
        print(f"{name:6} {1e6 * seconds:7.2f} microseconds")
    print(f"ratio  {ratio:7.2f}")
    return int(ratio > options.most)


if __name__ == "__main__":
    raise SystemExit(main())
