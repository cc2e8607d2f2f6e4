"""Malformed models and inputs through every kernel of the domain ``oplab``, with the sanitizers watching.

A model of one node that is right is made wrong in up to three ways: attributes dropped, retyped or invented, inputs left out,
swapped or without a name, another domain or version, other types, other declared shapes. What still loads gets inputs of the
right shapes and of wrong ones. Each time there has to come a Python exception with a sentence, or the right result; never a
crash, which would end this process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import pytest

from oplab import ops
from oplab.onnxtools import domain
from oplab.toolchain import build
from tests.support.fuzz import expect_variety, under_the_sanitizers
from tests.support.kernels import KERNELS, Draft, Feed, Kernel, right

pytestmark = pytest.mark.nightly

CALLS = 10_000  # of each kernel
CALLS_OF_A_MODEL = 190
ODD = (np.nan, np.inf, -np.inf, -1, 0, 1e30, -1e30)
TYPES = (np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_, np.uint8)


def mutate(draft: Draft, random: np.random.Generator) -> Draft:
    """One step away from a right model."""
    inputs = list(draft.inputs)
    place = int(random.integers(len(inputs))) if inputs else 0
    names = [*draft.attributes, *domain.ATTRIBUTES[draft.name], "invented"]
    attribute = str(random.choice(names))
    values = (1, 0, -1, 2**62, 2.5, float("nan"), "text", [1, 1], [0, -1], [2**62] * 4, [1.5], ["a"], np.ones(2))
    value = values[random.integers(len(values))]
    if isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    named = [name for name in (*inputs, *draft.outputs) if name]
    some = str(random.choice(named)) if named else ""
    shape = [None, [None], ["n", 3], [2, 3], [], [0], ["n", None, 1, 1], [2**40, 2**40]][random.integers(8)]
    match random.integers(12):
        case 0:
            return replace(draft, attributes={k: v for k, v in draft.attributes.items() if k != attribute})
        case 1 | 2:
            return replace(draft, attributes={**draft.attributes, attribute: value})
        case 3:
            return replace(draft, inputs=tuple(inputs[:-1]))
        case 4:
            return replace(draft, inputs=tuple("" if i == place else name for i, name in enumerate(inputs)))
        case 5:
            return replace(draft, inputs=tuple(str(name) for name in random.permutation(inputs)))
        case 6:
            return replace(draft, inputs=(*inputs, inputs[place] if inputs else ""))
        case 7:
            return replace(draft, types={**draft.types, some: TYPES[random.integers(len(TYPES))]})
        case 8:
            return replace(draft, shapes={**draft.shapes, some: shape})
        case 9:
            return replace(draft, domain=("oplab", "", "Oplab", "oplab.more", "com.microsoft")[random.integers(5)])
        case 10:
            return replace(draft, version=(0, 1, 3, -1, 2**40, None)[random.integers(6)])
        case _:
            outputs = (draft.outputs[:-1], ("",) * len(draft.outputs), (*draft.outputs, "more"), draft.outputs[::-1])
            return replace(draft, outputs=outputs[random.integers(4)], types={**draft.types, "more": np.float32})


def spoiled(value: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Another shape, or an odd value."""
    match random.integers(6):
        case 0:
            return value[None]
        case 1:
            return value[..., :-1] if value.ndim else value
        case 2:
            return value.reshape(-1)
        case 3:
            return np.zeros((0,) * value.ndim, value.dtype)
        case 4:
            return np.concatenate([value, value]) if value.ndim else value
        case _:
            value = value.copy()
            if value.size:
                odd = ODD[random.integers(len(ODD))] if value.dtype.kind == "f" else random.integers(-3, 99)
                value.flat[random.integers(value.size)] = odd
            return value


def sentence(error: Exception) -> str:
    """What the exception says. Refusals of ours begin with the operator's name behind ONNX Runtime's prefix."""
    said = str(error).strip()
    assert len(said.split()) >= 4, f"no sentence: {error!r}"
    return said


def fuzz(name: str, library: str, calls: int = CALLS) -> Counter:
    """How often one kernel came to which outcome."""
    kernel, outcomes, number = KERNELS[name], Counter(), -1
    while outcomes["answered"] + outcomes["refused when run"] < calls:
        number += 1
        random = np.random.default_rng([2026, list(KERNELS).index(name), number])
        dtype = (np.float32, np.float64)[number % 2]
        draft = right(name, dtype)
        for _ in range((0, 1, 1, 2, 3)[number % 5]):
            draft = mutate(draft, random)
        try:
            session = ops.session(draft.model(), libraries=[library], threads=1 + number % 2)
        except Exception as error:
            assert number % 5, f"model {number} of {name} is right, but: {error}"
            sentence(error)
            outcomes["refused when loaded"] += 1
            continue
        wanted = {end.name for end in session.get_inputs()}
        outcomes["loaded"] += 1
        feeds = [kernel.feed(random) for _ in range(20)]
        for call in range(CALLS_OF_A_MODEL):
            feed = {each: value for each, value in feeds[call % len(feeds)].items() if each in wanted}
            if call % 3 == 1 and feed:
                some = str(random.choice(list(feed)))
                feed[some] = spoiled(np.asarray(feed[some]), random)
            with np.errstate(all="ignore"):
                feed = {each: np.asarray(value).astype(draft.types[each]) for each, value in feed.items()}
            try:
                answers = session.run(None, feed)
            except Exception as error:
                assert number % 5 or call % 3 == 1, f"call {call} of model {number} of {name} is right, but: {error}"
                sentence(error)
                outcomes["refused when run"] += 1
                continue
            outcomes["answered"] += 1
            if call % 7 < 2:
                judge(kernel, draft, feed, answers, f"call {call} of model {number} of {name}")
    return outcomes


def judge(kernel: Kernel, draft: Draft, feed: Feed, answers: list[np.ndarray], case: str) -> None:
    values = [feed[each] if each else None for each in draft.inputs]
    known = {key: value for key, value in draft.attributes.items() if key in domain.ATTRIBUTES[draft.name]}
    with np.errstate(all="ignore"):
        expected = kernel.reference(*values, **known)
    kept = [want for want, each in zip(expected, draft.outputs, strict=False) if each]
    finite = all(np.isfinite(value).all() for value in feed.values())
    for answer, want in zip(answers, kept, strict=True):
        assert answer.shape == want.shape and answer.dtype == want.dtype, (case, answer.shape, want.shape, draft)
        if finite and draft.name != "DynamicResize":
            tolerance = 1e-4 if want.dtype == np.float32 else 1e-9
            np.testing.assert_allclose(answer, want, rtol=tolerance, atol=tolerance, err_msg=case)
        elif finite:
            assert (np.abs(answer) <= 2.5 * np.abs(feed["x"]).max(initial=0)).all(), case


def test_every_kernel_of_the_domain_is_here():
    assert set(KERNELS) == set(domain.ATTRIBUTES)


@pytest.mark.parametrize("names", [tuple(KERNELS)[:4], tuple(KERNELS)[4:]], ids=lambda names: "-".join(names))
def test_ten_thousand_calls_of_each_under_the_sanitizers(names: tuple[str, ...]):
    code = f"""
from tests.kernels import test_op_malformed
for name in {names}:
    for outcome, count in test_op_malformed.fuzz(name, {str(build.compile_sanitized("ort"))!r}).items():
        print(name, outcome, count, sep=": ", flush=True)
"""
    least = {"refused when loaded": 20, "loaded": 50, "refused when run": 300, "answered": 1000}
    wanted = {f"{name}: {outcome}": count for name in names for outcome, count in least.items()}
    expect_variety(under_the_sanitizers(code), wanted)
