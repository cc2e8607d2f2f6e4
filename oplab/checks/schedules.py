"""A kernel under a scheduler of ours: the pieces of its ParallelFor run in an order that we choose.

Threads meet in another way each time, so a test that waits for them to disagree can pass by luck. Here nothing is left to luck: the
kernel gets ONNX Runtime's own table of functions with one entry replaced, ParallelFor, and that one calls the pieces one after the
other, from the last to the first for example. A result that depends on the order differs in every run.

What an order cannot show is memory that two pieces share: one after the other, each finds it as it left it. For that there is
:class:`WatchedSession`, which compares the addresses that the pieces of two threads use. The threads take turns, so it finds a race
on one core as on many, and in each run.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

Order = Callable[[int], Iterable[int]]

ORDERS: dict[str, Order] = {
    "from the first to the last": range,
    "from the last to the first": lambda total: range(total - 1, -1, -1),
    "every other one, then the rest": lambda total: [*range(1, total, 2), *range(0, total, 2)],
}

AMID = "in the middle of each other"  # from the first to the last, with reentrancy.interrupted: see help_out

# Which of two threads runs a piece, given its index and the number of pieces.
Share = Callable[[int, int], int]
SHARES: dict[str, Share] = {
    "in turns": lambda index, total: index % 2,
    "half each": lambda index, total: int(index >= total // 2),
}

# Places in OrtApi. The table only grows at its end, so they hold for every version from 1.17 on.
_CREATE_STATUS = 0
_GET_ERROR_MESSAGE, _CREATE_ENV, _CREATE_SESSION_FROM_ARRAY, _RUN, _CREATE_SESSION_OPTIONS = 2, 3, 8, 9, 10
_CREATE_DOMAIN, _ADD_DOMAIN = 26, 28
_CREATE_TENSOR, _CREATE_CPU_MEMORY_INFO, _RELEASE_VALUE, _RELEASE_STATUS = 49, 69, 96, 93
_PARALLEL_FOR = 274
_ENTRIES = 320  # how many are copied: all that the headers know; the runtime has more
_ELEMENT = {
    "float32": 1,
    "int32": 6,
    "int64": 7,
    "float16": 10,
    "float64": 11,
    "bfloat16": 16,
}  # ONNXTensorElementDataType

_PIECE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_PARALLEL = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, _PIECE, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p
)
_STATUS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
_GET_API = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Base(ctypes.Structure):  # OrtApiBase
    _fields_ = [("get_api", _GET_API), ("version", ctypes.c_void_p)]


class ScheduledSession:
    """A model in the C library of ONNX Runtime, with one custom-op library that sees our ParallelFor.

    What it makes lives as long as the process: it is meant for the grader's short-lived workers.

    Args:
        model: serialized bytes.
        library: a custom-op library. A copy of it is loaded, so that it shares nothing with one that is loaded already.
        scratch: a folder for the copy.

    Raises:
        RuntimeError: ONNX Runtime or the library refuses, with its sentence.
    """

    def __init__(self, model: bytes, library: Path, scratch: Path):
        base = _runtime()
        self._api = (ctypes.c_void_p * _ENTRIES).from_address(base.get_api(17))
        self._order: Order = range
        self._left: Iterator[int] = iter(())  # the pieces that have not begun
        self._helping = threading.Lock()
        self.pieces: list[int] = []  # the number of pieces of each ParallelFor of the last run
        self.statuses: list[str] = []  # the texts of all statuses that the library has made

        env, options, self._session = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call(_CREATE_ENV, 4, b"oplab", ctypes.byref(env))
        self._call(_CREATE_SESSION_OPTIONS, ctypes.byref(options))
        table = (ctypes.c_void_p * _ENTRIES)(*self._api)
        parallel_for, create_status = _PARALLEL(self._parallel_for), _STATUS(self._create_status)
        table[_PARALLEL_FOR] = ctypes.cast(parallel_for, ctypes.c_void_p)
        table[_CREATE_STATUS] = ctypes.cast(create_status, ctypes.c_void_p)
        get_api = _GET_API(lambda version: ctypes.addressof(table))
        ours = _Base(get_api, base.version)
        # A new file each time: writing over one that is mapped already changes the code that an earlier session still runs.
        place, copy = tempfile.mkstemp(library.suffix, f"scheduled-{library.stem}-", scratch)
        os.close(place)
        self._library = ctypes.CDLL(shutil.copyfile(library, copy))
        self._keep = (table, parallel_for, create_status, get_api, ours, self._library, env, options)
        # A library's static domain is destroyed when the process ends, after Python has freed its objects: through this table.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._keep))
        register = self._library.RegisterCustomOps
        register.restype = ctypes.c_void_p
        self._check(register(options, ctypes.byref(ours)))
        self._call(
            _CREATE_SESSION_FROM_ARRAY, env, model, ctypes.c_size_t(len(model)), options, ctypes.byref(self._session)
        )
        self._memory = ctypes.c_void_p()
        self._call(_CREATE_CPU_MEMORY_INFO, 1, 0, ctypes.byref(self._memory))

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, tuple[Sequence[int], str]], order: Order
    ) -> dict[str, np.ndarray]:
        """The outputs, whose shapes and dtypes the caller knows from an ordinary run.

        Args:
            feeds: inputs by name, contiguous.
            outputs: (shape, dtype) by name.
            order: the pieces of a ParallelFor in the order in which they run, given their number.
        """
        self._order = order
        self.pieces.clear()
        made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in outputs.items()}
        for array in made.values():
            if array.dtype.kind == "f":
                array.fill(np.nan)  # a kernel that adds to its output without setting it is seen
        self._run(feeds, {name: self._tensor(array) for name, array in made.items()})
        return made

    def refusal(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str]) -> str | None:
        """The error message of a run; None where there is a result.

        Args:
            feeds: inputs by name, contiguous.
            outputs: their names.
        """
        try:
            self._run(feeds, {name: ctypes.c_void_p() for name in outputs})
        except RuntimeError as error:
            return str(error)
        return None

    def _run(self, feeds: Mapping[str, np.ndarray], results: Mapping[str, ctypes.c_void_p]) -> None:
        inputs = [self._tensor(array) for array in feeds.values()]
        places = (ctypes.c_void_p * len(results))(*[value.value for value in results.values()])
        try:
            self._call(
                _RUN,
                self._session,
                None,
                _names(feeds),
                (ctypes.c_void_p * len(inputs))(*[value.value for value in inputs]),
                ctypes.c_size_t(len(inputs)),
                _names(results),
                ctypes.c_size_t(len(results)),
                places,
            )
        finally:
            for value in [*(value.value for value in inputs), *places]:
                if value:  # null: an output that was not made
                    self._function(_RELEASE_VALUE, None)(ctypes.c_void_p(value))

    def _parallel_for(self, context: int, piece: Callable, total: int, batches: int, data: int) -> None:
        self.pieces.append(total)
        self._left, self._begin = iter(self._order(total)), lambda index: piece(data, index)
        for index in self._left:
            self._begin(index)
        with self._helping:  # the last piece that another thread has begun
            pass

    def help_out(self) -> None:
        """Run the next piece, on the thread that calls it: while another one is stopped in its middle."""
        with self._helping:
            for index in itertools.islice(self._left, 1):
                self._begin(index)

    def _create_status(self, code: int, text: bytes) -> int | None:
        self.statuses.append(text.decode(errors="replace"))
        return self._function(_CREATE_STATUS, ctypes.c_void_p)(code, text)

    def _tensor(self, array: np.ndarray) -> ctypes.c_void_p:
        value, shape = ctypes.c_void_p(), (ctypes.c_int64 * array.ndim)(*array.shape)
        self._call(
            _CREATE_TENSOR,
            self._memory,
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
            shape,
            ctypes.c_size_t(array.ndim),
            _ELEMENT[str(array.dtype)],
            ctypes.byref(value),
        )
        return value

    def _function(self, place: int, restype: type | None) -> Callable:
        return ctypes.CFUNCTYPE(restype)(self._api[place])

    def _call(self, place: int, *arguments: object) -> None:
        self._check(self._function(place, ctypes.c_void_p)(*arguments))

    def _check(self, status: int | None) -> None:
        if status:
            held = ctypes.c_void_p(status)
            text = ctypes.string_at(self._function(_GET_ERROR_MESSAGE, ctypes.c_void_p)(held)).decode(errors="replace")
            self._function(_RELEASE_STATUS, None)(held)
            raise RuntimeError(text)


def is_thrown(model: onnx.ModelProto, library: Path, scratch: Path, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether a run fails without that the kernel has made a status with these words: an exception left it, and ONNX Runtime caught it.

    Args:
        model, library, scratch: as for :class:`ScheduledSession`.
        feeds: inputs by name, contiguous.
    """
    watched = ScheduledSession(model.SerializeToString(), library, scratch)
    said = watched.refusal(feeds, [value.name for value in model.graph.output])
    return said is not None and not any(text and text in said for text in watched.statuses)


@dataclass(frozen=True)
class Conflict:
    """Two pieces that use the same memory in no order, on different threads; one of them, or both, write.

    Attributes:
        pieces: their indices, in the order in which they ran.
        writes: whether each of them writes.
        where: the name of the input or output that the memory belongs to; empty for any other memory.
    """

    pieces: tuple[int, int]
    writes: tuple[bool, bool]
    where: str


class _Conflict(ctypes.Structure):  # OplabConflict in pieces.cpp
    _fields_ = [
        ("found", ctypes.c_int32),
        ("first_piece", ctypes.c_int32),
        ("first_writes", ctypes.c_int32),
        ("second_piece", ctypes.c_int32),
        ("second_writes", ctypes.c_int32),
        ("address", ctypes.c_uint64),
    ]


class WatchedSession(ScheduledSession):
    """The pieces on two threads that take turns, and what the library tells about the memory that they use.

    Args:
        library: compiled with ``compile_library(sanitize="pieces")``; what its accesses call is in ``pieces.cpp``.
    """

    def __init__(self, model: bytes, library: Path, scratch: Path):
        super().__init__(model, library, scratch)
        self._threads = [
            ThreadPoolExecutor(1) for _ in range(2)
        ]  # both live to the end: neither gets the other's stack
        self._share: Share = SHARES["in turns"]
        self._library.oplab_conflict.restype = ctypes.POINTER(_Conflict)

    def watch(
        self, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, tuple[Sequence[int], str]], share: Share
    ) -> Conflict | None:
        """Run once; the first conflict that was found, or None. Arguments as for :meth:`run`."""
        self._share = share
        self._library.oplab_conflict().contents.found = 0
        made = self.run(feeds, outputs, range)
        found = self._library.oplab_conflict().contents
        if not found.found:
            return None
        inside = [
            name
            for name, array in {**feeds, **made}.items()
            if array.ctypes.data <= found.address < array.ctypes.data + array.nbytes
        ]
        pieces, writes = (found.first_piece, found.second_piece), (bool(found.first_writes), bool(found.second_writes))
        return Conflict(pieces, writes, "".join(inside))

    def _parallel_for(self, context: int, piece: Callable, total: int, batches: int, data: int) -> None:
        self.pieces.append(total)
        self._library.oplab_watch(-2, 0)
        for index in range(total):
            who = self._share(index, total)
            self._threads[who].submit(self._one, piece, data, who, index).result()

    def _one(self, piece: Callable, data: int, who: int, index: int) -> None:
        self._library.oplab_watch(who, index)
        piece(data, index)
        self._library.oplab_watch(-1, 0)


def registers_unordered(library: Path) -> bool:
    """Whether two calls of ``RegisterCustomOps``, one after the other on two threads, use memory that no lock or atomic orders.

    Args:
        library: compiled with ``compile_library(sanitize="pieces")``.
    """
    base, watched = _runtime(), ctypes.CDLL(str(library))
    watched.oplab_conflict.restype = ctypes.POINTER(_Conflict)
    api = (ctypes.c_void_p * _ENTRIES).from_address(base.get_api(17))
    create_options = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(api[_CREATE_SESSION_OPTIONS])
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    table = (ctypes.c_void_p * _ENTRIES)(*api)

    @create
    def create_domain(name: int, place: int) -> int | None:
        watched.oplab_wrote(ctypes.c_void_p(place), ctypes.c_size_t(8))
        return create(api[_CREATE_DOMAIN])(name, place)

    table[_CREATE_DOMAIN] = ctypes.cast(create_domain, ctypes.c_void_p)
    ours = _Base(_GET_API(lambda version: ctypes.addressof(table)), base.version)

    def register(who: int) -> None:
        options = ctypes.c_void_p()
        create_options(ctypes.byref(options))
        watched.oplab_watch(who, who)
        watched.RegisterCustomOps(options, ctypes.byref(ours))
        watched.oplab_watch(-1, 0)

    threads = [ThreadPoolExecutor(1) for _ in range(2)]  # both live to the end: neither gets the other's stack
    watched.oplab_watch(-2, 0)
    for who, thread in enumerate(threads):
        thread.submit(register, who).result()
    return bool(watched.oplab_conflict().contents.found)


def registers_apart(library: Path) -> bool:
    """Whether two calls of ``RegisterCustomOps`` add different domains, if one begins while the other makes its own."""
    base, loaded = _runtime(), ctypes.CDLL(str(library))
    api = (ctypes.c_void_p * _ENTRIES).from_address(base.get_api(17))
    create_options = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(api[_CREATE_SESSION_OPTIONS])
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    table = (ctypes.c_void_p * _ENTRIES)(*api)
    first, second = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    making, begun, added, calls = threading.Event(), threading.Event(), set(), []

    def register() -> None:
        options = ctypes.c_void_p()
        create_options(ctypes.byref(options))
        begun.set()
        loaded.RegisterCustomOps(options, ctypes.byref(ours))

    @call
    def create_domain(name: int, place: int) -> int | None:
        if making.is_set():  # the second call makes one, too
            begun.set()
        else:
            making.set()
            begun.clear()
            calls.append(second.submit(register))
            begun.wait()
            begun.clear()
            for _ in range(50):  # a right answer waits for the first call, and is seen to do nothing
                if begun.wait(0.01):
                    break
        return call(api[_CREATE_DOMAIN])(name, place)

    @call
    def add_domain(options: int, domain: int) -> int | None:
        added.add(domain)
        return call(api[_ADD_DOMAIN])(options, domain)

    table[_CREATE_DOMAIN] = ctypes.cast(create_domain, ctypes.c_void_p)
    table[_ADD_DOMAIN] = ctypes.cast(add_domain, ctypes.c_void_p)
    ours = _Base(_GET_API(lambda version: ctypes.addressof(table)), base.version)
    calls.append(first.submit(register))
    calls[0].result()
    for one in calls:
        one.result()
    return len(added) > 1


def _runtime() -> _Base:
    import onnxruntime

    capi = Path(onnxruntime.__file__).parent / "capi"
    runtime = ctypes.CDLL(str(next(iter([*capi.glob("libonnxruntime.so.*"), *capi.glob("libonnxruntime*.dylib")]))))
    runtime.OrtGetApiBase.restype = ctypes.POINTER(_Base)
    return runtime.OrtGetApiBase().contents


def _names(named: Mapping[str, object]) -> ctypes.Array:
    return (ctypes.c_char_p * len(named))(*[name.encode() for name in named])
