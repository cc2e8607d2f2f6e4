"""Every kernel from eight threads that share one session: the same bits, no data race, no leak.

ThreadSanitizer and LeakSanitizer want a program that was linked with them, so ``tests/support/session_driver.cpp`` takes
Python's place. Each of the three faults that the sanitizers are there for is planted once, and has to be found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from oplab.toolchain import build
from oplab.toolchain.recipes import Sanitizer
from tests.support import ROOT
from tests.support.cpp import library as library_of
from tests.support.deform_conv2d import make_feed
from tests.support.kernels import KERNELS, Draft, right
from tests.support.models import model_of

THREADS, RUNS = 8, 10_000
DRIVER = ROOT / "tests" / "support" / "session_driver.cpp"
OPTIONS: dict[Sanitizer, dict[str, str]] = {
    "address": {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1"},
    "thread": {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"},
}

PLANTED = """\
using namespace oplab;

// y = x, with the fault that the attribute `how` names.
struct Planted {
  Planted(const OrtApi*, const OrtKernelInfo* info) : how(int_attribute(info, "how")) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, Tensor<float>& y) {
    const float* from = x.Data();
    const int64_t size = x.NumberOfElement();
    float* to = y.Allocate(x.Shape());
    parallel_for(context, size, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = from[i];
      if (how == 2) pieces = pieces + 1;  // all pieces of all runs share it
    });
    if (how == 1) last = from[size];
    if (how == 3) last = *new float(from[0]);
    return Ort::Status{nullptr};
  }

  const int64_t how;
  int64_t pieces = 0;
  volatile float last = 0;
};
"""


pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]


def run_driver(library: Path, sanitizer: Sanitizer, models: list[Path], runs: int, threads: int = THREADS):
    """The driver's exit status and all that it and the sanitizer said."""
    runtime = next(iter(sorted(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.*[0-9]*"))))
    program = build.compile_driver(DRIVER, sanitizer)
    command = [str(program), str(runtime), str(library), str(threads), str(runs), *map(str, models)]
    env = {**os.environ, **OPTIONS[sanitizer]}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    if "unexpected memory mapping" in done.stderr:
        # The kernel spreads addresses further than this ThreadSanitizer expects (vm.mmap_rnd_bits).
        if not shutil.which("setarch"):
            pytest.skip("ThreadSanitizer does not start with this kernel's vm.mmap_rnd_bits, and there is no setarch")
        done = subprocess.run(["setarch", "-R", *command], env=env, capture_output=True, text=True, timeout=900)
        if "unexpected memory mapping" in done.stderr or "setarch:" in done.stderr:
            pytest.skip("ThreadSanitizer does not start with this kernel's vm.mmap_rnd_bits, nor under setarch -R")
    return done.returncode, done.stdout + done.stderr


def large_feed(name: str) -> tuple[Draft, dict[str, np.ndarray]]:
    """A right model, and inputs that give several pieces to the kernel's loops."""
    random = np.random.default_rng(3)
    draft, feed = right(name, np.float32), KERNELS[name].feed(random)
    if name in ("MyAdd", "Foo", "VarSum"):
        feed = {each: random.uniform(0.5, 2, 40_000) for each in feed}
    elif name == "Grid":
        feed = {
            "pos": random.normal(0, 2, (20_000, 2)),
            **{key: np.full(2, v) for key, v in (("size", 0.5), ("start", -9), ("end", 9))},
        }
    elif name == "KNNQuery":
        counts = {"offset": np.array([300, 600]), "new_offset": np.array([100, 300])}
        feed = {"xyz": random.normal(0, 1, (600, 3)), "new_xyz": random.normal(0, 1, (300, 3)), **counts}
    elif name == "DynamicResize":
        feed = {"x": random.uniform(0, 1, (1, 2, 24, 24)), "scales": np.array([1, 1, 2.5, 1.5])}
    elif name == "RMSNorm":
        feed = {"x": random.normal(0, 1, (300, 200)), "weight": random.uniform(0.5, 2, 200)}
    else:
        feed, _ = make_feed(n=1, size=(12, 12), kernel=(2, 1), pads=(0,) * 4)
    feed = {each: value.astype(draft.types[each]) for each, value in feed.items()}
    return replace(draft, shapes={each: list(value.shape) for each, value in feed.items()}), feed


def write(folder: Path, name: str, model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> Path:
    """The model and, beside it, the values of its inputs, as the driver wants them."""
    onnx.save(model, folder / f"{name}.onnx")
    for each, value in feed.items():
        (folder / f"{name}.onnx.{each}").write_bytes(value.tobytes())
    return folder / f"{name}.onnx"


@pytest.mark.parametrize("sanitizer", ["thread", "address"])
def test_our_kernels_have_no_race_and_no_leak(sanitizer: Sanitizer, tmp_path: Path):
    models = []
    for name in KERNELS:
        draft, feed = large_feed(name)
        models.append(write(tmp_path, name, draft.model(), feed))
    runs = RUNS // len(models) + 1 if sanitizer == "thread" else 200
    status, said = run_driver(build.compile_sanitized("ort", sanitizer), sanitizer, models, runs)
    assert status == 0, said[-4000:]
    assert said.count("0 of the runs differ") == len(models) and "WARNING" not in said and "ERROR" not in said, said


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.cpp").write_text(library_of(PLANTED, "Planted", "test"))

    def run(how: int, sanitizer: Sanitizer) -> tuple[int, str]:
        x = np.arange(640, dtype=np.float32)
        node = helper.make_node("Planted", ["x"], ["y"], domain="test", how=how)
        shapes, domains = dict.fromkeys("xy", [x.size]), [("test", 1)]
        model = model_of([node], {"x": np.float32}, {"y": np.float32}, shapes, domains=domains)
        file = write(folder, f"{how}", model, {"x": x})
        library = build.compile_library(folder / "planted.cpp", "ort", sanitize=sanitizer, cache=folder)
        return run_driver(library, sanitizer, [file], 400)

    return run


class TestPlanted:
    """A sanitizer that finds nothing proves nothing until it has found what is there."""

    @pytest.mark.parametrize(
        ("how", "sanitizer", "found"),
        [
            (1, "address", "AddressSanitizer: heap-buffer-overflow"),
            (2, "thread", "ThreadSanitizer: data race"),
            (3, "address", "LeakSanitizer: detected memory leaks"),
        ],
    )
    def test_is_found(self, planted, how: int, sanitizer: Sanitizer, found: str):
        status, said = planted(how, sanitizer)
        assert status != 0 and found in said and "planted.cpp" in said, said[-3000:]

    @pytest.mark.parametrize("sanitizer", ["thread", "address"])
    def test_nothing_is_found_without_it(self, planted, sanitizer: Sanitizer):
        status, said = planted(0, sanitizer)
        assert status == 0 and "Sanitizer" not in said, said[-3000:]
