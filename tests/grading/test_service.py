"""The grading service that watch and panel share: what is graded, what is dropped, and what its owner is told."""

from __future__ import annotations

import queue
import time
import uuid
from dataclasses import replace

import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.grading import last
from oplab.grading.changes import Changes
from oplab.grading.client import Server
from oplab.grading.results import Graph
from oplab.grading.service import Service
from oplab.toolchain import precompiled
from tests.support.fixture_course import copy_course

RIGHT, WRONG = "def passes(x):\n    return 2 * x\n", "def passes(x):\n    return 3 * x\n"
SLOW = "import time\n\n\ndef passes(x):\n    time.sleep(40)\n    return 2 * x\n\n\ndef fails(x):\n    return 2 * x\n"


class Told:
    """A service, and what it tells."""

    def __init__(self, course, server, **options):
        self.news = queue.Queue()
        self.service = Service(course, server, lambda kind, value: self.news.put((kind, value)), **options)
        self.service.start()
        self.file = course.root / "exercises" / "c01_cases.py"

    def wait(self, kind, true=lambda value: True, seconds=240):
        deadline, seen = time.monotonic() + seconds, []
        while time.monotonic() < deadline:
            try:
                seen.append(self.news.get(timeout=0.2))
            except queue.Empty:
                continue
            if seen[-1][0] == kind and true(seen[-1][1]):
                return seen[-1][1]
        raise AssertionError(f"{kind} did not come: {seen[-5:]}")

    def outcome(self, id):
        return self.wait("outcome", lambda value: value[0].id == id)[0]

    def kinds(self):
        found = []
        while not self.news.empty():
            found.append(self.news.get()[0])
        return found


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A course and a warm server for it."""
    course = load(copy_course(tmp_path_factory.mktemp("service") / "course"))
    with Server.shared(course, keep=True) as server:
        yield course, server


@pytest.fixture
def told(warm):
    services = []

    def start(**options):
        services.append(Told(*warm, **options))
        return services[-1]

    (warm[0].root / "exercises" / "c01_cases.py").write_text(RIGHT)
    yield start
    for one in services:
        one.service.stop()


def exercises(warm, *names):
    return [warm[0].exercise(f"c01.{name}") for name in names]


def test_pictures_follow_the_outcome(warm, told):
    def draw(results, kept):
        assert (kept / "c01.fails" / "evidence.json").is_file()
        return type(results)(
            tuple(type(one)(**{**vars(one), "graphs": (Graph("y", "<svg/>"),)}) for one in results.exercises),
            results.seed,
        )

    one = told(saves=False, draw=draw)
    one.file.write_text(WRONG.replace("passes", "fails"))
    one.service.wish(exercises(warm, "fails"))
    assert one.outcome("c01.fails").graphs == ()
    outcome, when = one.wait("pictures")
    assert outcome.graphs and when == last.load(warm[0].root / "build", "c01.fails")["when"]
    assert last.load(warm[0].root / "build", "c01.fails")["graphs"] == [{"name": "y", "svg": "<svg/>"}]


def test_of_two_services_one_grades_what_is_saved_and_both_tell_it(warm, told):
    first = told()
    second = told()
    first.file.write_text(WRONG)
    kinds = []
    for one in (first, second):
        deadline = time.monotonic() + 240
        while not {"outcome", "elsewhere"} & set(kinds[-1:]) and time.monotonic() < deadline:
            kinds.append(one.news.get(timeout=240)[0])
        kinds.append("")
    assert sorted(kind for kind in kinds if kind in ("outcome", "elsewhere")) == ["elsewhere", "outcome"]


def test_a_server_that_does_not_start_is_told_once_for_each_wish(warm, told):
    class Broken(Server):
        def _start(self):
            raise OplabError("It does not start.", "Repair it.")

    with Broken() as server:
        one = Told(warm[0], server, saves=False)
        one.service.wish(exercises(warm, "passes"))
        assert one.wait("fault") == "It does not start.\nRepair it."
        while one.service.running or one.service.queued:
            time.sleep(0.02)
        assert one.service.grader == "failed" and "It does not start" in one.service.problem
        assert one.kinds().count("fault") == 0
        one.service.wish(exercises(warm, "passes"))
        assert one.wait("fault")
        one.service.stop()


def test_texts_tell_which_exercises_a_change_touches(course):
    plan = load(course)
    changes, file = Changes(plan), course / "exercises" / "c01_cases.py"
    text = file.read_text()
    inside = {one.id for one in plan.exercises if one.file == "c01_cases.py"}

    def touched(new):
        file.write_text(new)
        return {one.id for one in changes.touched()}

    assert touched(text) == set()
    assert touched(text.replace("return 3 * x", "return 4 * x")) == {"c01.fails"}
    assert touched(text.replace("return 3 * x", "return 4 * x").replace("import json", "import json as j")) == inside
    broken = text.replace("return 3 * x", "return (3 * x")
    assert touched(text) == inside
    assert touched(broken) == {"c01.fails"}, "a function that is not Python"
    assert touched(broken.replace("return (3 * x", "return (4 * x")) == {"c01.fails"}
    assert touched(text) == {"c01.fails"}
    assert touched(f"import import json\n{text}") == inside
    assert touched(f"import import json\n\n{text}") == inside, "each change of a file that is not Python"
    assert touched(text) == inside
    assert touched(text + "\n\n\n") == set(), "blank lines at the end"
    (course / "exercises" / "csrc" / "c01_broken.cpp").write_text("//")
    assert {one.id for one in changes.touched()} == {"c01.broken"}
    assert not changes.half_written()
    file.write_text("")
    assert changes.half_written()
    file.unlink()
    assert changes.half_written()


@pytest.mark.nightly
def test_after_an_answer_in_cpp_its_header_is_precompiled(told, warm, tmp_path, monkeypatch):
    """For the next save: by then there is time, and after it there is not."""
    course, _ = warm
    exercise = replace(course.exercise("c01.compiles"), kind="ort")
    file = course.root / "exercises" / exercise.file
    text = file.read_text()
    monkeypatch.setattr(precompiled, "headers_folder", lambda: tmp_path)
    one = told(saves=False)
    try:
        file.write_text(f"#include <onnxruntime_cxx_api.h>\n// {uuid.uuid4()}: in no cache\n{text}")
        one.service.wish([exercise])
        one.outcome("c01.compiles")
        deadline = time.monotonic() + 240
        while not list(tmp_path.glob("*/*/onnxruntime_cxx_api.h.gch")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        file.write_text(text)
