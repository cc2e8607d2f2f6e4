"""The two halves of a check: what :class:`Collect` writes in the learner's process, :class:`Verdict` reads in another.

Between them lie files only: one JSON file, one ``.npz`` without pickles, and plain files. Nothing that a learner's process writes is
unpickled or evaluated, and every size is capped before it is read.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import math
import os
import stat
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from oplab.course.stubs import Todo
from oplab.parity.arrays import WrongAnswer, describe

MAX_ITEMS = 400
MAX_JSON = 2 << 20
MAX_ARRAYS = 256 << 20
MAX_FILE = 64 << 20
MAX_DRAWS = 1 << 17
DIGEST = 8  # bytes
_PLAIN_DTYPES = frozenset("?bBhHiIlLqQefdFD")


class LearnerError(WrongAnswer):
    """The learner's code raised an exception; the message has its file and line."""


class EvidenceTampered(Exception):
    """The evidence is no longer what the collecting process wrote: something else was at work in its folder."""


class Apart(Exception):
    """The two halves of a check made different inputs from one seed: a fault of the check, whatever the verdict was."""


class Draws(np.random.Generator):
    """A generator that keeps a digest of what it has given out, so that two of them can be compared draw by draw.

    Attributes:
        digests: ``DIGEST`` bytes for each draw; they cover this draw and all before it: the method, the type, shape and values.
    """

    def __init__(self, bits: np.random.BitGenerator):
        super().__init__(bits)
        self.digests = bytearray()

    def note(self, name: str, value: Any) -> None:
        """Add an entry for an input that this generator did not draw: torch's generator made it, or it was computed.

        Draws are noted by themselves.
        """
        array = np.asarray(value)
        plain = array.dtype.char in _PLAIN_DTYPES
        digest = hashlib.blake2b(digest_size=DIGEST, key=bytes(self.digests[-DIGEST:]))
        digest.update(f"{name} {array.dtype.str if plain else type(value)} {array.shape}\n".encode())
        digest.update(array.tobytes() if plain else repr(value).encode())
        self.digests += digest.digest()


def _noted(name: str) -> Callable[..., Any]:
    plain = getattr(np.random.Generator, name)

    @functools.wraps(plain)
    def draw(self: Draws, *args: Any, **kwargs: Any) -> Any:
        made = plain(self, *args, **kwargs)
        self.note(name, args[0] if made is None else made)  # shuffle returns nothing
        return made

    return draw


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(Draws, _name, _noted(_name))


def rng_for(seed: int, id: str) -> Draws:
    """The generator of one exercise's inputs: both halves make the same inputs from the same seed."""
    return Draws(np.random.PCG64([seed, zlib.crc32(id.encode())]))


def learner_line(error: BaseException, file: Path) -> str:
    """``file.py, line 12`` of the deepest frame in the learner's file, or an empty string."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == file:
            return f"{file.name}, line {error.lineno}"
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
        if lines:
            return f"{file.name}, line {lines[-1]}"
        error = error.__cause__ or error.__context__
    return ""


def find_todo(error: BaseException) -> Todo | None:
    """The stub's own exception, also when an exporter has wrapped it in one of its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Todo):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def first_line(error: BaseException, limit: int = 400) -> str:
    """``Type: first line of the message``, shortened."""
    text = str(error).strip().split("\n\n")[0].strip()
    text = " ".join(text.split())
    if len(text) > limit:
        text = text[:limit] + " …"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Collect:
    """What a ``collect_…`` function works with. It gathers evidence and knows no expected value.

    Attributes:
        module: the learner's module, already imported (None for a C++ exercise).
        library: the learner's compiled library (C++ exercises only).
        rng: the generator of this exercise's inputs.
        scratch: an empty folder for files; it is deleted afterwards.
    """

    def __init__(
        self, module: ModuleType | None, file: Path, library: Path | None, rng: Draws, scratch: Path, out: Path
    ):
        self.module, self.file_of_learner, self.library = module, file, library
        self.rng, self.scratch, self._out = rng, scratch, out
        self._items: dict[str, dict[str, Any]] = {}
        self._arrays: dict[str, np.ndarray] = {}
        self._bytes = 0
        self._seals: dict[str, str] = {}

    def function(self, name: str) -> Callable[..., Any]:
        """The learner's function ``name``.

        Called with arguments that it does not take, it raises :class:`LearnerError`.

        Raises:
            Wrong: it is missing or cannot be called.
        """
        found = getattr(self.module, name, None)
        if found is None:
            raise WrongAnswer(f"The function {name} is missing from {self.file_of_learner.name}.")
        if not callable(found):
            raise WrongAnswer(f"{name} in {self.file_of_learner.name} is a {type(found).__name__}, not a function.")
        return self._checked(name, found)

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with an error of its own when it does not take the arguments that the exercise promises."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some builtins have none
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                count = len(args) + len(kwargs)
                raise LearnerError(
                    f"{name}{signature} is called with {count} argument{'s' * (count != 1)}: {error}. "
                    f"Keep the stub's signature ({self.file_of_learner.name})."
                ) from None
            return function(*args, **kwargs)

        return call

    def attempt(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call something that may fail. An exception becomes evidence under ``name``; the result is None then.

        The stub's own exception passes through, and so do MemoryError, SystemExit and KeyboardInterrupt.
        """
        try:
            return call(*args, **kwargs)
        except MemoryError:
            raise
        except Exception as error:
            if find_todo(error):
                raise
            self._items[name] = {
                "kind": "error",
                "type": type(error).__name__,
                "message": first_line(error),
                "where": learner_line(error, self.file_of_learner)
                or (self.file_of_learner.name if isinstance(error, LearnerError) else ""),
            }
            return None

    def value(self, name: str, value: Any) -> None:
        """Record what the learner's code returned: a tensor or array, a number, a text, a bool or None, or a tuple or list of these."""
        if self._failed(name):
            return
        self._items[name] = self._encode(name, value)

    def file(self, name: str, path: Path | str) -> None:
        """Record the bytes of a file that the learner's code was to write."""
        if self._failed(name):
            return
        path = Path(path)
        if not path.is_file():
            self._items[name] = {"kind": "missing", "file": path.name}
            return
        size = path.stat().st_size
        if size > MAX_FILE:
            self._items[name] = {"kind": "large", "file": path.name, "size": size}
            return
        copy = f"f{len(self._items)}.bin"
        self._write(copy, path.read_bytes())
        self._items[name] = {"kind": "file", "file": copy}

    def finish(self) -> dict[str, str]:
        """Write the evidence, and return a seal for each of its files: the judge reads only what still fits its seal."""
        stream = io.BytesIO()
        np.savez(stream, **self._arrays)
        self._write("arrays.npz", stream.getvalue())
        self._write("inputs.bin", bytes(self.rng.digests))
        self._write("evidence.json", json.dumps({"version": 1, "items": self._items}).encode())
        return self._seals

    def _write(self, file: str, data: bytes) -> None:
        os.umask(0o022)  # the learner's code may have set one that the judge cannot read through
        (self._out / file).write_bytes(data)
        self._seals[file] = seal(data)

    def _failed(self, name: str) -> bool:
        return self._items.get(name, {}).get("kind") == "error"

    def _encode(self, name: str, value: Any) -> dict[str, Any]:
        kind = type(value)  # exact types: a subclass could answer for itself
        if value is None:
            return {"kind": "none"}
        if kind is bool or kind is np.bool_:
            return {"kind": "bool", "value": bool(value)}
        if kind is int and abs(value) < 1 << 63:
            return {"kind": "int", "value": value}
        if kind is float or (isinstance(value, np.generic) and value.dtype.kind in "iuf"):
            return {"kind": "float", "value": repr(float(value))}
        if kind is str and len(value) <= 100_000:
            return {"kind": "text", "value": value}
        if kind in (tuple, list) and len(value) <= 64:
            return {"kind": "list", "items": [self._encode(f"{name}.{i}", entry) for i, entry in enumerate(value)]}
        array = _as_array(value)
        if array is not None and array.dtype.char in _PLAIN_DTYPES:
            self._bytes += array.nbytes
            if self._bytes > MAX_ARRAYS:
                return {"kind": "large", "file": describe(array), "size": self._bytes}
            key = f"a{len(self._arrays)}"
            self._arrays[key] = array
            return {"kind": "array", "array": key}
        return {"kind": "strange", "type": kind.__name__}


def _as_array(value: Any) -> np.ndarray | None:
    import torch

    if type(value) in (torch.Tensor, torch.nn.Parameter):
        tensor = value.detach().cpu()
        if tensor.dtype is torch.bfloat16 or tensor.layout is not torch.strided:
            return None
        return np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape))
    if type(value) is np.ndarray:
        return np.ascontiguousarray(value).reshape(value.shape)
    return None


@dataclass(frozen=True)
class Recorded:
    """An exception that :meth:`Collect.attempt` wrote down."""

    type: str
    message: str
    where: str


@dataclass(frozen=True)
class CheckResult:
    """One named check of an exercise. ``raised`` is set when the learner's own code failed, not its answer."""

    name: str
    passed: bool
    message: str
    raised: bool = False


class Verdict:
    """What a ``judge_…`` function works with: the evidence, the same inputs, and a list of named checks.

    Attributes:
        rng: a generator in the same state as the one that collect had.
        results: the checks so far.
        share: what part of the points a right answer gets, and why not all: see :meth:`award`.
    """

    def __init__(self, folder: Path, rng: Draws, seals: Mapping[str, str] | None = None):
        self.rng = rng
        self.results: list[CheckResult] = []
        self.share: tuple[float, str] | None = None
        self._folder, self._seals = folder, seals
        self._items = _items(self._read("evidence.json", MAX_JSON))
        self._arrays: dict[str, np.ndarray] | None = None

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """One named check: it fails when the block raises :class:`WrongAnswer`. Any other exception is the grader's own fault."""
        try:
            yield
        except LearnerError as error:
            self.results.append(CheckResult(name, False, str(error), raised=True))
        except WrongAnswer as error:
            self.results.append(CheckResult(name, False, str(error)))
        else:
            self.results.append(CheckResult(name, True, ""))

    def award(self, part: float, reason: str) -> None:
        """Give a right answer only ``part`` of its points, from 0 to 1; it still passes, with one point at least.

        For exercises whose entry in ``course.toml`` says ``speed = true``. ``reason`` is what the learner reads; with all of the
        points nothing is said. An answer that is wrong gets nothing, whatever is awarded.

        Raises:
            ValueError: ``part`` is not a number from 0 to 1, or less than all is given without a reason.
        """
        if not 0 <= part <= 1:
            raise ValueError(f"part is {part}")
        if part < 1 and not reason:
            raise ValueError("less than all points need a reason")
        self.share = (float(part), reason)

    @property
    def ok(self) -> bool:
        """Whether every check so far has passed: later checks that need it can be left out."""
        return all(result.passed for result in self.results)

    def error(self, name: str) -> Recorded | None:
        """The exception recorded under ``name``, or None."""
        item = self._items.get(name, {})
        if item.get("kind") != "error":
            return None
        return Recorded(*(str(item.get(key, ""))[:2000] for key in ("type", "message", "where")))

    def array(self, name: str) -> np.ndarray:
        """The tensor or array under ``name``.

        Raises:
            Wrong: something else was returned, or nothing.
        """
        value = self.value(name)
        if type(value) is not np.ndarray:
            shown = "nothing (None)" if value is None else f"a {type(value).__name__}"
            raise WrongAnswer(f"{name}: expected a tensor, got {shown}.")
        return value

    def value(self, name: str) -> Any:
        """The recorded value under ``name``: an array, number, text, bool, None, or a list of these."""
        return self._decode(name, self._item(name))

    def bytes(self, name: str) -> bytes:
        """The recorded file under ``name``."""
        item = self._item(name)
        if item.get("kind") == "missing":
            raise WrongAnswer(f"{name}: the file {str(item.get('file'))[:200]} was not written.")
        file = str(item.get("file", ""))
        if item.get("kind") != "file" or "/" in file or not file.endswith(".bin"):
            raise WrongAnswer(f"{name}: expected a file.")
        data = self._read(file, MAX_FILE)
        if data is None:
            raise WrongAnswer(f"{name}: the file is missing or larger than {MAX_FILE >> 20} MB.")
        return data

    def expect_same_inputs(self) -> None:
        """Compare the draws of both halves, as far as both have drawn: either may go on where the other has stopped.

        Without collect's list the answer fails.

        Raises:
            Apart: one draw differs, so collect and judge did not speak of the same inputs.
        """
        theirs, mine = self._read("inputs.bin", MAX_DRAWS * DIGEST), bytes(self.rng.digests)
        if theirs is None:
            message = "The exercise's run left no list of its inputs behind."
            self.results.append(
                CheckResult("evidence", False, message)
            )  # last: what else is wrong with it is said first
            return
        common = min(len(theirs), len(mine)) // DIGEST
        for draw in range(common):
            place = slice(draw * DIGEST, (draw + 1) * DIGEST)
            if theirs[place] != mine[place]:
                raise Apart(f"draw {draw + 1} of {common} that both have made differs")

    def _read(self, file: str, limit: int) -> bytes | None:
        """A file of the evidence; None if there is none, it is no plain file, or it is too large.

        Raises:
            Disturbed: it does not fit its seal.
        """
        data = None
        try:  # one look through one descriptor: what is measured is what is read
            place = os.open(self._folder / file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(place, "rb") as stream:
                found = os.fstat(place)
                if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
                    data = stream.read(limit + 1)
                    data = data if len(data) <= limit else None
        except OSError:
            pass
        if self._seals is not None and file in self._seals and (data is None or seal(data) != self._seals[file]):
            raise EvidenceTampered(f"{file} was changed after it was written.")
        return data

    def model(self, name: str) -> Any:
        """The ONNX model in the file recorded under ``name``, complete in itself (no weights in other files)."""
        from oplab.checks.graphs import parse

        return parse(self.bytes(name), name)

    def _item(self, name: str) -> dict[str, Any]:
        if name not in self._items:
            raise WrongAnswer(f"{name}: there is no such result.")
        item = self._items[name]
        kind = item.get("kind")
        if kind == "error":
            error = self.error(name)
            where = f" ({error.where})" if error.where else ""
            raise (LearnerError if error.where else WrongAnswer)(f"{name}: {error.message}{where}")
        if kind == "large":
            raise WrongAnswer(f"{name}: {str(item.get('file'))[:100]} is too large to be graded.")
        if kind == "strange":
            raise WrongAnswer(f"{name}: expected a tensor, a number or a text, got a {str(item.get('type'))[:100]}.")
        return item

    def _decode(self, name: str, item: dict[str, Any]) -> Any:
        kind, value = item.get("kind"), item.get("value")
        if kind == "none":
            return None
        if kind == "bool" and type(value) is bool:
            return value
        if kind == "int" and type(value) is int:
            return value
        if kind == "float" and type(value) is str and len(value) < 64:
            try:
                return float(value)
            except ValueError:
                return math.nan
        if kind == "text" and type(value) is str:
            return value
        if kind == "list" and type(item.get("items")) is list and len(item["items"]) <= 64:
            return [self._decode(f"{name}[{i}]", entry) for i, entry in enumerate(item["items"]) if type(entry) is dict]
        if kind == "array":
            if self._arrays is None:
                self._arrays = _arrays(self._read("arrays.npz", MAX_ARRAYS + (8 << 20)))
            if item.get("array") in self._arrays:
                return self._arrays[item["array"]]
        if kind in ("large", "strange"):
            raise WrongAnswer(
                f"{name}: expected a tensor, a number or a text, got a {str(item.get('type', 'huge array'))[:100]}."
            )
        raise WrongAnswer(f"{name}: the evidence is not what was expected.")


def one_at_a_time() -> None:
    """Let this forked process begin its first backward without a race.

    A fork leaves torch's thread pool to be made again, and once a fake tensor was made (here or in the server) the first backward
    starts eight threads that all do so at once; that ends now and then in "Invalid thread pool!" and SIGABRT (torch 2.15). So the
    pool is made here, and one processor runs the threads one after the other.
    """
    import torch

    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def seal(data: bytes) -> str:
    """A hash of evidence."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _items(data: bytes | None) -> dict[str, dict[str, Any]]:
    if data is None:
        raise WrongAnswer("The exercise's run left no evidence behind.")
    try:
        items = json.loads(data.decode("utf-8"))["items"]
    except (ValueError, KeyError, TypeError, RecursionError, UnicodeDecodeError):
        raise WrongAnswer("The evidence of the exercise's run cannot be read.") from None
    if type(items) is not dict or len(items) > MAX_ITEMS or not all(type(item) is dict for item in items.values()):
        raise WrongAnswer("The evidence of the exercise's run cannot be read.")
    return items


def _arrays(data: bytes | None) -> dict[str, np.ndarray]:
    if data is None:
        raise WrongAnswer("The exercise's run left no arrays behind.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ITEMS * 64 or sum(entry.file_size for entry in entries) > MAX_ARRAYS + (1 << 20):
                raise WrongAnswer("The arrays of the exercise's run are too large.")
            arrays = {}
            for entry in entries:
                if not entry.filename.endswith(".npy"):
                    continue
                with archive.open(entry) as stream:
                    raw = stream.read(entry.file_size + 1)  # the stated size binds: a bomb states a small one
                if len(raw) != entry.file_size:
                    raise WrongAnswer("The arrays of the exercise's run cannot be read.")
                arrays[entry.filename[:-4]] = _load_npy(raw)
            return arrays
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, zlib.error, NotImplementedError, RuntimeError):
        raise WrongAnswer("The arrays of the exercise's run cannot be read.") from None


def _load_npy(raw: bytes) -> np.ndarray:
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError("unexpected version")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=10_000)
    if dtype.char not in _PLAIN_DTYPES or dtype.hasobject:
        raise ValueError("unexpected dtype")
    if math.prod(shape) * dtype.itemsize != len(raw) - stream.tell():
        raise ValueError("the shape does not fit the data")  # else a header could ask for 100 GB
    stream.seek(0)
    return np.load(stream, allow_pickle=False)
