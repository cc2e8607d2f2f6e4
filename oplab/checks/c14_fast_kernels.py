"""Checks of chapter 14: kernels that are right first, and whose points grow with their speed.

Each learner's library registers the domain ``lab``. Every exercise has the same three parts: ordinary runs on hard inputs, one large
input whose pieces are called in chosen orders and on several threads, and a race with a baseline on one thread. All are stressed
with other nodes, sessions and threads before the race (:mod:`oplab.checks.stress`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks import speed
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.kernels import Feeds, model_of, outputs, record, session
from oplab.checks.ort_errors import UNREGISTERED
from oplab.checks.reentrancy import interrupted
from oplab.checks.stress import collect_stress, judge_stress, sound
from oplab.checks.stress_plan import Expect, Stress
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx

Refused = tuple[Mapping[str, object], Feeds]  # attributes and inputs
ROUNDS = 7  # that are timed; one more warms up
THREADS = (1, 2, 4)


def runner(model: onnx.ModelProto, threads: int = 1, libraries: Sequence = ()) -> Callable[[Feeds], list[np.ndarray]]:
    """Runs a model in its own session."""
    from oplab import ops

    session = ops.session(model, threads=threads, libraries=list(libraries))
    return lambda feeds: session.run(None, feeds)


def collect_runs(
    c: Collect, title: str, model: onnx.ModelProto, cases: Mapping[str, Feeds]
) -> dict[str, list[np.ndarray] | None]:
    """What the learner's kernel gives for each of the cases, in one session: as evidence, and as a dict by title."""
    run, found = session(c, title, model), {}
    for name, feeds in cases.items():
        found[name] = record(c, name, run, feeds)
    return found


def collect_refused(c: Collect, make: Callable[[Mapping], onnx.ModelProto], cases: Mapping[str, Refused]) -> None:
    """What the learner's operator does with attributes and inputs that it has to refuse; ``make`` gives a model of any shapes."""
    for title, (attributes, feeds) in cases.items():
        collect_runs(c, f"refused: {title}", make(attributes), {f"refused: {title}": feeds})


def judge_refused(v: Judge, titles: Iterable[str]) -> None:
    with v.check("attributes and shapes that do not fit get a status"):
        for title in titles:
            if v.error(f"refused: {title}") is None:
                raise WrongAnswer(
                    f"{title}: expected an error status and a sentence, from the constructor or from Compute, but there was a result."
                )


def collect_schedules(c: Collect, model: onnx.ModelProto, feeds: Feeds, made: Mapping[str, tuple]) -> None:
    """One large input: with the pieces in chosen orders, and on several threads."""
    from oplab.checks.schedules import AMID, ORDERS, ScheduledSession

    for threads in THREADS:
        record(c, f"{threads} threads", session(c, f"{threads} threads", model, threads), feeds)
    scheduled = c.attempt("scheduler", ScheduledSession, model.SerializeToString(), c.library, c.scratch)
    for label, order in {**ORDERS, AMID: range}.items() if scheduled else ():
        given = {name: value.copy() for name, value in feeds.items()}
        with interrupted(given, scheduled.help_out, most=100 if label == AMID else 0) as copies:
            results = c.attempt(label, scheduled.run, copies, made, order)
        if results is not None:
            c.value(label, list(results.values()))
            c.value(f"{label}: pieces", max(scheduled.pieces, default=0))


_CAUSES = {UNREGISTERED: "The library has no such operator in the domain lab: keep the stub's last lines."}


def judge_schedules(v: Judge, count: int) -> int:
    """Demand the same bits from every number of threads and every order of the pieces.

    Returns:
        how many pieces ParallelFor got; 0 where it was not called.
    """
    from oplab.checks.schedules import AMID, ORDERS

    with v.require("every number of threads and every order of the pieces gives the same bits"):
        if v.error("scheduler"):
            raise WrongAnswer(f"In ONNX Runtime's C library the kernel fails: {v.error('scheduler').message}")
        first = outputs(v, "1 threads", count, _CAUSES)
        for label in [*ORDERS, AMID, *(f"{threads} threads" for threads in THREADS[1:])]:
            for mine, serial in zip(outputs(v, label, count, _CAUSES), first, strict=True):
                if mine.shape != serial.shape or not np.array_equal(mine, serial, equal_nan=mine.dtype.kind == "f"):
                    how = f"With {label}" if "threads" in label else f"With the pieces called {label}"
                    raise WrongAnswer(
                        f"{how}, the result differs from that of a single thread. A piece uses what another piece has written or left "
                        "in memory: give each piece its own scratch memory, and let it write only its own part of the output."
                    )
    found = v.value(f"{next(iter(ORDERS))}: pieces")
    return found if type(found) is int else 0


def judge_fast(
    v: Judge,
    stress: Stress,
    expect: Expect,
    timed: Callable[[np.random.Generator], list[Feeds]],
    expect_timed: Callable[[str, Feeds], object],
    scale: speed.Scale,
) -> None:
    """What follows the exercise's own checks: schedules, stress, the timed runs, and the points that a right answer gets.

    Args:
        timed, expect_timed: make the inputs of all rounds, and judge the outputs under the title of one.
    """
    count = len(next(iter(stress.nodes.values())).graph.output)
    pieces = judge_schedules(v, count)
    judge_stress(v, stress, expect)
    if v.ok:
        with v.require("the timed runs are right, too"):
            for number, feeds in enumerate(speed.timed(v, timed(v.rng))):
                expect_timed(f"timed, round {number}", feeds)
        speed.award(v, scale, speed.ratio(v), pieces)


# --- fuse_my_add -----------------------------------------------------------------------------------------------------

ADD_SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a row added to each row": ((19, 23), (23,)),
    "a row added to each row, two dimensions in front": ((3, 5, 101), (101,)),
    "equal shapes": ((13, 17), (13, 17)),
    "one element": ((1,), (1,)),
    "rows of one element": ((70001, 1), (1,)),
    "one long row": ((1, 99991), (99991,)),
    "no rows": ((0, 7), (7,)),
    "rows of no elements": ((5, 0), (0,)),
    "no dimensions": ((), ()),
    "rows across the borders of pieces": ((211, 997), (997,)),
}
ADD_TIMED = ((401, 1021), (1021,))
ADD_DEFAULTS = {"alpha": 3.0, "beta": 2.0}
ADD_SCALE = speed.Scale(
    "ONNX Runtime's Mul, Mul, Add",
    0.05,
    0.7,
    [
        (
            0.7,
            "the steps 'hoisted' and 'vectorised' (something in the inner loop, Data() or `i % width` for example, is done again for each "
            "element)",
        ),
    ],
)


def add_model(ranks: tuple[int, int] | None, attributes: Mapping[str, object]) -> onnx.ModelProto:
    """Without ranks, for inputs of any shape."""
    from onnx import helper

    a, b = (
        ([f"{name}{i}" for i in range(rank)] for name, rank in zip("ab", ranks, strict=True)) if ranks else (None, None)
    )
    node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="lab", **attributes)
    return model_of([node], {"a": ("float32", a), "b": ("float32", b)}, {"y": ("float32", a)})


def three_nodes(rank: int) -> onnx.ModelProto:
    """The same with ONNX's own operators."""
    from onnx import helper

    nodes = [
        helper.make_node("Mul", ["a", "alpha"], ["u"]),
        helper.make_node("Mul", ["b", "beta"], ["v"]),
        helper.make_node("Add", ["u", "v"], ["y"]),
    ]
    a, b = ["n", "m"], ["n", "m"][-rank:]
    return model_of(nodes, {"a": ("float32", a), "b": ("float32", b)}, {"y": ("float32", a)}, ADD_DEFAULTS)


def add_feeds(rng: np.random.Generator, a: Sequence[int], b: Sequence[int]) -> Feeds:
    # Below zero and above: no product or sum is lost in another, and none is 0.
    return {name: rng.uniform(-4, 4, size=tuple(shape)).astype(np.float32) for name, shape in (("a", a), ("b", b))}


def add_timed(rng: np.random.Generator) -> list[Feeds]:
    """For each round: a and b of one shape, and another a with a row."""
    rounds = []
    for _ in range(ROUNDS + 1):
        same, row = add_feeds(rng, ADD_TIMED[0], ADD_TIMED[0]), add_feeds(rng, *ADD_TIMED)
        rounds.append({"a": same["a"], "b": same["b"], "a2": row["a"], "b2": row["b"]})
    return rounds


def in_two(same: Callable, row: Callable) -> Callable[[Feeds], list[np.ndarray]]:
    return lambda feeds: [
        *same({"a": feeds["a"], "b": feeds["b"]}),
        *row({"a": feeds["a2"], "b": feeds["b2"]}),
    ]


def add_refused() -> dict[str, Refused]:
    def case(a: tuple[int, ...], b: tuple[int, ...], **attributes: object) -> Refused:
        return attributes, {"a": np.ones(a, np.float32), "b": np.ones(b, np.float32)}

    return {
        "alpha is an int": case((2, 3), (3,), alpha=2),
        "beta is a text": case((2, 3), (3,), beta="2"),
        "alpha is a list": case((2, 3), (3,), alpha=[2.0]),
        "a [6, 4], b [6]": case((6, 4), (6,)),
        "a [6, 4], b [2]": case((6, 4), (2,)),
        "a [6, 4], b [4, 6]": case((6, 4), (4, 6)),
        "a [6, 4], b [1, 4]": case((6, 4), (1, 4)),
        "a [6, 4], b a scalar": case((6, 4), ()),
        "a a scalar, b [1]": case((), (1,)),
        "a [4], b [2, 4]": case((4,), (2, 4)),
    }


ADD_NODES: dict[str, dict[str, float]] = {
    "alpha = 0.1, beta = -1.75": {"alpha": 0.1, "beta": -1.75},
    "no attributes": {},
}


def add_stress(rng: np.random.Generator) -> Stress:
    shapes = [((800, 500), (500,)), ((600, 600), (600,)), ((3, 5), (5,)), ((3, 0), (0,)), ((0, 5), (5,))]
    refused = add_refused()["a [6, 4], b [6]"]
    return Stress(
        {title: add_model((2, 1), attributes) for title, attributes in ADD_NODES.items()},
        {f"{list(a)} and {list(b)}": add_feeds(rng, a, b) for a, b in shapes},
        {"a [6, 4], b [6]": (add_model(None, refused[0]), refused[1])},
    )


NO_ALPHA = {"alpha = 0": {"alpha": 0.0, "beta": 1.5}, "beta = 0": {"alpha": 1.5, "beta": 0.0}}


def collect_fuse_my_add(c: Collect) -> None:
    cases = {title: add_feeds(c.rng, a, b) for title, (a, b) in ADD_SHAPES.items()}
    feeds = add_feeds(c.rng, (7, 9), (9,))
    found: dict[str, list[np.ndarray] | None] = {}
    for title, given in cases.items():
        found |= collect_runs(c, title, add_model((given["a"].ndim, given["b"].ndim), {}), {title: given})
    collect_runs(c, "attributes", add_model((2, 1), {"alpha": -1.5, "beta": 0.25}), {"attributes": feeds})
    feeds["a"][2, 3], feeds["b"][5] = np.inf, np.nan
    for title, attributes in NO_ALPHA.items():
        collect_runs(c, title, add_model((2, 1), attributes), {title: feeds})
    collect_runs(c, "nan", add_model((2, 1), {}), {"nan": feeds})
    collect_refused(c, lambda attributes: add_model(None, attributes), add_refused())
    large = add_feeds(c.rng, *ADD_TIMED)
    collect_schedules(c, add_model((2, 1), {}), large, {"y": (ADD_TIMED[0], "float32")})
    stress = add_stress(c.rng)
    if sound(lambda: [expect_sum(found[title][0], given) for title, given in cases.items()]):
        collect_stress(c, stress)
    made = [c.attempt("timed", runner, add_model((2, rank), {}), 1, [c.library]) for rank in (2, 1)]
    if all(made):
        speed.measure(c, in_two(*made), in_two(*(runner(three_nodes(rank)) for rank in (2, 1))), add_timed(c.rng))


def judge_fuse_my_add(v: Judge) -> None:
    cases = {title: add_feeds(v.rng, *shapes) for title, shapes in ADD_SHAPES.items()}
    special = add_feeds(v.rng, (7, 9), (9,))
    with v.check("y is alpha*a + beta*b, for every shape"):
        for title, feeds in cases.items():
            with about(f"{title}, a {describe(feeds['a'])}, b {describe(feeds['b'])}"):
                expect_sum(outputs(v, title, causes=_CAUSES)[0], feeds)
    with v.check("alpha and beta are read from the node"):
        expect_sum(outputs(v, "attributes", causes=_CAUSES)[0], special, -1.5, 0.25)
        special["a"][2, 3], special["b"][5] = np.inf, np.nan
        for title, attributes in NO_ALPHA.items():
            with about(title):
                expect_sum(outputs(v, title, causes=_CAUSES)[0], special, **attributes)
    with v.check("NaN and infinity stay where they are"):
        expect_sum(outputs(v, "nan", causes=_CAUSES)[0], special)
    judge_refused(v, add_refused())
    large = add_feeds(v.rng, *ADD_TIMED)
    with v.require("a large input is right"):
        expect_sum(outputs(v, "1 threads", causes=_CAUSES)[0], large)
    stress = add_stress(v.rng)

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        expect_sum(arrays[0], stress.runs[run], **ADD_NODES[node], guess=False)

    def expect_timed(title: str, feeds: Feeds) -> None:
        same, row = outputs(v, title, 2, _CAUSES)
        expect_sum(same, feeds)
        expect_sum(row, {"a": feeds["a2"], "b": feeds["b2"]})

    judge_fast(v, stress, expect, add_timed, expect_timed, ADD_SCALE)


def expect_sum(got: np.ndarray, feeds: Feeds, alpha: float = 3.0, beta: float = 2.0, guess: bool = True) -> None:
    """Demand alpha*a + beta*b; ``guess`` adds the cause that the places of wrong elements suggest."""
    a, b = feeds["a"].astype(np.float64), feeds["b"].astype(np.float64)
    likely = {
        "This is beta*a + alpha*b: the coefficients are swapped.": beta * a + alpha * b,
        "This is a + b: the coefficients are missing.": a + b,
    }
    if (alpha, beta) != (3.0, 2.0):
        likely["This is 3a + 2b: the attributes of the node are not read."] = 3 * a + 2 * b
    if b.shape == a.shape and a.ndim > 1 and a.size:
        first = np.broadcast_to(b.reshape(-1, a.shape[-1])[0], a.shape)
        likely[
            "b has the shape of a here, and only its first row counts: each element of a has its own element in b."
        ] = alpha * a + beta * first
    if 0 in (alpha, beta) and got.shape == a.shape:
        divided = not np.isfinite(got[np.isfinite(alpha * a + beta * b)]).all()
        likely[
            "alpha and beta can be 0: nothing may be divided by them."
            if divided
            else "0 * NaN and 0 * infinity are NaN: a coefficient of 0 skips nothing."
        ] = got
    if got.shape == a.shape and a.size > 16:
        good = np.isclose(got, alpha * a + beta * b, rtol=1e-4, atol=1e-4, equal_nan=True).ravel()
        if good[:-16].all() and not good.all():
            likely["Only the last elements are wrong: a loop in steps of 4 or 8 needs another one for the rest."] = got
        columns = good.reshape(-1, a.shape[-1])
        first = int(np.argmin(columns.all(axis=0)))  # the first column with a wrong element
        if not good.all() and 0 < a.shape[-1] - first < 8 <= first and not columns[:, first:].any():
            likely[
                f"Only the columns from {first} on are wrong, in each row: a loop in steps of 4 or 8 needs another one for the rest."
            ] = got
    if b.ndim < a.ndim and a.size:
        ahead = alpha * a + beta * b
        if got.shape == a.shape:
            wrong = np.argwhere(~np.isclose(got, ahead, rtol=1e-4, atol=1e-4, equal_nan=True))
            if len(wrong) and a.size > 32768 and np.ravel_multi_index(wrong[0], a.shape) >= 1024:
                likely[
                    "The first piece is right and a later one is not: a piece may begin in the middle of a row of b."
                ] = got
            elif len(wrong) and len(a.shape) > 1 and np.ravel_multi_index(wrong[0], a.shape) >= b.size:
                likely[
                    "The first row is right and the next is not: b is one row, which counts again for each row of a."
                ] = got
    likely = {cause: np.asarray(wrong, np.float32) for cause, wrong in likely.items() if guess or wrong is not got}
    expect_close(got, (alpha * a + beta * b).astype(np.float32), name="y", rtol=1e-5, atol=1e-5, likely=likely)


# --- deform_conv -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """The sizes of one deformable convolution."""

    n: int
    c: int
    h: int
    w: int
    o: int
    kh: int = 3
    kw: int = 3
    stride: int = 1
    pad: int = 1

    @property
    def out(self) -> tuple[int, int]:
        return (
            (self.h + 2 * self.pad - self.kh) // self.stride + 1,
            (self.w + 2 * self.pad - self.kw) // self.stride + 1,
        )

    @property
    def title(self) -> str:
        return (
            f"X [{self.n}, {self.c}, {self.h}, {self.w}], W [{self.o}, {self.c}, {self.kh}, {self.kw}], "
            f"stride {self.stride}, pad {self.pad}"
        )


WINDOWS = [
    Window(1, 4, 7, 5, 3),
    Window(2, 3, 6, 9, 5, stride=2),
    Window(1, 1, 1, 1, 1, 1, 1, pad=0),
    Window(1, 67, 5, 6, 19, 2, 3, pad=0),
    Window(3, 2, 3, 307, 2, 1, 3),
    Window(2, 5, 13, 11, 7, pad=2),
    Window(1, 2, 211, 2, 3),
    Window(1, 2, 9, 8, 2, 5, 4, pad=2),
    Window(0, 3, 5, 5, 2),
]
DEFORM_TIMED = Window(1, 32, 40, 40, 32)
DEFORM_SCHEDULED = Window(2, 5, 29, 31, 6)
DEFORM_DIMS = {"X": "float32", "W": "float32", "offset": "float32", "mask": "float32"}
DEFORM_SCALE = speed.Scale(
    "ONNX Runtime's DeformConv",
    0.01,
    0.6,
    [
        (0.03, "the step 'hoisted' (each output channel takes the same samples again)"),
        (0.2, "the step 'vectorised' (the image channels-last, so that one sample is four contiguous reads)"),
        (0.6, "the step 'blocked' (a tile of samples in the cache, multiplied with the sums in registers)"),
    ],
)


def deform_any(attributes: Mapping[str, object]) -> onnx.ModelProto:
    """The learner's operator for inputs of any shape."""
    from onnx import helper

    node = helper.make_node("DeformConv", list(DEFORM_DIMS), ["Y"], domain="lab", **attributes)
    return model_of([node], {name: (dtype, None) for name, dtype in DEFORM_DIMS.items()}, {"Y": ("float32", None)})


def deform_model(window: Window | None) -> onnx.ModelProto:
    """The learner's operator; without a window ONNX's own, for :data:`DEFORM_TIMED`."""
    from onnx import helper

    shapes = {name: (dtype, [f"{name}{i}" for i in range(4)]) for name, dtype in DEFORM_DIMS.items()}
    if window:
        node = helper.make_node("DeformConv", list(shapes), ["Y"], domain="lab", stride=window.stride, pad=window.pad)
    else:
        node = helper.make_node(
            "DeformConv", ["X", "W", "offset", "", "mask"], ["Y"], pads=[1] * 4, kernel_shape=[3, 3]
        )
    return model_of([node], shapes, {"Y": ("float32", ["n", "o", "i", "j"])})


def deform_feeds(rng: np.random.Generator, window: Window, wild: bool = False) -> Feeds:
    """Offsets of some pixels, so that some places are outside; ``wild`` adds some that are far outside, infinite or NaN."""
    taps, out = window.kh * window.kw, window.out
    offset = rng.normal(scale=1.7, size=(window.n, 2 * taps, *out))
    if offset.size > 8:  # places on a whole pixel, and between the border and the first pixel outside
        offset.flat[:: max(5, offset.size // 40)] = rng.integers(-2, 3)
    if wild:
        places = rng.choice(offset.size, size=5, replace=False)
        offset.flat[places] = [1e30, -1e30, np.inf, -np.inf, np.nan]
        # One coordinate is NaN and the other one far outside, in both orders.
        offset[0, :2, 0, 1], offset[0, :2, 1, 0], offset[0, :2, 1, 1] = (
            (np.nan, 1e30),
            (-1e30, np.nan),
            (np.inf, np.nan),
        )
    mask = rng.uniform(0.25, 1, size=(window.n, taps, *out)) * rng.choice([1, -1], size=(window.n, taps, *out))
    if wild:
        mask[0, 0, 0, 1] = 0
    made = {
        "X": rng.normal(size=(window.n, window.c, window.h, window.w)) + 1,
        "W": rng.normal(size=(window.o, window.c, window.kh, window.kw)),
        "offset": offset,
        "mask": mask,
    }
    return {name: value.astype(np.float32) for name, value in made.items()}


def deform_refused() -> dict[str, Refused]:
    def case(changed: Mapping[str, tuple[int, ...]] = {}, **attributes: object) -> Refused:
        shapes = {"X": (1, 2, 5, 6), "W": (3, 2, 3, 3), "offset": (1, 18, 3, 4), "mask": (1, 9, 3, 4)} | dict(changed)
        return attributes, {name: np.ones(shape, np.float32) for name, shape in shapes.items()}

    return {
        "stride is a float": case(stride=1.0),
        "pad is a list": case(pad=[0]),
        "stride is 0": case(stride=0),
        "pad is -1": case(pad=-1),
        "pad is 2^62": case(pad=2**62),
        "X a scalar": case({"X": ()}),
        "X [2, 5, 6]": case({"X": (2, 5, 6)}),
        "X with more channels than W": case({"X": (1, 3, 5, 6)}),
        "X smaller than W": case({"X": (1, 2, 2, 6)}),
        "offset of another image size": case({"offset": (1, 18, 3, 6)}),
        "offset of more taps": case({"offset": (1, 20, 3, 4)}),
        "mask of two images": case({"mask": (2, 9, 3, 4)}),
        "mask a scalar": case({"mask": ()}),
    }


# Each gives the same number of pixels for images of 4 or 5 rows and columns, so both nodes take the same inputs.
DEFORM_NODES = {"stride = 1, pad = 0": (1, 0), "stride = 2, pad = 1": (2, 1)}
ON_PIXELS = "no offsets"


def stressed_windows() -> dict[str, Window]:
    # Both first ones are 5 million products; in the last but one each place is a pixel, the last pixel of X too.
    windows = [(8, 64, 5, 4, 48), (6, 64, 4, 5, 64), (1, 3, 5, 5, 2), (1, 2, 4, 5, 3), (0, 2, 5, 5, 3)]
    names = ["8 images", "6 images", "one image", ON_PIXELS, "no images"]
    return {name: Window(*sizes, pad=0) for name, sizes in zip(names, windows, strict=True)}


def deform_stress(rng: np.random.Generator) -> Stress:
    windows = stressed_windows()
    runs = {name: deform_feeds(rng, window) for name, window in windows.items()}
    runs[ON_PIXELS]["offset"][:] = 0
    refused = deform_refused()["mask of two images"]
    one = next(iter(windows.values()))
    return Stress(
        {name: deform_model(replace(one, stride=stride, pad=pad)) for name, (stride, pad) in DEFORM_NODES.items()},
        runs,
        {"mask of two images": (deform_any(refused[0]), refused[1])},
    )


def collect_deform_conv(c: Collect) -> None:
    cases = {window: deform_feeds(c.rng, window) for window in WINDOWS}
    found: dict[str, list[np.ndarray] | None] = {}
    for window, feeds in cases.items():
        found |= collect_runs(c, window.title, deform_model(window), {window.title: feeds})
    window = WINDOWS[5]
    collect_runs(c, "wild", deform_model(window), {"wild": deform_feeds(c.rng, window, wild=True)})
    collect_refused(c, deform_any, deform_refused())
    window = DEFORM_SCHEDULED
    made = {"Y": ((window.n, window.o, *window.out), "float32")}
    collect_schedules(c, deform_model(window), deform_feeds(c.rng, window), made)
    stress = deform_stress(c.rng)
    if sound(lambda: [expect_deformed(found[window.title][0], window, feeds) for window, feeds in cases.items()]):
        collect_stress(c, stress)
    ours = c.attempt("timed", runner, deform_model(DEFORM_TIMED), 1, [c.library])
    if ours:
        speed.measure(c, ours, runner(deform_model(None)), deform_timed(c.rng))


def deform_timed(rng: np.random.Generator) -> list[Feeds]:
    return [deform_feeds(rng, DEFORM_TIMED) for _ in range(ROUNDS + 1)]


def judge_deform_conv(v: Judge) -> None:
    cases = {window.title: (window, deform_feeds(v.rng, window)) for window in WINDOWS}
    with v.check("Y is the deformable convolution, for every size"):
        for title, (window, feeds) in cases.items():
            with about(title):
                expect_deformed(outputs(v, title, causes=_CAUSES)[0], window, feeds)
    window, feeds = WINDOWS[5], deform_feeds(v.rng, WINDOWS[5], wild=True)
    with v.check("an offset that is far outside or infinite gives 0, one that is NaN gives NaN"):
        expect_deformed(outputs(v, "wild", causes=_CAUSES)[0], window, feeds)
    judge_refused(v, deform_refused())
    large = deform_feeds(v.rng, DEFORM_SCHEDULED)
    with v.require("a batch of two is right"):
        expect_deformed(outputs(v, "1 threads", causes=_CAUSES)[0], DEFORM_SCHEDULED, large)
    stress = deform_stress(v.rng)

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        expect_of_node(arrays[0], node, stressed_windows()[run], stress.runs[run])

    def expect_timed(title: str, feeds: Feeds) -> None:
        expect_deformed(outputs(v, title, causes=_CAUSES)[0], DEFORM_TIMED, feeds)

    judge_fast(v, stress, expect, deform_timed, expect_timed, DEFORM_SCALE)


def expect_of_node(got: np.ndarray, node: str, window: Window, feeds: Feeds) -> None:
    """Demand the convolution of one of :data:`DEFORM_NODES`; the message knows stride and pad of the other."""
    stride, pad = DEFORM_NODES[node]
    try:
        expect_deformed(got, replace(window, stride=stride, pad=pad), feeds)
    except WrongAnswer as error:
        for other_stride, other_pad in (values for values in DEFORM_NODES.values() if values != (stride, pad)):
            for mixed in ((other_stride, pad), (stride, other_pad)):
                made = deformed(replace(window, stride=mixed[0], pad=mixed[1]), feeds, out=window.out)
                if got.shape == made.shape and np.allclose(got, made, rtol=1e-3, atol=1e-2, equal_nan=True):
                    raise WrongAnswer(
                        f"this is stride = {mixed[0]} with pad = {mixed[1]}, one of them from another node: a static variable keeps what "
                        "the first node has. Read both from t."
                    ) from None
        raise error


def expect_deformed(got: np.ndarray, window: Window, feeds: Feeds) -> None:
    expected = deformed(window, feeds)
    tolerance = 1e-4 * float(np.sqrt(window.c * window.kh * window.kw))
    try:
        expect_close(got, expected, name="Y", rtol=1e-4, atol=tolerance)
        return
    except WrongAnswer as error:
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise
        wrong = str(error)
    for cause, options in KNOWN_DEFORMED.items():  # only now: each is another convolution
        made = deformed(window, feeds, **options)
        if np.allclose(made, expected, rtol=1e-4, atol=tolerance, equal_nan=True):
            continue  # in this window it is no other: a stride of 1, or 9 taps
        if np.allclose(got, made, rtol=1e-3, atol=10 * tolerance, equal_nan=True):
            raise WrongAnswer(f"{wrong} {cause}")
    good = np.isclose(got, expected, rtol=1e-3, atol=10 * tolerance, equal_nan=True)
    pixels = good.all(axis=(0, 1)).ravel()  # right in every image and every channel
    lost = (np.isnan(expected) & ~np.isnan(got)).any(axis=1)  # of each image and place
    if (good | np.isnan(expected)).all() and not (lost & (feeds["mask"] != 0).all(axis=1)).any():
        wrong += " A NaN times a mask of 0 is NaN: no tap may be skipped."
    elif (good | np.isnan(expected)).all():
        wrong += (
            " A place with a NaN coordinate gives 0 here, and has to give NaN: `y > -1 && y < h` is false for a NaN, as it is for a place "
            "far outside, and the other coordinate may be outside. Test both coordinates with `std::isnan` before you test whether the "
            "place is outside."
        )
    elif (good | np.isnan(got)).all():
        wrong += " The NaNs are not where they belong: test `y > -1 && y < h`, which is false for a NaN, before you compute weights."
    elif good[0].all():
        wrong += " The first image is right and a later one is not: X, offset, mask and Y each have their own part for each image."
    elif pixels[0] and pixels[np.argmin(pixels) :].mean() < 0.2:
        wrong += " The first pixels are right and the last ones are not: the last tile has fewer pixels than the others, and counts, too."
    raise WrongAnswer(wrong)


KNOWN_DEFORMED: dict[str, dict[str, object]] = {
    "A place outside reads the pixel at the border here; a pixel outside counts as 0.": {"border": "clamp"},
    "A place beyond the centre of a border pixel counts as outside here; with -1 < y < 0 the row 0 still takes part, and so on at "
    "each border.": {"border": "centres"},
    "A place between -1 and 0 counts as outside here; the row 0 still takes part in it.": {"border": "inside"},
    "A place between the last pixel and the first one outside counts as outside here; the last pixel still takes part.": {
        "border": "last"
    },
    "The offsets of a tap are y first, then x; here they are swapped.": {"swapped": True},
    "The mask is not multiplied in.": {"masked": False},
    "stride is not used.": {"strided": False},
    "Only the first 9 taps count; kh and kw can be more than 3.": {"most": 9},
    "pad is not used.": {"padded": False},
    "A tap is th * kw + tw: its row is tap / kw and its column tap % kw; here kw and kh are mixed up.": {
        "upright": True
    },
}


def deformed(
    window: Window,
    feeds: Feeds,
    *,
    border: str = "zero",
    swapped: bool = False,
    masked: bool = True,
    strided: bool = True,
    padded: bool = True,
    upright: bool = False,
    most: int | None = None,
    out: tuple[int, int] | None = None,
) -> np.ndarray:
    """The deformable convolution in float64, or one of the known mistakes.

    Args:
        most: how many taps count.
        out: rows and columns of the result, in place of the window's.
        border: ``zero`` (right), ``clamp``, ``inside`` (nothing from outside of the first and last pixel), ``last`` (nothing beyond the
            last pixel), or ``centres`` (both).
        upright: divide a tap by kh.
    """
    x, w, mask = (feeds[name].astype(np.float64) for name in ("X", "W", "mask"))
    offset = feeds["offset"]
    (oh, ow), taps = out or window.out, window.kh * window.kw
    stride, pad = window.stride if strided else 1, window.pad if padded else 0
    down, right = offset[:, 0::2], offset[:, 1::2]
    if swapped:
        down, right = right, down
    tap, across = np.arange(taps), window.kh if upright else window.kw
    # In float32, as the exercise's own sum: else a place that is rounded onto the border would be on its other side.
    rows = (np.arange(oh) * stride - pad)[None, :, None] + (tap // across)[:, None, None]
    columns = (np.arange(ow) * stride - pad)[None, None, :] + (tap % across)[:, None, None]
    y = rows.astype(np.float32)[None] + down
    z = columns.astype(np.float32)[None] + right
    nan = np.isnan(y) | np.isnan(z)
    y, z = (np.clip(np.nan_to_num(place, nan=-9.0, posinf=1e9, neginf=-1e9), -9.0, 1e6) for place in (y, z))
    gone = np.zeros(y.shape, bool)
    if border == "clamp":
        y, z = np.clip(y, 0, window.h - 1), np.clip(z, 0, window.w - 1)
    elif border == "inside":
        gone = (y < 0) | (z < 0)
    elif border == "last":
        gone = (y > window.h - 1) | (z > window.w - 1)
    elif border == "centres":
        gone = (y < 0) | (z < 0) | (y > window.h - 1) | (z > window.w - 1)
    top, left = np.floor(y).astype(np.int64), np.floor(z).astype(np.int64)
    dy, dx = (y - top).astype(np.float64), (z - left).astype(np.float64)
    sampled = np.zeros((window.n, window.c, taps, oh, ow))
    for i, j, weight in ((0, 0, (1 - dy) * (1 - dx)), (0, 1, (1 - dy) * dx), (1, 0, dy * (1 - dx)), (1, 1, dy * dx)):
        row, column = top + i, left + j
        inside = (row >= 0) & (row < window.h) & (column >= 0) & (column < window.w) & ~gone
        at = np.clip(row, 0, window.h - 1) * window.w + np.clip(column, 0, window.w - 1)
        for n in range(window.n):
            sampled[n] += x[n].reshape(window.c, -1)[:, at[n]] * (weight * inside)[n]
    sampled[np.broadcast_to(nan[:, None], sampled.shape)] = np.nan
    if masked:
        sampled *= mask[:, None]
    if most is not None:
        sampled[:, :, most:] = 0
    columns_of = sampled.reshape(window.n, window.c * taps, oh * ow)
    made = w.reshape(window.o, window.c * taps) @ columns_of
    return made.reshape(window.n, window.o, oh, ow).astype(np.float32)


# --- knn_grid --------------------------------------------------------------------------------------------------------

K = 5


def knn_any(attributes: Mapping[str, object]) -> onnx.ModelProto:
    """The operator for inputs of any shape."""
    from onnx import helper

    node = helper.make_node("KNN", ["xyz", "offset"], ["idx", "dist"], domain="lab", **attributes)
    given = {"xyz": ("float32", None), "offset": ("int64", None)}
    return model_of([node], given, {"idx": ("int32", None), "dist": ("float32", None)})


def knn_refused() -> dict[str, Refused]:
    def case(
        xyz: tuple[int, ...] = (4, 3), offset: object = (4,), *, bad: float = 0.0, **attributes: object
    ) -> Refused:
        points = np.arange(np.prod(xyz), dtype=np.float32).reshape(xyz)
        points.flat[points.size // 2] = bad
        return {"k": 2, **attributes}, {"xyz": points, "offset": np.array(offset, np.int64)}

    return {
        "a coordinate is NaN": case(bad=np.nan),
        "a coordinate is infinity": case(bad=np.inf),
        "a coordinate is minus infinity": case(bad=-np.inf),
        "k is a float": case(k=2.0),
        "k is a list": case(k=[2]),
        "k is 0": case(k=0),
        "k is -1": case(k=-1),
        "k is 2^62": case(k=2**62),
        "xyz [3, 4]": case((3, 4), (3,)),
        "xyz [12]": case((12,), (12,)),
        "xyz a scalar": case(()),
        "offset a scalar": case(offset=4),
        "offset [[4]]": case(offset=[[4]]),
        "offset falls": case(offset=(3, 2, 4)),
        "offset begins below 0": case(offset=(-1, 4)),
        "offset ends before the last point": case(offset=(3,)),
        "offset ends after the last point": case(offset=(5,)),
        "no offset for four points": case(offset=()),
    }


def knn_model(k: int) -> onnx.ModelProto:
    from onnx import helper

    node = helper.make_node("KNN", ["xyz", "offset"], ["idx", "dist"], domain="lab", k=k)
    made = {"idx": ("int32", ["n", "k"]), "dist": ("float32", ["n", "k"])}
    return model_of([node], {"xyz": ("float32", ["n", 3]), "offset": ("int64", ["b"])}, made)


TINY = "a cloud 1e-23 wide"


def knn_clouds(rng: np.random.Generator) -> dict[str, tuple[int, Feeds]]:
    """k and inputs by what is hard about them. Coordinates are small whole numbers wherever ties have to be exact."""

    def whole(n: int, low: int = -8, high: int = 9) -> np.ndarray:
        return rng.integers(low, high, size=(n, 3))

    line = whole(211)
    line[:, 1:] = [3, -2]
    flat = whole(307)
    flat[:, 2] = 1
    diagonal = np.repeat(rng.permutation(257)[:, None], 3, axis=1)
    crowd = np.concatenate([whole(250, 0, 2), whole(3, 900, 1000)])
    heaps = np.concatenate([whole(150, 0, 4), 4000 + whole(151, 0, 4)])
    near = np.array([[0, 0, 0], [4000, 1, 1], [4000, 1, 0]])
    needle = whole(199, 0, 3)
    needle[:, 0] = rng.integers(-100000, 100000, size=199)
    clouds: dict[str, tuple[int, np.ndarray, tuple[int, ...]]] = {
        "one cell that holds nearly all of the points": (K, crowd, (len(crowd),)),
        "three batches that overlap in space": (K, whole(331), (100, 131, 100)),
        # After clouds in which a search that ends too early is seen: only squares of coordinates fail here first.
        # float32 holds these coordinates, their differences and the sums of squares, but not the squares of the coordinates.
        "coordinates around 1000": (K, whole(233) / 2 + 1000, (100, 133)),
        "coordinates around 200000": (K, whole(229) + 200000, (229,)),
        # Their squares are 16 000 002 and 16 000 001, which float holds; the roots are one float.
        "distances that are equal in float although their squares differ": (2, near, (3,)),
        # Before clouds in which float and double sometimes order two squares differently. Powers of 2 keep ties exact. The squares of
        # the tiny cloud are all 0 in float, with fused multiply-add, too.
        TINY: (K, whole(227) * 2.0**-80, (227,)),
        "random points": (K, rng.uniform(-1, 1, size=(601, 3)), (601,)),
        "one point": (1, whole(1), (1,)),
        "two points, k = 1": (1, whole(2), (2,)),
        "k larger than every batch": (16, whole(23), (7, 1, 15)),
        "empty batches": (3, whole(40), (0, 25, 0, 15, 0)),
        "no points": (4, whole(0), (0,)),
        "all points equal": (K, np.full((300, 3), 7), (300,)),
        "points on a line along x": (K, line, (211,)),
        "points in a plane": (K, flat, (307,)),
        "points on a diagonal": (K, diagonal, (257,)),
        "two heaps far apart": (K, heaps, (len(heaps),)),
        "a needle": (K, needle, (199,)),
        "a cloud 1e16 wide": (K, whole(223) * 2.0**50, (223,)),
        "a box, k as large as the cloud": (60, whole(60), (60,)),
        "k = 130": (130, whole(300), (100, 200)),
    }
    return {
        title: (k, {"xyz": xyz.astype(np.float32), "offset": np.cumsum(counts).astype(np.int64)})
        for title, (k, xyz, counts) in clouds.items()
    }


KNN_TIMED_N, KNN_TIMED_K = 12007, 8  # so many that the fastest n² is far below a grid


def knn_timed(rng: np.random.Generator) -> list[Feeds]:
    return [
        {"xyz": rng.random((KNN_TIMED_N, 3), dtype=np.float32), "offset": np.array([KNN_TIMED_N], np.int64)}
        for _ in range(ROUNDS + 1)
    ]


KNN_SCALE = speed.Scale(
    "scipy's cKDTree",
    0.08,
    0.9,
    [
        (0.3, "the step 'grid' (each query looks at every point of its batch)"),
        (0.9, "two points or so in a voxel, stored voxel by voxel, and a list that keeps only the k best"),
    ],
)


STRESSED_K = (3, 7)


def knn_stress(rng: np.random.Generator) -> Stress:
    def feeds(*counts: int) -> Feeds:
        xyz = rng.integers(-8, 9, size=(sum(counts), 3)).astype(np.float32)
        return {"xyz": xyz, "offset": np.cumsum(counts, dtype=np.int64)}

    refused = knn_refused()["offset falls"]
    return Stress(
        {f"k = {k}": knn_model(k) for k in STRESSED_K},
        {
            "1300 points": feeds(1100, 200),
            "1200 points": feeds(1200),
            "9 points": feeds(2, 7),
            "no points": feeds(0),
        },
        {"offset falls": (knn_any(refused[0]), refused[1])},
    )


def collect_knn_grid(c: Collect) -> None:
    cases = knn_clouds(c.rng)
    found: dict[str, list[np.ndarray] | None] = {}
    for title, (k, feeds) in cases.items():
        found |= collect_runs(c, title, knn_model(k), {title: feeds})
    collect_refused(c, knn_any, knn_refused())
    large = {"xyz": c.rng.integers(-20, 20, size=(3001, 3)).astype(np.float32), "offset": np.array([1500, 3001])}
    made = {"idx": ((3001, K), "int32"), "dist": ((3001, K), "float32")}
    collect_schedules(c, knn_model(K), large, made)
    stress = knn_stress(c.rng)
    if sound(
        lambda: [expect_neighbours(found[title][0], feeds, k, found[title][1]) for title, (k, feeds) in cases.items()]
    ):
        collect_stress(c, stress)
    ours = c.attempt("timed", runner, knn_model(KNN_TIMED_K), 1, [c.library])
    if ours:
        from scipy.spatial import cKDTree

        speed.measure(c, ours, lambda feeds: cKDTree(feeds["xyz"]).query(feeds["xyz"], KNN_TIMED_K), knn_timed(c.rng))


def judge_knn_grid(v: Judge) -> None:
    cases = knn_clouds(v.rng)
    found: dict[str, list[np.ndarray]] = {}
    with v.require("ONNX Runtime runs it on every cloud"):
        for title in cases:
            with about(title):
                found[title] = outputs(v, title, 2, _CAUSES)
    with v.check("idx holds the nearest points of each point's batch"):
        for title, (k, feeds) in cases.items():
            with about(title):
                expect_neighbours(found[title][0], feeds, k, found[title][1])
    with v.check("dist holds their distances"):
        for title, (k, feeds) in cases.items():
            with about(title):
                dist = neighbours(feeds, k)[1]
                likely = {"These are squared distances: the square root is missing.": dist**2} if dist.any() else {}
                expect_close(found[title][1], dist, name="dist", rtol=1e-5, atol=1e-6, likely=likely)
    judge_refused(v, knn_refused())
    large = {"xyz": v.rng.integers(-20, 20, size=(3001, 3)).astype(np.float32), "offset": np.array([1500, 3001])}

    def expect_both(found: list[np.ndarray], feeds: Feeds, k: int) -> None:
        expect_close(found[1], expect_neighbours(found[0], feeds, k, found[1]), name="dist", rtol=1e-5, atol=1e-6)

    with v.require("two large batches are right"):
        expect_both(outputs(v, "1 threads", 2, _CAUSES), large, K)
    stress = knn_stress(v.rng)

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        expect_both(arrays, stress.runs[run], int(node.removeprefix("k = ")))

    def expect_timed(title: str, feeds: Feeds) -> None:
        expect_near(outputs(v, title, 2, _CAUSES), feeds["xyz"], KNN_TIMED_K)

    judge_fast(v, stress, expect, knn_timed, expect_timed, KNN_SCALE)


def expect_neighbours(got: np.ndarray, feeds: Feeds, k: int, given: np.ndarray) -> np.ndarray:
    """Demand the neighbours, and return their distances; ``given`` is the dist that came with them."""
    idx, dist = neighbours(feeds, k)
    if got.dtype == idx.dtype and np.array_equal(got, idx):
        return dist
    likely = {
        "Ties go to the lower index; here they went to the higher one.": neighbours(feeds, k, ties=-1)[0],
        "The batches are mixed up: a point has neighbours in its own batch only.": neighbours(
            {"xyz": feeds["xyz"], "offset": feeds["offset"][-1:]}, k
        )[0],
        "Your indices count from the batch's first point; they must count from the first point of xyz.": np.where(
            idx < 0, -1, idx - _first(feeds)[:, None]
        ).astype(np.int32),
    }
    likely = {cause: wrong for cause, wrong in likely.items() if not np.array_equal(wrong, idx)}
    known = any(np.array_equal(got, wrong) for wrong in likely.values())
    if got.shape == idx.shape and got.dtype == idx.dtype and not known:
        right = (got == idx).all(axis=0)
        count = int(np.argmin(right))  # the columns before the first wrong one
        if count >= 16:
            likely[f"The first {count} entries of each row are right: k can be larger than any fixed number."] = got
        elif 0 < np.ptp(feeds["xyz"]) < 1e-20:
            likely[
                "All squares are 0 in float here, so the lowest index wins, whatever its voxel. Compute the squared distances of the "
                "points and of the shell in float: in double they are more than 0, and other points are nearer."
            ] = got
        elif ((got < 0) > (idx < 0)).any():
            likely["Some neighbours are missing: the search stopped at too few voxels."] = got
        elif got.max() < len(feeds["xyz"]) and got.min() >= -1:
            far = np.sqrt(((feeds["xyz"][got] - feeds["xyz"][:, None]).astype(np.float64) ** 2).sum(2))
            far[got < 0] = 0
            far_out = np.abs(feeds["xyz"]).max() > 100 * np.ptp(feeds["xyz"], axis=0).max()
            if not far_out and given.shape == far.shape and (far > given + 1e-3 * (1 + far)).any():
                likely[
                    "The points in idx are farther away than dist states: the list of a query holds points of another query."
                ] = got
            elif (far > dist + 1e-4 * (1 + dist)).any():
                likely[
                    "The coordinates are large here, and the distances are not: take the differences of coordinates first. "
                    "|a|^2 + |b|^2 - 2ab loses them in float."
                    if far_out and (got != idx).mean() > 0.02  # fewer are wrong by the search
                    else "Points are found that are too far away: a nearer one is in a voxel that was not searched. The search may end "
                    "when the next shell of voxels is farther away than the k-th point, not when k points are found."
                ] = got
            elif len(got) == 3:
                likely["The roots are compared: different squares may have one root in float."] = got
            else:
                likely[
                    "Ties go to the lower index: compare the index where the squared distances are equal, and search the next shell of "
                    "voxels while it is not farther away than the k-th point."
                ] = got
    expect_close(got, idx, name="idx", likely=likely)
    return dist


def expect_near(given: list[np.ndarray], xyz: np.ndarray, k: int) -> None:
    """Demand the right distances, and indices that have them."""
    from scipy.spatial import cKDTree

    idx, dist = given
    expected = cKDTree(xyz).query(xyz, k)[0].astype(np.float32)
    expect_close(dist, expected, name="dist", rtol=1e-4, atol=1e-5)
    if (
        idx.shape != expected.shape
        or idx.min() < 0
        or idx.max() >= len(xyz)
        or (np.diff(np.sort(idx, 1), axis=1) == 0).any()
    ):
        raise WrongAnswer("idx: expected k different indices of points in each row.")
    far = np.sqrt(((xyz[idx].astype(np.float64) - xyz[:, None]) ** 2).sum(2)).astype(np.float32)
    expect_close(far, expected, name="the distances to the points in idx", rtol=1e-4, atol=1e-5)


def _first(feeds: Feeds) -> np.ndarray:
    """The first point of each point's batch."""
    begins = np.concatenate([[0], feeds["offset"][:-1]])
    return np.repeat(begins, np.diff(np.concatenate([[0], feeds["offset"]])))


def _batches(offset: np.ndarray) -> Iterator[tuple[int, int]]:
    yield from zip([0, *offset[:-1].tolist()], offset.tolist(), strict=True)


def neighbours(feeds: Feeds, k: int, *, ties: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The nearest points by brute force, with float32 squares as the exercise asks; ``ties=-1`` is a known mistake."""
    xyz = feeds["xyz"]
    idx, dist = np.full((len(xyz), k), -1, np.int32), np.zeros((len(xyz), k), np.float32)
    for begin, end in _batches(feeds["offset"]):
        among = xyz[begin:end]
        apart = among[None] - among[:, None]
        square = apart[..., 0] ** 2 + apart[..., 1] ** 2 + apart[..., 2] ** 2
        last = min(k, end - begin)
        # One integer for each pair: the bits of the square, which are in the order of the squares, and below them the rank that
        # decides a tie. All are different, so any way to select the smallest gives the same, and selecting is faster than sorting.
        ranks = np.arange(end - begin, dtype=np.uint64)[::ties]
        keys = (square.view(np.uint32).astype(np.uint64) << 32) | ranks
        if last < end - begin:
            keys.partition(last - 1, axis=1)
        chosen = (np.sort(keys[:, :last], axis=1) & 0xFFFFFFFF).astype(np.int64)
        order = chosen if ties == 1 else end - begin - 1 - chosen
        idx[begin:end, :last] = order + begin
        dist[begin:end, :last] = np.sqrt(np.take_along_axis(square, order, 1))
    return idx, dist
