"""The client of the fork server: starts it, sends it jobs, and starts it again when something has killed it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oplab.checks.sizes import MAX_FILE, MAX_JSON
from oplab.course.manifest import Course, preloads
from oplab.errors import OplabError
from oplab.grading import integrity, protocol
from oplab.grading.protocol import LOST, Answer, Job
from oplab.grading.scratch import scratch_folder
from oplab.grading.shared import Share, is_alive

if TYPE_CHECKING:
    from oplab.grading.isolation import Isolation

START_LIMIT = 120.0
ATTEMPTS = 3  # to run a job that something kills
_PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|DYLD_\w+"
    r"|(?:PYTHON|OPLAB_|OMP_|MKL_|KMP_|OPENBLAS_|ATEN_|ONEDNN_|NPY_|TORCH|GLIBC_)\w*|CXX"
)
# Not `-m`: that would put the current folder first on sys.path, where a learner's code could leave an onnx.py.
# The package is compiled from its sources: a file in __pycache__ may claim to belong to one of them and contain something else.
_MAIN = """
import sys
from importlib.machinery import SourceFileLoader as Loader
cached = Loader.get_code
def get_code(self, name):
    if not self.path.startswith({package!r}):
        return cached(self, name)
    return self.source_to_code(self.get_data(self.path), self.path)
Loader.get_code = get_code
sys.path.append({root!r})
from oplab.grading.fork_server import main
main()
"""


class GraderTampered(OplabError):
    """The grader's own files have changed since the server was first started, and it would have to start again from them."""


class _DidNotStart(OplabError):
    """A server has ended before it was warm; ``killed`` by a signal, or by itself."""

    def __init__(self, message: str, hint: str, killed: bool):
        super().__init__(message, hint)
        self.killed = killed


class Server:
    """A fork server that is started when it is first needed. Methods may be called from several threads.

    Args:
        preload: what to warm up, some of :data:`oplab.course.manifest.PRELOADS`.
        env: environment variables to add, for example those of a sanitizer.
        isolation: separates the server and its workers from the course, see :mod:`oplab.grading.isolation`.
        many: hundreds of jobs will come: the start may take a second longer to make each of them faster.
        keep: keep the evidence of what the judge rejected, for pictures of the models (:mod:`oplab.reports.graphs`).
        share: where other processes of this user find the server, or it finds theirs; see :meth:`shared`.

    Attributes:
        kept: with ``keep``, a folder with one folder of evidence for each exercise that was rejected when it was last graded;
            else None.
        work: the only folder that an isolated server can write to; None without isolation, and before :meth:`prepare`.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        isolation: Isolation | None = None,
        many: bool = False,
        keep: bool = False,
        share: Share | None = None,
    ):
        self.preload, self.env, self.many = tuple(preload), dict(env or {}), many
        self._share = share
        self.isolation = isolation if isolation is not None and isolation.offered else None
        self.work: Path | None = None
        self._package: dict[str, str] | None = None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: subprocess.Popen[bytes] | None = None  # the process, until it is warm
        self._control: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._idle: dict[socket.socket, str] = {}  # their supervisors wait for another job of the same half; "" for any
        self._closed = False
        self._cancels = 0  # how often everything was cancelled
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="oplab-server")
        self._log: Any = None
        self._folders = ExitStack()
        self.kept: Path | None = self._folders.enter_context(scratch_folder()) if keep else None

    @classmethod
    def shared(
        cls,
        course: Course,
        preload: Sequence[str] = (),
        *,
        host: bool = False,
        keep: bool = False,
        track: str = "exercises",
    ) -> Server:
        """The server that all processes of a learner share for a course (:mod:`oplab.grading.shared`).

        Args:
            course: the course.
            preload: what to warm up where this object has to start a server; a host warms up everything.
            host: whether to be the course's host if there is none, and to take over where it ends.
            keep: as for :class:`Server`.
            track: the answers that are graded; each has a server.
        """
        # The same for whoever starts it: a worker finds the course by these.
        env = {"OPLAB_ROOT": str(course.root), "OPLAB_TRACK": track}
        preload = preloads(course.exercises) if host else preload
        return cls(preload, env=env, keep=keep, share=Share(course.root, host, track))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server if it is not running, and wait until it is warm.

        Raises:
            OplabError: it does not start, or the grader's own files have changed since its first start.
            RuntimeError: it is closed.
        """
        self.prepare()
        with self._lock:
            self._start()

    def prepare(self) -> Path | None:
        """Make the folder :attr:`work` if the server is isolated, before anything starts: its mounts cannot change later.

        Returns:
            the folder; None without isolation.
        """
        with self._lock:
            if self.isolation is not None and self.work is None:
                self.work = self._folders.enter_context(scratch_folder())
            return self.work

    @property
    def cancels(self) -> int:
        """How often everything was cancelled: a job that was planned before the last time does not run."""
        return self._cancels

    def run(self, job: Job, fresh: Callable[[], object] = lambda: None, planned: int | None = None) -> Answer:
        """Run one job and wait for its answer; ``answer.lost`` means that the job's supervisor was killed.

        Where something has killed the worker, its supervisor or the whole server, as a system does that is out of memory, the job runs
        again, up to :data:`ATTEMPTS` times in all: a right answer passes then, and one that kills them does so each time.

        Args:
            job: what to run.
            fresh: called before a job runs again, to make its folders as they were before the first time.
            planned: :attr:`cancels` when the job was planned; now, if it is None.

        Raises:
            OplabError: the server cannot start, or a message is malformed.
            RuntimeError: the server is closed.
        """
        if self.kept is not None and job.half == "collect":
            shutil.rmtree(self.kept / job.id, ignore_errors=True)  # of an earlier run
        cancels = self._cancels if planned is None else planned
        for attempt in range(ATTEMPTS):
            if attempt:
                fresh()
            self.start()
            server = self._process
            answer = self._run(job, cancels)
            if self._cancels != cancels or self._closed or not protocol.killed_from_outside(answer, job.limits):
                break
            if answer.lost and server is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.2)  # it may have ended, too, and that takes a moment to be seen
        if self.kept is not None and job.half == "judge":
            checks = answer.report.checks if answer.report is not None else ()
            if not checks or not all(check.passed for check in checks):
                copy_evidence(job.evidence, self.kept / job.id)
        return answer

    def _run(self, job: Job, cancels: int) -> Answer:
        """Run a job, unless everything was cancelled since there were ``cancels``."""
        mine = self._connection(job.half)
        if mine is None:
            return LOST
        answer = LOST
        try:
            if self._cancels != cancels:  # while the server started
                return answer
            with contextlib.suppress(OSError):
                mine.sendall(protocol.encode(job))
            answer = _answer(mine)
            return answer
        finally:
            with self._lock:
                self._open.discard(mine)
                if answer.lost or self._closed:
                    mine.close()
                else:
                    self._idle[mine] = job.half

    def _connection(self, half: str) -> socket.socket | None:
        """A socket whose other end an idle or new supervisor has; None where the server is killed again and again.

        A worker inherits its supervisor's memory: one that has been sent a judge's source never runs a learner's code.
        """
        for _ in range(2):
            with self._lock:
                self._start()
                for mine in [conn for conn, was in self._idle.items() if was in ("", half)]:
                    del self._idle[mine]
                    if is_alive(mine):
                        self._open.add(mine)
                        return mine
                    mine.close()
                mine = self._new_connection()
                if mine is not None:
                    self._open.add(mine)
                    return mine
        return None

    def _new_connection(self) -> socket.socket | None:
        """A socket whose other end a new supervisor has; None where the server has been killed since it was started."""
        if self._control is None:  # the host has the server
            return self._share.borrow(START_LIMIT) if self._share is not None else None
        mine, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"j"], [theirs.fileno()])
            return mine
        except OSError:
            mine.close()
            self._stop()
            return None
        finally:
            theirs.close()

    @property
    def warm(self) -> bool:
        """Whether the next job need not wait for a start."""
        process = self._process
        if self._control is not None and process is not None and process.poll() is None:
            return True
        return self._share is not None and bool(self._idle or self._open)

    def cancel(self) -> None:
        """End all running jobs, and those that wait for the server's start.

        Their sockets are shut down, and each supervisor then ends its worker.
        """
        self._cancels += 1  # before the lock, which a start holds for seconds
        with self._lock:
            for conn in self._open:
                with contextlib.suppress(OSError):
                    conn.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cancel all jobs and end the server, also one that is starting. It may be called again."""
        self._closed = True  # before the lock, which a start holds for seconds
        if (starting := self._starting) is not None:
            starting.kill()
        self.cancel()
        with self._lock:
            self._stop()
            self._starter.shutdown(wait=False)
            self._folders.close()
            if self._share is not None:
                self._share.close()

    def listen(self) -> bool:
        """Become the course's host if this object may and there is none, and say whether it is the host."""
        with self._lock:
            return not self._closed and self._listen()

    def _listen(self) -> bool:
        return self._share is not None and self._share.listen(self._lend, self._sources)

    def _lend(self) -> socket.socket:
        """A connection to a new supervisor, for another process.

        Raises:
            OplabError: the server does not start.
            RuntimeError: this object is closed.
        """
        for _ in range(2):
            with self._lock:
                self._start()
                if (conn := self._new_connection()) is not None:
                    return conn
        raise OplabError("The grading server was killed repeatedly.")

    def _sources(self) -> dict[str, str]:
        return self._package if self._package is not None else integrity.digests()

    def _borrow(self) -> bool:
        """Have an idle supervisor of the host's server, and say whether there is one."""
        for conn in [conn for conn in self._idle if not is_alive(conn)]:
            del self._idle[conn]
            conn.close()
        if not self._idle and self._share is not None and (conn := self._share.borrow(START_LIMIT)) is not None:
            self._idle[conn] = ""
        return bool(self._idle)

    def _start(self) -> None:
        """Have a running server, its own or the host's."""
        if self._closed:
            raise RuntimeError("the grading server is closed")
        hosting = self._listen()
        if self._process is not None and self._process.poll() is None:
            return
        if not hosting and self._borrow():
            return
        self._stop()
        package = integrity.digests()
        if self._package is None:
            self._package = package
        elif package != self._package:
            changed = sorted(
                path for path in {*package, *self._package} if package.get(path) != self._package.get(path)
            )
            raise GraderTampered(
                f"The grader's own files changed while it ran ({', '.join(Path(path).name for path in changed[:5])}), "
                "so nothing more is graded in this run.",
                "`git diff oplab` shows what was changed; restore it and start again.",
            )
        for attempt in (1, 2):
            try:
                return self._launch()
            except _DidNotStart as error:
                # One that something has killed is started once more; one that has ended by itself would do so again.
                if self._closed:
                    raise RuntimeError("the grading server is closed") from None
                if attempt == 2 or not error.killed:
                    raise

    def _launch(self) -> None:
        """Start the process and wait until it is warm.

        Raises:
            _DidNotStart: it ended before.
        """
        mine, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()
        given = os.environ if self.isolation is None else _harmless(os.environ)
        env = {**given, **self.env, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        env.setdefault(
            "OBJC_DISABLE_INITIALIZE_FORK_SAFETY", "YES"
        )  # macOS refuses a fork after torch is loaded otherwise
        env["OMP_NUM_THREADS"] = "1"
        # No GPU: the exporter would use it while the server warms up, and CUDA refuses every process that is forked afterwards.
        env["CUDA_VISIBLE_DEVICES"] = ""
        # malloc asks Linux for large pages: a fork, which copies the table of pages, takes half the time.
        env.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        env["ORT_DISABLE_TELEMETRY"] = "1"  # else each worker inherits the files of its database
        env.pop("PYTHONSTARTUP", None)
        root = Path(__file__).resolve().parents[2]
        main = _MAIN.format(root=str(root), package=f"{root / 'oplab'}{os.sep}")
        command = [
            sys.executable,
            "-c",
            main,
            str(theirs.fileno()),
            ",".join(self.preload),
            "many" if self.many else "",
        ]
        if self.isolation is not None and self.work is not None:
            command = self.isolation.wrap(command, self.work)
        # bubblewrap ends when the thread ends that started it, and the caller's may end before this object is closed.
        self._process = self._starting = self._starter.submit(
            subprocess.Popen,
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=env,
            start_new_session=True,  # Ctrl-C in a terminal is for the client, which then closes the socket
            cwd="/",
        ).result()
        theirs.close()
        mine.settimeout(START_LIMIT)
        started = time.monotonic()
        try:
            ready = mine.recv(1)
        except TimeoutError:
            ready = b""
        self._starting = None
        if not ready:
            self._log.seek(0)
            log = self._log.read().decode("utf-8", "replace").strip().splitlines()
            waited = f"waited {time.monotonic() - started:.0f} s"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            code = self._process.poll()
            mine.close()
            self._stop()
            killed = code is not None and code < 0
            how = f"killed with {signal.Signals(-code).name}" if killed else waited
            raise _DidNotStart(
                f"The grading server did not start ({how}): {log[-1] if log else 'it printed nothing'}",
                "`oplab doctor` shows what is missing; `make setup` installs it.",
                killed,
            )
        mine.settimeout(None)
        self._control = mine

    def _stop(self) -> None:
        while self._idle:
            self._idle.popitem()[0].close()
        if self._control is not None:
            self._control.close()  # the server sees the end of the stream, ends its workers and itself
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None


def _harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that an isolated server gets: none of those that may hold a secret or lead to one, as tokens and agents do."""
    return {name: value for name, value in environment.items() if _PASSED_ON.fullmatch(name)}


def _answer(conn: socket.socket) -> Answer:
    line = bytearray()
    while not line.endswith(b"\n"):
        try:
            part = conn.recv(1 << 16)
        except OSError:
            part = b""
        if not part:
            return LOST
        line += part
    return protocol.decode(Answer, line)


def copy_evidence(evidence: Path, folder: Path) -> None:
    """Copy the evidence of one exercise, as far as it is plain files of at most MAX_FILE bytes together.

    Args:
        evidence: the folder of the evidence.
        folder: the copy; what an earlier run left there is removed.
    """
    try:
        items = evidence / "evidence.json"
        if items.is_symlink() or not items.is_file() or items.stat().st_size > MAX_JSON:
            return
        shutil.rmtree(folder, ignore_errors=True)  # an exercise may be graded twice
        folder.mkdir()  # without parents: a run whose folder another command has removed
        shutil.copyfile(items, folder / items.name)
        room = MAX_FILE
        for file in sorted(evidence.glob("f*.bin")):
            if file.is_symlink() or not file.is_file():
                continue
            room -= file.stat().st_size
            if room < 0:
                return
            shutil.copyfile(file, folder / file.name)
    except OSError:  # a full disk: the page has one picture less
        shutil.rmtree(folder, ignore_errors=True)
