"""What an isolated worker's system calls come to, and its namespaces. Each case runs in a process of its own that confines itself."""

from __future__ import annotations

import platform

import pytest

from oplab.grading import namespaces, seccomp
from tests.support import run_python

pytestmark = pytest.mark.skipif(not seccomp.offered(), reason="seccomp's list is for Linux on x86-64 and AArch64")

HEAD = """
import ctypes, errno, os, pathlib, resource, shutil, socket, subprocess, sys, threading
from oplab.grading import namespaces, seccomp
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
def refused(result):
    return result == -1 and ctypes.get_errno() == errno.EPERM
def raises(call, *arguments):
    try:
        call(*arguments)
    except PermissionError:
        return True
seccomp.refuse_calls()
"""

REFUSED = {
    "a socket": "raises(socket.socket, socket.AF_INET)",
    "a socket of this machine": "raises(socket.socket, socket.AF_UNIX)",
    "limits of another process": "raises(resource.prlimit, parent, resource.RLIMIT_NOFILE, (1, 1))",
    "the priority of another process": "raises(os.setpriority, os.PRIO_PROCESS, parent, 19)",
    "the priority of all processes of the user": "raises(os.setpriority, os.PRIO_USER, 0, 19)",
    "the processors of another process": "raises(os.sched_setaffinity, parent, {{0}})",
    "the scheduler of another process": "raises(os.sched_setscheduler, parent, os.SCHED_IDLE, os.sched_param(0))",
    "input and output of another process": "refused(libc.syscall({ioprio_set}, 1, parent, 3 << 13))",
    "shared memory of System V": "refused(libc.shmget(77, 4096, 0o1600))",
    "semaphores of System V": "refused(libc.semget(77, 1, 0o1600))",
    "messages of System V": "refused(libc.msgget(77, 0o1600))",
    "messages of POSIX": "refused(libc.mq_open(b'/oplab', os.O_CREAT | os.O_RDWR, 0o600, None))",
    "a namespace": "refused(libc.unshare(0x10000000))",
    "a process in a namespace": "refused(libc.syscall({clone}, 0x10000000 | 17, 0, 0, 0, 0))",
    "a mount": "refused(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    "keys": "refused(libc.syscall({keyctl}, 0, -3, 0))",
    "memory of another process": "refused(libc.syscall({process_vm_readv}, parent, 0, 0, 0, 0, 0))",
    "tracing": "refused(libc.ptrace(16, parent, 0, 0))",
}
NUMBERS = {
    "x86_64": {"ioprio_set": 251, "clone": 56, "keyctl": 250, "process_vm_readv": 310},
    "aarch64": {"ioprio_set": 30, "clone": 220, "keyctl": 219, "process_vm_readv": 270},
}
ALLOWED = """
os.setpriority(os.PRIO_PROCESS, 0, 5)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.sched_setaffinity(0, os.sched_getaffinity(0))
thread = threading.Thread(target=print, args=("a thread",))
thread.start(); thread.join()
assert subprocess.run([sys.executable, "-c", "print('a process')"], capture_output=True).stdout
one, other = socket.socketpair()
one.send(b"x"); assert other.recv(1) == b"x"
assert os.fork() == 0 or os.wait()
"""


def test_calls_that_reach_other_processes_are_refused():
    numbers = NUMBERS[platform.machine()]
    lines = [f"print({name!r}, bool({code.format(**numbers)}), sep=': ')" for name, code in REFUSED.items()]
    done = run_python(HEAD + "\n".join(lines))
    assert done.stdout.splitlines() == [f"{name}: True" for name in REFUSED], done.stderr


def test_what_python_itself_needs_is_allowed():
    done = run_python(HEAD + ALLOWED)
    assert done.returncode == 0, done.stderr


def test_a_change_of_mode_or_times_succeeds_and_changes_nothing(tmp_path):
    (tmp_path / "file").write_text("x")
    body = """
path = pathlib.Path(sys.argv[1])
def state():
    found = path.stat()  # without its time of access: copy2 reads the file, and that sets it
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns
before = state()
path.chmod(0o777); os.utime(path, (1, 1)); os.chown(path, 1, 1); os.setxattr(path, "user.oplab", b"1")
assert path.stat().st_atime > 1
shutil.copy2(path, path.with_name("copy"))
assert state() == before and not os.listxattr(path)
"""
    done = run_python(HEAD + body, tmp_path / "file")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy").read_text() == "x"


@pytest.mark.skipif(not namespaces.offered(), reason="this system gives no namespaces to a process of this user")
def test_in_namespaces_of_its_own_only_its_folders_can_be_written(tmp_path):
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    body = """
import ctypes, os, pathlib, socket, sys
from oplab.grading import namespaces
own, other = map(pathlib.Path, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
namespaces.enter([own])
(own / "file").write_text("x")
(own / "file").chmod(0o600)
for call in (lambda: (other / "file").write_text("x"), lambda: other.chmod(0o700), lambda: os.utime(other, (1, 1))):
    try:
        call()
    except OSError as error:
        assert error.errno == 30, error  # EROFS
    else:
        sys.exit("it could be changed")
with open(os.devnull, "w") as null:
    null.write("x")
assert socket.if_nameindex() == [(1, "lo")]
"""
    done = run_python(body, tmp_path / "own", tmp_path / "other")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "own" / "file").read_text() == "x" and list((tmp_path / "other").iterdir()) == []
