"""What a C++ operator of PyTorch goes through apart from single calls: calls before, after and meanwhile, errors, the ends of memory.

:func:`collect_ends` and :func:`collect_stress` run all parts, :func:`expect_alive` and :func:`expect_steady` judge them. An exercise
that cannot have one of them leaves it out with a reason. Results are compared bit for bit with those of the first calls, one after
the other, whose values the exercise judges itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal

import numpy as np

from oplab.checks import reentrancy
from oplab.checks.children import wait_for
from oplab.checks.evidence import Collect, Evidence
from oplab.checks.guarded import guarded
from oplab.checks.leaks import lost_by
from oplab.parity.arrays import WrongAnswer, describe

PARTS = ("again", "threads", "reentrancy", "refused", "memory", "leak")
THREADS, ROUNDS = 4, 3
COUNTED = 12  # how often all calls are made between two looks at the memory in use
PATIENCE = 15  # seconds for one part, which takes a quarter of a second on an idle machine

_MADE = "a tensor that the operator has made"
Arguments = tuple[Any, ...]  # arrays become tensors, everything else is passed on


@dataclass(frozen=True)
class Stress:
    """The calls to make.

    Attributes:
        calls: arguments by title, of several sizes.
        large: arguments whose arrays are larger than a page, to be stopped at in the middle.
        refused: arguments that the operator has to refuse.
        names: of the arguments that are arrays, for messages.
        without: parts (:data:`PARTS`) that are left out, each with its reason.
    """

    calls: Mapping[str, Arguments]
    large: Arguments
    refused: Mapping[str, Arguments]
    names: Sequence[str]
    without: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def collect_ends(c: Collect, operator: Callable[..., Any], stress: Stress) -> bool:
    """Make the calls in a process that they may end, each tensor next to an inaccessible page. To be called first.

    Tensors that the operator makes are filled with NaN, or the largest integer, from now on: what it does not write is seen.

    Returns:
        False where a call has ended that process: then nothing may be called any more, and :func:`expect_alive` says why.
    """
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    found = "" if "memory" in stress.without else _in_a_child(lambda tell: _run_guarded(operator, stress, tell))
    c.value("stress: memory", found)
    return not found


def collect_stress(c: Collect, operator: Callable[..., Any], stress: Stress) -> bool:
    """Run the other parts; their results are evidence.

    Returns:
        False where a call ends the process or does not return: then nothing may be called any more.
    """
    calls, refused = list(stress.calls.values()), list(stress.refused.values())
    parts: dict[str, Callable[[], None]] = {
        "again": lambda: _again(c, operator, calls),
        "threads": lambda: _threads(c, operator, calls),
        "reentrancy": lambda: _reentrancy(c, operator, stress.large, calls),
        "refused": lambda: _after_refusals(c, operator, refused, calls[0]),
        "leak": lambda: c.value("stress: leak", _growth(operator, calls, refused)),
    }
    # An operator may keep a lock when it throws: the next call then never returns, and neither would this thread.
    for part in [name for name in parts if name not in stress.without]:
        if part == "threads":
            ended = _in_a_child(lambda tell: _run_threads(operator, stress, tell))
            c.value("stress: ended by threads", ended)
            if ended:
                return False
        runner = threading.Thread(target=c.attempt, args=(f"stress: {part} ended", parts[part]), daemon=True)
        runner.start()
        runner.join(PATIENCE)
        if runner.is_alive():
            c.value("stress: stuck", part)
            return False
    c.value("stress: stuck", "")
    return True


def _outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _tensors(arguments: Sequence[Any]) -> list[Any]:
    import torch

    return [torch.from_numpy(entry) if isinstance(entry, np.ndarray) else entry for entry in arguments]


def _again(c: Collect, operator: Callable[..., Any], calls: Sequence[Arguments]) -> None:
    """Each call once, then all of them again, back and forth; what the first ones returned is looked at last."""
    made = [_tensors(arguments) for arguments in calls]
    first, copies = [], []
    for arguments in made:
        first.append(_outputs(operator(*arguments)))
        copies.append([entry.clone() for entry in first[-1]])
    c.value("stress: first", copies)
    order = [*range(len(made)), *reversed(range(len(made))), *range(len(made))]
    for number in order:
        last = _outputs(operator(*made[number]))
        c.value(f"stress: again {number}", last)
    c.value("stress: kept", first)
    c.value("stress: inputs", [[entry for entry in call if hasattr(entry, "shape")] for call in made])
    # The same tensors with other values: a result that is kept by the address of its inputs is now wrong.
    mine = [entry.clone() if hasattr(entry, "clone") else entry for entry in made[0]]
    before = _outputs(operator(*mine))
    for entry in mine:
        if hasattr(entry, "mul_") and entry.is_floating_point():
            entry.mul_(-2)
    c.value("stress: changed", _outputs(operator(*mine)))
    c.value("stress: before the change", before)
    fresh = [entry.clone() if hasattr(entry, "clone") else entry for entry in mine]
    c.value("stress: as changed", _outputs(operator(*fresh)))


def _threads(c: Collect, operator: Callable[..., Any], calls: Sequence[Arguments]) -> None:
    """Four threads at once, each with another call first."""
    found: list[list[Any]] = [[None] * len(calls) for _ in range(THREADS)]
    together = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        together.wait()
        for step in range(ROUNDS * len(calls)):
            number = (thread + step) % len(calls)
            found[thread][number] = _outputs(operator(*_tensors(calls[number])))

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(len(calls)):
        c.value(f"stress: threads {number}", [results[number] for results in found])


def _run_threads(operator: Callable[..., Any], stress: Stress, tell: Callable[[str], None]) -> None:
    """Both parts with threads, in a process that they may end."""
    tell("Several threads call the operator at once.")
    nowhere: Any = SimpleNamespace(value=lambda name, value: None)
    calls = list(stress.calls.values())
    with contextlib.suppress(Exception):  # it is judged where the calls are made again
        _threads(nowhere, operator, calls)
        if "reentrancy" not in stress.without:
            _reentrancy(nowhere, operator, stress.large, calls)


def _reentrancy(c: Collect, operator: Callable[..., Any], large: Arguments, calls: Sequence[Arguments]) -> None:
    """A call that stops in the middle of its inputs, where a second thread makes another call."""
    c.value("stress: undisturbed", _outputs(operator(*_tensors(large))))
    others, during = [_tensors(arguments) for arguments in calls], []
    arrays = {str(place): entry for place, entry in enumerate(large) if isinstance(entry, np.ndarray)}
    with reentrancy.interrupted(arrays, lambda: during.append(operator(*others[len(during) % len(others)]))) as copies:
        arguments = [copies.get(str(place), entry) for place, entry in enumerate(large)]
        c.value("stress: interrupted", _outputs(operator(*_tensors(arguments))))
    c.value("stress: meanwhile", [_outputs(result) for result in during[: len(calls)]])


def _after_refusals(c: Collect, operator: Callable[..., Any], refused: Sequence[Arguments], good: Arguments) -> None:
    """Calls that have to fail, several times, and then a good one."""
    for arguments in refused * 3:
        _quietly(operator, arguments)
    c.value("stress: after errors", _outputs(operator(*_tensors(good))))


def _quietly(operator: Callable[..., Any], arguments: Arguments) -> None:
    try:
        operator(*_tensors(arguments))
    except Exception:  # whether it fails is judged elsewhere
        pass


# --- memory --------------------------------------------------------------------------------------------------------


def _growth(operator: Callable[..., Any], calls: Sequence[Arguments], refused: Sequence[Arguments]) -> list[int]:
    """The bytes that all calls together leave in use, and those that the refused calls leave."""
    found = []
    for chosen in (calls, refused):
        made = [tuple(_tensors(arguments)) for arguments in chosen]
        found.append(lost_by(lambda made=made: [_quietly(operator, arguments) for arguments in made], COUNTED))
    return found


def _in_a_child(work: Callable[[Callable[[str], None]], None]) -> str:
    """What work said last before it ended its process, and how it ended; an empty text where it has not.

    Args:
        work: is called in a fork, with a function that notes a sentence.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = _FAULT
        try:
            os.close(reading)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            work(lambda sentence: os.write(writing, f"{sentence}\n".encode()) and None)
            os.write(writing, _DONE)
            code = 0
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read(1 << 16)
    code = wait_for(child)
    sentences = said.decode(errors="replace").splitlines()[-2:] or [""]
    if code == _FAULT:
        raise RuntimeError(f"the calls in their own process: {sentences[-1]}")
    if said.endswith(_DONE) or code > 0:  # a sanitizer exits, and has more to say
        return ""
    if sentences[-1].startswith("It "):
        return " ".join(sentences)
    if code == 0:
        return f"{sentences[-1]} The process ends: something calls exit."
    if -code == signal.SIGALRM:
        return f"{sentences[-1]} It does not return. {_LOCK}"
    return f"{sentences[-1]} The process ends with {signal.Signals(-code).name}."


_FAULT, _DONE = 3, b"done\n"  # the exit status of a child that has failed itself; the last words of one that has not


def _run_guarded(operator: Callable[..., Any], stress: Stress, tell: Callable[[str], None]) -> None:
    """Call the operator with every tensor, also those that it makes, between inaccessible pages; then the calls to refuse."""
    import torch

    known: dict[str, np.ndarray] = {}

    def on_fault(address: int) -> None:
        tell(_near(address, known))

    def made(like: torch.Tensor, size: Sequence[int], dtype: torch.dtype | None, kept: bool) -> torch.Tensor:
        """A tensor between guard pages, for the operators that make one."""
        shape = torch.empty_strided(tuple(like.shape), like.stride(), dtype=dtype or like.dtype, device="meta")
        shape = torch.empty_like(shape) if kept else torch.empty(tuple(size), dtype=shape.dtype, device="meta")
        memory = guarded(np.zeros(shape.numel() * shape.element_size(), np.uint8), guard)
        known[_MADE] = memory
        if not shape.numel():
            return torch.from_numpy(memory).view(shape.dtype).reshape(shape.shape)
        return torch.from_numpy(memory).view(shape.dtype).as_strided(shape.shape, shape.stride())

    aten = torch.library.Library("aten", "IMPL")
    aten.impl(
        "empty_like",
        lambda x, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None: made(
            x, x.shape, dtype, memory_format in (None, torch.preserve_format)
        ),
        "CPU",
    )
    aten.impl(
        "new_empty",
        lambda x, size, dtype=None, layout=None, device=None, pin_memory=None: made(x, size, dtype, False),
        "CPU",
    )
    names = [argument.name for argument in operator._schema.arguments]
    reentrancy.on_faults(on_fault)
    for guard, turned in (("behind", False), ("before", False), ("behind", True)):
        for title, arguments in stress.calls.items():
            known.clear()
            tell(f"{title}{', transposed' * turned}:")
            held = [_held(entry, guard, turned) for entry in arguments]
            known.update(
                {name: entry for name, entry in zip(names, held, strict=False) if isinstance(entry, np.ndarray)}
            )
            _quietly(operator, tuple(held))  # an exception is judged where the call is made again
    for title, arguments in stress.refused.items():
        known.clear()
        tell(f"{title}, which has to be refused with STD_TORCH_CHECK:")
        _quietly(operator, arguments)


def _held(entry: Any, guard: Literal["behind", "before"], turned: bool) -> Any:
    """An argument between guard pages, in the memory order of its transpose where that is asked for; a number as it is."""
    if not isinstance(entry, np.ndarray):
        return entry
    return guarded(entry.T, guard).T if turned else guarded(entry, guard)


def _near(address: int, arrays: Mapping[str, np.ndarray]) -> str:
    """Where an address is that must not be used, as a sentence that begins with It."""
    if address < 1 << 16:
        return "It reads or writes through a null pointer, which is what an empty tensor's data are."
    for name, array in reversed(arrays.items()):
        start = array.__array_interface__["data"][0]
        end = start + array.nbytes
        if end <= address < end + (1 << 12):
            return f"It reads or writes {_behind(address - end)} of {_named(name, array)}."
        if start - (1 << 12) <= address < start:
            return f"It reads or writes before the beginning of {_named(name, array)}."
    return "It reads or writes outside of its tensors."


def _named(name: str, array: np.ndarray) -> str:
    return name if name == _MADE else f"{name}, {describe(array)}"


def _behind(distance: int) -> str:
    return "just after the end" if distance < 16 else f"{distance} bytes after the end"


# --- the judge's side ----------------------------------------------------------------------------------------------


def expect_steady(v: Evidence, stress: Stress, expect: Callable[[str, list[np.ndarray]], None]) -> None:
    """Judge what :func:`collect_stress` has left.

    Args:
        stress: made of the same draws as the one that collect had.
        expect: judges the outputs of one of ``stress.calls``, by its title: raises WrongAnswer.

    Raises:
        WrongAnswer: what one of the parts has found, with its cause.
    """
    parts = [part for part in PARTS if part not in stress.without]
    _expect_ended(v, parts)
    if not v.has("stress: first"):
        _expect_returned(v)
    titles = list(stress.calls)
    first = [_arrays(entry) for entry in v.value("stress: first")]
    for title, outputs in zip(titles, first, strict=True):
        expect(title, outputs)
    if "again" in parts:
        _expect_again(v, titles, first)
    if "threads" in parts and v.has("stress: ended by threads") and v.value("stress: ended by threads"):
        raise WrongAnswer(f"{v.value('stress: ended by threads')} {_SHARED}")
    _expect_returned(v)
    if "threads" in parts:
        for number, title in enumerate(titles):
            for outputs in v.value(f"stress: threads {number}"):
                _expect_same(
                    _arrays(outputs), first[number], f"{title}, while three other threads call the operator", _SHARED
                )
    if "reentrancy" in parts:
        _expect_same(
            _arrays(v.value("stress: interrupted")),
            _arrays(v.value("stress: undisturbed")),
            "a call that is interrupted by calls of another thread",
            _SHARED,
        )
        for title, mine, during in zip(titles, first, v.value("stress: meanwhile"), strict=False):
            _expect_same(_arrays(during), mine, f"{title}, in the middle of another thread's call", _SHARED)
    if "refused" in parts:
        _expect_same(
            _arrays(v.value("stress: after errors")),
            first[0],
            f"{titles[0]}, after calls that were refused",
            "Something of a call that has failed is left over.",
        )
    for what, grown in zip(
        ("calls", "refused calls"), v.value("stress: leak") if "leak" in parts else [], strict=False
    ):
        if grown != 0:
            count = len(stress.calls if what == "calls" else stress.refused)
            raise WrongAnswer(
                f"{count} {what} leave {grown} bytes of memory in use each time that they are made: something leaks. What new, malloc or "
                "a released pointer gives has to be freed on every way out, by an exception too; std::vector and Tensor do that."
            )


_ENDS = " The grader puts each tensor next to an inaccessible page to see it; elsewhere the call uses memory that belongs to others."
_LOCK = "A lock that is still held when an exception leaves the function is never released: std::lock_guard releases it on every way out."
_SHARED = "Calls share something: a static or global variable, or a buffer that is kept. Keep what a call works with in its own variables."


def expect_alive(v: Evidence, stress: Stress) -> None:
    """Raise what :func:`collect_ends` has found, before other checks miss their evidence, and what makes every result wrong.

    Raises:
        WrongAnswer: the operator uses memory that is not its own, ends the process, or changes its inputs.
    """
    found = v.value("stress: memory")
    if found:
        raise WrongAnswer(f"{found}{_ENDS if 'It reads' in found else ''}")
    if v.has("stress: inputs"):
        _expect_inputs_kept(v, stress)


def _expect_ended(v: Evidence, parts: Sequence[str]) -> None:
    for part in parts:
        error = v.error(f"stress: {part} ended")
        if error:
            raise WrongAnswer(f"A call that was right before raises an error {_WHEN[part]}: {error.message}")


def _expect_returned(v: Evidence) -> None:
    stuck = v.value("stress: stuck")
    if stuck:
        raise WrongAnswer(f"A call does not return {_WHEN.get(stuck, '')}. {_LOCK}")


_WHEN = {
    "again": "when it is repeated",
    "threads": "when four threads call the operator at once",
    "reentrancy": "when another thread calls the operator meanwhile",
    "refused": "after calls that were refused",
    "leak": "when it and refused calls are repeated often",
}


def _expect_inputs_kept(v: Evidence, stress: Stress) -> None:
    given = [[entry for entry in call if isinstance(entry, np.ndarray)] for call in stress.calls.values()]
    for title, before, after in zip(stress.calls, given, v.value("stress: inputs"), strict=True):
        for name, mine, theirs in zip(stress.names, before, _arrays(after), strict=False):
            if mine.tobytes() != theirs.tobytes():
                raise WrongAnswer(
                    f"{title}: {name} has other values after the call: a kernel reads its inputs and writes to a new tensor."
                )


def _expect_again(v: Evidence, titles: Sequence[str], first: Sequence[list[np.ndarray]]) -> None:
    for number, title in enumerate(titles):
        again = f"{title}, once more after calls of other sizes"
        _expect_same(
            _arrays(v.value(f"stress: again {number}")),
            first[number],
            again,
            "Something is left over from another call.",
        )
    kept = [*v.value("stress: kept"), v.value("stress: before the change")]
    for title, mine, later in zip([*titles, titles[0]], [*first, first[0]], kept, strict=True):
        why = "Two results share memory: each call has to return its own tensors."
        _expect_same(_arrays(later), mine, f"the result of {title}, looked at after later calls", why)
    changed = "a call with the tensors of the last one, whose values were changed meanwhile"
    _expect_same(
        _arrays(v.value("stress: changed")),
        _arrays(v.value("stress: as changed")),
        changed,
        "A result is kept by its inputs' address.",
    )


def _arrays(value: Any) -> list[np.ndarray]:
    if type(value) is not list or not all(type(entry) is np.ndarray for entry in value):
        raise WrongAnswer("A repeated call returned something else than tensors.")
    return value


def _expect_same(got: Sequence[np.ndarray], expected: Sequence[np.ndarray], what: str, why: str) -> None:
    """Demand equal bits."""
    if len(got) != len(expected):
        raise WrongAnswer(f"{what}: {len(got)} results instead of {len(expected)}. {why}")
    for mine, theirs in zip(expected, got, strict=True):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise WrongAnswer(f"{what}: got {describe(theirs)}, at first it was {describe(mine)}. {why}")
        if mine.tobytes() != theirs.tobytes():
            flat = np.frombuffer(mine.tobytes(), mine.dtype), np.frombuffer(theirs.tobytes(), mine.dtype)
            bad = [place for place in range(mine.size) if flat[0][place].tobytes() != flat[1][place].tobytes()]
            raise WrongAnswer(
                f"{what}: {len(bad)} of {mine.size} values differ from those of the same call alone; first {flat[1][bad[0]]} "
                f"instead of {flat[0][bad[0]]}. {why}"
            )
