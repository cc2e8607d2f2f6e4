"""The supervisor: runs the jobs of one connection, one worker process for each, under their limits.

The fork server forks it, see :mod:`oplab.grading.fork_server`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from dataclasses import replace

from oplab.course.manifest import Limits
from oplab.grading import isolation, namespaces, processes, protocol, worker
from oplab.grading import limits as limiting
from oplab.grading.limits import PROCESSES, SANITIZED, SCRATCH, deleted_files, disk_use
from oplab.grading.protocol import Answer, Job, MalformedMessage, Report

KEEP_OUTPUT = 16 << 10  # bytes of what was printed that are kept: the last ones
_LAST_READS = 64  # of 64 kB each, when the worker has ended: more than a pipe holds, so that one that still writes cannot hold us up
_INTERVAL = 0.02  # seconds between two looks at the descendants' number and memory
_DISK_INTERVAL = 0.1


def supervise(conn: socket.socket) -> None:
    """Run the jobs that arrive on ``conn``, one after the other, until the client closes it; this process exits then."""
    processes.adopt_orphans()
    while True:
        line = _receive(conn)
        try:
            answer = run_job(protocol.decode(Job, line), conn)
        except MalformedMessage as error:
            answer = Answer(output=str(error))
        with contextlib.suppress(OSError):
            conn.sendall(protocol.encode(answer))


def run_job(job: Job, conn: socket.socket) -> Answer:
    """Run ``job`` in a worker under its limits, and leave no process behind.

    Args:
        job: what to run.
        conn: the client's connection: where it is closed meanwhile, the worker and this process end.
    """
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
            become_worker(job, out_write, report_write, me)
        finally:
            os._exit(0)
    os.close(out_write)
    os.close(report_write)
    try:
        return _watch(pid, conn, out_read, report_read, job, started)
    finally:
        os.close(out_read)
        os.close(report_read)


def become_worker(job: Job, out: int, report: int, parent: int) -> None:
    """Turn this fork into the job's worker: apply its limits, run it, and exit.

    Args:
        job: what to run.
        out: descriptor for stdout and stderr.
        report: descriptor for the worker's report.
        parent: the supervisor's process id: the worker does not outlive it.
    """
    processes.die_with_parent(parent)
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
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing too much is an OSError then
    signal.set_wakeup_fd(-1)
    own = [job.scratch, job.evidence] if job.half == "collect" else [job.scratch]
    if job.isolation is not None:
        _keep_only(report)
        if job.isolation.namespaces:
            namespaces.enter(own)
    os.chdir(job.scratch)
    os.environ.update({"TMPDIR": str(job.scratch), "HOME": str(job.scratch)})
    tempfile.tempdir = None
    limiting.apply(job.limits, sanitized=job.sanitized)
    isolation.drop_privileges(own, traceable=job.sanitized)
    if job.isolation is not None:
        read = [job.evidence] if job.library is None else [job.evidence, job.library]
        isolation.confine(replace(job.isolation, read=(*job.isolation.read, *map(str, read))), own)
    if not job.sanitized:  # a sanitizer reports more
        faulthandler.enable(sys.stderr, all_threads=False)
    worker.run(job, report)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)  # not sys.exit: the learner's atexit functions and threads must not run


def _keep_only(report: int) -> None:
    """Have every other descriptor but the standard ones lead to nothing. Libraries may use theirs, so they are not closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        if int(name) > 2 and int(name) not in (report, null):
            with contextlib.suppress(OSError):
                os.dup2(null, int(name))
    os.close(null)


def _watch(pid: int, conn: socket.socket, out: int, report: int, job: Job, started: float) -> Answer:
    """Wait for the worker ``pid``, stop it at its limits, and end its descendants. ``out`` and ``report`` are the pipes' read ends."""
    limits, folders = job.limits, (job.scratch, job.evidence)
    picker = selectors.DefaultSelector()
    for source, kind in ((out, "out"), (report, "report")):
        os.set_blocking(source, False)
        picker.register(source, selectors.EVENT_READ, kind)
    picker.register(conn, selectors.EVENT_READ, "conn")
    # Readable when the worker has ended. Where the system has no such thing (macOS), a short poll is never late by more than it.
    ended = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    poll = _INTERVAL if ended is not None else 0.005
    if ended is not None:
        picker.register(ended, selectors.EVENT_READ, "ended")
    output, reported, printed = bytearray(), bytearray(), 0
    killed: str | None = None
    look_at, look_at_disk = started + _INTERVAL, started + _DISK_INTERVAL

    def keep(kind: str, data: bytes) -> None:
        nonlocal printed
        if kind == "out":
            printed += len(data)
            output.extend(data)
            if len(output) > 4 * KEEP_OUTPUT:
                del output[:-KEEP_OUTPUT]
        elif len(reported) <= worker.MAX_REPORT * 2:
            reported.extend(data)

    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        now = time.monotonic()
        if killed is None and now - started > limits.wall:
            killed = "wall"
            processes.kill(pid)  # the group may not exist yet
            processes.kill_descendants(pid)
            continue
        if killed is None and now >= look_at:
            killed = _exceeded(limits, job.sanitized)
            if killed is None and now >= look_at_disk:
                used = disk_use(folders) + deleted_files(processes.descendants(os.getpid()))
                killed = "scratch" if used > SCRATCH else None
                look_at_disk = time.monotonic() + _DISK_INTERVAL
            look_at = time.monotonic() + _INTERVAL
            if killed:
                processes.kill(pid)
                processes.kill_descendants(pid)
                continue
        for key, _ in picker.select(poll):
            if key.data == "ended":
                continue
            if key.data == "conn":
                if not conn.recv(1):  # the client has gone
                    processes.kill(pid)
                    processes.kill_descendants(pid)
                    os._exit(0)
                continue
            data = _read(key.fd)
            if data is None:
                continue
            if data == b"":
                picker.unregister(key.fd)
                continue
            keep(key.data, data)
            if printed > limits.output_kb << 10 and killed is None:
                killed = "output"
                processes.kill(pid)
                processes.kill_descendants(pid)
    picker.close()
    if ended is not None:
        os.close(ended)
    left = processes.kill_descendants(pid)
    # All that the worker has written is in the pipes now, and is read however late it is: on a busy machine, seconds may have passed.
    # The pipes' end is not waited for: a descendant that has just been killed may still have them open.
    for source, kind in ((out, "out"), (report, "report")):
        for _ in range(_LAST_READS):
            data = _read(source)
            if not data:
                break
            keep(kind, data)
    left += processes.kill_descendants(pid)
    phase, found = _parse_report(bytes(reported))
    return Answer(
        exit=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal=_signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None,
        killed=killed,
        phase=phase,
        report=found,
        printed=printed,
        output=bytes(output[-KEEP_OUTPUT:]).decode("utf-8", "replace"),
        left_behind=left,
        max_rss_kb=usage.ru_maxrss if usage else 0,
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 3) if usage else 0.0,
        seconds=round(time.monotonic() - started, 4),
    )


def _exceeded(limits: Limits, sanitized: bool) -> str | None:
    """Which limit the worker and its descendants exceed together. No rlimit counts descendants, and root's processes have none."""
    count, memory = processes.usage(os.getpid(), PROCESSES)
    if count > PROCESSES:
        return "processes"
    # RLIMIT_DATA limits each process on its own, without shared memory: a tenth more here, so that it takes effect first.
    if memory > limits.memory_mb * (SANITIZED if sanitized else 1.1) * (1 << 20):
        return "memory"
    return None


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _receive(conn: socket.socket) -> bytes:
    """One line. At the end of the stream the client has gone: this process exits."""
    data = bytearray()
    while not data.endswith(b"\n"):
        part = conn.recv(1 << 16)
        if not part:
            os._exit(0)
        data += part
    return bytes(data)


def _parse_report(data: bytes) -> tuple[str, Report | None]:
    """The last phase, and the report. A learner's code could have written here: a line that is not a report is left out."""
    phase, found = "starting", None
    for line in data.split(b"\n"):
        if line in (b"importing", b"running"):
            phase = line.decode()
        elif line.startswith(b"{"):
            with contextlib.suppress(MalformedMessage):
                found = protocol.decode(Report, line)
    return phase, found


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
