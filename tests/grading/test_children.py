"""Forks of a check: one that is killed from outside takes the worker with it, and one whose threads wait for each other is ended."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from oplab.checks.children import alarm_when_stuck, wait_for
from tests.support.forks import fork

STILL = 0.5


def ended(work) -> int:
    """How a fork ends that does ``work``."""
    child = fork(work)
    alarm_when_stuck(child, STILL)
    return wait_for(child)


def busy() -> None:
    end = time.process_time() + 3 * STILL
    while time.process_time() < end:
        pass


def napping() -> None:
    for _ in range(30):
        time.sleep(0.1)


def stuck() -> None:
    lock = threading.Lock()
    with lock:
        other = threading.Thread(target=lock.acquire)
        other.start()
        other.join()


def one_of_two_is_stuck() -> None:
    threading.Thread(target=stuck, daemon=True).start()
    napping()


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are found in /proc")
def test_a_fork_whose_threads_wait_for_each_other_is_ended():
    assert ended(stuck) == -signal.SIGALRM


@pytest.mark.nightly
@pytest.mark.parametrize("work", [busy, napping, one_of_two_is_stuck])
def test_a_fork_that_takes_its_time_is_not_ended(work):
    assert ended(work) == 0


def test_a_fork_that_is_killed_from_outside_takes_the_worker_with_it():
    """The server runs the job again then. Any other end is what the check wants to know."""

    def worker(number: int) -> int:
        child = fork(lambda: -wait_for(fork(lambda: os.kill(os.getpid(), number))))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert worker(signal.SIGKILL) == -signal.SIGKILL
    assert worker(signal.SIGTERM) == signal.SIGTERM
