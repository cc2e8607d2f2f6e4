"""What each C++ exercise for ONNX Runtime goes through besides its own cases: others that use the kernel, and memory that ends.

A kernel that is right in one run of one session can still keep something for the next one, share it with another thread, read past
an input or lose memory. :func:`collect_stress` and :func:`judge_stress` look for all of it, with models and inputs of the exercise;
what does not apply is left out with a reason (``Stress.without``). Wrong results are judged with the exercise's own tolerance, and
what has to be the same is compared bit for bit.

A kernel that dies takes the process with it: each part announces itself, so that the message about the crash names it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from oplab.checks import reentrancy
from oplab.checks.evidence import Collect
from oplab.checks.guarded import guarded, guarded_feeds
from oplab.checks.judge import Judge
from oplab.checks.kernels import announce, outputs, side_by_side
from oplab.checks.leaks import in_use, lost_by
from oplab.checks.ort_errors import status
from oplab.checks.schedules import is_thrown
from oplab.checks.stress_plan import PARTS, Expect, Stress
from oplab.parity.arrays import WrongAnswer, describe

THREADS, REPEATS = 4, 24  # runs of each thread
_NEVER = 15  # seconds for one run of milliseconds: all of them can take a slow answer longer on a busy machine
RUNS, SESSIONS = 64, 10  # in one round of the search for leaks
FILL = {"behind": 0x55, "before": 0x7F}  # in each byte of an output, before the run: large in every dtype
_KEY = "stress: "


# --- collect ---------------------------------------------------------------------------------------------------------


def collect_stress(c: Collect, s: Stress) -> None:
    """Run all parts with the learner's library; the evidence is for :func:`judge_stress`."""
    alone: dict[tuple[str, str], list[np.ndarray]] = {}
    for node, run in s.plan("alone"):
        title = _title(node, run)
        announce(title)
        made = c.attempt(_KEY + title, _session, c, s.nodes[node])
        found = c.attempt(_KEY + title, made.run, None, s.feeds(node, run)) if made else None
        if found is None:
            return
        alone[node, run] = found
        c.value(_KEY + title, found)
    one_by_one = True
    for part in ("sizes", "nodes", "sessions"):
        if s.has(part):
            announce(PARTS[part])
            for number, (node, run, found) in enumerate(_others(c, s, part)):
                one_by_one &= _keep(c, f"{part} {number}", found, alone[node, run])
    # What keeps something from run to run without threads is wrong already; with them it would crash, or not, by luck.
    if s.has("threads") and one_by_one:
        announce(PARTS["threads"])
        c.value(_KEY + "threads", _on_threads(_session(c, s.nodes[s.pair[0]]), s, alone))
    if s.has("refusals"):
        _collect_refusals(c, s, alone)
    guarding = not os.environ.get("OPLAB_SANITIZE")  # the sanitizer sees by itself where arrays end, and knows the line
    c.value(_KEY + "guards", guarding)
    if s.has("bounds"):
        for guard in FILL if guarding else ():
            for run in s.runs:
                place = "at the end of" if guard == "behind" else "before"
                announce(f"{run}, with a page {place} each input and output that cannot be read or written")
                _collect_bounds(c, s, guard, run, alone[s.pair[0], run])
    c.value(_KEY + "counts memory", in_use() is not None)
    if s.has("leaks") and in_use() is not None:
        announce(PARTS["leaks"])
        _collect_leaks(c, s)


def sound(expect: Callable[[], object]) -> bool:
    """Whether the exercise's own cases are right, so that the stress tells something new: a crash in it would hide what they show.

    Args:
        expect: judges the outputs of these cases; an exception means that they are not right.
    """
    try:
        expect()
    except (WrongAnswer, LookupError, TypeError):  # outputs are missing where a run has failed
        return False
    return True


def _title(node: str, run: str) -> str:
    return f"{node}, {run}" if node else run


def _same(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    return len(one) == len(other) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def _keep(c: Collect, key: str, found: list[np.ndarray], right: list[np.ndarray]) -> bool:
    """Record None for the bits of the run that was alone, otherwise the arrays; whether they are the same."""
    same = _same(found, right)
    c.value(_KEY + key, None if same else found)
    return same


def _others(c: Collect, s: Stress, part: str) -> Iterator[tuple[str, str, list[np.ndarray]]]:
    """The results of one part, in the order of its plan."""
    plan, pair = s.plan(part), s.pair
    if part == "nodes":
        made = c.attempt(_KEY + part, _session, c, side_by_side([s.nodes[node] for node in pair]))
        for first in range(0, len(plan) if made else 0, len(pair)):
            feeds: dict[str, np.ndarray] = {}
            for k, (node, run) in enumerate(plan[first : first + len(pair)]):
                feeds |= {f"n{k}_{name}": value for name, value in s.feeds(node, run).items()}
            found = c.attempt(_KEY + part, made.run, None, feeds)
            if found is None:
                return
            for k, (node, run) in enumerate(plan[first : first + len(pair)]):
                before = sum(len(s.nodes[other].graph.output) for other in pair[:k])
                yield node, run, found[before : before + len(s.nodes[node].graph.output)]
        return
    sessions = {node: c.attempt(_KEY + part, _session, c, s.nodes[node]) for node in {node for node, _ in plan}}
    for node, run in plan:
        found = c.attempt(_KEY + part, sessions[node].run, None, s.feeds(node, run)) if sessions[node] else None
        if found is None:
            return
        yield node, run, found


def _session(c: Collect, model: onnx.ModelProto) -> Any:
    """As :func:`oplab.checks.kernels.session`, but with nothing around it: its memory is measured."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if os.environ.get("OPLAB_SANITIZE"):
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.register_custom_ops_library(str(c.library))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _on_threads(run: Any, s: Stress, alone: Mapping[tuple[str, str], list[np.ndarray]]) -> list[Any] | None:
    """The first result of a thread that is not the one of the serial run: (title of the run, arrays or the exception's text)."""
    node, titles = s.pair[0], list(s.runs)[:2]
    barrier, wrong = threading.Barrier(THREADS), []

    def work(thread: int) -> None:
        mine = {title: s.feeds(node, title) for title in titles}
        barrier.wait()
        for repeat in range(REPEATS):
            title = titles[(thread + repeat) % len(titles)]
            try:
                found = run.run(None, mine[title])
            except Exception as error:
                wrong.append([title, f"{error}"[:1000]])
                return
            if not _same(found, alone[node, title]):
                wrong.append([title, found])
                return
            signal.setitimer(signal.ITIMER_REAL, _NEVER)

    threads = [threading.Thread(target=work, args=[number]) for number in range(THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # a thread that waits for Python's lock gets it while the others compute
    # Threads that spoil malloc's lists can wait for each other without end: the signal ends the process then.
    signal.setitimer(signal.ITIMER_REAL, _NEVER)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.setswitchinterval(interval)
    return wrong[0] if wrong else _reentrancy(run, s, alone)


def _reentrancy(run: Any, s: Stress, alone: Mapping[tuple[str, str], list[np.ndarray]]) -> list[Any] | None:
    """The first result, as above, of a run that other runs interrupt: threads that meet by chance may miss each other."""
    node, titles = s.pair[0], list(s.runs)[:2]
    for title, other in (titles, titles[::-1]):
        feeds = s.feeds(node, other)
        with reentrancy.interrupted(s.feeds(node, title), lambda feeds=feeds: run.run(None, feeds)) as copies:
            try:
                found = run.run(None, copies)
            except Exception as error:
                return [title, f"{error}"[:1000]]
        if not _same(found, alone[node, title]):
            return [title, found]
    return None


def _collect_refusals(c: Collect, s: Stress, alone: Mapping[tuple[str, str], list[np.ndarray]]) -> None:
    for title, (model, feeds) in s.refused.items():
        made = None if feeds is None else c.attempt(f"{_KEY}refused {title}", _session, c, model)
        if feeds is not None and made is None:
            continue  # refused before it runs, which is early enough
        said = []
        for time in ("first", "second", "third"):
            announce(f"{title}, refused for the {time} time")
            try:
                made.run(None, dict(feeds)) if made and feeds is not None else _session(c, model)
                said.append("")
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}"[:1000])
        c.value(f"{_KEY}refused {title}", said)
        if s.has("status") and feeds is not None and said[0].startswith("RuntimeException"):
            # A status of that code, or an exception: only a look at what the kernel asks ONNX Runtime for tells.
            announce(f"{title}, in ONNX Runtime's C library")
            thrown = c.attempt(f"{_KEY}thrown {title}", is_thrown, model, c.library, c.scratch, feeds)
            c.value(f"{_KEY}thrown {title}", thrown)
        same = next((node for node in s.nodes if _node(s.nodes[node]) == _node(model)), None)
        if made and same is not None:
            run = list(s.runs)[2]
            announce(f"{_title(same, run)}, in a session that has refused: {title}")
            found = c.attempt(f"{_KEY}went on {title}", made.run, None, s.feeds(same, run))
            if found is not None:
                _keep(c, f"went on {title}", found, alone[same, run])
    node, run = s.pair[0], next(iter(s.runs))
    announce(f"{_title(node, run)}, after all refusals")
    made = c.attempt(_KEY + "afterwards", _session, c, s.nodes[node])
    found = c.attempt(_KEY + "afterwards", made.run, None, s.feeds(node, run)) if made else None
    if found is not None:
        _keep(c, "afterwards", found, alone[node, run])


def _node(model: onnx.ModelProto) -> bytes:
    return model.graph.node[0].SerializeToString(deterministic=True)


def _collect_bounds(c: Collect, s: Stress, guard: Any, run: str, right: list[np.ndarray]) -> None:
    node, key = s.pair[0], f"bounds {guard} {run}"
    made = c.attempt(_KEY + key, _session, c, s.nodes[node])
    if made is None:
        return
    feeds, binding = guarded_feeds(s.feeds(node, run), guard), made.io_binding()
    found = [
        guarded(np.full(array.nbytes, FILL[guard], np.uint8).view(array.dtype).reshape(array.shape), guard)
        for array in right
    ]
    names = [value.name for value in made.get_outputs()]
    for bind, arrays in ((binding.bind_input, feeds), (binding.bind_output, dict(zip(names, found, strict=True)))):
        for name, array in arrays.items():
            bind(name, "cpu", 0, array.dtype.type, list(array.shape), array.ctypes.data)
    c.attempt(_KEY + key, made.run_with_iobinding, binding)
    changed = [name for name, value in s.feeds(node, run).items() if not _same([feeds[name]], [value])]
    c.value(f"{_KEY}changed {guard} {run}", changed)
    _keep(c, key, found, right)


def _collect_leaks(c: Collect, s: Stress) -> None:
    node = s.pair[0]
    made, feeds = _session(c, s.nodes[node]), [s.feeds(node, run) for run in list(s.runs)[2:]]

    def run() -> None:
        for each in feeds:
            made.run(None, each)

    c.value(_KEY + "leak run", lost_by(run, RUNS))
    c.value(_KEY + "leak session", lost_by(lambda: [_session(c, s.nodes[each]) for each in s.pair], SESSIONS, 32))
    for title, (model, inputs) in s.refused.items():
        if inputs is None:  # a run that fails takes memory of ONNX Runtime's own, some kilobytes each time

            def refusal(model: onnx.ModelProto = model) -> None:
                with contextlib.suppress(Exception):
                    _session(c, model)

            c.value(f"{_KEY}leak {title}", lost_by(refusal, SESSIONS))


# --- judge -----------------------------------------------------------------------------------------------------------

_KERNEL = (
    "A process has many kernels of one operator: what a constructor reads belongs into a member, not into a static or global "
    "variable."
)
_OTHERS = "Another kernel in the same process changes it: it uses something that is static or global."
_COMPUTE = (
    "One kernel object serves all runs, and several threads at once: what Compute writes belongs into local variables, not into members, "
    "static or global ones."
)


def judge_stress(v: Judge, s: Stress, expect: Expect) -> None:
    """Three named checks of what :func:`collect_stress` has recorded.

    Args:
        expect: called with the titles of a node and of a run and with the arrays that are to be judged; raises
            :class:`WrongAnswer` where they are not what that node gives for that run.
    """
    with v.check("no other node, session, run or thread changes a result"):
        for node, run in s.plan("alone"):
            _expect_alone(v, s, expect, node, run)
        for part in ("sizes", "nodes", "sessions"):
            if s.has(part):
                expect_part(v, s, expect, part)
        if s.has("bounds") and v.value(_KEY + "guards") is True:
            _expect_bounds(v, s, expect)  # first: on threads an input that is written looks like a race
        if s.has("threads"):
            _expect_threads(v, s, expect)
    if not v.ok:
        return
    if s.has("refusals"):
        with v.check("a refusal is a status each time, and a right run works after it"):
            _expect_refusals(v, s, expect)
    with v.check("it only reads its inputs, stays inside of its arrays, and frees what it allocates"):
        if s.has("bounds") and v.value(_KEY + "guards") is True:
            _expect_bounds(v, s, expect)
        if s.has("leaks") and v.value(_KEY + "counts memory") is True:
            _expect_no_leaks(v, s)


def expect_part(v: Judge, s: Stress, expect: Expect, part: str) -> None:
    """Demand for ``sizes``, ``nodes`` or ``sessions`` the bits of the runs that were alone.

    Args:
        expect: as for :func:`judge_stress`.

    Raises:
        WrongAnswer: one differs.
    """
    before = ""
    for number, (node, run) in enumerate(s.plan(part)):
        _expect_same(v, s, expect, part, f"{part} {number}", node, run, before)
        before = run


def _wrong(expect: Expect, node: str, run: str, arrays: list[np.ndarray]) -> str:
    """What the exercise says about these arrays; empty where they are right."""
    try:
        expect(node, run, arrays)
    except WrongAnswer as error:
        return str(error)
    return ""


def _confused(s: Stress, expect: Expect, node: str, run: str, arrays: list[np.ndarray]) -> str:
    """The other node, where the arrays are what that one gives for this run, and the words for it."""
    for other in s.nodes:
        if other != node and not _wrong(expect, other, run, arrays):
            return f"this is the result of {other}. {_KERNEL}"
    return ""


def _expect_alone(v: Judge, s: Stress, expect: Expect, node: str, run: str) -> None:
    arrays = _arrays(v, s, node, _title(node, run))
    if not (error := _wrong(expect, node, run, arrays)):
        return
    if confused := _confused(s, expect, node, run, arrays):
        raise WrongAnswer(f"{_title(node, run)}, in its own session, made after one with other attributes: {confused}")
    if s.has("bounds") and v.value(_KEY + "guards") is True:
        _expect_bounds(v, s, expect)  # it may know why
    raise WrongAnswer(f"{_title(node, run)}, in its own session: {error}")


def _arrays(v: Judge, s: Stress, node: str, key: str) -> list[np.ndarray]:
    return outputs(v, _KEY + key, len(s.nodes[node].graph.output))


def _expect_same(v: Judge, s: Stress, expect: Expect, part: str, key: str, node: str, run: str, before: str) -> None:
    # The bits of the run that was alone.
    where = f"{PARTS[part]}: {_title(node, run)}"
    if error := v.error(_KEY + part):
        raise WrongAnswer(f"{where}: alone it works, here ONNX Runtime says: {status(error.message)}")
    if v.value(_KEY + key) is None:
        return
    arrays = _arrays(v, s, node, key)
    if confused := _confused(s, expect, node, run, arrays):
        raise WrongAnswer(f"{where}: {confused}")
    error = _wrong(expect, node, run, arrays) or "alone the result has other bits."
    after = f" after {before}" if part == "sizes" else ""
    why = f"Something is left over from another run. {_COMPUTE}" if part == "sizes" else f"{_OTHERS} {_KERNEL}"
    raise WrongAnswer(f"{where}{after}, right in its own session: {error} {why}")


def _expect_threads(v: Judge, s: Stress, expect: Expect) -> None:
    found = v.value(_KEY + "threads")
    if found is None:
        return
    run, got = found if type(found) is list and len(found) == 2 else ("", "")
    if type(run) is not str or run not in s.runs:
        raise WrongAnswer("Expected what a thread has found, got something else.")
    node, where = s.pair[0], f"{PARTS['threads']}: {_title(s.pair[0], run)}"
    if type(got) is str:
        raise WrongAnswer(f"{where}: alone it works, here ONNX Runtime says: {status(got)} {_COMPUTE}")
    error = "the result has other bits than that of one thread."
    if type(got) is list and all(type(array) is np.ndarray for array in got):
        error = _wrong(expect, node, run, got) or error
    raise WrongAnswer(f"{where}, right on one thread: {error} {_COMPUTE}")


def _expect_refusals(v: Judge, s: Stress, expect: Expect) -> None:
    for title, (model, feeds) in s.refused.items():
        if v.error(f"{_KEY}refused {title}"):
            continue
        said = v.value(f"{_KEY}refused {title}")
        if type(said) is not list or not all(type(entry) is str for entry in said):
            raise WrongAnswer(f"{title}: expected three messages, got something else.")
        if not all(said):
            again = (
                "" if not any(said) else " It was refused only sometimes: is something left over from the first time?"
            )
            raise WrongAnswer(f"{title}: expected an error status with a sentence, but there was a result.{again}")
        if len(said) == 3 and len(said[0]) < len(said[1]) < len(said[2]):
            raise WrongAnswer(
                f"{title}: the sentence grows with each refusal, so something keeps it: {status(said[2])}"
            )
        exception = s.has("status") and feeds is not None and said[0].startswith("RuntimeException")
        if exception and not v.error(f"{_KEY}thrown {title}") and v.value(f"{_KEY}thrown {title}") is True:
            raise WrongAnswer(
                f"{title}: an exception left the kernel ({status(said[0])}). This ONNX Runtime has caught it, and nothing promises that "
                "another one does: catch it in the kernel and return a status."
            )
        same = next((node for node in s.nodes if _node(s.nodes[node]) == _node(model)), None)
        if feeds is not None and same is not None:
            _expect_after(v, s, expect, f"went on {title}", same, list(s.runs)[2])
    _expect_after(v, s, expect, "afterwards", s.pair[0], next(iter(s.runs)))


def _expect_after(v: Judge, s: Stress, expect: Expect, key: str, node: str, run: str) -> None:
    # The bits of the run that was alone, after refusals.
    if error := v.error(_KEY + key):
        raise WrongAnswer(
            f"{_title(node, run)}, after refusals: alone it works, here ONNX Runtime says: {status(error.message)}"
        )
    if v.value(_KEY + key) is not None:
        error = _wrong(expect, node, run, _arrays(v, s, node, key)) or "the result has other bits."
        raise WrongAnswer(f"{_title(node, run)}, after refusals, right before them: {error} {_COMPUTE}")


def _expect_bounds(v: Judge, s: Stress, expect: Expect) -> None:
    node = s.pair[0]
    for guard, fill in FILL.items():
        for run in s.runs:
            key = f"bounds {guard} {run}"
            if v.error(_KEY + key):
                _arrays(v, s, node, key)
            changed = v.value(f"{_KEY}changed {guard} {run}")
            name = str(changed[0])[:100] if type(changed) is list and changed else ""
            if name:
                raise WrongAnswer(
                    f"{_title(node, run)}: the kernel changes its input {name}. The inputs belong to the caller, and another "
                    "node may read them, too: write to the output, or to a copy."
                )
            if v.value(_KEY + key) is None:
                continue
            arrays = _arrays(v, s, node, key)
            error = _wrong(expect, node, run, arrays)
            unset = [np.frombuffer(bytes([fill]) * array.itemsize, array.dtype) for array in arrays]
            left = sum(int((array == value).sum()) for array, value in zip(arrays, unset, strict=True))
            if error and left:
                raise WrongAnswer(
                    f"{_title(node, run)}: {left} elements of {' and '.join(map(describe, arrays))} were not written. They hold what their "
                    "memory held before, which need not be 0."
                )
            if error:
                raise WrongAnswer(
                    f"{_title(node, run)}, with other bytes around the inputs and in the outputs: {error} The result depends on memory "
                    "that the kernel has not been given, or has not written yet."
                )


def _expect_no_leaks(v: Judge, s: Stress) -> None:
    what = {"run": "each run with every input", "session": "each session with its kernel"}
    what |= {
        title: f"each session that is refused ({title})" for title, (_, feeds) in s.refused.items() if feeds is None
    }
    for key, each in what.items():
        lost = v.value(f"{_KEY}leak {key}")
        if type(lost) is not int or lost:
            raise WrongAnswer(
                f"A memory leak: {each} keeps {lost} bytes. What new, malloc or a Get… function of the C API returns, and each OrtStatus, "
                "has to be freed or released: std::vector, std::unique_ptr, Ort::Status do it by themselves."
            )
