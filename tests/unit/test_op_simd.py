"""The sets of instructions that ``csrc/common/simd.h`` compiles a kernel for: each gives the reference's results.

``OPLAB_SIMD`` in the environment chooses one when a session is made. A set that this processor lacks is skipped.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import test_op_deform_conv2d as deform
import test_op_grid as grid

from oplab import ops
from oplab.toolchain import build
from oplab.toolchain.sanitizer import sanitizer_env

SETS = ("plain", "neon") if platform.machine() in ("aarch64", "arm64") else ("plain", "avx2", "avx512")

# More than the cases of test_op_deform_conv2d.py: each remainder of the rows of a product, of its panels (16 output channels, two
# at once with AVX-512), of a run of terms and of a transposed block.
SIZES = {
    **deform.CASES,
    **{f"{pixels} pixels": {"size": (1, pixels), "kernel": (1, 3), "pads": (0, 1, 0, 1)} for pixels in range(1, 16)},
    **{f"{count} outputs": {"out_channels": count, "size": (4, 5), "n": 1} for count in (15, 16, 17, 31, 32, 33, 49)},
    **{f"{count} channels": {"channels": count, "size": (4, 5), "n": 1} for count in (14, 15, 16, 17, 31, 33)},
    "a single tile, many outputs": {"channels": 3, "out_channels": 300, "size": (3, 3), "n": 1},
    "tiles of unequal length": {"channels": 2, "out_channels": 3, "size": (13, 17), "n": 1},
    "more than 32 tiles": {
        "channels": 1,
        "out_channels": 1,
        "size": (46, 47),
        "kernel": (1, 1),
        "pads": (0,) * 4,
        "n": 1,
    },
    "a long row": {"channels": 3, "out_channels": 2, "size": (1, 997), "kernel": (1, 5), "pads": (0, 2, 0, 2), "n": 1},
    "a long column": {
        "channels": 3,
        "out_channels": 2,
        "size": (997, 1),
        "kernel": (5, 1),
        "pads": (2, 0, 2, 0),
        "n": 1,
    },
}


@pytest.fixture(scope="module", autouse=True)
def compiled():
    build.build_all(say=lambda line: None)
    ops.load()


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
    @pytest.mark.parametrize("dtype", deform.ONNX_TYPES, ids=lambda dtype: dtype.__name__)
    def test_every_size(self, monkeypatch, simd: str, dtype):
        force(monkeypatch, simd)
        for name, sizes in SIZES.items():
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

    def test_nan_and_infinity_in_the_image_and_the_mask(self, monkeypatch, simd: str):
        force(monkeypatch, simd)
        feed, attributes = deform.make_feed(n=1, channels=17, out_channels=18, size=(8, 9))
        feed["X"][0, 3, 4, 5], feed["X"][0, 16, 1, 1], feed["mask"][0, 2, 6, 6] = np.nan, np.inf, np.nan
        expected = deform.standard(feed, **attributes)
        y = deform.ours(feed, **attributes)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isfinite(y), finite)
        deform.close(y[finite], expected[finite])


@pytest.mark.parametrize("simd", SETS)
@pytest.mark.parametrize("dtype", (np.float32, np.float64), ids=lambda dtype: dtype.__name__)
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
import os, sys
sys.path.insert(0, "tests/unit")
import test_op_deform_conv2d as deform, test_op_simd
from oplab import ops
library = {str(build.compile_sanitized("ort"))!r}
made = ops.session
ops.session = lambda model, **options: made(model, libraries=[library], **options)
for simd in test_op_simd.SETS:
    os.environ["OPLAB_SIMD"] = simd
    count = 0
    for name, sizes in test_op_simd.SIZES.items():
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
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=sanitizer_env(),
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        timeout=240,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert f"plain {len(SIZES)}" in done.stdout, done.stdout
