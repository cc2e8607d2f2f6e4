"""What a page is told, and when: saves, queues, other processes, other pages, and everything that ends before it should."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request

import pytest

from oplab.grading import last, processes, shared
from oplab.grading.results import Outcome
from oplab.updates import placing
from tests.support.fixture_course import copy_course
from tests.support.lab_calls import Lab, Page, exercise_of

RIGHT, WRONG = "def passes(x):\n    return 2 * x\n", "def passes(x):\n    return 3 * x\n"
SLOW = "def passes(x):\n    import time\n\n    time.sleep(40)\n    return 2 * x\n"
CONFLICT = "exercises/c01_cases.py.new"  # as an update leaves it


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server whose root folder is the course."""
    folder = tmp_path_factory.mktemp("news")
    course = copy_course(folder / "course")
    server = Lab(folder / "jupyter", course)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def file(lab):
    path = lab.root / "exercises" / "c01_cases.py"
    path.write_text(RIGHT)
    return path


def until_seen(lab, page):
    """The messages that come until the server has looked at everything that was written so far, and its state then.

    It looks at the answers first, and then at the outcomes of other processes: the look that finds the second outcome began after
    the look that had found the first. (What else the state shows is read when it is sent, and proves no look.)
    """
    heard = []
    for text in ("Seen.", "Seen again."):
        last.save(lab.root / "build", Outcome("c01.exits", "01_cases", "error", 0, 1, 0.0, text), time.time())
        page.wait(lambda message, text=text: heard.append(message) or says(message, text))
    return [*heard, {"type": "state", "state": lab.call("state")[1]}]


def says(message, text):
    return message["type"] == "outcome" and message["outcome"]["message"] == text


def waiting(state):
    """The exercises that are graded now or wait for it."""
    return [*state["queued"], *(one["id"] for one in state["running"])]


def idle(state):
    return not waiting(state)


def graded(messages):
    return [message["outcome"]["id"] for message in messages if message["type"] == "outcome"]


@pytest.fixture
def page(lab, file):
    with Page(lab) as page:
        lab.call("settings", {"check_on_save": False})
        lab.call("cancel", {})
        until_seen(lab, page)  # what the test before has written, too
        yield page
    lab.call("settings", {"check_on_save": False})
    lab.call("cancel", {})


def test_a_save_is_graded_if_that_is_wanted(lab, page, file):
    lab.call("settings", {"check_on_save": True})
    file.write_text(WRONG)
    outcome = page.outcome("c01.passes")
    assert outcome["status"] == "failed" and not outcome["stale"]
    state = page.state(lambda state: exercise_of(state, "c01.passes")["status"] == "failed")
    assert exercise_of(state, "c01.passes")["headline"].startswith("y: 12 of 12 elements differ")
    file.write_text(RIGHT)
    assert page.outcome("c01.passes")["status"] == "passed"
    file.write_text("# mine\n\n\n" + RIGHT.replace("2 * x", "(2 * x") + "\n\ndef helper():\n    pass\n")
    outcome = page.outcome("c01.passes")
    assert outcome["status"] == "error" and outcome["places"][0]["line"] == 5
    assert exercise_of(lab.call("state")[1], "c01.passes")["reached"] == 1, "points are never taken back"
    lab.call("settings", {"check_on_save": False})
    lab.call("cancel", {})  # the other exercises of the file that was not Python
    page.state(idle)
    file.write_text(WRONG)
    heard = until_seen(lab, page)
    assert "c01.passes" not in [*graded(heard), *waiting(heard[-1]["state"])]
    assert lab.call("outcome?id=c01.passes")[1]["stale"]


def test_what_jupyter_saves_by_itself_is_graded_when_the_user_saves(lab, page, file):
    lab.call("settings", {"check_on_save": True})
    body = json.dumps({"type": "file", "format": "text", "content": WRONG}).encode()
    url, token = lab.url("api/contents/exercises/c01_cases.py", token=False), {"Authorization": f"token {lab.token}"}
    urllib.request.urlopen(urllib.request.Request(url, data=body, headers=token, method="PUT"), timeout=120).close()
    assert file.read_text() == WRONG
    (lab.root / "exercises" / "csrc" / "c01_broken.cpp").write_text("int x\n")  # of another program, and later
    heard = []
    page.wait(lambda message: heard.append(message) or "c01.broken" in graded([message]))
    assert "c01.passes" not in graded(heard)
    lab.call("saved", {"path": "exercises/c01_cases.py"})
    assert page.outcome("c01.passes")["status"] == "failed"


def test_of_many_saves_the_last_one_counts(lab, page, file):
    lab.call("settings", {"check_on_save": True})
    since = 0.0
    for seconds in (40, 41, 42):  # each save ends the check of the older text
        file.write_text(SLOW.replace("40", str(seconds)))
        state = page.state(lambda state, since=since: any(one["since"] > since for one in state["running"]))
        since = state["running"][0]["since"]
    file.write_text(WRONG)
    assert "The result is 3 * x." in page.outcome("c01.passes")["message"]
    heard = until_seen(lab, page)
    assert "c01.passes" not in [*graded(heard), *waiting(heard[-1]["state"])]


def test_a_check_waits_for_the_one_that_runs(lab, page, file):
    file.write_text(SLOW)
    lab.call("check", {"ids": ["c01.passes"]})
    state = page.state(lambda state: state["running"])
    assert state["running"][0]["id"] == "c01.passes"
    assert lab.call("check", {"ids": ["c03.typo"]})[1] == {"queued": ["c03.typo"]}
    assert lab.call("check", {"ids": ["c01.passes"]})[1] == {"queued": []}, "its text is what is being graded"
    state = page.state(lambda state: state["queued"])
    assert state["queued"] == ["c03.typo"]
    lab.call("cancel", {})
    page.state(idle)
    lab.call("check", {"ids": ["c03.typo"]})  # it works on
    outcome = page.wait(lambda message: message["type"] == "outcome")["outcome"]
    assert (outcome["id"], outcome["status"]) == ("c03.typo", "error"), "what was cancelled is told"
    assert lab.call("outcome?id=c01.passes")[1].get("status") != "crashed", "what was cancelled says nothing"


def test_two_pages_are_told_the_same(lab, page, file):
    with Page(lab) as other:
        lab.call("check", {"ids": ["c01.passes"]})
        assert page.outcome("c01.passes") == other.outcome("c01.passes")
    lab.call("check", {"ids": ["c01.passes"]})  # one of them has gone
    assert page.outcome("c01.passes")["status"] == "passed"


def test_what_an_update_leaves_open_is_shown_and_goes(lab, page):
    (lab.root / CONFLICT).write_text("another stub")
    state = page.state(lambda state: state["problems"])
    assert f"the new stub is {CONFLICT}: merge what you need" in state["problems"][0]
    (lab.root / CONFLICT).unlink()
    page.state(lambda state: not state["problems"])
    (lab.root / placing.BEGUN).touch()
    state = page.state(lambda state: state["problems"])
    assert state["problems"] == ["An update was interrupted. `oplab update` finishes it."]
    (lab.root / placing.BEGUN).unlink()
    page.state(lambda state: not state["problems"])


@pytest.mark.nightly
def test_a_grading_process_that_is_killed_is_started_again(lab, page, file):
    lab.call("check", {"ids": ["c01.passes"]})
    assert page.outcome("c01.passes")["status"] == "passed"
    for pid in lab.grading_processes():
        processes.kill(pid)
    file.write_text(WRONG)
    lab.call("check", {"ids": ["c01.passes"]})
    assert page.outcome("c01.passes")["status"] == "failed"
    assert lab.grading_processes()


def test_a_broken_manifest_is_a_problem_and_no_end(lab, page, file):
    manifest = lab.root / "course.toml"
    text = manifest.read_text()
    try:
        manifest.write_text(text.replace('title = "One case each"', "title = 3"))
        state = page.state(lambda state: state["problems"])
        assert "course.toml, line" in state["problems"][0] and state["total"] == 21
        manifest.write_text(text.replace('title = "One case each"', 'title = "Others"'))
        state = page.state(lambda state: not state["problems"])
        assert state["chapters"][0]["title"] == "Others"
        lab.call("check", {"ids": ["c01.passes"]})  # by the course that was read now
        assert page.outcome("c01.passes")["status"] == "passed"
    finally:
        manifest.write_text(text)
    page.state(lambda state: state["chapters"][0]["title"] == "One case each")


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_server_ends(tmp_path, how):
    course = copy_course(tmp_path / "course")
    (course / "exercises" / "c01_cases.py").write_text(SLOW)
    lab = Lab(tmp_path / "jupyter", course, config={"ServerApp": {"answer_yes": True}})
    lab.start()
    with Page(lab) as page:
        lab.call("check", {"ids": ["c01.passes"]})
        page.state(lambda state: state["running"])
        family = lab.grading_processes()
        assert family
        os.kill(lab.process.pid, how)
        lab.process.wait(60)
        assert page.closed.wait(60)
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") and not zombie(pid) for pid in family):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if how != signal.SIGKILL:
        assert not shared.address(course).exists()
        assert "Traceback" not in lab.log.read_text()


def zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True
