"""`--cluster`: tasks on Dask. What is killed while it grades costs no task, and no other task is blamed for it."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="Dask is an extra, which `make test` installs where pip has it")

import dask.config

from oplab.classes import dask_engine, dask_worker
from oplab.classes.dask_cluster import Found
from oplab.classes.dask_engine import DaskEngine
from oplab.classes.records import Verdict
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.grading.results import Outcome
from tests.support import dask_lab
from tests.support.dask_lab import Lab, certificates, kill, task, wait
from tests.support.fixture_course import copy_course

numbers = itertools.count()  # no two tasks of this file have a key in common


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return copy_course(tmp_path_factory.mktemp("class") / "course")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("keys"))


@pytest.fixture(autouse=True)
def here(course, keys, monkeypatch):
    """This process has the course and the certificates."""
    monkeypatch.setenv("OPLAB_ROOT", str(course))
    tls = {"ca-file": keys["ca"], "client.cert": keys["cert"], "client.key": keys["key"]}
    with dask.config.set({f"distributed.comm.tls.{name}": str(path) for name, path in tls.items()}):
        yield


@pytest.fixture(scope="module")
def pair(tmp_path_factory, course, keys):
    """Two workers with nannies, which start them again."""
    with dask_lab.lab(tmp_path_factory.mktemp("pair"), course, keys) as made:
        made.start_worker()
        made.start_worker()
        yield made


@pytest.fixture
def single(tmp_path, course):
    """A scheduler of one test, over tcp, without a worker."""
    with dask_lab.lab(tmp_path, course) as made:
        yield made


@pytest.fixture
def grading(course):
    """Makes an engine, and closes it; ``said`` holds its sentences."""
    engines = []

    def make(lab: Lab | str, patience: float = 60.0) -> DaskEngine:
        said: list[str] = []
        engine = DaskEngine(
            load(course), lab if isinstance(lab, str) else lab.address, say=said.append, patience=patience
        )
        engine.said = said
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def make_tasks(*texts: str, exercise: str = "c01.passes") -> list[dict]:
    return [task(next(numbers), text, exercise) for text in texts]


def both_there(lab: Lab) -> None:
    wait(lambda: len(lab.workers()) == 2)


@pytest.mark.nightly
class TestOnTwoWorkers:
    def test_each_task_is_graded_once(self, pair, grading):
        both_there(pair)
        tasks = make_tasks(*["sleep 0.1"] * 12)
        engine = grading(pair)
        verdicts = list(engine.submit(tasks))
        assert sorted(verdict.key for verdict in verdicts) == sorted(one["key"] for one in tasks)
        assert {verdict.outcome.status for verdict in verdicts} == {"passed"}
        assert {verdict.outcome.message for verdict in verdicts} == {"OMP_NUM_THREADS not set"}  # as with --jobs
        mine = [key for key, _ in pair.runs() if key in {one["key"] for one in tasks}]
        assert len(mine) == len(set(mine)) == 12
        assert len(engine.machines) == 1
        assert not engine.running()
        engine.close()
        assert [key for key, _ in pair.runs()].count("closed") == len({pid for _, pid in pair.runs()})

    def test_a_task_that_kills_its_worker_is_blamed_alone(self, pair, grading):
        both_there(pair)
        tasks = make_tasks("sleep 0.1", "kill", *["sleep 0.1"] * 8)
        verdicts = {verdict.key: verdict for verdict in grading(pair).submit(tasks)}
        killer = verdicts.pop(tasks[1]["key"])
        assert killer.outcome.status == "grader_error"
        assert "lost 2 times while nothing else ran" in killer.outcome.message
        assert len(verdicts) == 9
        assert {verdict.outcome.status for verdict in verdicts.values()} == {"passed"}
        runs = [key for key, _ in pair.runs()]
        assert runs.count(tasks[1]["key"]) <= 3
        assert max(runs.count(key) for key in verdicts) <= 2

    def test_an_exception_is_a_sentence(self, pair, grading):
        both_there(pair)
        (verdict,) = grading(pair).submit(make_tasks("raise"))
        assert verdict.outcome.status == "grader_error"
        assert "RuntimeError: the disk is full" in verdict.outcome.message


class Noting:
    """In the place of a cluster: what was sent to which worker, and what was cancelled."""

    where = "here"

    def __init__(self):
        self.sent, self.cancelled = [], []

    def send(self, plain, name, address):
        self.sent.append((plain["key"], address))
        return SimpleNamespace(add_done_callback=lambda call: None, name=name)

    def cancel(self, futures):
        self.cancelled += [future.name for future in futures]


class TestWhatIsSentWhere:
    """The engine's decisions, one event after the other."""

    @pytest.fixture
    def engine(self, grading):
        engine = grading("tcp://127.0.0.1:9")
        engine._cluster = Noting()
        yield engine
        engine._closed = True

    def begin(self, engine, tasks, *addresses):
        engine._tasks = iter(tasks)
        for address in addresses:
            engine._workers[address] = dask_engine._Worker(Found(slots=1, compiler="g++"))
        engine._feed()

    def test_a_worker_has_one_task_and_the_next(self, engine):
        tasks = make_tasks("a", "b", "c")
        self.begin(engine, tasks, "one")
        assert engine._cluster.sent == [(task["key"], "one") for task in tasks[:2]]
        assert list(engine.running()) == ["c01.passes"]

    def test_two_lost_tasks_run_again_alone_and_unblamed(self, engine):
        tasks = make_tasks("a", "b", "c", "d")
        self.begin(engine, tasks, "one")
        assert engine._leave("one", False) == []
        assert [task.blamed for task in engine._suspects] == [0, 0]
        engine._workers["two"] = dask_engine._Worker(Found(slots=1, compiler="g++"))
        engine._feed()
        assert engine._cluster.sent[2:] == [(tasks[0]["key"], "two")]  # and not one more

    def test_a_task_that_was_lost_alone_is_blamed(self, engine):
        tasks = make_tasks("a")
        self.begin(engine, tasks, "one")
        assert engine._leave("one", False) == []
        self.begin(engine, [], "two")
        (verdict,) = engine._leave("two", False)
        assert (verdict.key, verdict.outcome.status) == (tasks[0]["key"], "grader_error")

    def test_a_worker_that_was_asked_to_leave_blames_nothing(self, engine):
        tasks = make_tasks("a", "b")
        self.begin(engine, tasks, "one")
        engine._leave("one", True)
        assert not engine._suspects
        self.begin(engine, [], "two")
        assert engine._cluster.sent[2:] == [(task["key"], "two") for task in tasks]  # in the same order

    def test_after_finish_only_what_began_is_left(self, engine):
        self.begin(engine, make_tasks("a", "b"), "one")
        engine.finish()
        engine._handle("finish")
        assert engine._cluster.cancelled == ["oplab-grade-1"]
        assert list(engine._workers["one"].sent) == ["oplab-grade-0"]

    def test_answers_in_cpp_go_where_a_compiler_is(self, engine):
        python, cpp = make_tasks("a", "b"), make_tasks("c", "d", "e", exercise="c01.compiles")
        engine._workers["none"] = dask_engine._Worker(Found(slots=1, compiler=""))
        self.begin(engine, [*cpp, *python])
        assert engine._cluster.sent == [(task["key"], "none") for task in python]
        assert engine._without_compiler() == []  # as long as something runs
        engine._workers["able"] = dask_engine._Worker(Found(slots=1, compiler="g++"))
        engine._feed()
        assert engine._cluster.sent[2:] == [(task["key"], "able") for task in cpp[:2]]
        del engine._workers["able"]
        engine._workers["none"].sent.clear()
        (verdict,) = engine._without_compiler()
        assert (verdict.key, verdict.outcome.status) == (cpp[2]["key"], "grader_error")

    def test_a_busy_worker_is_emptied_for_a_lost_task(self, engine):
        tasks = make_tasks("a", "b", "c", "d", "e")
        self.begin(engine, tasks, "one", "two")
        engine._leave("two", False)
        engine._feed()
        assert len(engine._cluster.sent) == 4  # nothing more for "one", which has two of its own
        engine._workers["one"].sent.clear()
        engine._feed()
        assert engine._cluster.sent[4:] == [(tasks[2]["key"], "one")]


class TestNothingCanRun:
    @pytest.mark.nightly
    def test_other_versions_are_refused_with_both_lists(self, single, grading, course, tmp_path):
        other = copy_course(tmp_path / "other")
        checks = other / "oplab" / "checks" / "c01_cases.py"
        checks.write_text(checks.read_text() + "\n# another version\n")
        single.start_worker(nanny=False, OPLAB_ROOT=str(other))
        with pytest.raises(OplabError) as refused:
            list(grading(single).submit(make_tasks("")))
        lines = str(refused.value).splitlines()
        assert "other versions" in lines[0]
        assert lines[1].startswith("  here: grader ") and "torch" in lines[1] and "onnxruntime" in lines[1]
        assert lines[2].startswith("  tcp://") and "torch" in lines[2] and "onnxruntime" in lines[2]
        assert lines[1].partition("grader ")[2][:12] != lines[2].partition("grader ")[2][:12]
        assert not single.runs()

    @pytest.mark.nightly
    def test_a_worker_without_a_slot_is_named(self, single, grading):
        single.start_worker(nanny=False, slots=0)
        with pytest.raises(OplabError, match="does not offer the resource slot"):
            list(grading(single).submit(make_tasks("")))

    @pytest.mark.nightly
    def test_no_worker_at_all(self, single, grading):
        with pytest.raises(OplabError, match="has had no worker for 1 s"):
            list(grading(single, patience=1).submit(make_tasks("")))

    def test_no_scheduler(self, grading, monkeypatch):
        monkeypatch.setattr("oplab.classes.dask_cluster.CONNECT_LIMIT", 1.0)
        with pytest.raises(OplabError, match="cannot be reached"):
            list(grading("tcp://127.0.0.1:9").submit(make_tasks("")))

    def test_no_certificate(self, grading):
        with dask.config.set(
            {f"distributed.comm.tls.{name}": None for name in ("ca-file", "client.cert", "client.key")}
        ):
            with pytest.raises(OplabError, match="asks for a certificate, and Dask's configuration names none"):
                list(grading("tls://127.0.0.1:9").submit(make_tasks("")))

    def test_an_address_that_is_none(self, grading):
        for where in ("local:0", "local", "http://x:1", "tcp://x", "2"):
            with pytest.raises(OplabError, match="is not a cluster"):
                grading(where)


def test_processes_of_a_killed_command_end_by_themselves(monkeypatch):
    """But not before their first task, however late it comes: here 1000 s pass between two looks at the clock."""
    looks = threading.Semaphore(0)
    pause = threading.Event()
    clock = SimpleNamespace(
        monotonic=itertools.count(0, 1000).__next__, sleep=lambda seconds: (looks.release(), pause.wait(0.01))
    )
    monkeypatch.setattr(dask_worker, "time", clock)
    closed = []
    made = SimpleNamespace(grade=lambda given: verdict_of(given), close=lambda: closed.append(True))
    monkeypatch.setattr(dask_worker, "Grader", lambda hidden, environment: made)
    pool = dask_worker._Pool([])
    for _ in range(3):  # it has looked twice
        assert looks.acquire(timeout=dask_lab.SECONDS)
    assert not pool.expired
    monkeypatch.setitem(dask_worker._pools, "a command", pool)
    assert dask_worker.run(task(next(numbers)), "a command", [])["exercise"] == "c01.passes"
    wait(lambda: closed)
    wait(lambda: "a command" not in dask_worker._pools)


def test_a_task_that_comes_when_the_processes_end_is_graded_by_new_ones(monkeypatch):
    class Late(dask_worker._Pool):
        def grade(self, given):
            self._ended = self.expired = True
            return super().grade(given)

    made = SimpleNamespace(grade=lambda given: verdict_of(given), close=lambda: None)
    monkeypatch.setattr(dask_worker, "Grader", lambda hidden, environment: made)
    monkeypatch.setitem(dask_worker._pools, "another command", Late([]))
    assert dask_worker.run(task(next(numbers)), "another command", [])["exercise"] == "c01.passes"
    dask_worker._pools["another command"].end()  # asked for
    assert dask_worker.run(task(next(numbers)), "another command", []) is None


def verdict_of(given: dict) -> Verdict:
    outcome = Outcome(given["exercise"], "c01_cases", "passed", 1, 1, 0.0)
    known = given["key"], given["exercise"], outcome, given["seed"], given["versions"], given["answer"]
    return Verdict(*known, 0.0, "here", datetime.now(UTC))


@pytest.mark.nightly
def test_without_a_compiler_answers_in_cpp_stay_open(single, grading):
    single.start_worker(nanny=False, CXX="/no/compiler")
    cpp = make_tasks("", "", exercise="c01.compiles")
    python = make_tasks("", "")
    verdicts = {verdict.key: verdict for verdict in grading(single).submit([*cpp, *python])}
    assert [verdicts[one["key"]].outcome.status for one in python] == ["passed"] * 2
    for one in cpp:
        assert verdicts[one["key"]].outcome.status == "grader_error"
        assert "has a C++ compiler" in verdicts[one["key"]].outcome.message
    assert {key for key, _ in single.runs()} == {one["key"] for one in python}


@pytest.mark.nightly
def test_a_killed_scheduler_ends_the_run_with_a_sentence(single, grading, tmp_path):
    worker = single.start_worker(nanny=False)
    tasks = make_tasks(*[f"wait {tmp_path / 'killed'}"] * 5)
    verdicts = []
    with pytest.raises(OplabError, match="The scheduler of tcp://.* has ended") as ended:
        for verdict in grading(single).submit(tasks):
            verdicts.append(verdict)
            kill(single.scheduler.pid)
            (tmp_path / "killed").touch()
    assert "the same command goes on" in str(ended.value)
    assert verdicts and {verdict.outcome.status for verdict in verdicts} == {"passed"}
    worker.wait(dask_lab.SECONDS)  # it does not wait for another scheduler


@pytest.mark.nightly
def test_a_cluster_that_adapts_starts_workers_for_tasks(grading, tmp_path, course, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setenv("OPLAB_TEST_LOG", str(tmp_path / "log.txt"))
    with LocalCluster(
        n_workers=0,
        threads_per_worker=1,
        resources={"slot": 1},
        preload=["tests.support.fake_grader"],
        dashboard_address=None,
        memory_limit=0,
        local_directory=str(tmp_path),
    ) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="200ms", target_duration="100ms")
        verdicts = list(grading(cluster.scheduler_address).submit(make_tasks(*["sleep 0.5"] * 4)))
    assert [verdict.outcome.status for verdict in verdicts] == ["passed"] * 4
