"""Each mistake that a check declares, given to the judge as the result, is told its own sentence. No learner's process runs."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from oplab.checks import c04_aten_symbolic as c04
from oplab.checks import c05_writing_symbolic as c05
from oplab.checks import c07_cpp_operators as c07
from oplab.checks import c08_functions_and_plugins as c08
from oplab.checks import c09_exporter_archaeology as c09
from oplab.checks import c10_modern_exporter as c10
from oplab.checks import c11_kernels_without_a_compiler as c11
from oplab.checks import c12_ort_kernels as c12
from oplab.checks import c13_real_kernels as c13
from oplab.checks import c16_capstone as c16
from oplab.checks import c18_four_engines as c18
from oplab.checks import cA1_cpp_in_an_hour as cA1
from oplab.checks import exporting, symbolic
from oplab.checks.expected import Expected
from oplab.checks.references.points import filled, neighbours
from oplab.checks.references.resizing import expect_resized, resized
from oplab.checks.references.sums import expect_gradient, expect_gradients_apart, mistaken_sums
from oplab.parity import arrays
from oplab.parity.arrays import WrongAnswer, expect_close
from tests.support import ROOT

Judged = tuple[Expected, list[np.ndarray]]  # what is expected of a run, and the run's inputs


def _powers(rng: np.random.Generator, expected: Expected) -> Iterator[Judged]:
    for bound in (6, 80):
        yield expected, [np.asarray(rng.uniform(-bound, bound, (5, 4)), np.float32)]


def _sinc(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c04.SINC:
        x = c04.both_signs(rng, exporting.sizes(rng, len(case.shape)))
        yield c04.EXPECTED_SINC, [np.asarray(x, case.dtype)]


def _hypot(rng: np.random.Generator) -> Iterator[Judged]:
    for power in (0, 1, -1):
        for case in c04.HYPOT:
            times = 10.0 ** {0: 0, 1: c04.EXPONENT[case.dtype], -1: c04.TINY[case.dtype]}[power]
            yield c04.EXPECTED_HYPOT, [part * np.asarray(times, part.dtype) for part in c04.hypot_pair(rng, case)]


def _sum(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c05._my_add_cases(rng, c05.MY_ADD_DTYPES):
        size = exporting.sizes(rng, len(case.shape))
        yield c05.expected_sum(case, attribute=False), [np.asarray(c05._within_4(rng, size), case.dtype) for _ in "ab"]


def _log10(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c05.DTYPES:
        x = c05._magnitudes(rng, exporting.sizes(rng, len(case.shape)))
        yield c05.EXPECTED_LOG10, [np.asarray(x, case.dtype)]
    yield c05.EXPECTED_LOG10, [np.array([1, -2, 0.5])]


def _kth(rng: np.random.Generator, place: int) -> Iterator[Judged]:
    for case in c05._kth_cases(rng):
        size = list(exporting.sizes(rng, len(case.shape)))
        size[case.numbers[1]] += max(3, case.numbers[0])
        yield c05.expected_kth(case, place), [c05._distinct(rng, tuple(size), case.dtype)]


def _gelu(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c05.GELU[:2]:  # by tanh and exact; float16 cannot tell them apart
        yield c05.expected_gelu(case), [np.asarray(c05._both_signs(rng, (5, 4)), case.dtype)]


def _scale(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c09.SCALE:
        yield c09.expected_scale(*case.numbers), [np.asarray(rng.normal(scale=3, size=(4, 5)), np.float32)]


# The runs of each exercise in the order of its judge: the first that rejects a mistake has to tell it.
RUNS: dict[str, Callable[[np.random.Generator], Iterator[Judged]]] = {
    "c04.per_opset": partial(_powers, expected=c04.EXPECTED_SINH),
    "c04.sinc": _sinc,
    "c04.hypot": _hypot,
    "c05.my_add": _sum,
    "c05.dtypes": _log10,
    "c05.kthvalue, values": partial(_kth, place=0),
    "c05.kthvalue, indices": partial(_kth, place=1),
    "c05.gelu_tanh": _gelu,
    "c09.port_register_op, cosh": partial(_powers, expected=c09.EXPECTED_COSH),
    "c09.port_register_op, scale": _scale,
}


def _drawn(rng: np.random.Generator, cases: list[symbolic.Case], expected: Callable) -> Iterator[Judged]:
    for case in cases:
        parameters = inspect.signature(expected(case).right).parameters.values()
        inputs = [one for one in parameters if one.default is one.empty]
        size = exporting.sizes(rng, len(case.shape))
        yield expected(case), [np.asarray(rng.normal(scale=3, size=size), case.dtype) for _ in inputs]


# What `oplab new-exercise --kind symbolic` writes needs no line above.
for _path in (ROOT / "oplab" / "checks").glob("c*.py"):
    _names = vars(importlib.import_module(f"oplab.checks.{_path.stem}"))
    for _name in [name.removesuffix("_cases") for name in _names if name.endswith("_cases")]:
        if f"expected_{_name}" in _names and isinstance(_names[f"{_name}_cases"], list):
            RUNS.setdefault(
                f"{_path.stem[:3]}.{_name}",
                partial(_drawn, cases=_names[f"{_name}_cases"], expected=_names[f"expected_{_name}"]),
            )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("exercise", RUNS)
def test_each_mistake_is_told(exercise, seed):
    runs = list(RUNS[exercise](np.random.default_rng(seed)))
    told = {}
    for sentence in {sentence: None for expected, _ in runs for sentence in expected.mistakes}:
        for expected, inputs in runs:
            mistake = expected.mistakes.get(sentence, expected.right)
            try:
                expected.judge(expected.result(mistake, *inputs), *inputs, name="it")
            except WrongAnswer as error:
                told[sentence] = str(error)
                break
    assert {sentence: told.get(sentence, "it is accepted") for sentence in told if sentence not in told[sentence]} == {}
    assert told.keys() == {sentence for expected, _ in runs for sentence in expected.mistakes}


def test_every_declaration_is_tried():
    tried = [expected for runs in RUNS.values() for expected, _ in runs(np.random.default_rng(0))]
    for path in (ROOT / "oplab" / "checks").glob("c*.py"):
        for name, value in vars(importlib.import_module(f"oplab.checks.{path.stem}")).items():
            assert not isinstance(value, Expected) or value in tried, f"{path.stem}.{name} has no runs here"


# --- likely= ---------------------------------------------------------------------------------------------------------

Run = tuple[Callable[[np.ndarray], object], np.ndarray]  # what judges a result, and the right one


def _searches(rng: np.random.Generator) -> Iterator[Run]:
    for extreme in (False, True):
        for case in c10.SEARCHES.values():
            for feeds in c10.searched(rng, case, extreme):
                a, b = feeds["a"], feeds["b"]
                row = np.take_along_axis(a, feeds["c"], -1) if case.sorter else a
                right, ideas = c10.places(row, b, case.after, case.result), c10.search_ideas(case, a, row, b)
                yield partial(expect_close, expected=right, likely=ideas), right


def _reference_knn(rng: np.random.Generator) -> Iterator[Run]:
    for query in c11.QUERIES:
        feeds = c11.draw_points(rng, query)
        idx, dist = neighbours(feeds, query.nsample)
        yield lambda got, q=query, feeds=feeds, dist=dist: c11.expect_results([got, dist], q, feeds), idx


def _grids(rng: np.random.Generator) -> Iterator[Run]:
    for feeds in [c13.grid_inputs(rng, wired, 40, 3) for wired in c13.GRID_WIRES.values()] + [
        *c13.far_grids().values()
    ]:
        right = c13.voxels(*(feeds.get(name) for name in c13.GRID_DIMS))
        yield lambda got, feeds=feeds: c13.expect_voxels(got, feeds), right


def _clouds(rng: np.random.Generator, place: int) -> Iterator[Run]:
    for cloud in c13.CLOUDS:
        feeds, judge = c13.knn_inputs(rng, cloud), (c13.expect_neighbours, c13.expect_distances)[place]
        yield (
            lambda got, judge=judge, cloud=cloud, feeds=feeds: judge(got, cloud, feeds),
            neighbours(feeds, cloud.nsample)[place],
        )


def _tables(rng: np.random.Generator, centred: bool) -> Iterator[Run]:
    for shape in c13.CENTRE_SHAPES:
        x = rng.normal(scale=3, size=shape).astype(np.float32)
        judge, right = (c13.expect_centred, x - c13.means_of(x)) if centred else (c13.expect_mean, c13.means_of(x))
        yield partial(judge, x=x), right.astype(np.float32) if centred else right


def _capstone_knn(rng: np.random.Generator) -> Iterator[Run]:
    for feeds in c16.knn_cases(rng).values():
        if feeds["xyz"].size < 1000:
            right = filled(neighbours(feeds, c16.KNN_K)[0], "its first entry").astype(np.int64)
            yield lambda got, feeds=feeds: c16.expect_neighbours(got, feeds, c16.KNN_K), right


def _sums_in_cpp(rng: np.random.Generator) -> Iterator[Run]:
    for case in (*c07.VALUES, *c07.BLOCKS, *c07.GIVEN, *c07.PRECISE, *c07.LAYOUTS):
        a, b = case.arrays(rng)
        alpha, beta = case.coefficients or (3.0, 2.0)
        right = (alpha * a.astype(np.float64) + beta * c07.over_blocks(b, a)).astype(case.dtype)
        yield lambda got, case=case, a=a, b=b: c07.expect_sum(got, case, a, b), right


def _neighbours_in_cpp(rng: np.random.Generator) -> Iterator[Run]:
    for cloud in c07.CLOUDS:
        arrays = cloud.arrays(rng)
        idx, dist = neighbours(c07._feeds(arrays), cloud.nsample)
        yield lambda got, cloud=cloud, dist=dist, arrays=arrays: c07.expect_found(cloud, got, dist, *arrays), idx
        yield lambda got, cloud=cloud, idx=idx, arrays=arrays: c07.expect_found(cloud, idx, got, *arrays), dist


def _gradients(rng: np.random.Generator) -> Iterator[Run]:
    numbers = [c08.coefficients(rng) for _ in range(2)]
    upstream = rng.normal(size=(4, 5))
    for place, name in enumerate("ab"):
        yield (
            lambda got, name=name: expect_gradient(got, name, numbers[0], upstream),
            numbers[0][place] * upstream,
        )
    yield lambda got: expect_gradients_apart([got], numbers, upstream), numbers[0][0] * upstream


def _functions(rng: np.random.Generator) -> Iterator[Run]:
    for case in c08.SUMS:
        (a, b), numbers = c08.pair(rng, case), c08.coefficients(rng)
        right = numbers[0] * a + numbers[1] * b
        yield partial(expect_close, expected=right, likely=mistaken_sums(a, b, numbers, double=True)), right


def _nodes(rng: np.random.Generator) -> Iterator[Run]:
    """MyAdd in ONNX Runtime and in OpenVINO."""
    given = [(case.attributes.get("alpha"), case.attributes.get("beta")) for case in c12.MY_ADD]
    given += [weights for case in c18.added_cases(rng).values() for weights in case.weights]
    for weights in given:
        feed = c18.terms(rng, (3, 4), "float32")
        alpha, beta = (other if weight is None else weight for weight, other in zip(weights, (3, 2), strict=True))
        right = (alpha * feed["a"].astype(np.float64) + beta * feed["b"]).astype(np.float32)
        yield lambda got, feed=feed, weights=weights: c18.expect_added(got, feed, weights), right


def _foo(rng: np.random.Generator) -> Iterator[Run]:
    for case in c12.PORT_FOO:
        attr1, attr2, inputs = np.float32(case.attributes["attr1"]), case.attributes["attr2"], c12.draw(rng, case)
        with np.errstate(all="ignore"):
            right = np.asarray(attr1 * inputs[0] + inputs[1].astype(np.float64) ** attr2, np.float32)
        yield partial(expect_close, expected=right, likely=c12.foo_ideas(attr1, attr2, *inputs)), right


def _enlarged(rng: np.random.Generator) -> Iterator[Run]:
    net = c16.given_srcnn(rng)
    for feeds in c16.photo_cases(rng).values():
        right, ideas = c16.enlarged(net, feeds)
        yield partial(expect_close, expected=right, rtol=c16.SHARP, atol=c16.SHARP, likely=ideas), right


def _clamps(rng: np.random.Generator) -> Iterator[Run]:
    for case in cA1.CLAMPS:
        x = cA1._values(rng, case)
        right = cA1._clamped(x, case.low, case.high)
        yield partial(expect_close, expected=right, rtol=0, atol=0, likely=cA1.clamp_ideas(case, x)), right


def _means(rng: np.random.Generator) -> Iterator[Run]:
    for dtype in (np.float32, np.float64):
        for count in cA1.MEANS.values():
            x = cA1._to_mean(rng, count, dtype)
            yield partial(cA1.expect_mean, x=x, name=""), np.array([x.astype(np.float64).mean()], dtype)


def _windows(rng: np.random.Generator) -> Iterator[Run]:
    for size in cA1.SIZES:
        every = cA1._pushes(rng)
        yield lambda got, size=size, every=every: cA1.expect_window(got, every, size), cA1._means(every, size)


def _photos(rng: np.random.Generator) -> Iterator[Run]:
    for feeds in c16.resize_cases(rng).values():
        yield partial(expect_resized, feeds=feeds), resized(feeds)


LIKELY = {
    "c07.my_add": _sums_in_cpp,
    "c07.my_add_backward and c08.my_add_function": _gradients,
    "c07.knn_query": _neighbours_in_cpp,
    "c08.my_add_function": _functions,
    "c12.my_add and c18": _nodes,
    "c12.port_foo": _foo,
    "c16.super_resolution": _enlarged,
    "cA1.clamp": _clamps,
    "cA1.mean": _means,
    "cA1.window": _windows,
    "c10.translate_searchsorted": _searches,
    "c11.reference_knn": _reference_knn,
    "c13.grid": _grids,
    "c13.knn_query, idx": partial(_clouds, place=0),
    "c13.knn_query, dist": partial(_clouds, place=1),
    "c13.parallel, mean": partial(_tables, centred=False),
    "c13.parallel, y": partial(_tables, centred=True),
    "c16.knn_kernel": _capstone_knn,
    "c16.resize_kernel": _photos,
}


def _declared(
    seen: dict[str, np.ndarray], got: np.ndarray, expected: np.ndarray, likely: dict[str, np.ndarray], *_
) -> str:
    seen.update(likely or {})
    return ""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("exercise", LIKELY)
def test_each_likely_cause_is_told(exercise, seed, monkeypatch):
    runs = list(LIKELY[exercise](np.random.default_rng(seed)))
    declared: dict[str, list[tuple[Callable[[np.ndarray], object], np.ndarray]]] = {}
    for judge, right in runs:
        seen: dict[str, np.ndarray] = {}
        other = right + np.asarray(3, right.dtype)
        with monkeypatch.context() as patched, contextlib.suppress(WrongAnswer):
            patched.setattr(arrays, "_cause", partial(_declared, seen))
            judge(other)
        for sentence, wrong in seen.items():
            # Not a cause that is found in the result itself, nor one of a wrong dtype.
            if wrong is not other and not np.array_equal(wrong, right):
                declared.setdefault(sentence, []).append((judge, np.asarray(wrong).astype(right.dtype)))
    assert declared
    told = {}
    for sentence, tries in declared.items():
        for judge, wrong in tries:
            try:
                judge(wrong)
            except WrongAnswer as error:
                told[sentence] = str(error)
                break
    assert {
        sentence: told.get(sentence, "it is accepted")
        for sentence in declared
        if sentence not in told.get(sentence, "")
    } == {}
