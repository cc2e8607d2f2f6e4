"""Checks of appendix A1: C functions by their symbols, their results on arrays with guard pages, their refusals, and what they keep."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from oplab.checks.c_functions import c_function
from oplab.checks.draws import Draws
from oplab.checks.evidence import Collect
from oplab.checks.guarded import guarded
from oplab.checks.judge import Judge
from oplab.checks.kernels import announce
from oplab.checks.leaks import in_use, lost_by
from oplab.parity.arrays import WrongAnswer, expect_close

UNTOUCHED = np.float32(-7777.0)


def address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


# --- clamp -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clamp:
    """One call of ``clamp``; ``special`` values come first, and ``same`` passes one array as both."""

    title: str
    count: int
    low: float
    high: float
    special: bool = False
    same: bool = False


CLAMPS = (
    Clamp("12 values to [-1, 1]", 12, -1.0, 1.0),
    Clamp("1 value to [0, 6]", 1, 0.0, 6.0),
    Clamp("1000 values to [-0.5, 0.25]", 1000, -0.5, 0.25),
    Clamp("no values", 0, 0.0, 1.0),
    Clamp("in and out are one array", 33, -1.0, 1.0, same=True),
    Clamp("low equals high", 9, 0.5, 0.5),
    Clamp("NaN and infinities", 8, -1.0, 1.0, special=True),
    Clamp("an open end: high is infinity", 8, 0.0, float("inf"), special=True),
)
# title -> count, low, high, and which pointer is null
REFUSED = {
    "count is -1": (-1, 0.0, 1.0, ""),
    "low is greater than high": (4, 1.0, -1.0, ""),
    "low is greater than high, no values": (0, 1.0, -1.0, ""),
    "low is a NaN": (4, float("nan"), 1.0, ""),
    "high is a NaN": (4, 0.0, float("nan"), ""),
    "in is a null pointer": (4, 0.0, 1.0, "in"),
    "out is a null pointer": (4, 0.0, 1.0, "out"),
}


def _values(rng: Draws, case: Clamp) -> np.ndarray:
    made = rng.uniform(-3, 3, case.count).astype(np.float32)
    if case.special:
        made[:5] = [np.nan, np.inf, -np.inf, -0.0, 0.0]
    elif case.count == 1:  # above the limits of the first call: limits that are kept from it are seen here
        made[:] = rng.uniform(1.5, 3)
    return made


def _clamped(x: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.where(x < low, np.float32(low), np.where(x > high, np.float32(high), x)).astype(np.float32)


def collect_clamp(c: Collect) -> None:
    clamp = c_function(c, "clamp", "pointer", "pointer", "int64", "float", "float")
    for case in CLAMPS:
        announce(case.title)
        x = guarded(_values(c.rng, case))
        y = x if case.same else guarded(np.full(case.count, UNTOUCHED))
        c.value(f"{case.title}: returns", int(clamp(address(x), address(y), case.count, case.low, case.high)))
        c.value(f"{case.title}: out", y.copy())
        c.value(f"{case.title}: in", x.copy())
    announce("no values, null pointers")
    c.value("no values, null pointers: returns", int(clamp(None, None, 0, 0.0, 1.0)))
    for title, (count, low, high, null) in REFUSED.items():
        announce(title)
        x, y = guarded(np.ones(4, np.float32)), guarded(np.full(4, UNTOUCHED))
        given = (address(None if null == name else array) for name, array in (("in", x), ("out", y)))
        c.value(f"{title}: returns", int(clamp(*given, count, low, high)))
        c.value(f"{title}: out", y.copy())


def clamp_ideas(case: Clamp, x: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "The two limits are exchanged": _clamped(x, case.high, case.low),
        "Only the lower limit is applied": np.maximum(x, np.float32(case.low)),
        "Only the upper limit is applied": np.minimum(x, np.float32(case.high)),
        "A NaN becomes the lower limit": np.nan_to_num(_clamped(x, case.low, case.high), nan=case.low, posinf=np.inf),
        "Nothing was written": np.full_like(x, UNTOUCHED),
    }


def judge_clamp(v: Judge) -> None:
    inputs = {case.title: _values(v.rng, case) for case in CLAMPS}
    with v.check("values"):
        for case in CLAMPS:
            x = inputs[case.title]
            expected = _clamped(x, case.low, case.high)
            expect_returned(v, case.title, 0)
            likely = clamp_ideas(case, x)
            out = v.array(f"{case.title}: out")
            expect_close(out, expected, name=case.title, rtol=0, atol=0, likely=likely)
            if not np.array_equal(np.signbit(out)[expected == 0], np.signbit(expected)[expected == 0]):
                raise WrongAnswer(
                    f"{case.title}: -0.0 is not less than 0.0, so it stays as it is: compare with < and >."
                )
    with v.check("the input is only read"):
        for case in CLAMPS:
            if not case.same and not np.array_equal(v.array(f"{case.title}: in"), inputs[case.title], equal_nan=True):
                raise WrongAnswer(f"{case.title}: the function changes its input.")
    with v.check("refusals"):
        expect_returned(v, "no values, null pointers", 0)
        for title in REFUSED:
            expect_returned(v, title, 1)
            if (v.array(f"{title}: out") != UNTOUCHED).any():
                raise WrongAnswer(f"{title}: the function returns 1, and has written to out.")


def expect_returned(v: Judge, title: str, expected: int) -> None:
    """Demand what a call under ``title`` returned."""
    got = v.value(f"{title}: returns")
    if got != expected:
        raise WrongAnswer(f"{title}: the function has to return {expected}, and returns {got}.")


# --- mean ------------------------------------------------------------------------------------------------------------

MEANS = {
    "5 values": 5,
    "1 value": 1,
    "3 values, one of them a NaN": 3,
    "4 values, one of them infinite": 4,
    "1 000 003 values near 1000": 1_000_003,
}


def _to_mean(rng: Draws, count: int, dtype: type) -> np.ndarray:
    # Near 1000: a sum of a million of them in float loses more than a mean of them may.
    made = (1000 + rng.uniform(-1, 1, count)).astype(dtype)
    if count == 5:  # as a float, the sum loses the last bits, and the mean differs
        made[:] = 1000 + (1 + 3 * np.arange(5)) / 2**14
    if count in (3, 4):
        made[1] = np.nan if count == 3 else np.inf
    return made


def collect_mean(c: Collect) -> None:
    for dtype, name in ((np.float32, "mean_float"), (np.float64, "mean_double")):
        mean = c_function(c, name, "pointer", "int64", "pointer")
        for title, count in MEANS.items():
            announce(f"{name}, {title}")
            x, result = guarded(_to_mean(c.rng, count, dtype)), guarded(np.full(1, UNTOUCHED, dtype))
            c.value(f"{name}, {title}: returns", int(mean(address(x), count, address(result))))
            c.value(f"{name}, {title}", result.copy())
            c.value(f"{name}, {title}, again: returns", int(mean(address(x), count, address(result))))
            c.value(f"{name}, {title}, again", result.copy())
        one = guarded(np.ones(1, dtype))
        for title, (x, count, result) in {
            "no values": (one, 0, np.full(1, UNTOUCHED, dtype)),
            "count is -1": (one, -1, np.full(1, UNTOUCHED, dtype)),
            "values is a null pointer": (None, 1, np.full(1, UNTOUCHED, dtype)),
            "result is a null pointer": (one, 1, None),
        }.items():
            announce(f"{name}, {title}")
            c.value(f"{name}, {title}: returns", int(mean(address(x), count, address(result))))
            if result is not None:
                c.value(f"{name}, {title}", result)


def expect_mean(got: np.ndarray, x: np.ndarray, name: str) -> None:
    exact, dtype = x.astype(np.float64).mean(), x.dtype
    expected = np.array([exact], dtype)
    likely = {
        "The function returns 0, and has written nothing": np.full(1, UNTOUCHED, dtype),
        "This is the sum": np.array([exact * x.size], dtype),
        "The second call gets twice the sum: it remembers the first": np.array([exact * 2], dtype),
        "A mean that each value corrects becomes infinity minus infinity, a NaN": np.full(1, np.nan, dtype),
    }
    if dtype == np.float32:
        likely["The sum is computed in float"] = np.cumsum(x, dtype=dtype)[-1:] / dtype.type(x.size)
        likely["The sum is rounded to float before it is divided"] = x.sum(dtype=float, keepdims=True).astype(
            dtype
        ) / dtype.type(x.size)
    else:
        likely["The mean of a double array passes through float"] = np.array([exact], np.float32).astype(dtype)
    expect_close(got, expected, name=name, rtol=0 if dtype == np.float32 else 1e-12, atol=0, likely=likely)


def judge_mean(v: Judge) -> None:
    with v.check("values"):
        for dtype, name in ((np.float32, "mean_float"), (np.float64, "mean_double")):
            for title, count in MEANS.items():
                x = _to_mean(v.rng, count, dtype)
                for again in ("", ", again"):
                    expect_returned(v, f"{name}, {title}{again}", 0)
                    expect_mean(v.array(f"{name}, {title}{again}"), x, f"{name}, {title}{again}")
    with v.check("no mean"):
        for name in ("mean_float", "mean_double"):
            for title in ("no values", "count is -1", "values is a null pointer", "result is a null pointer"):
                expect_returned(v, f"{name}, {title}", 1)
                if v.has(f"{name}, {title}") and v.array(f"{name}, {title}")[0] != UNTOUCHED:
                    raise WrongAnswer(f"{name}, {title}: the function returns 1, and has written to *result.")


# --- window ----------------------------------------------------------------------------------------------------------

SIZES = (1, 3, 4, 100)
PUSHED = 250
BEFORE = 5  # values that are pushed before a large one, and as many windows after it
NO_MEMORY = 1 << 60  # floats: std::bad_alloc
TOO_LONG = 1 << 62  # floats: std::length_error


def _pushes(rng: Draws) -> np.ndarray:
    return rng.uniform(-1, 1, PUSHED).astype(np.float32)


def collect_window(c: Collect) -> None:
    new = c_function(c, "window_new", "int64", result="pointer")
    push = c_function(c, "window_push", "pointer", "float", "pointer")
    delete = c_function(c, "window_delete", "pointer", result=None)
    mean = guarded(np.zeros(1, np.float32))

    def pushed(window: int | None, values: np.ndarray) -> np.ndarray:
        found = []
        for value in values:
            mean[0] = UNTOUCHED
            push(window, float(value), address(mean))
            found.append(mean[0])
        return np.array(found, np.float32)

    for size in SIZES:
        announce(f"size {size}")
        window = new(size)
        c.value(f"size {size}: exists", window is not None)
        if window is None:
            return
        c.value(f"size {size}: returns", int(push(window, 0.5, address(mean))))
        c.value(f"size {size}", pushed(window, _pushes(c.rng)))
        delete(window)
    announce("two windows, in turns")
    values = _pushes(c.rng)
    one, two = new(3), new(3)
    turns = [(pushed(one, values[i : i + 1])[0], pushed(two, -values[i : i + 1])[0]) for i in range(len(values))]
    c.value("two windows, in turns", np.array(turns, np.float32))
    delete(one)
    c.value("the second after the first was deleted", pushed(two, values[:6]))
    delete(two)
    for title, large in (("an infinity", np.inf), ("1e30", 1e30)):
        announce(title)
        window = new(3)
        c.value(f"{title} that has left", pushed(window, np.float32([*[1.5] * BEFORE, large, *[1.5] * BEFORE])))
        delete(window)
    announce("null pointers")
    delete(None)
    c.value("push to a null pointer: returns", int(push(None, 1.0, address(mean))))
    window = new(2)
    c.value("mean is a null pointer: returns", int(push(window, 1.0, None)))
    delete(window)
    sizes = {"size 0": 0, "size -1": -1, "size 2**62": TOO_LONG}
    if not os.environ.get("OPLAB_SANITIZE"):  # AddressSanitizer ends the process where operator new would throw
        sizes["size 2**60"] = NO_MEMORY
    for title, size in sizes.items():
        announce(title)
        found = new(size)
        c.value(f"{title}: null", found is None)
    announce("many windows")
    if in_use() is not None and not os.environ.get("OPLAB_SANITIZE"):

        def live() -> None:
            window = new(64)
            push(window, 1.0, address(mean))
            delete(window)

        c.value("bytes lost", lost_by(live, 200))


def _means(values: np.ndarray, size: int) -> np.ndarray:
    wide = values.astype(np.float64)
    return np.array([wide[max(0, i + 1 - size) : i + 1].mean() for i in range(len(values))], np.float32)


def expect_window(got: np.ndarray, every: np.ndarray, size: int, first: int = 0) -> None:
    """Demand the means of a window, from that of value number ``first`` on."""
    counts = np.minimum(np.arange(len(every)) + 1, size)
    expected = _means(every, size)
    likely = {
        "Before the window is full, the sum is divided by its size": expected * (counts / size),
        "The mean is that of all values": _means(every, len(every)),
        "The window is one value too long": _means(every, size + 1),
        "The window is one value too short": _means(every, max(1, size - 1)),
        "*mean was not written": np.full_like(expected, UNTOUCHED),
    }
    likely = {cause: wrong[first:] for cause, wrong in likely.items()}
    expect_close(got, expected[first:], name=f"size {size}", rtol=1e-5, atol=1e-6, likely=likely)


def judge_window(v: Judge) -> None:
    streams = [_pushes(v.rng) for _ in SIZES]
    values = _pushes(v.rng)
    with v.check("means"):
        for size, stream in zip(SIZES, streams, strict=True):
            title = f"size {size}"
            if not v.value(f"{title}: exists"):
                raise WrongAnswer(f"{title}: window_new returns a null pointer.")
            expect_returned(v, title, 0)
            every = np.concatenate([[np.float32(0.5)], stream])
            expect_window(v.array(title), every, size, first=1)
    with v.check("each window has its own values"):
        expected = np.stack([_means(values, 3), _means(-values, 3)], axis=1)
        expect_close(v.array("two windows, in turns"), expected, name="two windows, in turns", rtol=1e-5, atol=1e-6)
        after = _means(np.concatenate([-values[-3:], values[:6]]), 3)[3:]
        title = "the second after the first was deleted"
        expect_close(v.array(title), after, name=title, rtol=1e-5, atol=1e-6)
    with v.check("no memory of what has left"):
        for title in ("an infinity that has left", "1e30 that has left"):
            got = v.array(title)[-2:]  # windows of three in which the large value no longer is
            if not np.allclose(got, 1.5, rtol=1e-5):
                raise WrongAnswer(
                    f"{title}: three times 1.5 have the mean 1.5, and the function writes {got[0]:g}. A sum that values are added "
                    "to and subtracted from keeps what they have done to it."
                )
    with v.check("refusals"):
        for title in ("push to a null pointer", "mean is a null pointer"):
            expect_returned(v, title, 1)
        for title in ("size 0", "size -1", "size 2**62", "size 2**60"):
            if v.has(f"{title}: null") and not v.value(f"{title}: null"):
                raise WrongAnswer(f"{title}: window_new has to return a null pointer.")
    with v.check("memory"):
        lost = v.value("bytes lost") if v.has("bytes lost") else 0
        if lost:
            raise WrongAnswer(f"Each window keeps {lost} bytes after window_delete.")
