"""`--cluster`: tasks on Dask. What is killed while it grades costs no task, and what cannot run ends in a sentence."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("distributed", reason="Dask is an extra, which `make test-all` installs where pip has it")

import dask.config

from oplab.classes.dask_engine import DaskEngine
from oplab.errors import OplabError
from tests.support import dask_lab
from tests.support.dask_lab import Lab, certificates, kill, task, wait
from tests.support.fixture_course import copy_course

pytestmark = pytest.mark.nightly

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
    """Two workers with nannies, which start them again, over tls."""
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
def grading():
    """Makes an engine, and closes it; ``said`` holds its sentences."""
    engines = []

    def make(lab: Lab | str) -> DaskEngine:
        said: list[str] = []
        engine = DaskEngine(lab if isinstance(lab, str) else lab.address, say=said.append)
        engine.said = said
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def make_tasks(*texts: str) -> list[dict]:
    return [task(next(numbers), text) for text in texts]


def count(lab: Lab, tasks: list[dict]) -> list[int]:
    """How often each task has begun."""
    runs = [key for key, _ in lab.runs()]
    return [runs.count(one["key"]) for one in tasks]


class TestOnTwoWorkers:
    @pytest.fixture(autouse=True)
    def both(self, pair):
        wait(lambda: len(pair.workers()) == 2)

    def test_each_task_is_graded_once(self, pair, grading):
        tasks = make_tasks(*["sleep 0.1"] * 12)
        engine = grading(pair)
        verdicts = list(engine.submit(tasks))
        assert sorted(verdict.key for verdict in verdicts) == sorted(one["key"] for one in tasks)
        assert {verdict.outcome.status for verdict in verdicts} == {"passed"}
        assert {verdict.outcome.message for verdict in verdicts} == {"OMP_NUM_THREADS not set"}  # as with --jobs
        assert count(pair, tasks) == [1] * 12
        assert not engine.running() and not engine.said
        engine.close()
        assert [key for key, _ in pair.runs()].count("closed") == 2  # one process in each worker

    def test_a_task_that_kills_its_workers_costs_no_other(self, pair, grading):
        tasks = make_tasks("sleep 0.1", "kill", *["sleep 0.1"] * 8)
        engine = grading(pair)
        verdicts = {verdict.key: verdict.outcome for verdict in engine.submit(tasks)}
        killer = verdicts.pop(tasks[1]["key"])
        assert killer.status == "grader_error"
        assert "Its worker was lost 4 times" in killer.message  # Dask's default for a scheduler
        assert [outcome.status for outcome in verdicts.values()] == ["passed"] * 9
        assert count(pair, tasks)[1] == 4
        assert len(engine.said) == len(set(engine.said)) == 4
        assert all("was lost; its answer is graded again" in line for line in engine.said)


@pytest.fixture
def other(course, tmp_path):
    """A course with other checks."""
    made = copy_course(tmp_path / "other")
    checks = made / "oplab" / "checks" / "c01_cases.py"
    checks.write_text(checks.read_text() + "\n# another version\n")
    return str(made)


class TestNothingCanRun:
    def test_other_versions(self, single, grading, other):
        single.start_worker(nanny=False, OPLAB_ROOT=other)
        with pytest.raises(OplabError, match="has other versions than this machine.*: course .* instead of"):
            list(grading(single).submit(make_tasks("")))
        assert not single.runs()

    def test_no_slot(self, single, grading):
        single.start_worker(nanny=False, slots=0)
        with pytest.raises(OplabError, match="No worker of tcp://.* offers the resource slot"):
            list(grading(single).submit(make_tasks("")))

    def test_a_killed_scheduler(self, single, grading, tmp_path):
        single.start_worker(nanny=False)
        verdicts = []
        with pytest.raises(
            OplabError, match="(?s)The scheduler of tcp://.* has ended.*run the same command again to resume"
        ):
            for verdict in grading(single).submit(make_tasks(*[f"wait {tmp_path / 'killed'}"] * 5)):
                verdicts.append(verdict)
                kill(single.scheduler.pid)
                (tmp_path / "killed").touch()
        assert [verdict.outcome.status for verdict in verdicts] == ["passed"]

    def test_no_scheduler(self, grading):
        with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}):
            with pytest.raises(OplabError, match="cannot be started or reached"):
                list(grading("tcp://127.0.0.1:9").submit(make_tasks("")))

    def test_an_address_that_is_none(self, grading):
        for where in ("local:0", "local", "http://x:1", "tcp://x", "2"):
            with pytest.raises(OplabError, match="is not a cluster"):
                grading(where)
