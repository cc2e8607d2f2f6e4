"""``make lab``: what it opens, what a learner sees of the course's folder, and what it prints. A real server, without a browser."""

from __future__ import annotations

import json
import os
import re
import signal

import nbformat
import pytest
import setup_steps
from jupyter_server.auth.identity import PasswordIdentityProvider
from jupyter_server.serverapp import ServerApp
from nbformat.sign import NotebookNotary
from tornado.web import HTTPError

from oplab.course import copies
from oplab.course.manifest import load
from oplab.jupyter import contents, settings, start
from tests.support import run_async
from tests.support.labdriver import free_port
from tests.support.learners_folder import LearnersFolder


@pytest.fixture
def folder(tmp_path) -> LearnersFolder:
    return LearnersFolder(tmp_path / "course")


def test_a_wrong_chapter_is_noticed_before_the_set_up(monkeypatch, capsys):
    monkeypatch.setattr(setup_steps, "set_up", lambda context: pytest.fail("the set-up began"))
    assert setup_steps.main(["--quiet", "--", "-m", "oplab.jupyter.start", "--chapter=77"]) == 2
    assert "There is no chapter 77." in capsys.readouterr().err


def test_what_jupyterlab_shows_first(folder):
    course, workspaces = load(folder.root), folder.root / "build" / "jupyter" / "workspaces"
    workspaces.mkdir(parents=True)
    page = folder.root / "oplab" / "jupyter" / "labextension" / "package.json"
    page.parent.mkdir(parents=True)
    page.write_text("{}")
    assert start.first_page(course, None, workspaces) == "/lab"  # the start page, or where one was
    page.unlink()
    assert start.first_page(course, None, workspaces) == "/lab/tree/notebooks/00_first_round_trip.ipynb"  # no copy yet
    copies.sync(course)
    assert start.first_page(course, None, workspaces) == "/lab/tree/work/00_first_round_trip.ipynb"
    (workspaces / "default-37a8.jupyterlab-workspace").write_text("{}")
    assert start.first_page(course, None, workspaces) == "/lab"
    assert start.first_page(course, course.chapter("c05"), workspaces) == "/lab/tree/work/05_writing_symbolic.ipynb"


def test_what_cannot_be_copied_is_a_sentence(folder, capsys):
    (folder.root / "work").write_text("a file")
    start.copy_lessons(load(folder.root))
    assert "Your copies of the lessons, in work/, cannot be written" in capsys.readouterr().err
    (folder.root / "build").rmdir()
    (folder.root / "build").write_text("a file")
    own = start.own_folder(folder.root)
    assert (own / "workspaces").is_dir() and not own.is_relative_to(folder.root)
    assert "JupyterLab will not restore this session" in capsys.readouterr().err


def listed(folder, path=""):
    files = contents.CourseFiles(root_dir=str(folder.root))
    return {entry["name"] for entry in run_async(files.get(path))["content"]}


def test_the_file_browser_shows_what_is_the_learner_s(folder):
    copies.sync(load(folder.root))
    for name in ("conftest.py", "requirements.lock", "oplab.egg-info"):
        (folder.root / name).write_text("")
    for name in ("src", "tests", "mine/src", "mine/tests"):
        (folder.root / name).mkdir(parents=True)
    assert listed(folder) == {"README.md", "csrc", "docs", "exercises", "mine", "work"}
    assert listed(folder, "mine") == {"src", "tests"}  # a project of the learner's has folders of the same names
    assert "c04_aten_symbolic.py" in listed(folder, "solutions")  # out of sight, and still there for a link


def test_a_lesson_is_read_only_and_its_copy_is_not(folder):
    copies.sync(load(folder.root))
    files = contents.CourseFiles(root_dir=str(folder.root))
    name = "05_writing_symbolic.ipynb"
    before = (folder.root / "notebooks" / name).read_bytes()

    async def edit() -> None:  # in one thread: the database of signatures is that of the thread that opens it
        for path, writable in ((f"notebooks/{name}", False), (f"/work/{name}", True)):
            model = await files.get(path)
            assert model["writable"] == writable
            model["content"]["cells"].clear()
            if writable:
                await files.save(model, path)
            else:
                with pytest.raises(HTTPError, match=rf"belongs to the course. Your copy is work/{name}"):
                    await files.save(model, path)

    run_async(edit())
    assert (folder.root / "notebooks" / name).read_bytes() == before
    assert copies.states(load(folder.root))["05_writing_symbolic"] == "changed"


def test_a_copy_has_the_trust_of_its_lesson(folder):
    """Otherwise JupyterLab hides the saved graphs until each cell has been run."""
    own = folder.root / "build" / "jupyter"
    copies.sync(load(folder.root))
    assert settings.trust(folder.root / "notebooks", own) == len(load(folder.root).chapters)
    notary = NotebookNotary(data_dir=str(own))
    for chapter in load(folder.root).chapters:
        path = copies.path(load(folder.root), chapter)
        assert notary.check_signature(nbformat.read(path, as_version=4)), path.name


@pytest.mark.nightly
def test_make_lab_ends_with_the_address_and_leaves_git_clean(folder, tmp_path):
    """JupyterLab as a learner starts it, asked through its own interface; a lesson's copy is saved with new outputs."""
    folder.commit()
    port = free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    env |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with folder.lab(port, env) as (address, process, log):
        lines = [line for line in log.read_text().splitlines() if not line.startswith("Running as root")]
        base, token = address.split("/lab")[0], address.split("token=")[1]
        name = "work/A1_cpp_in_an_hour.ipynb"
        model = json.loads(folder.ask(base, token, f"api/contents/{name}"))
        model["content"]["cells"][-1]["source"] += "\nMine."
        folder.ask(base, token, f"api/contents/{name}", "PUT", model)
        root = json.loads(folder.ask(base, token, "api/contents"))
        assert {entry["name"] for entry in root["content"]} == {"README.md", "csrc", "docs", "exercises", "work"}
        copying, address_line, *others, last = lines
        assert copying == "Copying 22 lessons to work/ …"
        assert address_line == f"Open {address}" and all(line.strip().startswith("http://") for line in others)
        assert last == "The panel on the left has the exercises; Ctrl-C here ends JupyterLab."
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0 and "Traceback" not in log.read_text()
    assert copies.states(load(folder.root))["A1_cpp_in_an_hour"] == "changed"
    assert folder.git("status", "--porcelain") == ""


@pytest.mark.parametrize("ip", ["0.0.0.0", "::", ""])
def test_of_a_server_on_all_interfaces_the_address_that_works_is_shown(ip):
    """In a container, Jupyter's first address has the container's own name, which other machines do not know."""

    def shown(ip: str) -> str:
        server = ServerApp(ip=ip, port=8888)
        server.identity_provider = PasswordIdentityProvider(parent=server)
        return contents.shown_address(server)

    assert re.fullmatch(r"http://(127\.0\.0\.1|\[::1\]):8888/\S*", shown(ip))
    assert shown("localhost").startswith("http://localhost:8888/")
