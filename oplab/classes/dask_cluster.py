"""A Dask cluster as the engine needs it: started or reached, asked what its workers have, and told what to run.

Nothing above this module knows Dask's interface, except for the futures that it passes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import Any

from oplab.classes import dask_worker
from oplab.classes.dask_worker import SLOT
from oplab.errors import OplabError, first_line
from oplab.grading.scratch import scratch_folder

EXTRA = "`make deps-class` installs it; without it, `--jobs N` uses the processors of this machine."
CONNECT_LIMIT = 15.0  # seconds to reach a scheduler
ASK_LIMIT = 150.0  # seconds for workers to say what they have
WAKE = 3.0  # seconds for which a worker that has just started has something to do
END_LIMIT = 12.0  # seconds for workers to end what they run
# What Dask watches and samples many times a second for its dashboard, which a local cluster has not.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}
TLS = "Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__TLS__CLIENT__CERT and …__TLS__CLIENT__KEY (docs/class_cluster.md)."
FORMS = "--cluster takes local:N, for N workers on this machine, or a scheduler's address: tls://host:8786 or tcp://host:8786."


@dataclass(frozen=True)
class Found:
    """What is known of a worker.

    Attributes:
        slots: how many tasks it runs at the same time.
        versions: of what must be the same on all machines.
        compiler: the name of its C++ compiler; empty without one.
        machine: the computer's name.
        problem: why it cannot grade; empty where it can.
    """

    slots: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    compiler: str = ""
    machine: str = ""
    problem: str = ""


class Cluster:
    """A cluster of workers on this machine, or elsewhere.

    Args:
        where: ``local:N``, ``tcp://…`` or ``tls://…``.
        hidden: absolute names of folders that learners' code must not see.

    Attributes:
        dashboard: the address of the scheduler's page; empty where it has none, and before :meth:`open`.

    Raises:
        OplabError: it is none of them, or Dask is not installed.
    """

    def __init__(self, where: str, hidden: Iterable[str] = ()):
        self.where, self._hidden, self.dashboard = where, list(hidden), ""
        local = re.fullmatch(r"local:([1-9]\d{0,2})", where)
        if not local and not re.fullmatch(r"(tcp|tls)://[^\s/]+:\d+/?", where):
            raise OplabError(f"{where!r} is not a cluster.", FORMS)
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise OplabError("A cluster needs Dask, which is not installed.", EXTRA) from None
        self._local = int(local[1]) if local else 0
        self._command = f"oplab-{secrets.token_hex(6)}"
        self._client: Any = None
        self._stack = ExitStack()
        self._pids: list[int] = []

    def open(self, tell: Callable[[tuple[Any, ...]], None]) -> None:
        """Start the cluster, or reach its scheduler.

        Args:
            tell: called from another thread with ``("joined", address)`` and ``("left", address, expected)``.

        Raises:
            OplabError: it does not start, or cannot be reached.
        """
        import dask
        from distributed import Client, Security

        for name in [*logging.root.manager.loggerDict, "tornado.application"]:
            if name.partition(".")[0] in ("distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters is said in sentences
        if self.where.startswith("tls:") and not Security().get_connection_args("client").get("ssl_context"):
            raise OplabError(
                f"The scheduler {self.where} asks for a certificate, and Dask's configuration names none.", TLS
            )
        address: Any = self._start() if self._local else self.where.rstrip("/")
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": CONNECT_LIMIT}):
                self._client = Client(address, timeout=CONNECT_LIMIT, set_as_default=False)
        except (OSError, TimeoutError, TypeError, ValueError, RuntimeError) as error:
            fix = "See that it runs, and that its address and certificates are right (docs/class_cluster.md)."
            raise OplabError(f"The scheduler {self.where} cannot be reached: {first_line(error)}.", fix) from None

        def heard(event: tuple[float, Any]) -> None:
            what = event[1]
            if what.get("action") == "add-worker":
                tell(("joined", what["worker"]))
            elif what.get("action") == "remove-worker":
                tell(("left", what["worker"], bool(what.get("expected"))))

        self._client.subscribe_topic("all", heard)
        if not self._local:
            with contextlib.suppress(Exception):  # an extra: it needs bokeh on the scheduler
                self.dashboard = self._client.dashboard_link or ""

    def _start(self) -> Any:
        """A scheduler in this process, and workers in their own, which only this user's certificate can talk to."""
        import dask
        from distributed import LocalCluster, Security

        folder = self._stack.enter_context(scratch_folder())
        try:
            security = Security.temporary()
        except ImportError:
            raise OplabError("A local cluster needs the package cryptography, which is not installed.", EXTRA) from None
        # The limits of memory are the grader's: Dask's would count the worker alone, which holds nothing.
        # The scheduler, in this process, has its own folder beside the workers', and does not remove it.
        config = {"distributed.scheduler.allowed-failures": 0, "temporary-directory": str(folder), **QUIET}
        with dask.config.set(config), _without_interrupts():
            cluster = LocalCluster(
                n_workers=self._local,
                threads_per_worker=1,
                resources={SLOT: 1},
                memory_limit=0,
                security=security,
                dashboard_address=None,
                local_directory=str(folder),
                preload=["oplab.classes.dask_worker"],
                silence_logs=logging.CRITICAL,
            )
        self._stack.callback(self._close_local, cluster)
        return cluster

    @property
    def alive(self) -> bool:
        """Whether the scheduler is there."""
        return self._client.status == "running"

    def wait_for_workers(self, exercises: list[str], patience: float) -> dict[str, Found]:
        """What the workers have, by address, as soon as there is one.

        Raises:
            OplabError: there is none in ``patience`` seconds.
        """
        limit = time.monotonic() + patience
        waking = None
        try:
            while not (found := self.ask(list(self._workers()), exercises)):
                if time.monotonic() > limit:
                    raise OplabError(
                        f"The scheduler {self.where} has had no worker for {patience:.0f} s.",
                        f"Start some: dask worker {self.where} --nthreads 1 --resources {SLOT}=1 (docs/class_cluster.md).",
                    )
                if waking is None or waking.status != "pending":
                    waking = self.wake()
                time.sleep(0.2)
        finally:
            self.cancel([waking])
        return found

    def ask(self, addresses: list[str], exercises: list[str]) -> dict[str, Found]:
        """What these workers have. Those that leave meanwhile are not in it."""
        found: dict[str, Found] = {}
        if not addresses:
            return found
        try:
            answers = self._run(dask_worker.probe, exercises, workers=addresses, limit=ASK_LIMIT)
        except (
            Exception
        ):  # whatever a worker's end raises at this moment; one that lives is asked again with the next event
            return found
        known = self._workers()
        for address, answer in answers.items():
            if address not in known:
                continue
            if isinstance(answer, BaseException) or not isinstance(answer, dict):
                found[address] = Found(problem=f"oplab cannot be used there: {_in_words(answer)}")
            elif "error" in answer:
                found[address] = Found(problem=str(answer["error"]).rstrip("."))
            else:
                slots = min(int(known[address].get("resources", {}).get(SLOT, 0)), known[address]["nthreads"])
                missing = f"it does not offer the resource {SLOT} (dask worker … --resources {SLOT}=1)"
                found[address] = Found(slots, problem="" if slots else missing, **answer)
        return found

    def send(self, task: Mapping[str, Any], name: str, address: str) -> Any:
        """Have a worker run a task. The future has a name that no other task may have."""
        return self._client.submit(
            dask_worker.run,
            dict(task),
            self._command,
            self._hidden,
            key=name,
            workers=[address],
            allow_other_workers=False,
            resources={SLOT: 1},
            retries=0,
            pure=False,
        )

    def fetch(self, future: Any, limit: float) -> tuple[str, Any]:
        """How a task ended.

        Returns:
            ``("verdict", …)``, as plain values or None where its processes were ended; ``("failed", sentence)``; ``("killed", None)``
            where Dask says that its worker was; or ``("gone", None)``, when it is not known.
        """
        from distributed import KilledWorker

        try:
            if future.status == "finished":
                return "verdict", future.result(timeout=limit)
            if future.status == "error":
                error = future.exception(timeout=limit)
                return ("killed", None) if isinstance(error, KilledWorker) else ("failed", _in_words(error))
        except Exception:  # its worker or the scheduler has ended since
            pass
        return "gone", None

    def wake(self) -> Any:
        """A task that any worker with a slot may run: a cluster that adapts starts one for it, and keeps it while it is asked."""
        name = f"oplab-wake-{secrets.token_hex(6)}"
        return self._client.submit(time.sleep, WAKE, key=name, resources={SLOT: 1}, pure=False)

    def cancel(self, futures: Iterable[Any]) -> None:
        """Forget tasks. One that runs already goes on, and its result is not waited for."""
        futures = [future for future in futures if future is not None]
        if futures and self.alive:
            with contextlib.suppress(Exception):  # the scheduler ends at this moment
                self._client.cancel(futures, force=True)

    def close(self) -> None:
        """End what runs for this command on the workers, leave the cluster, and end it if it is a local one."""
        client, self._client = self._client, None
        if client is not None:
            if client.status == "running":
                with contextlib.suppress(Exception):
                    self._client = client
                    self._run(dask_worker.end, self._command, workers=None, limit=END_LIMIT)
                self._client = None
                with contextlib.suppress(Exception):
                    client.unsubscribe_topic("all")
            with contextlib.suppress(Exception):
                client.close(timeout=2)
        self._stack.close()

    def _close_local(self, cluster: Any) -> None:
        pids = [worker.pid for worker in cluster.workers.values() if getattr(worker, "pid", None)]
        with contextlib.suppress(Exception):
            cluster.close(timeout=5)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _workers(self) -> dict[str, Any]:
        """What the scheduler knows of its workers now, by address."""
        if not self.alive:
            return {}
        return self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]

    def _run(self, function: Callable[..., Any], *arguments: Any, workers: list[str] | None, limit: float) -> Any:
        """Call a coroutine function in each worker; an exception takes the place of its result."""
        thread = ThreadPoolExecutor(1)  # Dask has no limit of time for this, and a worker may be stopped
        try:
            return thread.submit(self._client.run, function, *arguments, workers=workers, on_error="return").result(
                limit
            )
        finally:
            thread.shutdown(wait=False)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Threads that begin in the block, and the processes that they start later, do not get the Ctrl-C of a terminal."""
    resource_tracker.ensure_running()  # it unblocks the signal in the thread that starts it, which should not be one of those
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_words(error: Any) -> str:
    return f"{type(error).__name__}: {first_line(error)}" if isinstance(error, BaseException) else str(error)


def refuse_versions(mine: Mapping[str, str], found: Mapping[str, Found], where: str) -> None:
    """Refuse a cluster where a worker has other versions.

    Raises:
        OplabError: with the list of this machine, and that of each kind of worker that differs.
    """
    others: dict[str, list[str]] = {}
    for address, worker in sorted(found.items()):
        if worker.versions and dict(worker.versions) != dict(mine):
            listed = ", ".join(f"{name} {worker.versions.get(name, 'none')}" for name in mine)
            others.setdefault(listed, []).append(address)
    if not others:
        return
    lines = [f"Workers of {where} have other versions than this machine, so their grades could differ."]
    lines.append(f"  here: {', '.join(f'{name} {version}' for name, version in mine.items())}")
    for listed, addresses in others.items():
        more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
        lines.append(f"  {addresses[0]}{more}: {listed}")
    fix = "Install the same packages and the same course on all machines (`grader` is a digest of the checks)."
    raise OplabError("\n".join(lines), fix)
