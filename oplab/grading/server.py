"""The fork server: it has torch, onnx, onnxruntime and, where asked for, the exporter loaded, and forks one worker per job.

Three kinds of process take part. The *server* loads the libraries once and never runs a learner's code. For each socket that it is
handed it forks a *supervisor*. For each job on that socket the supervisor forks a *worker*, watches its limits, ends everything that
the worker started, and answers. So there is no path or port that a learner's code could talk to.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import inspect
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

from oplab.course.manifest import Limits
from oplab.grading import guard, isolation, worker
from oplab.grading import limits as limiting

KEEP_OUTPUT = 16 << 10
_EXIT_GRACE = 0.2
_LOOK = 0.02  # seconds between two looks at the family's processes and memory
_LOOK_AT_DISK = 0.1


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    preload = [name for name in sys.argv[2].split(",") if name]
    many = sys.argv[3] == "many"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole foreground group: the client decides
    limiting.adopt_orphans()
    isolation.shield()
    guard.remember_package()
    os.environ.pop("ORT_LOAD_CONFIG_FROM_MODEL", None)  # a model must not configure the session that judges it
    warm(preload)
    gc.collect()
    gc.freeze()  # the libraries' objects: a worker neither walks them nor, by walking, copies their pages
    if many:
        gather_pages()
    control.sendall(b"r")
    serve(control)


def warm(preload: list[str]) -> None:
    """Import what checks need. One thread only: a thread pool made here would be dead in every fork."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import onnx
    import onnx.checker  # noqa: F401
    import onnxruntime  # noqa: F401
    import torch

    import oplab.checks.graphs  # noqa: F401

    torch.set_num_threads(1)
    round_trip()
    if "dynamo" in preload:
        warm_exporter()
    if "export" in preload:
        warm_capture()


def gather_pages() -> None:
    """Put this process's memory into pages of 2 MB, where Linux (from 6.1 on) can.

    A fork copies the table of pages, and most of a short job is that: 120 000 entries become 300. It takes up to a second, which a
    hundred jobs earn back.
    """
    huge, collapse = 2 << 20, 25  # MADV_COLLAPSE
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    try:
        with open("/proc/self/maps", encoding="ascii") as stream:
            mappings = [line.split() for line in stream]
    except OSError:
        return
    for place, access, _, _, inode, *name in mappings:
        first, last = (int(end, 16) for end in place.split("-"))
        first, last = (first + huge - 1) // huge * huge, last // huge * huge
        if madvise and access.startswith("rw") and inode == "0" and name in ([], ["[heap]"]) and first < last:
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), collapse)


def round_trip() -> None:
    """Do once what nearly every check does: what is set up at the first use is then set up in each fork."""
    import io
    import warnings

    import numpy
    import onnx
    import onnxruntime
    import torch

    numpy.random.default_rng(0).standard_normal(3)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(_toy(), (torch.ones(2, 3),), stream, dynamo=False, input_names=["x"])
    onnx.checker.check_model(onnx.load_from_string(stream.getvalue()), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(stream.getvalue(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": numpy.ones((2, 3), numpy.float32)})


def _toy() -> Any:
    import torch

    class Toy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x) + 1

    return Toy()


def warm_exporter() -> None:
    """Export one toy model, so that the exporter's modules and its registry's functions are imported before the first fork."""
    import io
    import logging
    import warnings

    import torch

    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        keep_registry()
        torch.onnx.export(_toy(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    logging.disable(logging.NOTSET)


def warm_capture() -> None:
    """Capture a module that decides by values, whose first capture imports a hundred modules, and run it."""
    import torch

    class Deciding(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 2, lambda a: a + 1, lambda a: a - 1, (x,))

    x = torch.ones(2, 3)
    torch.export.export(Deciding(), (x,))
    Deciding()(x)


def keep_registry() -> None:
    """Have the dynamo path's registry built once, not at each export: it is most of an export's time.

    The exporter reads the source of 500 functions for it. Each export still gets a registry of its own to add to. Where PyTorch's
    internals have changed, nothing is kept and exports take longer.
    """
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        build = ONNXRegistry.from_torchlib.__func__
        default = inspect.signature(build).parameters["opset_version"].default
        empty = ONNXRegistry()
        empty._cleanup_registry_based_on_opset_version()
        empty.functions, empty._opset_version = {}, default
    except (ImportError, AttributeError, KeyError):
        return

    class OfAllOpsets(ONNXRegistry):
        def _cleanup_registry_based_on_opset_version(self) -> None:
            pass

    kept: dict[bool, dict[Any, list[Any]]] = {}

    def from_torchlib(cls: type[ONNXRegistry], opset_version: int = default) -> ONNXRegistry:
        vision = "torchvision" in sys.modules  # its operators are found once it is imported
        if vision not in kept:
            kept[vision] = build(OfAllOpsets).functions
        registry = cls()
        registry._opset_version = opset_version
        registry.functions = {target: list(found) for target, found in kept[vision].items()}
        registry._cleanup_registry_based_on_opset_version()
        return registry

    ONNXRegistry.from_torchlib = classmethod(from_torchlib)


def serve(control: socket.socket) -> None:
    """Fork a supervisor for each socket that arrives; return when the client has gone."""
    supervisors: set[int] = set()
    control.settimeout(0.5)
    while True:
        _reap(supervisors)
        try:
            data, fds, _, _ = socket.recv_fds(control, 1, 1)
        except TimeoutError:
            continue
        except OSError:
            data, fds = b"", []
        if not data:
            for pid in supervisors:
                _kill(pid)
            _end_family()
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            control.close()
            try:
                supervise(socket.socket(fileno=fds[0]))
            finally:
                os._exit(0)
        supervisors.add(pid)
        for fd in fds:
            os.close(fd)


def _reap(supervisors: set[int]) -> None:
    """Collect ended children. A supervisor that was killed leaves its worker to us: that is ended too."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        supervisors.discard(pid)
    for pid in _children(os.getpid()):
        if pid not in supervisors:
            _kill(pid)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            return [int(part) for part in stream.read().split()]
    except (OSError, ValueError):
        return []


def supervise(conn: socket.socket) -> None:
    """Run the jobs that arrive on ``conn``, one after the other, until the client closes it."""
    limiting.adopt_orphans()
    while True:
        run_job(conn)


def run_job(conn: socket.socket) -> None:
    """Run one job: read it from ``conn``, run the worker under its limits, answer, and leave no process behind."""
    job = json.loads(_receive(conn))
    limits = Limits(**job["limits"])
    out_read, out_write = os.pipe()
    report_read, report_write = os.pipe()
    started = time.monotonic()
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            conn.close()
            os.close(out_read)
            os.close(report_read)
            become_worker(job, limits, out_write, report_write, me)
        finally:
            os._exit(0)
    os.close(out_write)
    os.close(report_write)
    folders = [job["scratch"], job["evidence"]]
    answer = _watch(pid, conn, out_read, report_read, limits, started, folders, bool(job.get("sanitized")))
    answer["seconds"] = round(time.monotonic() - started, 4)
    for fd in (out_read, report_read):
        os.close(fd)
    with contextlib.suppress(OSError):
        conn.sendall(json.dumps(answer).encode() + b"\n")


def become_worker(job: dict[str, Any], limits: Limits, out: int, report: int, parent: int) -> None:
    limiting.die_with_parent(parent)
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, closefd=False, errors="replace")
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="replace")
    for number in (signal.SIGINT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGINT else signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    os.chdir(job["scratch"])
    os.environ.update({"TMPDIR": job["scratch"], "HOME": job["scratch"], **job.get("env", {})})
    import tempfile

    tempfile.tempdir = None
    sanitized = bool(job.get("sanitized"))
    limiting.apply(limits, sanitized=sanitized)
    isolation.keep_apart(traceable=sanitized)
    if job.get("isolation"):
        own = [job["scratch"], job["evidence"]] if job["half"] == "collect" else [job["scratch"]]
        plan = job["isolation"]
        isolation.confine({**plan, "read": [*plan["read"], job["evidence"], *filter(None, [job["library"]])]}, own)
    if not sanitized:  # a sanitizer says more
        faulthandler.enable(sys.stderr, all_threads=False)
    worker.run(job, report)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)  # not sys.exit: the learner's atexit functions and threads have no say


def _watch(
    pid: int,
    conn: socket.socket,
    out: int,
    report: int,
    limits: Limits,
    started: float,
    folders: list[str],
    sanitized: bool,
) -> dict[str, Any]:
    picker = selectors.DefaultSelector()
    for source, kind in ((out, "out"), (report, "report")):
        os.set_blocking(source, False)
        picker.register(source, selectors.EVENT_READ, kind)
    picker.register(conn, selectors.EVENT_READ, "conn")
    # Readable when the worker has ended. Where the system has no such thing (macOS), a short poll is never late by more than it.
    ended = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    poll = _LOOK if ended is not None else 0.005
    if ended is not None:
        picker.register(ended, selectors.EVENT_READ, "ended")
    output, reported, printed = bytearray(), bytearray(), 0
    killed: str | None = None
    status: int | None = None
    usage = None
    finished_at = None
    look_at, look_at_disk = started + _LOOK, started + _LOOK_AT_DISK
    while True:
        if status is None:
            done, code, seen = os.wait4(pid, os.WNOHANG)
            if done:
                status, usage, finished_at = code, seen, time.monotonic()
                if ended is not None:
                    picker.unregister(ended)
                    os.close(ended)
                # Descendants may hold the pipes open: end them, then read what is left.
                left = _end_family(pid)
        if status is not None and (
            not picker.get_map().keys() - {conn.fileno()} or time.monotonic() - finished_at > _EXIT_GRACE
        ):
            break
        now = time.monotonic()
        if status is None and killed is None and now - started > limits.wall:
            killed = "wall"
            _kill(pid)  # the group may not exist yet
            _end_family(pid)
            continue
        if status is None and killed is None and now >= look_at:
            killed = _excess(limits, sanitized)
            if killed is None and now >= look_at_disk:
                killed = "scratch" if limiting.disk_use(folders) > limiting.SCRATCH else None
                look_at_disk = time.monotonic() + _LOOK_AT_DISK
            look_at = time.monotonic() + _LOOK
            if killed:
                _kill(pid)
                _end_family(pid)
                continue
        for key, _ in picker.select(poll if status is None else 0.005):
            if key.data == "ended":
                continue
            if key.data == "conn":
                if not conn.recv(1):  # the client has gone
                    if status is None:
                        _kill(pid)
                    _end_family(pid)
                    os._exit(0)
                continue
            data = _read(key.fd)
            if data is None:
                continue
            if data == b"":
                picker.unregister(key.fd)
            elif key.data == "out":
                printed += len(data)
                output += data
                if len(output) > 4 * KEEP_OUTPUT:
                    del output[KEEP_OUTPUT : len(output) - KEEP_OUTPUT]
                if printed > limits.output_kb << 10 and killed is None and status is None:
                    killed = "output"
                    _kill(pid)
                    _end_family(pid)
            elif len(reported) <= worker.MAX_REPORT * 2:
                reported += data
    left += _end_family(pid)
    picker.close()
    phases, result = _parse_report(bytes(reported))
    return {
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": _signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None,
        "killed": killed,
        "phase": phases[-1] if phases else "starting",
        "report": result,
        "printed": printed,
        "output": bytes(output[-KEEP_OUTPUT:]).decode("utf-8", "replace"),
        "left_behind": left,
        "max_rss_kb": usage.ru_maxrss if usage else 0,
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3) if usage else 0.0,
    }


def _excess(limits: Limits, sanitized: bool) -> str | None:
    """What the worker and all that it has started use too much of. No rlimit counts a whole family, and none binds root's processes."""
    count, memory = limiting.family(os.getpid())
    if count > limiting.PROCESSES:
        return "processes"
    # RLIMIT_DATA holds each process for itself, and does not see shared memory: a tenth more, so that it speaks first.
    if not sanitized and memory > limits.memory_mb * 1.1 * (1 << 20):
        return "memory"
    return None


def _end_family(worker_pid: int | None = None) -> int:
    """Kill the worker's group and every descendant of this process, also those that have left the group. How many were there.

    Repeated until none is left: a process that forks while we look is seen the next time. Stopped first, so that it cannot.
    """
    ended: set[int] = set()
    for attempt in range(200):
        family = [pid for pid in limiting.descendants(os.getpid()) if pid != worker_pid]
        ended.update(family)
        if worker_pid is not None and attempt == 0:
            with contextlib.suppress(OSError):
                os.killpg(worker_pid, signal.SIGKILL)
        if not family:
            break
        for pid in family:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        for pid in family:
            _kill(pid)
        time.sleep(0.001)
        _reap_orphans(worker_pid)
    return len(ended)


def _reap_orphans(worker_pid: int | None) -> None:
    for pid in _children(os.getpid()):
        if pid != worker_pid:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _receive(conn: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n"):
        part = conn.recv(1 << 16)
        if not part:
            os._exit(0)
        data += part
    return bytes(data)


def _parse_report(data: bytes) -> tuple[list[str], dict[str, Any] | None]:
    """Phases and the result. A worker's code could have written here: anything that is not a plain report is no report."""
    phases, result = [], None
    for line in data.split(b"\n"):
        if line in (b"importing", b"running"):
            phases.append(line.decode())
        elif line.startswith(b"{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict) and isinstance(found.get("outcome"), str):
                result = found
    return phases, result


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


if __name__ == "__main__":
    main()
