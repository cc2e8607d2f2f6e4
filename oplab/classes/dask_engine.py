"""The engine of ``oplab class grade --cluster``: Dask schedules the tasks, on this machine or on others.

A worker's slots are a resource. An exception is tried again (``retries``), and so is a task whose worker has died, as often as the
scheduler's ``allowed-failures`` says. Dask blames the death of a worker on all tasks that it has assigned to it, also on those that
wait there. So there are never more tasks in the cluster than slots.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from oplab.classes.engines import Plain
from oplab.classes.local import failed
from oplab.classes.neighbours import Neighbours
from oplab.classes.records import Verdict
from oplab.errors import OplabError, first_line
from oplab.grading.scratch import scratch_folder

RETRIES = 2  # after an exception
PATIENCE = 60.0  # seconds to wait for a first worker
# For a local cluster. Its memory is the grader's to limit: Dask would see the worker alone, which holds nothing.
CONFIG = {
    "distributed.scheduler.allowed-failures": 2,
    "distributed.scheduler.no-workers-timeout": "60s",
    "distributed.worker.profile.enabled": False,
}
PAGE = "docs/class_cluster.md shows how a cluster is started."
AGAIN = "Graded answers are kept; run the same command again to resume."
EXTRA = "`make deps-class` installs it; without it, `--jobs N` uses the processors of this machine."
FORMS = "--cluster takes local:N, for N workers on this machine, or a scheduler's address: tls://host:8786 or tcp://host:8786."


class DaskEngine:
    """An engine (:class:`oplab.classes.engines.Engine`) that runs tasks on a Dask cluster.

    Args:
        where: ``local:N``, or the address of a scheduler: ``tcp://…``, ``tls://…``.
        hidden: folders that learners' code must not see, where a worker's machine has them, too.
        say: told in a sentence that a worker was lost, from another thread.
    """

    def __init__(self, where: str, hidden: Sequence[Path] = (), say: Callable[[str], None] = lambda line: None):
        local = re.fullmatch(r"local:([1-9]\d{0,2})", where)
        if not local and not re.fullmatch(r"(tcp|tls)://[^\s/]+:\d+/?", where):
            raise OplabError(f"{where!r} is not a cluster.", FORMS)
        try:
            import cryptography  # noqa: F401
            import distributed  # noqa: F401
        except ImportError as error:
            raise OplabError(f"A cluster needs {error.name}, which is not installed.", EXTRA) from None
        self._where, self._local = where, int(local[1]) if local else 0
        self._hidden, self._say = [str(folder.resolve()) for folder in hidden], say
        self._name = f"oplab-{secrets.token_hex(6)}"
        self._client: Any = None
        self._stack = ExitStack()
        self._neighbours = Neighbours()
        self._stopping = threading.Event()
        self._changed = threading.Event()  # workers have joined or left
        self._running: dict[Any, tuple[Plain, float]] = {}  # future -> its task, and since when

    def running(self) -> Mapping[str, float]:
        """Exercise id to seconds so far."""
        now = time.monotonic()
        return {task["exercise"]: now - since for task, since in self._running.copy().values()}

    def finish(self) -> None:
        """Begin no further task."""
        self._stopping.set()

    def close(self) -> None:
        """End all that runs, on all machines, and the cluster if it is a local one."""
        with contextlib.suppress(Exception):  # a scheduler that has ended, or ends now
            self._stack.close()

    def submit(self, tasks: Iterable[Plain]) -> Iterator[Verdict]:
        """Run tasks; see :class:`oplab.classes.engines.Engine`.

        What another task may have interfered with runs again at the end, with nothing else at the same time. Only that counts.
        """
        self._open()
        try:
            yield from self._all(iter(tasks))
            if again := self._neighbours.suspected():
                yield from self._all(iter(again), most=1)
        except OplabError:
            raise
        except Exception:
            if self._client.status == "running":
                raise
            raise OplabError(
                f"The scheduler of {self._where} has ended, or cannot be reached any more.", AGAIN
            ) from None

    def _all(self, tasks: Iterator[Plain], most: float = float("inf")) -> Iterator[Verdict]:
        from distributed import as_completed

        from oplab.classes.dask_worker import SLOT, grade

        ended = as_completed(loop=self._client.loop)
        slots = 0

        def fill() -> None:
            nonlocal slots
            if self._changed.is_set():
                self._changed.clear()
                slots = self._slots()
            while len(self._running) < min(max(1, slots), most) and not self._stopping.is_set():
                if (task := next(tasks, None)) is None:
                    break
                self._neighbours.begin(task)
                future = self._client.submit(grade, task, self._name, resources={SLOT: 1}, retries=RETRIES, pure=False)
                self._running[future] = task, time.monotonic()
                ended.add(future)

        self._changed.set()
        fill()
        for future in ended:
            task, _ = self._running.pop(future)
            yield from self._neighbours.end(task, self._verdict(task, future))
            fill()

    def _verdict(self, task: Plain, future: Any) -> Verdict:
        """How a task ended."""
        from distributed import KilledWorker
        from distributed.scheduler import NoValidWorkerError, NoWorkerError

        try:
            return future.result()
        except OplabError:  # of a worker with other versions
            raise
        except KilledWorker as error:
            return failed(task, f"Its worker was lost {error.allowed_failures + 1} times, so it is not graded yet.")
        except (NoWorkerError, NoValidWorkerError) as error:
            raise OplabError(f"{self._where} has had no worker with slots for {error.timeout:.0f} s.", AGAIN) from None
        except Exception as error:
            if self._client.status != "running":
                raise
            return failed(task, f"It could not be graded: {type(error).__name__}: {first_line(error)}.")

    def _slots(self) -> int:
        from oplab.classes.dask_worker import SLOT

        workers = self._client.scheduler_info()["workers"].values()
        return sum(int(min(worker["resources"].get(SLOT, 0), worker["nthreads"])) for worker in workers)

    def _open(self) -> None:
        """Start the cluster, or reach its scheduler, and set its workers up."""
        from distributed import Client

        from oplab.classes.dask_worker import SLOT, Graders, Leaving, here

        needed = here()
        for name in [*logging.root.manager.loggerDict]:
            if name.partition(".")[0] in ("distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters is said in sentences
        try:
            client = Client(self._start() if self._local else self._where.rstrip("/"), set_as_default=False)
        except Exception as error:
            raise OplabError(f"{self._where} cannot be started or reached: {first_line(error)}.", PAGE) from None
        self._client = self._stack.enter_context(client)
        self._stack.callback(self._leave)
        client.subscribe_topic("all", self._heard)
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise OplabError(f"{self._where} has had no worker for {PATIENCE:.0f} s.", PAGE) from None
        try:
            client.register_plugin(Leaving(client.id, self._name))
            client.register_plugin(Graders(self._name, self._hidden, needed))
        except OplabError:
            raise
        except Exception as error:
            raise OplabError(
                f"{self._where} cannot use oplab on all its machines: {first_line(error)}.", PAGE
            ) from None
        if not self._slots():
            raise OplabError(f"No worker of {self._where} offers the resource {SLOT}.", PAGE)

    def _start(self) -> Any:
        """A scheduler in this process, and workers in their own, which only this command's certificate can talk to."""
        import dask
        from distributed import LocalCluster

        from oplab.classes.dask_worker import SLOT

        folder = str(self._stack.enter_context(scratch_folder()))
        with dask.config.set({"temporary-directory": folder, **CONFIG}), _without_interrupts():
            return self._stack.enter_context(
                LocalCluster(
                    n_workers=self._local,
                    threads_per_worker=1,
                    resources={SLOT: 1},
                    memory_limit=0,
                    security=True,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )

    def _heard(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Dask calls this for what happens in the scheduler."""
        what = event[1]
        if what.get("action") in ("add-worker", "remove-worker"):
            self._changed.set()
            if not what.get("expected", True):
                self._say(f"The worker {what['worker']} was lost; its answer is graded again.")

    def _leave(self) -> None:
        """End what grades for this command on all machines."""
        if self._client.status == "running":
            self._client.unsubscribe_topic("all")
            self._client.unregister_worker_plugin(self._name)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Threads that begin in the block, and the processes that they start later, do not get the Ctrl-C of a terminal."""
    resource_tracker.ensure_running()  # it unblocks the signal in the thread that starts it, which should not be one of those
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
