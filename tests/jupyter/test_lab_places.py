"""Where a server finds the course, and courses that it cannot show or write."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess

import pytest

from oplab.errors import OplabError
from oplab.jupyter.home import Home, find_course
from oplab.jupyter.state import Paths
from tests.support.fixture_course import copy_course
from tests.support.lab_calls import Lab, Page, exercise_of, socket_refused


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """No course by the environment, by the current folder, or next to the package."""
    monkeypatch.delenv("OPLAB_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("oplab.paths.PACKAGE", tmp_path / "site" / "oplab")
    return tmp_path


@pytest.fixture
def home(alone):
    homes = []

    def make(root):
        told = queue.SimpleQueue()
        homes.append(Home(root, "/", lambda kind, value: told.put(kind)))
        homes[-1].told = told
        return homes[-1]

    yield make
    for one in homes:
        one.close()


def test_a_course_is_found_at_above_and_below_the_root_folder(alone):
    course = copy_course(alone / "data" / "course")
    (course / "notebooks").mkdir()
    for root in (course, course / "notebooks", course.parent):
        assert find_course(root) == course
    shutil.copytree(course, alone / "data" / "second", symlinks=True)
    with pytest.raises(OplabError, match="No course was found"):
        find_course(course.parent)  # it could be either


def test_the_environment_names_the_course(alone, monkeypatch):
    first, second = copy_course(alone / "first"), copy_course(alone / "second")
    monkeypatch.setenv("OPLAB_ROOT", str(second))
    assert find_course(first) == second
    monkeypatch.setenv("OPLAB_ROOT", str(alone))
    with pytest.raises(OplabError, match="OPLAB_ROOT is set to"):
        find_course(first)


def test_paths_are_those_of_jupyter(tmp_path):
    inside = Paths(tmp_path / "my course", tmp_path, "/user/ada/")
    assert inside.inside and inside.path("exercises/c01.py") == "my course/exercises/c01.py"
    assert inside.href("exercises/c01.py", 3) == "/user/ada/lab/tree/my%20course/exercises/c01.py"
    same = Paths(tmp_path, tmp_path, "/")
    assert same.path("work/05.ipynb") == "work/05.ipynb"
    outside = Paths(tmp_path / "course", tmp_path / "home", "/")
    assert not outside.inside and outside.path("work/05.ipynb") is None and outside.href("work/05.ipynb", 1) is None


def test_a_course_outside_of_the_root_folder_is_shown_without_paths(alone, home, monkeypatch):
    course = copy_course(alone / "course")
    (alone / "home").mkdir()
    monkeypatch.setenv("OPLAB_ROOT", str(course))
    state = home(alone / "home").state()
    assert state["inside"] is False and state["total"] == 21
    assert {chapter["lesson"] for chapter in state["chapters"]} == {None}
    assert exercise_of(state, "c01.passes")["file"] is None


def test_no_course_is_a_sentence_until_there_is_one(alone, home):
    root = alone / "root"
    root.mkdir()
    shown = home(root)
    state = shown.state()
    assert state["problems"][0].startswith("No course was found") and state["chapters"] == []
    with pytest.raises(OplabError, match="No course was found"):
        shown.course()
    shown.listen()  # at the start of Jupyter
    copy_course(root)
    assert shown.state()["total"] == 21 and shown.state()["problems"] == []
    assert os.environ.pop("OPLAB_ROOT") == str(root), "a kernel elsewhere would not find it"


def test_a_broken_manifest_is_a_sentence_until_it_is_repaired(alone, home):
    course = copy_course(alone / "course")
    manifest = course / "course.toml"
    text = manifest.read_text()
    manifest.write_text("title = [")
    shown = home(course)
    shown.open()
    assert "is not valid TOML" in shown.state()["problems"][0] and shown.told.empty()
    manifest.write_text(text)
    assert shown.told.get(timeout=240) == "state"
    assert shown.state()["problems"] == [] and shown.state()["total"] == 21
    os.environ.pop("OPLAB_ROOT", None)


AUTHORIZER = """
from jupyter_server.auth import Authorizer


class Closed(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "contents"
"""


@pytest.mark.nightly
def test_who_may_not_read_the_files_is_told_nothing(tmp_path):
    """A server of several users: one is logged in, and may not read the files."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "closed.py").write_text(AUTHORIZER)
    path = os.pathsep.join(filter(None, [str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]))
    lab = Lab(
        tmp_path / "jupyter",
        copy_course(tmp_path / "course"),
        env={"PYTHONPATH": path},
        config={"ServerApp": {"authorizer_class": "closed.Closed"}},
    )
    lab.start()
    try:
        assert socket_refused(lab, {"Authorization": f"token {lab.token}"}) == 403
        for name, body in (("state", None), ("check", {"ids": []}), ("reset", {"id": "c01"})):
            assert lab.refused(403, name, body) == "You are not logged in, or may not do this."
    finally:
        lab.stop()


READ_ONLY = ["unshare", "-rm", "sh", "-c", 'mount -o bind,ro "$0" "$0" && cd "$0" && exec "$@"']


@pytest.mark.nightly
def test_a_folder_that_cannot_be_written_is_shown(tmp_path):
    """A page is told so, and everything is there but what would be written."""
    course = copy_course(tmp_path / "course")
    wrapper = [*READ_ONLY, str(course)]
    try:
        works = subprocess.run([*wrapper, "true"], capture_output=True).returncode == 0
    except OSError:
        works = False
    if not works:
        pytest.skip("a folder that root cannot write needs a mount namespace")
    lab = Lab(tmp_path / "jupyter", course, wrapper=wrapper)
    lab.start()
    try:
        with Page(lab) as page:
            state = page.first["state"]
            assert state["writable"] is False and state["total"] == 21
            assert [text for text in state["problems"] if "cannot be written" in text] == state["problems"] != []
            assert lab.call("check", {"ids": ["c01.passes"]})[0] == 202
            assert page.outcome("c01.passes")["status"] == "passed"
            assert lab.call("outcome?id=c01.passes")[1]["status"] == "passed"
            assert "cannot be" in lab.refused(409, "reset", {"id": "c01.passes"})
            assert lab.call("hint", {"id": "c01.passes"})[1]["hints"] == ["Multiply."]
            assert list((course / "build" / "outcomes").glob("*")) == []
    finally:
        lab.stop()
