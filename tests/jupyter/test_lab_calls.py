"""Each call of the panel on a real Jupyter server: what it answers, what it refuses, and to whom."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.support.fixture_course import COURSE as SMALL_COURSE
from tests.support.fixture_course import command, copy_course
from tests.support.lab_calls import Lab, Page, exercise_of, socket_refused

# The small course's own answers; what never ends there takes half a second here.
CASES = re.sub(
    r"(?m)^    while True:\n        time.sleep\(0.1\)$",
    "    time.sleep(0.5)\n    return 2 * x",
    (SMALL_COURSE / "exercises" / "c01_cases.py").read_text(),
)


def line_with(text: str) -> int:
    """The number of the only line of the answers with a text."""
    [number] = [number for number, line in enumerate(CASES.splitlines(), 1) if text in line]
    return number


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server below a prefix, with the course in a folder of its root folder."""
    folder = tmp_path_factory.mktemp("calls")
    copy_course(folder / "root" / "course")
    server = Lab(folder / "jupyter", folder / "root", base_url="/user/ada/")
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def course(lab):
    folder = lab.root / "course"
    (folder / "exercises" / "c01_cases.py").write_text(CASES)
    return folder


@pytest.fixture(scope="module")
def graded(lab):
    """A page, after a check of two exercises."""
    (lab.root / "course" / "exercises" / "c01_cases.py").write_text(CASES)
    with Page(lab) as page:
        status, answer = lab.call("check", {"ids": ["c01.passes", "c01.fails", "c01.broken"]})
        assert status == 202 and answer == {"queued": ["c01.passes", "c01.fails", "c01.broken"]}
        outcomes = page.outcomes("c01.passes", "c01.fails", "c01.broken")
        yield {id.partition(".")[2]: outcome for id, outcome in outcomes.items()}


def test_the_state_has_the_course_and_what_jupyter_calls_its_files(lab):
    status, state = lab.call("state")
    assert status == 200
    assert (state["version"], state["title"], state["inside"], state["writable"]) == (
        1,
        "Fixtures of the grader",
        True,
        True,
    )
    assert state["total"] == 21 and state["max_points"] == 21 and state["problems"] == []
    assert [chapter["stem"] for chapter in state["chapters"]] == ["01_cases", "02_import", "03_syntax"]
    first = exercise_of(state, "c01.fails")
    assert (first["file"], first["kind"]) == ("course/exercises/c01_cases.py", "python")
    assert first["line"] == line_with("def fails(x):")
    assert first["hints_total"] == 2 and first["goal"] == "return 2 * x"
    assert exercise_of(state, "c01.untouched")["line"] == line_with(
        "# TODO c01.untouched"
    )  # its TODO, not its function
    assert exercise_of(state, "c01.compiles")["file"] == "course/exercises/csrc/c01_compiles.cpp"
    nodes = state["map"]["nodes"]
    assert [node["id"] for node in nodes] == ["c01", "c02", "c03"]
    assert all(left["x"] + left["width"] < right["x"] for left, right in zip(nodes, nodes[1:], strict=False))


def test_outcomes_have_a_card_and_places(lab, graded):
    right, wrong, broken = graded["passes"], graded["fails"], graded["broken"]
    assert (right["status"], right["points"], right["places"], right["stale"]) == ("passed", 1, [], False)
    assert wrong["status"] == "failed" and "The result is 3 * x." in wrong["message"]
    assert 'class="oplab-card' in wrong["html"] and "The result is 3 * x." in wrong["html"]
    assert broken["status"] == "build_failed"
    assert [(place["file"], place["line"]) for place in broken["places"]] == [
        ("course/exercises/csrc/c01_broken.cpp", 7)
    ]
    assert 'href="/user/ada/lab/tree/course/exercises/csrc/c01_broken.cpp' in broken["html"]
    assert 'data-oplab-file="exercises/csrc/c01_broken.cpp"' in broken["html"]
    for outcome in graded.values():
        again = lab.call(f"outcome?id={outcome['id']}")[1]
        assert again == outcome
    state = lab.call("state")[1]
    assert exercise_of(state, "c01.fails")["headline"] == wrong["message"].splitlines()[0]
    assert (exercise_of(state, "c01.passes")["status"], exercise_of(state, "c01.passes")["reached"]) == ("passed", 1)
    assert state["passed"] == 1 and state["points"] == 1
    assert lab.refused(404, "outcome?id=c01.raises") == "c01.raises has not been checked yet."
    assert lab.refused(404, "outcome?id=c01.pases").startswith("There is no exercise c01.pases")
    assert lab.refused(400, "outcome") == "`id` is missing."


def test_an_outcome_is_stale_when_its_own_text_has_changed(lab, graded, course):
    file = course / "exercises" / "c01_cases.py"
    file.write_text(CASES.replace("undefined_name", "another_name"))
    assert not lab.call("outcome?id=c01.fails")[1]["stale"], "another exercise of the file has changed"
    file.write_text(CASES.replace("3 * x", "4 * x"))
    assert lab.call("outcome?id=c01.fails")[1]["stale"]
    file.write_text(CASES.replace("import time", "import math"))
    assert lab.call("outcome?id=c01.fails")[1]["stale"]


def test_hints_come_one_by_one(lab):
    shown = [lab.call("hint", {"id": "c01.raises"}) for _ in range(3)]
    assert [answer["hints"] for _, answer in shown] == [
        ["Multiply."],
        ["Multiply.", "By two."],
        ["Multiply.", "By two."],
    ]
    assert all(answer["total"] == 2 and answer["id"] == "c01.raises" for _, answer in shown)
    assert "Hint 2 of 2" in shown[1][1]["html"]
    assert exercise_of(lab.call("state")[1], "c01.raises")["hints_shown"] == 2
    assert lab.refused(404, "hint", {"id": "c09.nothing"}).startswith("There is no exercise")
    assert lab.refused(400, "hint", {"id": 3}) == "`id` is missing."


def test_the_reference_and_the_difference_come_after_a_pass_or_all_hints(lab, graded, course):
    for name, body in (
        ("difference?id=c01.fails", None),
        ("reference?id=c01.fails", None),
        ("show", {"id": "c01.fails"}),
    ):
        assert lab.refused(403, name, body).startswith(
            "c01.fails has not passed yet. The reference is shown after a pass or"
        )
    for _ in range(2):
        _, hints = lab.call("hint", {"id": "c01.fails"})
    assert "counts half" in hints["html"]
    assert exercise_of(lab.call("state")[1], "c01.fails")["reference"] == "half"
    assert "counts half" in lab.refused(403, "reference?id=c01.fails")
    assert lab.call("show", {"id": "c01.fails"}) == (200, {})
    assert lab.call("reference?id=c01.fails")[1]["text"] == "def fails(x):\n    return 2 * x\n"
    assert exercise_of(lab.call("state")[1], "c01.fails")["reference"] == "open"
    _, same = lab.call("difference?id=c01.passes")
    assert same["lines"] == [] and "the same" in same["html"]
    (course / "exercises" / "c01_cases.py").write_text(CASES.replace("2 * x", "x + x", 1))
    _, other = lab.call("difference?id=c01.passes")
    assert "-    return x + x" in other["lines"] and "+    return 2 * x" in other["lines"]
    _, reference = lab.call("reference?id=c01.passes")
    assert reference["file"] == "solutions/c01_cases.py"
    assert reference["text"] == "def passes(x):\n    return 2 * x\n"
    assert "ANSWER" not in reference["html"] and "return" in reference["html"]
    (course / "exercises" / "c01_cases.py").write_text("import import json\n")
    assert "not valid Python" in lab.refused(409, "difference?id=c01.passes")


def test_a_reset_keeps_the_old_file_and_forgets_the_last_outcome(lab, graded, course):
    mine = (course / "exercises" / "csrc" / "c01_broken.cpp").read_text()
    status, answer = lab.call("reset", {"id": "c01.broken"})
    assert status == 200 and answer["file"] == "exercises/csrc/c01_broken.cpp"
    assert (course / answer["backup"]).read_text() == mine
    assert "TODO c01.broken" in (course / answer["file"]).read_text()
    assert lab.refused(404, "outcome?id=c01.broken") == "c01.broken has not been checked yet."
    shown = exercise_of(lab.call("state")[1], "c01.broken")
    assert (shown["status"], shown["headline"]) == ("todo", "")
    (course / "exercises" / "csrc" / "c01_broken.cpp").write_text(mine)
    (course / "exercises" / "c01_cases.py").write_text("import import json\n")
    assert "not valid Python" in lab.refused(409, "reset", {"id": "c01.passes"})
    assert lab.call("reset", {"id": "c01"})[1]["file"] == "exercises/c01_cases.py"
    assert lab.refused(404, "reset", {"id": "notebooks/77"}).startswith("There is no chapter")
    assert lab.refused(409, "reset", {"id": "notebooks/01"}).startswith(
        "The lesson notebooks/01_cases.ipynb cannot be read"
    )
    assert lab.refused(400, "reset", {}) == "`id` is missing."


def test_a_lessons_copy_is_made_and_restored(lab, course):
    (course / "notebooks").mkdir(exist_ok=True)
    lesson = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (course / "notebooks" / "02_import.ipynb").write_text(lesson)
    assert lab.call("state")[1]["chapters"][1]["lesson"] == "course/work/02_import.ipynb"  # made before the first state
    with Page(lab) as page:
        chapter = page.first["state"]["chapters"][1]
        assert (chapter["lesson"], chapter["copy"]) == ("course/work/02_import.ipynb", "same")
        changed = json.dumps({"cells": [], "metadata": {"mine": 1}, "nbformat": 4, "nbformat_minor": 5})
        (course / "work" / "02_import.ipynb").write_text(changed)
        page.state(lambda state: state["chapters"][1]["copy"] == "changed")
        newer = lesson.replace("[]", json.dumps([{"cell_type": "raw", "metadata": {}, "source": "newer"}]))
        (course / "notebooks" / "02_import.ipynb").write_text(newer)  # as an update or `git pull` does in a terminal
        page.state(lambda state: state["chapters"][1]["copy"] == "newer")
        answer = lab.call("reset", {"id": "notebooks/02"})[1]
        assert answer["file"] == "work/02_import.ipynb" and (course / answer["backup"]).read_text() == changed
        page.state(lambda state: state["chapters"][1]["copy"] == "same")


def test_what_is_asked_for_wrongly_is_a_sentence(lab):
    assert lab.refused(404, "nothing") == "There is no /user/ada/oplab/lab/nothing."
    assert lab.refused(404, "nothing", {}).startswith("There is no")
    assert lab.refused(404, "check").startswith("There is no"), "GET of what is for POST"
    assert lab.refused(400, "check", b"[]") == "The request has to be a JSON object."
    assert "`ids` has to be a list" in lab.refused(400, "check", {"ids": [1]})
    assert lab.refused(404, "check", {"ids": ["c01.pases"]}).startswith("There is no exercise c01.pases")
    assert lab.refused(404, "check", {"ids": ["c55"]}).startswith("There is no chapter c55")
    assert lab.refused(400, "settings", {"colour": "red"}).startswith("The only setting")


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_nothing_is_shown(lab, token):
    for name, body in (("state", None), ("outcome?id=c01.passes", None), ("check", {"ids": []}), ("nothing", None)):
        status, answer = lab.call(name, body, token)
        assert status == 403 and set(answer) == {"message", "fix"}, name
    assert socket_refused(lab, {"Authorization": f"token {token}"}) == 403


def test_another_sites_page_gets_nothing(lab):
    """A browser sends the cookie along, and the page's origin: neither the calls nor the socket answer it."""
    with urllib.request.urlopen(lab.url("api/status"), timeout=60) as answer:
        cookies = [value.split(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
    headers = {"Cookie": "; ".join(cookies)}
    assert socket_refused(lab, headers) is None
    headers["Origin"] = "https://example.org"
    assert socket_refused(lab, headers) == 403
    request = urllib.request.Request(lab.url("oplab/lab/cancel", token=False), data=b"{}", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code in (403, 404)


def test_notebooks_and_terminals_use_the_server_that_is_warm(lab, course):
    """`oplab check` in a terminal asks the host; what it finds is in the panel."""
    (course / "exercises" / "c01_cases.py").write_text(CASES)
    with Page(lab) as page:
        lab.call("warm", {})
        page.state(lambda state: state["grader"]["state"] == "ready") if not lab.grading_processes() else None
        before = lab.grading_processes()[:1]
        line, env = command(course, "check", "c01.raises")
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=240, cwd=course)
        assert done.returncode == 1 and "NameError" in done.stdout, done.stdout + done.stderr
        outcome = page.outcome("c01.raises")
        assert outcome["status"] == "error"
        assert [(place["file"], place["line"]) for place in outcome["places"]] == [
            ("course/exercises/c01_cases.py", line_with("undefined_name"))
        ]
        page.state(lambda state: exercise_of(state, "c01.raises")["status"] == "error")
        assert lab.grading_processes()[:1] == before
