"""Evidence: what :class:`Collect` writes in the learner's process, :class:`Evidence` reads in another.

Between them are only files: one JSON file, one ``.npz`` without pickles, and plain files. Nothing that a learner's process writes is
unpickled or evaluated, and every size is capped before it is read. How an entry is written (``_encode``) and read (``_decode``) is
here for both; the judge's side, with its named checks, is :mod:`oplab.checks.judge`.
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
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from oplab.checks.draws import DIGEST, PLAIN_DTYPES, Draws
from oplab.checks.errors import LearnerError, RecordedError, find_todo, first_line, learner_line
from oplab.checks.sizes import MAX_ARRAYS, MAX_DEPTH, MAX_DRAWS, MAX_FILE, MAX_ITEMS, MAX_JSON
from oplab.errors import clean
from oplab.parity.arrays import WrongAnswer, describe

_ARTICLES = {bool: "a", int: "an", float: "a", str: "a"}


class EvidenceTampered(Exception):
    """The evidence is no longer what the collecting process wrote: something else was at work in its folder."""


def shown(value: object) -> str:
    """What a value is, in a few words: ``nothing (None)``, ``an array float32[2, 3]``, ``a list``."""
    if isinstance(value, np.ndarray):
        return f"an array {describe(value)}"
    return "nothing (None)" if value is None else f"{_ARTICLES.get(type(value), 'a')} {type(value).__name__}"


def digest(data: bytes) -> str:
    """A hash of evidence, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Collect:
    """What a ``collect_…`` function works with. It gathers evidence and knows no expected value.

    Args:
        file: the learner's file, whose lines messages name.
        out: the folder that the evidence is written to.

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
        self._digests: dict[str, str] = {}

    def function(self, name: str) -> Callable[..., Any]:
        """The learner's function ``name``.

        Called with arguments that it does not take, it raises :class:`LearnerError`.

        Raises:
            WrongAnswer: it is missing or cannot be called.
        """
        found = getattr(self.module, name, None)
        if found is None:
            raise WrongAnswer(f"The function {name} is missing from {self.file_of_learner.name}.")
        if not callable(found):
            raise WrongAnswer(f"{name} in {self.file_of_learner.name} is a {type(found).__name__}, not a function.")
        return self._checked(name, found)

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its own error when it does not take the arguments that the exercise promises."""
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

        Raises:
            Todo: the stub's own exception passes through.
            MemoryError: it passes through, and so do SystemExit and KeyboardInterrupt.
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
        self._items[name] = self._encode(value)

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
        """Write the evidence, and return a digest for each of its files: the judge reads only what still matches its digest."""
        stream = io.BytesIO()
        np.savez(stream, **self._arrays)
        self._write("arrays.npz", stream.getvalue())
        self._write("inputs.bin", bytes(self.rng.digests))
        self._write("evidence.json", json.dumps({"version": 1, "items": self._items}).encode())
        return self._digests

    def _write(self, file: str, data: bytes) -> None:
        os.umask(0o022)  # the learner's code may have set one that the judge cannot read through
        (self._out / file).write_bytes(data)
        self._digests[file] = digest(data)

    def _failed(self, name: str) -> bool:
        return self._items.get(name, {}).get("kind") == "error"

    def _encode(self, value: Any, depth: int = 0) -> dict[str, Any]:
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
        if kind in (tuple, list) and len(value) <= 64 and depth < MAX_DEPTH:
            return {"kind": "list", "items": [self._encode(entry, depth + 1) for entry in value]}
        array = _as_array(value)
        if array is not None and array.dtype.char in PLAIN_DTYPES:
            self._bytes += array.nbytes
            if self._bytes > MAX_ARRAYS:
                return {"kind": "large", "file": describe(array), "size": self._bytes}
            key = f"a{len(self._arrays)}"
            self._arrays[key] = array
            return {"kind": "array", "array": key}
        return {"kind": "strange", "type": kind.__name__}


class Evidence:
    """What a run of :class:`Collect` has left in a folder, read as data.

    Args:
        folder: where the files are.
        digests: what :meth:`Collect.finish` returned; without it no file is compared with its digest.

    Attributes:
        last_read: the name of the entry that was read last; empty before the first.

    Raises:
        WrongAnswer: the evidence is missing or cannot be read.
        EvidenceTampered: it does not match its digest.
    """

    def __init__(self, folder: Path, digests: Mapping[str, str] | None = None):
        self._folder, self._digests = folder, digests
        self._items = _items(self._read("evidence.json", MAX_JSON))
        self._arrays: dict[str, np.ndarray] | None = None
        self.last_read = ""

    def has(self, name: str) -> bool:
        """Whether anything is recorded under ``name``."""
        return name in self._items

    def error(self, name: str) -> RecordedError | None:
        """The exception recorded under ``name``, or None."""
        item = self._items.get(name, {})
        if item.get("kind") != "error":
            return None
        return RecordedError(*(clean(str(item.get(key, ""))[:2000]) for key in ("type", "message", "where")))

    def array(self, name: str) -> np.ndarray:
        """The tensor or array under ``name``.

        Raises:
            WrongAnswer: something else was returned, or nothing.
        """
        value = self.value(name)
        if type(value) is not np.ndarray:
            raise WrongAnswer(f"{name}: expected a tensor, got {shown(value)}.")
        return value

    def value(self, name: str) -> Any:
        """The recorded value under ``name``: an array, number, text, bool, None, or a list of these.

        Raises:
            LearnerError: an exception of the learner's own code is recorded instead.
            WrongAnswer: another exception, a value of another type, or nothing.
        """
        return self._decode(name, self._item(name))

    def bytes(self, name: str) -> bytes:
        """The recorded file under ``name``.

        Raises:
            WrongAnswer: the file was not written or is too large, or something else is recorded; as for :meth:`value`.
        """
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

    def model(self, name: str) -> Any:
        """The ``onnx.ModelProto`` in the file recorded under ``name``, complete in itself (no weights in other files).

        Raises:
            WrongAnswer: as for :meth:`bytes`, or the file is not such a model.
        """
        from oplab.checks.graphs import parse

        return parse(self.bytes(name), name)

    def draws(self) -> bytes | None:
        """The digests of what collect has drawn (:attr:`Draws.digests`), or None: they are missing or too many."""
        return self._read("inputs.bin", MAX_DRAWS * DIGEST)

    def _read(self, file: str, limit: int) -> bytes | None:
        """A file of the evidence; None if there is none, it is not a plain file, or it is too large.

        Raises:
            EvidenceTampered: it does not match its digest.
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
        if (
            self._digests is not None
            and file in self._digests
            and (data is None or digest(data) != self._digests[file])
        ):
            raise EvidenceTampered(f"{file} was changed after it was written.")
        return data

    def described(self, name: str) -> str:
        """What is recorded under ``name``, in a few words: ``a list of 3``, ``an array of shape (2, 3), dtype float32``."""
        try:
            value = self.value(name)
        except WrongAnswer:
            return "a file" if self._items.get(name, {}).get("kind") == "file" else "no value"
        if type(value) is np.ndarray:
            return f"an array of shape {value.shape}, dtype {value.dtype}"
        if type(value) is list:
            return f"a list of {len(value)}"
        return "nothing (None)" if value is None else f"{_ARTICLES[type(value)]} {type(value).__name__}"

    def _item(self, name: str) -> dict[str, Any]:
        self.last_read = name
        if name not in self._items:
            raise WrongAnswer(f"{name}: there is no such result.")
        item = self._items[name]
        kind = item.get("kind")
        if kind == "error":
            error = self.error(name)
            raise (LearnerError if error.where else WrongAnswer)(f"{name}: {error.message}{error.place}")
        if kind == "large":
            raise WrongAnswer(f"{name}: {str(item.get('file'))[:100]} is too large to be graded.")
        if kind == "strange":
            raise WrongAnswer(f"{name}: expected a tensor, a number or a text, got a {str(item.get('type'))[:100]}.")
        return item

    def _decode(self, name: str, item: dict[str, Any], depth: int = 0) -> Any:
        kind, value = item.get("kind"), item.get("value")
        if kind == "none":
            return None
        if kind == "bool" and type(value) is bool:
            return value
        if kind == "int" and type(value) is int and abs(value) < 1 << 63:
            return value
        if kind == "float" and type(value) is str and len(value) < 64:
            try:
                return float(value)
            except ValueError:
                return math.nan
        if kind == "text" and type(value) is str:
            return clean(value)
        entries = item.get("items")
        if kind == "list" and type(entries) is list and len(entries) <= 64 and depth < MAX_DEPTH:
            if all(type(entry) is dict for entry in entries):
                return [self._decode(f"{name}[{i}]", entry, depth + 1) for i, entry in enumerate(entries)]
        if kind == "array":
            if self._arrays is None:
                self._arrays = _arrays(self._read("arrays.npz", MAX_ARRAYS + (8 << 20)))
            key = item.get("array")
            if type(key) is str and key in self._arrays:
                return self._arrays[key]
        if kind in ("large", "strange"):
            raise WrongAnswer(
                f"{name}: expected a tensor, a number or a text, got a {str(item.get('type', 'huge array'))[:100]}."
            )
        raise WrongAnswer(f"{name}: the evidence is not what was expected.")


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


def _items(data: bytes | None) -> dict[str, dict[str, Any]]:
    if data is None:
        raise WrongAnswer("The exercise's run left no evidence.")
    try:
        items = json.loads(data.decode("utf-8"))["items"]
    except (ValueError, KeyError, TypeError, RecursionError, UnicodeDecodeError):
        raise WrongAnswer("The evidence of the exercise's run cannot be read.") from None
    if type(items) is not dict or len(items) > MAX_ITEMS or not all(type(item) is dict for item in items.values()):
        raise WrongAnswer("The evidence of the exercise's run cannot be read.")
    return items


def _arrays(data: bytes | None) -> dict[str, np.ndarray]:
    if data is None:
        raise WrongAnswer("The exercise's run left no arrays.")
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
    if dtype.char not in PLAIN_DTYPES or dtype.hasobject:
        raise ValueError("unexpected dtype")
    if math.prod(shape) * dtype.itemsize != len(raw) - stream.tell():
        raise ValueError("the shape does not fit the data")  # else a header could ask for 100 GB
    stream.seek(0)
    return np.load(stream, allow_pickle=False)
