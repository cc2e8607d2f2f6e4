"""The lessons as a learner meets them: JupyterLab as `make lab` starts it, and "Run all" in Chromium."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import time

import pytest

from oplab.jupyter.settings import trust
from tests.support import ROOT
from tests.support.labdriver import cells, free_port, open_notebook, run_all, scroll_to
from tests.support.learner_course import learner_course
from tests.support.learners_folder import LearnersFolder

pytestmark = pytest.mark.nightly
ALL_LESSONS = sorted(path.stem for path in (ROOT / "notebooks" / "src").glob("*.py"))
# Every lesson runs under nbval in each run of the tests. In the browser every sixth does, with the first and the newest, because a
# lesson costs up to a minute here; OPLAB_ALL_LESSONS=1 runs them all, and is meant for whoever has changed the viewer or a lesson.
LESSONS = ALL_LESSONS if os.environ.get("OPLAB_ALL_LESSONS") else sorted({*ALL_LESSONS[::6], ALL_LESSONS[-1]})


def shot(page, name: str) -> None:
    """Keep a picture of what was seen, in build/screenshots."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(folder / f"{name}.png"))


@pytest.fixture(scope="module")
def solutions_server(jupyter_server):
    return jupyter_server(env={"OPLAB_TRACK": "solutions"})


def live_graph(page, number: int):
    """The Netron frame of a cell's graph. Pictures above it may still move the page, so it is scrolled to until it is there."""
    frame = page.locator(".oplab-view[data-shown=netron] iframe.oplab-frame:not([data-waiting])").first
    deadline = time.monotonic() + 240
    while not frame.count():
        assert time.monotonic() < deadline, "Netron did not come"
        scroll_to(page, number)
        time.sleep(0.5)
    return frame


def shows_one(source: str) -> bool:
    """Whether a cell shows one model: a comparison of two stays a picture."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(ast.unparse(call.func) == "lab.show" and len(call.args) == 1 for call in calls)


def first_graph(page) -> int | None:
    """The first cell that shows one model. None where a lesson has no such cell."""
    return next(
        (
            number
            for number, cell in enumerate(cells(page))
            if cell["code"] and "lab.show(" in cell["source"] and shows_one(cell["source"])
        ),
        None,
    )


def outputs(cell: dict) -> set[str]:
    return {kind for output in cell["outputs"] for kind in output.get("data", {})}


def has_picture(cell: dict) -> bool:
    return any("<img" in str(output.get("data", {}).get("text/html", "")) for output in cell["outputs"])


@pytest.mark.parametrize("stem", LESSONS)
def test_run_all_ends_without_an_error(stem, solutions_server, new_page):
    """Every lesson, with the reference answers: pictures and graphs are there, every exercise passes."""
    name = f"{stem}.ipynb"
    shutil.copy(ROOT / "notebooks" / name, solutions_server.root / name)
    page = new_page()
    open_notebook(page, solutions_server, name)
    assert run_all(page, timeout=900) == []
    state = cells(page)
    assert any(has_picture(cell) for cell in state)
    checked = [cell for cell in state if "lab.check(" in cell["source"]]
    assert checked and not any(
        cell["outputs"] for cell in checked
    )  # a reference answer that does not pass ends in an error
    graph = first_graph(page)
    if graph is not None:
        netron = live_graph(page, graph).element_handle().content_frame()
        netron.locator("#canvas").wait_for(state="attached")
        netron.locator("g.node").first.wait_for()
        shot(page, f"{stem}-graph")
    for number, cell in enumerate(state):
        if has_picture(cell):
            scroll_to(page, number)
            shot(page, f"{stem}-picture-{number}")
    visible = page.locator(".jp-OutputArea-output svg.oplab-plot")  # a script has put it in the image's place
    assert visible.count() >= 1
    assert visible.first.evaluate("(picture) => picture.getBoundingClientRect().width > 100")


def test_an_untouched_learner_sees_todo_and_no_error(jupyter_server, new_page, tmp_path):
    """The stubs of a fresh clone: the lesson runs to its end and says what is to be written."""
    course = learner_course(tmp_path / "course")
    server = jupyter_server(env={"OPLAB_ROOT": str(course), "OPLAB_TRACK": ""})
    shutil.copy(ROOT / "notebooks" / "00_first_round_trip.ipynb", server.root / "first.ipynb")
    page = new_page()
    open_notebook(page, server, "first.ipynb")
    assert run_all(page, timeout=900) == []
    for cell in cells(page):
        if "lab.check(" in cell["source"]:
            card = cell["outputs"][0]["data"]
            for kind in ("text/plain", "text/html"):  # the same words in both
                words = "".join(card[kind])
                assert "to do" in words and "Goal:" in words and "lab.hint(" in words, kind


@pytest.fixture
def make_lab(tmp_path):
    """JupyterLab as ``make lab`` starts it, for a user whose home is empty, in its own course."""
    folder = LearnersFolder(tmp_path / "course")
    trust(folder.root / "notebooks", folder.root / "build" / "jupyter")
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for name in [name for name in env if name.startswith("JUPYTER")]:
        del env[name]
    with folder.lab(free_port(), env) as (address, process, log):
        yield address, process, log


def test_make_lab_shows_the_first_lesson_and_no_popup(make_lab, new_page):
    """Where there is no start page: the learner's copy, its saved pictures and graphs without running a cell."""
    address, process, log = make_lab
    page = new_page()
    page.goto(address)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=240_000)
    heading = page.locator(".jp-Notebook h1").first
    heading.wait_for()
    assert "First round trip" in heading.inner_text()
    page.locator(".jp-OutputArea-output img, .jp-OutputArea-output svg.oplab-plot").first.wait_for(state="attached")
    # Until it is idle: a notebook that becomes ready takes the focus, which closes a menu. And Jupyter's server interrupts a kernel before
    # it ends it; one that still imports its modules prints a traceback.
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(state="attached")
    page.get_by_role("menuitem", name="Help").click()
    page.get_by_text("About JupyterLab").click()  # one dialog waits for another: a popup would be before this one
    page.locator(".jp-Dialog .jp-About-header").wait_for()
    assert page.locator(".jp-Dialog").count() == 1
    assert page.locator(".Toastify__toast").count() == 0
    shot(page, "make-lab")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0, log.read_text()[-2000:]
    assert "Traceback" not in log.read_text()
