"""The sets of instructions that ``csrc/common/simd.h`` compiles a kernel for: each gives the reference's results.

``OPLAB_SIMD`` in the environment chooses one when a session is made. A set that this processor lacks is skipped.
"""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

from oplab import ops
from oplab.toolchain import build
from oplab.toolchain.sanitizer import sanitizer_env
from tests.support import deform_conv2d as deform
from tests.support import grid, run_python
from tests.support.dtypes import DTYPES

SETS = ("plain", "neon") if platform.machine() in ("aarch64", "arm64") else ("plain", "avx2", "avx512")


pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]


def force(monkeypatch: pytest.MonkeyPatch, simd: str) -> None:
    monkeypatch.setenv("OPLAB_SIMD", simd)
    try:
        feed, attributes = deform.make_feed()
        deform.ours(feed, **attributes)
    except Exception as error:
        assert "OPLAB_SIMD" in str(error), error
        pytest.skip(f"this processor has no {simd}")


@pytest.mark.parametrize("simd", SETS)
class TestDeformConv2d:
    @DTYPES
    def test_every_size(self, monkeypatch, simd: str, dtype):
        force(monkeypatch, simd)
        for name, sizes in deform.SIZES.items():
            feed, attributes = deform.make_feed(**sizes, dtype=dtype)
            try:
                y = deform.ours(feed, **attributes)
                deform.close(y, deform.standard(feed, **attributes))
                if max(feed["X"].shape[2:]) < 100:  # further out, a float32 coordinate is coarser than the tolerance
                    deform.close(y, deform.reference(**feed, **attributes))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None

    def test_the_same_bits_with_any_number_of_threads(self, monkeypatch, simd: str):
        force(monkeypatch, simd)
        for sizes in (
            {"size": (40, 41), "channels": 20, "out_channels": 33},
            {"size": (3, 3), "channels": 40, "out_channels": 300, "n": 1},
        ):
            feed, attributes = deform.make_feed(**sizes)
            one, *others = (deform.ours(feed, threads=threads, **attributes) for threads in (1, 2, 3, 8))
            for other in others:
                np.testing.assert_array_equal(one, other)

    def test_odd_offsets(self, monkeypatch, simd: str):
        """NaN reaches its own pixel; infinity and what no integer holds look outside: nothing else changes."""
        force(monkeypatch, simd)
        feed, attributes = deform.make_feed(n=1, channels=20, out_channels=19, size=(9, 10))
        random = np.random.default_rng(5)
        odd = np.array([np.inf, -np.inf, 3e38, -3e38, 1e19, -1e19, 2**31, 2**63, -1.0, 1e-45, -1e-45], np.float32)
        for where in random.integers(0, feed["offset"].size, 200):
            feed["offset"].flat[where] = random.choice(odd)
        deform.close(deform.ours(feed, **attributes), deform.reference(**feed, **attributes))
        before = deform.ours(feed, **attributes)
        feed["offset"][0, 7, 4, 5] = np.nan
        after = deform.ours(feed, **attributes)
        assert np.isnan(after[0, :, 4, 5]).all()
        after[0, :, 4, 5] = before[0, :, 4, 5]
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("simd", SETS)
@DTYPES
def test_grid_gives_the_same_numbers_with_each_set(monkeypatch, simd: str, dtype):
    """In PyTorch as well: both call the same loops."""
    force(monkeypatch, simd)
    for dimensions in (1, 2, 3, 4):
        for count in (1, 7, 33, 1000):
            feed = grid.cloud(count, dimensions, dtype=dtype)
            expected = grid.reference(**feed)
            np.testing.assert_array_equal(grid.in_ort(feed), expected)
            np.testing.assert_array_equal(grid.in_torch(feed), expected)


def test_a_set_that_there_is_not(monkeypatch):
    monkeypatch.setenv("OPLAB_SIMD", "avx1024")
    feed, attributes = deform.make_feed()
    with pytest.raises(
        Exception, match="OPLAB_SIMD is avx1024, which is not an instruction set of this build"
    ) as caught:
        deform.ours(feed, **attributes)
    assert re.search(r"Unset it, or set it to one of: .*plain\.", str(caught.value))


def test_constant_weights_are_packed_once():
    """Weights inside the model take another way than weights that are fed, to the same bits."""
    from onnx import numpy_helper

    for sizes in ({"channels": 20, "out_channels": 37}, {"group": 2, "channels": 6, "out_channels": 4}):
        feed, attributes = deform.make_feed(**sizes)
        model = deform.make_model(tuple(feed), **attributes)
        model.graph.initializer.append(numpy_helper.from_array(feed["W"], "W"))
        kept = [each for each in model.graph.input if each.name != "W"]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        session = ops.session(model)
        given = {name: value for name, value in feed.items() if name != "W"}
        for _ in range(2):
            np.testing.assert_array_equal(session.run(None, given)[0], deform.ours(feed, **attributes))
        with pytest.raises(Exception, match="DeformConv2d: W must have"):
            session.run(None, {**given, "X": np.zeros((1, 8 * feed["X"].shape[1], 7, 6), np.float32)})


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the other sets are those of x86-64")
def test_every_set_under_the_sanitizers():
    code = f"""
import os
from oplab import ops
from tests.support import deform_conv2d as deform
library = {str(build.compile_sanitized("ort"))!r}
made = ops.session
ops.session = lambda model, **options: made(model, libraries=[library], **options)
for simd in {SETS}:
    os.environ["OPLAB_SIMD"] = simd
    count = 0
    for name, sizes in deform.SIZES.items():
        feed, attributes = deform.make_feed(**sizes)
        try:
            deform.ours(feed, threads=2, **attributes)
        except Exception as error:
            assert "OPLAB_SIMD" in str(error), error
            break
        feed["offset"].flat[::7] = float("nan")
        feed["offset"].flat[3::7] = float("inf")
        feed["offset"].flat[5::7] = -1e30
        deform.ours(feed, threads=2, **attributes)
        count += 1
    print(simd, count)
"""
    done = run_python(code, env=sanitizer_env(), timeout=240)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert f"plain {len(deform.SIZES)}" in done.stdout, done.stdout
