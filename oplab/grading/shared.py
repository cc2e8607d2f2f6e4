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
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oplab.errors import OplabError
from oplab.grading import integrity, processes

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


def address(root: Path, ending: str) -> Path | None:
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


class Share:
    """The place where the processes of a user share a course's server. It belongs to one :class:`oplab.grading.client.Server`.

    Args:
        root: the course's folder.
        host: whether it may be the host.
        track: as for :meth:`oplab.grading.client.Server.shared`.
    """

    def __init__(self, root: Path, host: bool, track: str = "exercises"):
        self._address = address(root, f"{track}.sock")
        self._lock = ProcessLock(address(root, f"{track}.host") if host else None)
        self._listening: socket.socket | None = None

    # --- the client's side ---

    def borrow(self, patience: float) -> socket.socket | None:
        """A connection to a supervisor of the host's server; None where there is no host, or not one to use.

        Args:
            patience: seconds for a server that the host has to start.
        """
        if self._address is None:
            return None
        try:
            with socket.socket(socket.AF_UNIX) as conn:
                conn.settimeout(_PATIENCE)
                conn.connect(str(self._address))
                conn.sendall(_line({"package": _package(), "python": sys.prefix}))
                if not _received(conn)[0].get("heard"):
                    return None
                conn.settimeout(patience + _PATIENCE)
                handles = _received(conn)[1]
        except (OSError, ValueError):
            return None
        return socket.socket(fileno=handles[0]) if handles else None

    # --- the host's side ---

    def listen(self, lend: Callable[[], socket.socket], sources: Callable[[], dict[str, str]]) -> bool:
        """Become the host if this object may and there is none, and say whether it is the host.

        Args:
            lend: makes a connection to a new supervisor. It may raise an OplabError or a RuntimeError.
            sources: the digests of the package's files that the server has loaded.
        """
        if self._listening is not None:
            return True
        if self._address is None or not self._lock.take():
            return False
        listening = socket.socket(socket.AF_UNIX)
        try:
            self._address.unlink(missing_ok=True)  # of a host that was killed: its lock is free
            listening.bind(str(self._address))
            os.chmod(self._address, 0o600)
            listening.listen(16)
            listening.settimeout(1.0)  # closing it does not wake a thread that waits in accept
        except OSError:
            listening.close()
            self._lock.release()
            return False
        self._listening = listening
        serve = threading.Thread(target=self._serve, args=(listening, lend, sources), name="oplab-host", daemon=True)
        serve.start()
        return True

    def close(self) -> None:
        """Stop being the host."""
        if self._listening is not None and self._address is not None:
            self._listening.close()
            with contextlib.suppress(OSError):
                self._address.unlink(missing_ok=True)
            self._listening = None
        self._lock.release()

    def _serve(self, listening: socket.socket, *answers: Any) -> None:
        while self._listening is listening:
            try:
                conn, _ = listening.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=_answer, args=(conn, *answers), name="oplab-host-answer", daemon=True).start()


def _answer(conn: socket.socket, lend: Callable[[], socket.socket], sources: Callable[[], dict[str, str]]) -> None:
    """Answer one client. A server that does not start is not its concern: it starts its own then."""
    with conn, contextlib.suppress(OSError, ValueError, RuntimeError, OplabError):
        conn.settimeout(_PATIENCE)
        asked, _ = _received(conn)
        same = asked.get("package") == _digest(sources()) and asked.get("python") == sys.prefix
        heard = same and not _is_learners_code(conn)
        conn.sendall(_line({"heard": heard}))
        if heard:
            with lend() as theirs:
                socket.send_fds(conn, [_line({})], [theirs.fileno()])


def is_alive(conn: socket.socket) -> bool:
    """Whether the supervisor of an idle connection still runs: it sends nothing, so only the end of the stream can be read."""
    try:
        conn.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


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
