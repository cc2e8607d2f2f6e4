"""One warm grading server for a course, whoever asks: JupyterLab, its notebooks, ``oplab watch`` and ``oplab check`` in a terminal.

The process that lives longest is the *host*: JupyterLab's server, or ``oplab watch``. It has the fork server, and listens on a
Unix socket that only its user can open. A client asks there, and gets over the socket the end of a connection to a supervisor of
its own; from then on it works as with its own server. Without a host, and where the host has ended or has other sources, the client starts
its own server. Only the learner's own checks use this. What has to be separate (``--isolate``, ``--sanitize``,
other people's submissions) does not.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oplab.course.manifest import Course, preloads
from oplab.errors import OplabError
from oplab.grading import integrity, processes
from oplab.grading.client import START_LIMIT, Server, is_alive
from oplab.grading.evidence_server import KeepsEvidence

_PATIENCE = 3.0  # seconds for a host to say that it has heard
_MOST = 1 << 16  # bytes of a message


def folder() -> Path | None:
    """The folder for the sockets of this user's courses, which no other user can open; None if it cannot be created.

    It is the same in every terminal and kernel, whatever TMPDIR is there, and its name is short: a socket's path has about 100 bytes.
    """
    where = Path("/tmp") / f".oplab-shared-{os.getuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            where.mkdir(mode=0o700)
        found = os.lstat(where)
    except OSError:
        return None
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return where if mine else None


def address(root: Path, ending: str = "sock") -> Path | None:
    """The path of the socket, or of another file, of the course in ``root``; None where :func:`folder` is None."""
    where = folder()
    name = hashlib.blake2b(os.fsencode(root.resolve()), digest_size=10).hexdigest()
    return where / f"{name}.{ending}" if where is not None else None


class ProcessLock:
    """A lock that one process of this user holds for a course at a time, at most until it ends.

    Args:
        path: the file that is locked; with None the lock is never taken.
    """

    def __init__(self, path: Path | None):
        self.path, self._handle = path, -1

    @property
    def held(self) -> bool:
        """Whether this process has it."""
        return self._handle >= 0

    def take(self) -> bool:
        """Take it if no other process has it, and say whether this one has it now."""
        if self.held or self.path is None:
            return self.held
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(self.path).st_ino == os.fstat(handle).st_ino:  # else its last holder has just removed it
                self._handle = handle
                return True
        except OSError:
            pass
        os.close(handle)
        return False

    def release(self) -> None:
        """Let another process have it."""
        if self.held and self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._handle)
            self._handle = -1


class SharedServer(Server):
    """The grading server that all processes of a learner share for a course. It is used as a :class:`Server` is.

    Args:
        course: the course.
        preload: what to warm up where this object has to start a server; a host warms up everything.
        host: whether to be the course's host if there is none, and to take over where it ends.
    """

    def __init__(self, course: Course, preload: Sequence[str] = (), *, host: bool = False):
        root = str(course.root)
        # The same for whoever starts it: a worker finds the course by these.
        env = {"OPLAB_ROOT": root, "OPLAB_TRACK": "exercises"}
        super().__init__(preloads(course.exercises) if host else preload, env=env)
        self._address = address(course.root)
        self._host_lock = ProcessLock(address(course.root, "host")) if host else None
        self._listening: socket.socket | None = None
        self._of_host = 0  # the process id of the host's fork server

    def listen(self) -> bool:
        """Become the host if this object may and there is none, and say whether it is the host."""
        with self._lock:
            return not self._closed and self._listen()

    @property
    def warm(self) -> bool:
        """Whether the next job need not wait for a start."""
        return super().warm or bool(self._idle or self._open)

    def close(self) -> None:
        """As :meth:`Server.close`; a host stops being one."""
        super().close()
        with self._lock:
            if self._listening is not None:
                self._listening.close()
                with contextlib.suppress(OSError):
                    self._address.unlink(missing_ok=True)
                self._listening = None
            if self._host_lock is not None:
                self._host_lock.release()

    def _start(self) -> None:
        """Have a running server, its own or the host's; of the host's, an idle supervisor."""
        hosting = not self._closed and self._listen()
        if self._closed or hosting or super().warm:
            return super()._start()
        alive = [conn for conn in self._idle if is_alive(conn)]
        for conn in set(self._idle) - set(alive):
            conn.close()
        self._idle = alive
        if not self._idle:
            answer, conn = self._ask("supervisor")
            if conn is None:
                return super()._start()
            self._idle.append(conn)
            self._of_host = int(answer.get("server", 0))

    def _ended(self, server: subprocess.Popen[bytes] | None) -> bool:
        if server is not None:
            return super()._ended(server)
        answer, _ = self._ask("ended", server=self._of_host)
        return bool(answer.get("ended", True))  # no answer: the host has gone, and its server with it

    # --- the client's side ---

    def _ask(self, what: str, **more: Any) -> tuple[dict[str, Any], socket.socket | None]:
        """What the host answers, and the socket that comes with it; ({}, None) where there is no host, or not one to use."""
        if self._address is None:
            return {}, None
        try:
            with socket.socket(socket.AF_UNIX) as conn:
                conn.settimeout(_PATIENCE)
                conn.connect(str(self._address))
                conn.sendall(_line({"want": what, "package": _package(), "python": sys.prefix, **more}))
                if not _received(conn)[0].get("heard"):
                    return {}, None
                conn.settimeout(START_LIMIT + _PATIENCE)
                answer, handles = _received(conn)
        except (OSError, ValueError):
            return {}, None
        return answer, socket.socket(fileno=handles[0]) if handles else None

    # --- the host's side ---

    def _listen(self) -> bool:
        if self._listening is not None:
            return True
        if self._host_lock is None or self._address is None or not self._host_lock.take():
            return False
        listening = socket.socket(socket.AF_UNIX)
        try:
            self._address.unlink(missing_ok=True)  # of a host that was killed: its lock is free
            listening.bind(str(self._address))
            os.chmod(self._address, 0o600)
            listening.listen(16)
        except OSError:
            listening.close()
            self._host_lock.release()
            return False
        self._listening = listening
        threading.Thread(target=self._serve, args=(listening,), name="oplab-host", daemon=True).start()
        return True

    def _serve(self, listening: socket.socket) -> None:
        listening.settimeout(1.0)  # closing it does not wake a thread that waits in accept
        while not self._closed:
            try:
                conn, _ = listening.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._answer, args=(conn,), name="oplab-host-answer", daemon=True).start()

    def _answer(self, conn: socket.socket) -> None:
        """Answer one client. A server that does not start is not its concern: it starts its own then."""
        with conn, contextlib.suppress(OSError, ValueError, RuntimeError):
            conn.settimeout(_PATIENCE)
            asked, _ = _received(conn)
            same = asked.get("package") == self._sources() and asked.get("python") == sys.prefix
            if not same or _is_learners_code(conn):
                conn.sendall(_line({"heard": False}))
                return
            conn.sendall(_line({"heard": True}))
            if asked.get("want") == "ended":
                conn.sendall(_line({"ended": self._has_ended(asked.get("server"))}))
                return
            try:
                theirs, server = self._lend()
            except OplabError as error:
                conn.sendall(_line({"problem": str(error)}))
                return
            with theirs:
                socket.send_fds(conn, [_line({"server": server})], [theirs.fileno()])

    def _lend(self) -> tuple[socket.socket, int]:
        """A connection to a new supervisor, for a client, and the process id of the fork server.

        Raises:
            OplabError: it does not start.
            RuntimeError: this object is closed.
        """
        for _ in range(2):
            with self._lock:
                self._start()
                conn = self._new_connection()
                if conn is not None and self._process is not None:
                    return conn, self._process.pid
        raise OplabError("The grading server was killed repeatedly.")

    def _has_ended(self, pid: Any) -> bool:
        process = self._process
        return process is None or process.pid != pid or super()._ended(process)

    def _sources(self) -> str:
        return _digest(self._package) if self._package is not None else _digest(integrity.digests())


class SharedEvidenceServer(KeepsEvidence, SharedServer):
    """A :class:`SharedServer` that keeps the evidence of rejected answers, for pictures of the models."""


def _digest(package: dict[str, str]) -> str:
    return hashlib.blake2b(json.dumps(package, sort_keys=True).encode(), digest_size=16).hexdigest()


@functools.cache
def _package() -> str:
    """A digest of the sources of the package, as they were when this process first asked."""
    return _digest(integrity.digests())


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _received(conn: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One message, and the descriptors that came with it.

    Raises:
        OSError: the other side has gone, or says nothing in time.
        ValueError: it is not a message.
    """
    data, handles = bytearray(), []
    while not data.endswith(b"\n"):
        part, got, _, _ = socket.recv_fds(conn, 1, 1)  # byte by byte: what follows belongs to the next message
        handles += got
        if not part or len(data) > _MOST:
            raise ConnectionResetError("the other side has gone")
        data += part
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message, handles


def _is_learners_code(conn: socket.socket) -> bool:
    """Whether a fork server is among the ancestors of the process at the other end.

    What it started is a learner's code: that has limits and may not write to the course, and its own supervisor would lift both.
    Linux only; elsewhere workers are not kept from writing, either.
    """
    if not processes.LINUX:
        return False
    pid = struct.unpack("3i", conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[0]
    line = processes.ancestors(pid)
    return not line or any(b"oplab.grading.fork_server" in command for command in line)
