"""Atomic writes and locks, with processes that are really killed and interrupted."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from oplab import files


def start(body: str, *arguments: Path) -> subprocess.Popen[str]:
    """A Python process that has ``files`` and its arguments as ``paths``; its lines arrive as they are printed."""
    head = "import os, pathlib, sys, time\nfrom oplab import files\npaths = [pathlib.Path(a) for a in sys.argv[1:]]\n"
    return subprocess.Popen(
        [sys.executable, "-u", "-c", head + textwrap.dedent(body), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that starts things in the background makes them ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("content", ["grün\n", b"\x00\xff"])
def test_a_file_is_replaced_with_these_permissions(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    for mode in (0o644, 0o600):
        files.write_atomically(path, content, mode=mode)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    old = os.umask(0o077)
    try:
        files.write_atomically(path, content)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and os.listdir(tmp_path) == ["file"]


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    body = """
        with files.replacing(paths[0]) as file:
            file.write(b"new" * 100_000)
            file.flush()
            print("half", flush=True)
            time.sleep(60)
    """
    writer = start(body, path)
    assert line(writer) == "half"
    writer.kill()
    writer.communicate()
    assert path.read_text() == "old"
    files.write_atomically(path, "newer")
    assert path.read_text() == "newer"


def test_a_block_that_raises_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), files.replacing(path) as file:
            file.write(b"new")
            raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError):
        files.write_atomically(tmp_path / "none" / "file", "text")


HOLD = """
    with files.lock(paths[0], lambda owner: print("waits for", owner, flush=True)):
        print("in, and may go" if paths[-1].exists() else "in", flush=True)
        while len(paths) > 1 and not paths[1].exists():
            time.sleep(0.01)
    print("out", flush=True)
"""


def test_a_lock_excludes_a_second_process(tmp_path: Path) -> None:
    lock, go = tmp_path / "lock", tmp_path / "go"
    first = start(HOLD, lock, go)
    assert line(first) == "in"
    second = start(HOLD, lock, go)
    assert line(second) == f"waits for {first.pid}"
    go.touch()
    assert second.communicate(timeout=60)[0] == "in, and may go\nout\n"
    first.communicate(timeout=60)


def test_a_lock_excludes_a_second_thread(tmp_path: Path) -> None:
    inside, most = [], []

    def work() -> None:
        for _ in range(20):
            with files.lock(tmp_path / "lock"):
                inside.append(1)
                time.sleep(0.001)  # the others get their turn
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 80 and max(most) == 1


def test_a_killed_owner_frees_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first = start(HOLD, lock, tmp_path / "never")
    assert line(first) == "in"
    first.kill()
    first.communicate()
    said: list[str] = []
    with files.lock(lock, said.append):
        assert said == [] and lock.read_text() == f"{os.getpid()}\n"


def test_ctrl_c_ends_the_waiting(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with files.lock(lock):
        waiter = start(HOLD, lock)
        assert line(waiter) == f"waits for {os.getpid()}"
        waiter.send_signal(signal.SIGINT)
        out, errors = waiter.communicate(timeout=60)
    assert waiter.returncode == -signal.SIGINT and out == "" and "KeyboardInterrupt" in errors
    assert start(HOLD, lock, tmp_path).communicate(timeout=60)[0] == "in, and may go\nout\n"


def test_a_tree_is_removed_whatever_is_in_it(tmp_path: Path) -> None:
    """1 200 nested folders end ``shutil.rmtree`` with a RecursionError, and their path is longer than the system takes."""
    tree, kept = tmp_path / "tree", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    tree.mkdir()
    place = os.open(tree, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("inner", dir_fd=place)
        inner = os.open("inner", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    (tree / "file").write_text("x")
    (tree / "link").symlink_to(kept)
    (tree / "closed").mkdir()
    (tree / "closed" / "inside").mkdir()
    (tree / "closed").chmod(0)
    os.mkfifo(tree / "pipe")
    assert files.remove_tree(tree)
    assert os.listdir(tmp_path) == ["kept"] and (kept / "file").read_text() == "mine"


def test_a_tree_that_is_not_there_or_is_a_link_is_no_error(tmp_path: Path) -> None:
    assert files.remove_tree(tmp_path / "none")
    (tmp_path / "link").symlink_to(tmp_path)
    assert not files.remove_tree(tmp_path / "link") and (tmp_path / "link").is_symlink()
