"""The fork server: it loads torch, onnx, onnxruntime and, where asked for, the exporter once, and never runs a learner's code.

Three kinds of process take part. For each socket that the *server* is handed it forks a *supervisor*
(:mod:`oplab.grading.supervisor`). For each job on that socket the supervisor forks a *worker* (:mod:`oplab.grading.worker`), watches
its limits, ends everything that the worker started, and answers. So there is no path or port that a learner's code could talk to.
:class:`oplab.grading.client.Server` starts this process.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from oplab.grading import integrity, isolation, processes, warm
from oplab.grading.supervisor import supervise


def main() -> None:
    """Load the libraries, report ready, and serve until the client has gone.

    The arguments of the command are the number of the control socket's descriptor, the preloads separated by commas, and ``many`` or
    an empty string.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    preload = [name for name in sys.argv[2].split(",") if name]
    many = sys.argv[3] == "many"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole foreground group: the client decides
    # It looks at the socket again when it is warm, in seconds, and makes a folder for temporary files meanwhile: the next run may
    # have removed those of a client that was killed. Later it must not end like this, but end what it has started.
    processes.die_with_parent(os.getppid())
    if _has_gone(control):
        return
    processes.adopt_orphans()
    isolation.forbid_tracing()
    integrity.only_known_code()
    os.environ.pop("ORT_LOAD_CONFIG_FROM_MODEL", None)  # a model must not configure the session that judges it
    warm.warm_up(preload)
    gc.collect()
    gc.freeze()  # the libraries' objects: a worker neither walks them nor, by walking, copies their pages
    if many:
        warm.collapse_into_huge_pages()
    processes.outlive_parent()
    control.sendall(b"r")
    serve(control)


def _has_gone(control: socket.socket) -> bool:
    """Whether the client has ended: it sends nothing yet, so only the end of the stream can be read."""
    try:
        return not control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def serve(control: socket.socket) -> None:
    """Fork a supervisor for each socket that arrives. When the client has gone, end all of them and this process."""
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
                processes.kill(pid)
            processes.kill_descendants()
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
    """Collect ended children. The worker of a supervisor that was killed is now our child: it is ended too."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        supervisors.discard(pid)
    for pid in processes.children(os.getpid()):
        if pid not in supervisors:
            processes.kill(pid)
