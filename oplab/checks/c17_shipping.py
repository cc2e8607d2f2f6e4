"""Checks of chapter 17: libraries that have to load on other machines, and in other versions of ONNX Runtime.

The libraries of c17.abi_symbols are compiled for the check, with names that differ from run to run, so that what is in them is known.

The two exercises in C++ are registered by ``older_runtime.cpp``, which gives a library the functions that an older ONNX Runtime had, and
nothing in their place that it had not. Each run is in a fork, so that a crash becomes a sentence about the version that caused it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks.children import wait_for
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.parity.arrays import WrongAnswer, expect_close

if TYPE_CHECKING:
    import onnx

# --- a library in an older ONNX Runtime ------------------------------------------------------------------------------------------

DOMAIN = "c17"


@dataclass(frozen=True)
class Run:
    """A model of one node, and the runtime that it runs in.

    Attributes:
        title: for messages.
        op: the operator.
        shape: of x, float32.
        opset: the version of the domain that the model imports.
        api: 20 for an ONNX Runtime 1.20, or 0 for the one that is installed.
        patch: the last part of that runtime's version.
        step: the attribute, or None.
        refused: words that the message of an error contains; empty where a result is expected.
        again: so many sessions that live at the same time, made one after the other, and then as many in threads at once.
        full: whether that runtime refuses the domain.
    """

    title: str
    op: str
    shape: tuple[int, ...] = (7,)
    opset: int = 1
    api: int = 0
    patch: int = 0
    step: float | None = None
    refused: tuple[str, ...] = ()
    again: int = 1
    full: bool = False

    @property
    def version(self) -> str:
        """The version that the runtime gives of itself."""
        return f"1.{self.api}.{self.patch}"


def model_of(run: Run) -> onnx.ModelProto:
    """A model of one node, which says nothing about shapes."""
    from onnx import TensorProto, helper

    given = {} if run.step is None else {"step": run.step}
    node = helper.make_node(run.op, ["x"], ["y"], domain=DOMAIN, **given)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, run.opset)]
    return helper.make_model(
        helper.make_graph([node], run.op, ports[:1], ports[1:]), opset_imports=opsets, ir_version=10
    )


def compile_older(folder: Path) -> Path:
    """The library that plays an older runtime."""
    from oplab.toolchain.compiler import find_compiler

    source, made = Path(__file__).with_name("older_runtime.cpp"), folder / "older_runtime.so"
    # The sanitizer's library that is loaded into this process must not be loaded into a compiler.
    for name in ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES"):
        os.environ.pop(name, None)
    command = [*find_compiler().command, "-std=c++17", "-shared", "-fPIC", "-O1", str(source), "-o", str(made), "-ldl"]
    subprocess.run(command, check=True, timeout=300)
    return made


def collect_runs(c: Collect, runs: Sequence[Run], draw: Callable[[np.random.Generator, Run], np.ndarray]) -> None:
    """Run each model in its runtime: ``<title>`` is ``ok``, an exception's text after ``error: ``, or how the process ended."""
    older = compile_older(c.scratch)
    for number, run in enumerate(runs):
        x = draw(c.rng, run)
        made, notes, said = (c.scratch / f"{number}.{end}" for end in ("npz", "notes", "err"))
        variables = {
            "OPLAB_LIBRARY": str(c.library),
            "OPLAB_API": str(run.api),
            "OPLAB_VERSION": run.version,
            "OPLAB_NOTES": str(notes),
            "OPLAB_FULL": "1" if run.full else "",
        }
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
                os.environ.update(variables)
                _overwrite_freed_memory()
                _one(str(older if run.api else c.library), run, x, made)
            finally:
                os._exit(0)
        code = wait_for(child)
        c.value(f"{run.title}: notes", notes.read_text().split("\n")[:400] if notes.is_file() else [])
        if made.is_file():
            with np.load(made, allow_pickle=False) as found:
                c.value(run.title, str(found["state"]))
                if "y" in found:
                    c.value(f"{run.title}: y", found["y"])
        elif code < 0:
            sys.stderr.write(said.read_text(errors="replace"))  # a sanitizer's report, for the learner
            c.value(run.title, f"ended by {signal.Signals(-code).name}")
        else:
            sys.stderr.write(said.read_text(errors="replace"))
            c.value(run.title, f"ended with the exit code {code}")


def _overwrite_freed_memory() -> None:
    """What a session still uses after it was freed is then a crash, and does not depend on what comes there next."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # a C library that is not glibc
            ctypes.CDLL(None).mallopt(-6, 165)  # M_PERTURB


def _one(library: str, run: Run, x: np.ndarray, made: Path) -> None:
    import onnxruntime

    model = model_of(run).SerializeToString()
    if run.api:
        ctypes.CDLL(library)  # functions of it are in the runtime's table: it must not be unloaded
    results: list[np.ndarray] = []
    # ONNX Runtime unloads the library with its last session: what it keeps in a static variable would be new for the next one.
    alive: list[object] = []

    def once() -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 2
        alive.append(options)
        options.register_custom_ops_library(library)
        session = onnxruntime.InferenceSession(model, options)
        alive.append(session)
        results.append(session.run(None, {"x": x})[0])

    said = ""
    for _ in range(2 if run.refused else run.again):  # a refusal, too, can be asked for again
        try:
            once()
        except Exception as error:
            said = f"error: {error}"[:2000]
    if said:
        np.savez(made, state=said)
        return
    alive.clear()  # the library is unloaded, and a thread is the first to load it again
    if run.again > 1:
        threads = [threading.Thread(target=once) for _ in range(run.again)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    same = all(result.tobytes() == results[0].tobytes() for result in results)
    expected = 2 if run.refused else run.again if run.again == 1 else 2 * run.again
    state = "ok" if same and len(results) == expected else "error: not every session gives the same result"
    np.savez(made, state=state, y=results[0])


def events(v: Judge, run: Run, kind: str) -> list[int]:
    """The numbers of the events of one kind that ``older_runtime.cpp`` has noted."""
    lines = [str(line).split() for line in v.value(f"{run.title}: notes")]
    return [int(line[1]) for line in lines if len(line) == 2 and line[0] == kind and line[1].isdigit()]


def expect_alive(v: Judge, run: Run) -> str:
    """What came of a run that did not end its process.

    Raises:
        WrongAnswer: it did, with the likely cause.
    """
    state = str(v.value(run.title))
    where = f"ONNX Runtime {run.version}" if run.api else "the ONNX Runtime that is installed"
    if beyond := events(v, run, "beyond"):
        raise WrongAnswer(
            f"{run.title}: the library calls a function that is new in 1.{beyond[0]}, and this is {where}: its table ends before it, and "
            "the process has crashed."
        )
    if events(v, run, "again"):
        raise WrongAnswer(
            f"{run.title}: RegisterCustomOps returns a status that it has returned before, or one that is released already. ONNX Runtime "
            "releases each one that it gets: create a new one for each call, and `release()` it from an Ort::Status."
        )
    if state.startswith("ended"):
        asked = events(v, run, "asked")
        cause = (
            " An exception has left a function that C calls, or the library has called abort: return a status."
            if state.endswith("SIGABRT") and not sys.platform.startswith("darwin")
            else f" GetApi({asked[-1]}) has returned a null pointer, and the library has used it."
            if run.api and asked and asked[-1] > run.api
            else " It has to refuse this version before it uses the table."
            if run.refused
            else " `--sanitize` finds the line."
        )
        raise WrongAnswer(f"{run.title}: the process with {where} {state}.{cause}")
    return state


def expect_refused(v: Judge, run: Run) -> None:
    """Demand an error whose message contains the words of the run.

    Raises:
        WrongAnswer: there is a result, or another message.
    """
    state = expect_alive(v, run)
    if state == "ok":
        raise WrongAnswer(f"{run.title}: it ran, and should be refused.")
    missing = [word for word in run.refused if word not in state]
    if missing:
        raise WrongAnswer(f"{run.title}: the message does not contain {missing[0]!r}. It is: {state[7:300]!r}.")


def headers_api() -> int:
    """The version of the headers that the learner's library is compiled with: 21 for 1.21."""
    from oplab.toolchain.headers import api_version, ort_include

    return api_version(ort_include())


def _expect_equal(run: Run, y: np.ndarray, expected: np.ndarray) -> None:
    try:
        expect_close(y, expected)
    except WrongAnswer as error:
        raise WrongAnswer(f"{run.title}: {error}") from None


# --- version_guard ---------------------------------------------------------------------------------------------------------------


def guard_runs(rng: np.random.Generator) -> list[Run]:
    """The runs of c17.version_guard; the second half of versions, shapes and steps are drawn."""
    api = headers_api()
    shape = (int(rng.integers(3, 9)), int(rng.integers(4, 30)))
    step, patches = float(rng.choice([0.5, 0.125, 2.0])), [int(patch) for patch in rng.integers(0, 9, 4)]

    def older(version: int, patch: int) -> Run:
        title = f"a runtime of version 1.{version}.{patch}"
        words = (f"1.{version}.{patch}", f"1.{api}")
        return Run(title, "Quantize", shape, 1, version, patch, refused=words)

    return [
        Run("a model of last year", "Quantize", shape, 1),
        Run("a model of last year with a step", "Quantize", (5,), 1, step=step),
        Run("Quantize in a model of this year", "Quantize", shape, 2, step=step),
        Run("Quantize2 in a model of this year", "Quantize2", shape, 2, step=step),
        Run("Quantize2 in a model of version 3", "Quantize2", shape, 3),
        Run("Quantize2 in a model of version 1", "Quantize2", shape, 1, refused=("Quantize2",)),
        Run("a newer runtime", "Quantize", shape, 1, api=api + 10, patch=patches[0], again=4),
        Run(
            "no place for the domain",
            "Quantize",
            shape,
            1,
            api=api + 10,
            refused=("no place for the domain",),
            full=True,
        ),
        Run("many sessions", "Quantize", shape, 1, again=4),
        older(api - 1, patches[1]),
        older(16, patches[2]),
        older(9, patches[3]),
    ]


def draw_quantized(rng: np.random.Generator, run: Run) -> np.ndarray:
    """Values of both signs; some are halfway between two steps."""
    x = np.asarray(rng.uniform(-3, 3, run.shape), np.float32)
    x.flat[:3] = np.float32([0.5, -1.5, 2.5]) * np.float32(run.step or 0.25)
    return x


def collect_version_guard(c: Collect) -> None:
    from oplab.checks.schedules import registers_apart, registers_unordered

    runs = guard_runs(c.rng)
    pieces = c.scratch / "pieces.so"  # has no locks
    for name, ask, library in (("unordered", registers_unordered, pieces), ("apart", registers_apart, c.library)):
        child = os.fork()
        if child == 0:
            code = 2
            try:
                code = int(ask(library))
            finally:
                os._exit(code)
        code = wait_for(child)
        if code == 2:
            raise RuntimeError("What two registrations share was not found out.")
        c.value(name, code == 1)  # what crashes here does so in the runs, too
    collect_runs(c, runs, draw_quantized)


def judge_version_guard(v: Judge) -> None:
    runs = guard_runs(v.rng)
    inputs = [draw_quantized(v.rng, run) for run in runs]
    with v.check("an older runtime gets a sentence"):
        for run in runs:
            if run.refused and run.api and not run.full:
                expect_refused(v, run)
    with v.check("threads register in an order"):
        if v.value("unordered"):
            raise WrongAnswer(
                "Two threads call RegisterCustomOps: one of them uses a variable that the other one changes, and no lock orders the two. "
                "The second thread may see a domain without its operators, or make another one."
            )
    with v.check("a model of last year keeps its meaning"):
        for run, x in zip(runs, inputs, strict=True):
            if run.op == "Quantize" and not run.refused:
                _expect_quantized(v, run, x)
    with v.require("Quantize2 is new in version 2"):
        for run, x in zip(runs, inputs, strict=True):
            if run.op == "Quantize2":
                if run.refused:
                    expect_refused(v, run)
                else:
                    _expect_quantized(v, run, x)
    with v.check("calls share a domain, and lose no status"):
        for run in runs:
            if run.api:
                _expect_nothing_kept(v, run)
        if v.value("apart"):
            raise WrongAnswer(
                "Two threads call RegisterCustomOps at once: both find no domain, and each makes one. To look and to make has to be "
                "one step: a lock around both, std::call_once, or a static variable of a function."
            )


def _expect_nothing_kept(v: Judge, run: Run) -> None:
    domains, ops, made, returned, released = (
        len(events(v, run, kind)) for kind in ("domain", "op", "made", "returned", "released")
    )
    if not run.full and (domains > 1 or ops > 2):
        raise WrongAnswer(
            f"{run.title}: several calls of RegisterCustomOps have created {domains} domains and added {ops} operators, expected 1 and 2. "
            "What each call adds is kept until the process ends."
        )
    if run.full and not returned:
        raise WrongAnswer(f"{run.title}: AddCustomOpDomain has returned a status. Return it.")
    if made > returned + released:
        raise WrongAnswer(
            f"{run.title}: {made - returned - released} statuses that functions of the table have created are neither returned nor "
            "released. An attribute that a node does not have gives a status, too."
        )


def _expect_quantized(v: Judge, run: Run, x: np.ndarray) -> None:
    state = expect_alive(v, run)
    if state != "ok":
        cause = ""
        if run.op in state and "not a registered" in state:
            cause = f" A model of version {run.opset} has this operator: from which version on is it registered, and in which domain?"
        raise WrongAnswer(f"{run.title}: {state[7:400]}.{cause}")
    step = np.float32(run.step or 0.25)
    kinds = {"Quantize": step * np.trunc(x / step), "Quantize2": step * np.rint(x / step)}
    y = v.array(f"{run.title}: y")
    other = kinds["Quantize2" if run.op == "Quantize" else "Quantize"]
    if y.shape == x.shape and (y == other).all() and not (other == kinds[run.op]).all():
        raise WrongAnswer(
            f"{run.title}: {run.op} computes what the other one does. The model runs, and no message says that its meaning has changed."
        )
    _expect_equal(run, y, kinds[run.op])


# --- one_library_many_runtimes -----------------------------------------------------------------------------------------------------

OLDEST = 16
PARALLEL = 17  # ParallelFor is new in it


def runtime_runs(rng: np.random.Generator) -> list[Run]:
    """The runs of c17.one_library_many_runtimes."""
    api = headers_api()
    patches = [int(patch) for patch in rng.integers(0, 9, 12)]

    def shape() -> tuple[int, int]:
        return int(rng.integers(3, 40)), int(rng.integers(1, 20))

    def older(version: int, patch: int) -> Run:
        title = f"a runtime of version 1.{version}.{patch}"
        words = (f"1.{version}.{patch}", f"1.{OLDEST}") if version < OLDEST else ()
        return Run(title, "RowMedian", shape(), 1, version, patch, refused=words)

    versions = [api + 10, api, *range(api - 1, OLDEST - 1, -1), OLDEST - 1, 9]
    return [
        Run("the runtime that is installed", "RowMedian", shape()),
        Run("no rows", "RowMedian", (0, 3)),
        Run("many sessions", "RowMedian", shape(), again=4),
        *(older(version, patches[number]) for number, version in enumerate(versions)),
    ]


def draw_rows(rng: np.random.Generator, run: Run) -> np.ndarray:
    """Rows of numbers without an order."""
    return np.asarray(rng.uniform(-9, 9, run.shape), np.float32)


def collect_one_library_many_runtimes(c: Collect) -> None:
    runs = runtime_runs(c.rng)
    collect_runs(c, runs, draw_rows)


def judge_one_library_many_runtimes(v: Judge) -> None:
    runs = runtime_runs(v.rng)
    inputs = [draw_rows(v.rng, run) for run in runs]
    with v.check("a runtime that is too old gets a sentence"):
        for run in runs:
            if run.refused:
                expect_refused(v, run)
    with v.require("the medians, in each runtime"):
        for run, x in zip(runs, inputs, strict=True):
            if not run.refused:
                _expect_medians(v, run, x)
    with v.check("the newest table of both"):
        for run in runs:
            if run.api >= OLDEST:
                _expect_newest(v, run)
    with v.check("ParallelFor where the runtime has it"):
        for run in runs:
            if run.api >= PARALLEL and not events(v, run, "parallel"):
                raise WrongAnswer(
                    f"{run.title}: the rows were not computed by KernelContext_ParallelFor, and 1.{run.api} has it."
                )


def _expect_medians(v: Judge, run: Run, x: np.ndarray) -> None:
    state = expect_alive(v, run)
    if state != "ok":
        cause = ""
        if run.version in state:
            cause = f" 1.{run.api} has all that the operator needs. Ask for a table that it has: GetApi({min(run.api, headers_api())})."
        raise WrongAnswer(f"{run.title}: {state[7:400]}.{cause}")
    _expect_equal(run, v.array(f"{run.title}: y"), np.sort(x, axis=1)[:, (x.shape[1] - 1) // 2])


def _expect_newest(v: Judge, run: Run) -> None:
    newest = min(run.api, headers_api())
    op = max(events(v, run, "op"), default=0)
    if op > run.api:
        raise WrongAnswer(
            f"{run.title}: the member `version` of the op is {op}, and this runtime refuses an op that is newer than itself. "
            "CustomOpBase sets it to ORT_API_VERSION: set it to the version that was agreed on."
        )
    if op > newest:
        raise WrongAnswer(
            f"{run.title}: the member `version` of the op is {op}, newer than the headers, 1.{newest}: the runtime reads members of the op "
            "that it does not have."
        )
    if newest not in events(v, run, "asked"):
        asked = max((version for version in events(v, run, "asked") if version <= run.api), default=0)
        raise WrongAnswer(
            f"{run.title}: the library takes the table of 1.{asked}, expected 1.{newest}, which both know."
        )


# --- abi_symbols ---------------------------------------------------------------------------------------------------------------

# What a library of C functions may need: of the compiler's own, and none of ours.
SYSTEM = ("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
PARTS = ("exports", "needed", "versions", "paths")


@dataclass(frozen=True)
class Library:
    """A library to be compiled, and what has to be found in it.

    Attributes:
        title: what is special about it, for messages.
        code: its source.
        versions: of the other library's functions that it calls: 1.2 for ``f_1_2@ACME_1.2``.
        link: further flags of the linker.
        script: the linker's script of versions that the library defines.
        allowed: arguments that differ from those of :func:`arguments`.
        expected: what is found, by part; nothing elsewhere.
    """

    title: str
    code: str = ""
    versions: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    script: str = ""
    allowed: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Names:
    """The names that differ from run to run."""

    entry: str
    others: tuple[str, ...]
    family: str
    limit: int


def names_of(rng: np.random.Generator) -> Names:
    """Draw them: both halves draw the same."""
    words = ["".join(rng.choice(list("bdfgklmnprst"), 5)) for _ in range(6)]
    others = tuple(f"{word}_{k}" for k, word in enumerate(words[1:5]))
    return Names(f"Register_{words[0]}", others, words[5].upper(), int(rng.integers(11, 30)))


ALL_VERSIONS = ("1.2", "1.10", "1.10.1", "1.9", "2.1", "PRIVATE", "ABI_NEW")


def limits(names: Names) -> dict[str, str]:
    """The newest version of each family. 1.10 is newer than 1.9, and 1.10.1 newer than 1.10."""
    return {names.family: "1.10", "GLIBC": "99.1", "GLIBCXX": "99.1", "CXXABI": "99.1"}


def other_name(names: Names) -> str:
    """The library whose functions have versions."""
    return f"lib{names.family.lower()}.so.{names.limit}"


def libraries_of(names: Names) -> list[Library]:
    """The libraries of one run."""
    entry, (first, second, third, fourth), family = names.entry, names.others, names.family
    function = f'extern "C" int {entry}() {{ return 1; }}\n'
    here = f"-Wl,-rpath,$ORIGIN/../{names.limit}"
    needs = {"needed": [*SYSTEM, other_name(names)]}

    def versions(*found: str) -> dict[str, Sequence[str]]:
        return {"versions": sorted(f"{family}_{one}" for one in found)}

    return [
        Library("nothing is wrong", function + f"static int {first} = 3;\nint {second}();\n", link=(here,)),
        Library(
            "it exports more",
            function
            + f'extern "C" {{ int {first}() {{ return 2; }} int {second} = 3; void {third}() __attribute__((visibility("hidden"))); '
            f"void {third}() {{}} static int {fourth}() {{ return 4; }} int use() {{ return {fourth}(); }} }}\n",
            allowed={"exports": [entry, "use", "absent"]},
            expected={"exports": sorted([first, second])},
        ),
        Library(
            "it exports a weak function",
            function + f'extern "C" __attribute__((weak)) int {third}() {{ return 5; }}\n',
            expected={"exports": [third]},
        ),
        Library(
            "it exports a thread_local and a unique variable",
            function
            + f'extern "C" __thread int {second} = 6;\nasm(".globl {fourth}\\n.type {fourth}, %gnu_unique_object\\n.size {fourth}, 4\\n'
            f'.data\\n.balign 4\\n{fourth}: .long 7\\n.text");\n',
            expected={"exports": sorted([second, fourth])},
        ),
        Library(
            "it calls a function of another library",
            function,
            versions=("1.2",),
            expected={"needed": [other_name(names)]},
        ),
        Library("the other library is allowed", function, versions=("1.2", "1.9", "1.10"), allowed=needs),
        Library(
            "versions that are too new",
            function,
            versions=("1.2", "1.10", "1.10.1", "2.1"),
            allowed=needs,
            expected=versions("1.10.1", "2.1"),
        ),
        Library(
            "1.10 where 1.9 is the newest",
            function,
            versions=("1.2", "1.9", "1.10"),
            allowed={**needs, "newest": {**limits(names), family: "1.9"}},
            expected=versions("1.10"),
        ),
        Library(
            "it defines a version",
            function + f'extern "C" int {second}() {{ return 7; }}\n',
            script=f"{family}_OWN {{ global: {entry}; {second}; local: *; }};",
            expected={"exports": [second]},
        ),
        Library(
            "a version of two words",
            function,
            versions=("1.2", "ABI_NEW"),
            allowed=needs,
            expected=versions("ABI_NEW"),
        ),
        Library(
            "a version without numbers",
            function,
            versions=("1.2", "PRIVATE"),
            allowed=needs,
            expected=versions("PRIVATE"),
        ),
        Library(
            "a family that is not limited",
            function,
            versions=("2.1", "PRIVATE"),
            allowed={**needs, "newest": {"GLIBC": "99.1"}},
        ),
        Library(
            "a RUNPATH of several folders",
            function,
            link=(f"-Wl,--enable-new-dtags,-rpath,$ORIGIN:/opt/{first}:${{ORIGIN}}/lib:{second}/lib",),
            expected={"paths": sorted([f"/opt/{first}", f"{second}/lib"])},
        ),
        Library(
            "an RPATH, the older form",
            function,
            link=(f"-Wl,--disable-new-dtags,-rpath,/home/{third}/lib:$ORIGIN/..",),
            expected={"paths": [f"/home/{third}/lib"]},
        ),
        Library(
            "an empty folder in RUNPATH",
            function,
            link=("-Wl,--enable-new-dtags,-rpath,$ORIGIN::/srv",),
            expected={"paths": ["", "/srv"]},
        ),
        Library(
            "everything at once, and no symbol table besides .dynsym",
            function + f'extern "C" int {fourth}() {{ return 6; }}\n',
            versions=("2.1",),
            link=("-s", "-Wl,--disable-new-dtags,-rpath,/tmp"),
            expected={"exports": [fourth], "needed": [other_name(names)], "paths": ["/tmp"], **versions("2.1")},
        ),
        Library("a library that needs no other", function, link=("-nostdlib", "-nodefaultlibs", "-Wl,--no-as-needed")),
    ]


def arguments(library: Library, names: Names) -> dict[str, Any]:
    """What the learner's function gets besides the file."""
    return {"exports": [names.entry], "needed": list(SYSTEM), "newest": limits(names), **library.allowed}


def compile_all(names: Names, libraries: Sequence[Library], folder: Path) -> list[Path]:
    """Compile the libraries, and first the one whose functions have versions."""
    from oplab.toolchain.compiler import find_compiler

    compiler = [*find_compiler().command, "-shared", "-fPIC", "-O1", "-x", "c++"]

    def run(source: Path, made: Path, *flags: str) -> Path:
        # -x none: what follows the source is for the linker.
        subprocess.run([*compiler, str(source), "-x", "none", *flags, "-o", str(made)], check=True, timeout=300)
        return made

    def function(version: str) -> str:
        return "f_" + version.replace(".", "_")

    source, script = folder / "other.cpp", folder / "other.map"
    source.write_text("".join(f'extern "C" int {function(one)}() {{ return 1; }}\n' for one in ALL_VERSIONS))
    script.write_text("".join(f"{names.family}_{one} {{ global: {function(one)}; }};\n" for one in ALL_VERSIONS))
    other = folder / "other"
    other.mkdir()
    shared = run(source, other / "libother.so", f"-Wl,--version-script={script}", f"-Wl,-soname,{other_name(names)}")
    made = []
    for number, library in enumerate(libraries):
        source = folder / f"{number}.cpp"
        declared = "".join(f"int {function(one)}();\n" for one in library.versions)
        called = " + ".join(f"{function(one)}()" for one in library.versions)
        calls = (
            f'extern "C" {{ {declared}static __attribute__((used)) int call() {{ return {called}; }} }}\n'
            if called
            else ""
        )
        source.write_text(library.code + calls)
        against = [str(shared)] if library.versions else []
        if library.script:
            script = folder / f"{number}.map"
            script.write_text(library.script)
            against.append(f"-Wl,--version-script={script}")
        made.append(run(source, folder / f"lib{number}.so", *against, *library.link))
    return made


def collect_abi_symbols(c: Collect) -> None:
    if sys.platform != "linux":
        raise WrongAnswer(
            "The check compiles libraries for Linux, which this system does not. Grade this exercise on Linux."
        )
    names = names_of(c.rng)
    libraries = libraries_of(names)
    files = compile_all(names, libraries, c.scratch)
    function = c.function("abi_symbols")
    for library, file in zip(libraries, files, strict=True):
        given = arguments(library, names)
        before = repr(given)
        found = c.attempt(library.title, function, file, given["exports"], given["needed"], given["newest"])
        c.value(f"{library.title}: changed", repr(given) != before)
        c.value(f"{library.title}: type", _kind(found))
        if not _kind(found):
            for part in PARTS:
                c.value(f"{library.title}: {part}", found[part])


def _kind(found: Any) -> str:
    """What is wrong with the type of a result; an empty text for a dict of four lists of text."""
    if type(found) is not dict:
        return "None. Is there a return?" if found is None else f"something of type {type(found).__name__}, not a dict."
    if sorted(map(str, found)) != sorted(PARTS):
        return f"a dict with the keys {', '.join(map(str, found)) or 'of nothing'}, expected {', '.join(PARTS)}."
    for part in PARTS:
        if type(found[part]) is not list:
            return f"{part} as {type(found[part]).__name__}, not a list."
        strange = [entry for entry in found[part] if type(entry) is not str]
        if strange:
            return f"{part} with an entry of type {type(strange[0]).__name__}, not text."
    return ""


def judge_abi_symbols(v: Judge) -> None:
    names = names_of(v.rng)
    libraries = libraries_of(names)
    with v.require("four lists for each library"):
        for library in libraries:
            if v.error(library.title):
                v.value(library.title)  # raises it
            if wrong := v.value(f"{library.title}: type"):
                raise WrongAnswer(f"{library.title}: the function returned {wrong}")
            if v.value(f"{library.title}: changed"):
                raise WrongAnswer(f"{library.title}: an argument has changed. Leave the collections as they are.")
    for part in PARTS:
        with v.check(part):
            for library in libraries:
                expect_part(library, names, part, v.value(f"{library.title}: {part}"))


def expect_part(library: Library, names: Names, part: str, found: list[str]) -> None:
    """Raise what is wrong in one list, with its likely cause.

    Raises:
        WrongAnswer: it differs from what is in the library.
    """
    expected = list(library.expected.get(part, []))
    if found == expected:
        return
    missing = [entry for entry in expected if entry not in found]
    extra = [entry for entry in found if entry not in expected]
    if missing or extra:
        words = [f"{missing[0]!r} is not in {part}"] if missing else []
        words += [f"{extra[0]!r} is in {part} and should not be"] if extra else []
        raise WrongAnswer(f"{library.title}: {', and '.join(words)}. {_why(library, names, part, missing, extra)}")
    if sorted(set(found)) == expected and len(found) > len(expected):
        raise WrongAnswer(f"{library.title}: {part} has {found[0]!r} more than once.")
    raise WrongAnswer(f"{library.title}: {part} is {found}, expected it sorted: {expected}.")


def _why(library: Library, names: Names, part: str, missing: Sequence[str], extra: Sequence[str]) -> str:
    """The likely cause."""
    if part == "exports":
        if missing and "weak" in library.title:
            return "A weak symbol is defined, and libraries that are loaded globally share it."
        if missing and "unique" in library.title:
            return (
                "The type of a thread_local variable is STT_TLS, and the binding of an inline function's static variable is "
                "STB_GNU_UNIQUE, which pyelftools calls STB_LOOS. Other libraries see both."
            )
        if missing and missing[0] == names.others[1]:
            return "A variable is a symbol, too: its type is OBJECT, not FUNC."
        if missing:
            return "The list of .dynsym has what a library defines for others: each symbol that is neither undefined nor absolute."
        if extra[0] == f"{names.family}_OWN":
            return "It is the name of a version that the library defines: neither a function nor a variable, and its section is SHN_ABS."
        if extra[0].startswith("f_") or extra[0].startswith("_"):
            return "That one is undefined (SHN_UNDEF): the library asks for it."
        if extra[0] == "":
            return "The first entry of the table is empty, and local."
        if extra[0] in (names.entry, "use"):
            return "The argument `exports` allows it."
        return "It is local or hidden, and no other library sees it: .symtab has it, .dynsym has not."
    if part == "needed":
        return "DT_NEEDED of .dynamic has the names, and the argument `needed` those that are allowed."
    if part == "versions":
        if library.title == "a family that is not limited":
            return "`newest` does not name its family."
        if library.title == "a version of two words":
            return "Its family is limited, as the family ends at the first _, and what follows is not made of numbers."
        if missing and missing[0].endswith("PRIVATE") or extra and extra[0].endswith("PRIVATE"):
            return "A version that is not made of numbers is for the parts of that library alone."
        return "Compare the numbers between the dots, one after the other: 1.9 < 1.10 < 1.10.1 < 2.1."
    if missing and "older form" in library.title:
        return "DT_RPATH counts as well as DT_RUNPATH."
    if missing and missing[0] == "":
        return "An empty folder is the current one."
    if missing:
        return "It is neither $ORIGIN nor below it: on another machine, or from another folder, it is something else."
    return "The folders are separated by `:`, and those that begin with $ORIGIN or ${ORIGIN} move with the library."
