"""The course next to the lesson: the panel, the start page and the marks in the editor, in JupyterLab behind a prefix."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import build_labextension
import pytest

from oplab.errors import OplabError
from tests.support import ROOT
from tests.support.labdriver import Jupyter, open_notebook, run_all
from tests.support.learner_course import learner_course

STUB = "exercises/c00_first_round_trip.py"
ANSWERS = (ROOT / "solutions" / "c00_first_round_trip.py").read_text()
LINE = "    raise ValueError('not yet')"
THEMES = {"JupyterLab Light": "rgb(255, 255, 255)", "JupyterLab Dark": "rgb(17, 17, 17)"}


def shot(page: Any, name: str) -> None:
    """Keep a picture of what was seen, in build/screenshots."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(folder / f"{name}.png"))


@pytest.fixture(scope="module")
def start_course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Jupyter]]:
    """Start a server in a learner's course."""
    started = []

    def start(**options: Any) -> Jupyter:
        folder = tmp_path_factory.mktemp("course")
        server = Jupyter(folder, env={"OPLAB_ROOT": str(folder / "root"), "OPLAB_TRACK": ""}, **options)
        started.append(server)
        learner_course(server.root)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def course(start_course) -> Jupyter:
    return start_course(base_url="/user/ada/")


@pytest.fixture
def lab(course, new_page) -> Any:
    """JupyterLab as somebody sees it who comes for the first time."""
    page = new_page()
    page.goto(course.url("lab?reset"))
    page.locator(".oplab-Panel .oplab-Chapter").first.wait_for()
    page.locator(".oplab-StartContent").wait_for()
    return page


def exercise(page: Any, id: str) -> Any:
    return page.locator(f".oplab-Panel [data-exercise='{id}']")


def open_answer(page: Any, id: str) -> Any:
    """Open the stub of an exercise from the panel; returns the exercise there."""
    chapter, name = id.split(".")
    page.locator(f".oplab-Panel [data-chapter={chapter}] .oplab-ChapterHeader").click()
    found = exercise(page, id)
    if not found.get_by_role("button", name=f"Open: {name}").count():
        found.locator(".oplab-ExerciseHeader").click()
    found.get_by_role("button", name=f"Open: {name}").click()
    page.wait_for_function("() => document.activeElement.closest('.jp-FileEditor')")
    return found


def write(page: Any, text: str, path: str = STUB) -> None:
    """Type an answer into the open stub, without saving it."""
    page.evaluate(
        """([path, text]) => {
            const found = [...window.jupyterapp.shell.widgets('main')].find((w) => w.context?.path === path);
            const view = found.content.editor.editor;
            view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: text}});
        }""",
        [path, text],
    )


def press_until(page: Any, name: str, key: str = "Tab", most: int = 80) -> None:
    """Press a key until the focus is on the control with this name."""
    for _ in range(most):
        page.keyboard.press(key)
        found = page.evaluate(
            """() => {
                const now = document.activeElement;
                return (now.getAttribute('aria-label') || now.labels?.[0]?.innerText || now.innerText || '').trim();
            }"""
        )
        if re.search(name, found):
            return
    raise AssertionError(f"{key} does not reach {name!r}; the focus is on {found!r}")


def test_from_the_start_page_through_a_failure_to_a_pass(course, lab):
    assert lab.locator(".oplab-Start h1").inner_text() == "Operator Lab"
    assert lab.locator(".oplab-MapPicture a").count() == len(lab.locator(".oplab-Panel .oplab-Chapter").all())
    assert lab.locator("[id^=launcher]").count() == 0
    assert lab.get_by_text("The course was updated.").count() == 0
    start = lab.locator(".oplab-Start").get_by_role("button", name=re.compile(r"^Start: lesson 00, \d+ minutes$"))
    assert (
        lab.locator(".oplab-Start .oplab-mod-main").count() == 1
        and "hours" in lab.locator(".oplab-Start header").inner_text()
    )
    shot(lab, "start-newcomer")
    start.click()  # opens the lesson alone
    lab.locator(".jp-Notebook h1").first.wait_for()
    assert lab.locator(".jp-FileEditor").count() == 0
    shot(lab, "first-lesson")
    lab.locator(".oplab-Panel").get_by_role(
        "button", name="Continue: c00.run, 2 minutes"
    ).click()  # and now the stub next to it
    editor = lab.locator(".jp-FileEditor .cm-content")
    editor.wait_for()
    lesson, stub = lab.locator(".jp-NotebookPanel").bounding_box(), lab.locator(".jp-FileEditor").bounding_box()
    assert stub["x"] >= lesson["x"] + lesson["width"], "the stub is not next to the lesson"
    lab.wait_for_function("() => document.activeElement.closest('.jp-FileEditor')")  # at its line, ready to be written
    assert "Ln 1," not in lab.locator("#jp-main-statusbar").inner_text()
    opened = editor.inner_text()
    assert "TODO c00.run:" in opened and "TODO c00.one_file:" not in opened, "the other functions are not folded"

    wrong = re.sub(r"    # ANSWER c00.one_file.*?# END\n", LINE + "\n", ANSWERS, flags=re.DOTALL)
    number = wrong.splitlines().index(LINE) + 1
    write(lab, wrong)
    exercise(lab, "c00.one_file").locator(".oplab-ExerciseHeader").click()
    exercise(lab, "c00.one_file").get_by_role("button", name="Hint 1 of").click()
    exercise(lab, "c00.one_file").locator(".oplab-Extra").wait_for()
    exercise(lab, "c00.one_file").get_by_role("button", name="Check: one_file").click()  # saves, too
    lab.locator(".oplab-Panel [data-exercise='c00.one_file'][data-status=error]").wait_for()
    assert (course.root / STUB).read_text() == wrong
    report = exercise(lab, "c00.one_file").locator(".oplab-Report")
    report.get_by_text("ValueError: not yet").first.wait_for()
    report.locator(
        "a.oplab-place"
    ).first.click()  # to the line: an editor has only the lines around those that are seen
    lab.wait_for_function(f"() => document.querySelector('#jp-main-statusbar').innerText.includes('Ln {number},')")
    sign = lab.locator(".jp-FileEditor .oplab-Gutter .oplab-Sign")
    sign.wait_for(state="attached")
    assert lab.locator(".oplab-MarkedLine").inner_text().startswith(LINE)
    assert "ValueError" in sign.get_attribute("title")
    said = lab.locator(".oplab-Announcer")  # four exercises are graded, and each is announced, also at the same moment
    for words in (r"one_file: error.*ValueError: not yet", r"export: passed", r"compare: passed"):
        said.get_by_text(re.compile(words)).wait_for(state="attached")
    shot(lab, "panel-error")

    write(lab, ANSWERS)
    lab.keyboard.press("Control+s")  # saving is enough
    passed = lab.locator(".oplab-Panel [data-exercise='c00.one_file'][data-status=passed]")
    passed.wait_for()
    lab.wait_for_function("() => !document.querySelector('.oplab-MarkedLine')")
    passed.locator(".oplab-Extra").wait_for(state="detached")  # the hints
    assert "oplab-mod-main" in passed.get_by_role("button", name="Next: c01.build").get_attribute("class")
    assert "oplab-mod-main" not in passed.get_by_role("button", name="Check: one_file").get_attribute("class")
    lab.wait_for_function(
        """() => {
            const seen = document.querySelector("[data-exercise='c00.one_file'] .oplab-Buttons").getBoundingClientRect();
            return seen.top > 0 && seen.bottom < innerHeight;
        }"""
    )
    assert "Chapter 00 is done. You can" in lab.locator(".oplab-Done").inner_text()
    passed.get_by_role("button", name="Reference: one_file").click()
    lab.locator(".oplab-Large pre").wait_for()
    main, wide = (lab.locator(name).bounding_box()["width"] for name in ("#jp-main-dock-panel", ".oplab-Large"))
    assert wide > main - 40, "it has not the full width"
    shot(lab, "panel-passed")
    assert "passed" in exercise(lab, "c00.one_file").locator(".oplab-State").inner_text()

    # what a terminal writes is what the editor shows
    run = [sys.executable, "-m", "oplab.cli", "reset", "c00.one_file"]
    subprocess.run(run, env=course.env, cwd=course.root, check=True, capture_output=True)
    text = "[...window.jupyterapp.shell.widgets('main')].find((w) => w.context?.path === path).content.editor.editor.state.doc"
    lab.wait_for_function(f"(path) => {text}.toString().includes('TODO c00.one_file')", arg=STUB)
    write(lab, "# mine")
    (course.root / STUB).write_text("# written elsewhere")
    lab.locator(".jp-Dialog").get_by_role("button", name="Keep my changes").click()
    assert lab.evaluate(f"(path) => {text}.toString()", STUB) == "# mine"
    write(lab, "# mine, and more")
    (course.root / STUB).write_text(ANSWERS)
    lab.locator(".jp-Dialog").get_by_role("button", name="Load the file").click()
    lab.wait_for_function(f"([path, answers]) => {text}.toString() === answers", arg=[STUB, ANSWERS])

    # no address but the server's own
    assert lab.problems == []
    here = (course.origin, course.origin.replace("http", "ws"), "data:", "blob:")
    assert [address for address in lab.requests if not address.startswith(here)] == []


@pytest.mark.nightly
def test_who_knows_onnx_begins_with_a_later_chapter(start_course, new_page):
    course, page = start_course(), new_page()
    page.goto(course.url("lab?reset"))
    start = page.locator(".oplab-Start")
    start.get_by_role("button", name="I know ONNX: begin with 04").click()
    start.locator("fieldset").first.wait_for()
    for question, place in zip(start.locator("fieldset").all(), (1, 1, 2), strict=True):  # the last one is wrong
        question.locator("input").nth(place).check()
    shot(page, "start-questions")
    start.get_by_role("button", name="Check my answers").click()
    start.get_by_text("2 of 3 right.").wait_for()
    start.get_by_text("✗ Wrong.").wait_for()
    shot(page, "start-answers")
    start.get_by_role("button", name="Begin with lesson 04", exact=True).click()
    page.locator(".jp-Notebook h1", has_text="ATen symbolic functions").wait_for()
    page.locator(".oplab-Panel").get_by_role("button", name="Continue: c04.asinh").wait_for()
    assert json.loads((course.root / "build" / "progress.json").read_text())["start"] == "04_aten_symbolic"


@pytest.mark.nightly
def test_the_language_is_chosen_on_the_start_page(start_course, new_page, tmp_path, monkeypatch):
    for entry in (Path(sys.prefix) / "share/jupyter/lab").iterdir():  # JupyterLab with settings of its own
        if entry.name != "settings":
            (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.setenv("JUPYTERLAB_DIR", str(tmp_path))
    server = start_course()
    page = new_page()
    page.goto(server.url("lab?reset"))
    page.locator(".oplab-Language select").select_option("zh_CN")  # the page loads again
    page.get_by_role("button", name="开始：第 00 课").first.click()
    page.get_by_role("heading", name="第一次走通全流程").wait_for()
    page.locator(".oplab-Panel").get_by_role("button", name="继续：c00.run").click()
    page.locator(".jp-FileEditor .cm-content").get_by_text("在 ONNX Runtime 里运行").first.wait_for()
    shot(page, "lesson-zh")
    page.evaluate("() => window.jupyterapp.commands.execute('oplab:open-start')")
    page.locator(".oplab-Language select").select_option("en")
    page.locator(".oplab-Panel").get_by_role("button", name="Continue: c00.run").wait_for()
    assert (server.root / STUB).read_text() == (ROOT / STUB).read_text()


@pytest.mark.nightly
def test_a_graph_in_a_cell_comes_alive(course, new_page):
    page = new_page()
    code = "from tests.support import viewer_models as m\nimport oplab\noplab.show(m.conv())"
    open_notebook(page, course, course.write("graph.ipynb", code))
    assert run_all(page) == []
    netron = page.frame_locator(".oplab-view[data-shown=netron] iframe.oplab-frame:not([data-waiting])")
    netron.locator("#canvas text", has_text="Conv").first.wait_for()
    page.locator(".oplab-view").get_by_role("button", name="Larger").click()
    page.frame_locator(".oplab-mod-wide iframe").locator("#canvas text", has_text="Conv").first.wait_for()
    shot(page, "netron-wide")
    assert page.problems == []


@pytest.mark.nightly
def test_the_keyboard_alone(course, lab):
    lab.keyboard.press("Control+Shift+O")
    lab.wait_for_function("() => document.activeElement.closest('.oplab-Panel')")
    press_until(lab, r"^Check on save", "Shift+Tab")
    lab.keyboard.press("Space")
    lab.wait_for_function("() => !document.activeElement.checked")
    lab.keyboard.press("Space")
    lab.wait_for_function("() => document.activeElement.checked")
    press_until(lab, r"^.*01\s+What is in an ONNX model")
    lab.keyboard.press("Enter")
    press_until(lab, r"^.*\bbuild\b")
    if lab.evaluate("() => document.activeElement.getAttribute('aria-expanded')") == "false":
        lab.keyboard.press("Enter")
    press_until(lab, r"^Hint 1 of \d: build")
    ring = lab.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert ring != "none"
    lab.keyboard.press("Enter")
    exercise(lab, "c01.build").locator(".oplab-Extra").wait_for()
    for number in (2, 3):
        focus = "() => document.activeElement.getAttribute('aria-label')"
        lab.wait_for_function(f"{focus} === 'Hint {number} of 3: build'")
        lab.keyboard.press("Enter")
    exercise(lab, "c01.build").get_by_role("button", name="Reference: build").wait_for()
    press_until(lab, r"^Reference: build")
    lab.keyboard.press("Enter")
    lab.locator(".jp-Dialog").get_by_text("2 of 3 points").wait_for()
    press_until(lab, r"^Show it")
    lab.keyboard.press("Enter")
    lab.locator(".oplab-Large pre").wait_for()
    assert "to do, counts half" in exercise(lab, "c01.build").inner_text()
    lab.keyboard.press("Control+Shift+O")
    press_until(lab, r"^Check: build")
    lab.keyboard.press("Enter")
    lab.wait_for_function("() => /build: to do/.test(document.querySelector('.oplab-Announcer').textContent)")
    press_until(lab, r"^Open: build", "Shift+Tab")
    lab.keyboard.press("Enter")
    lab.wait_for_function("() => document.activeElement.closest('.jp-FileEditor')")
    assert "c01_onnx_model.py" in lab.locator("#jp-main-statusbar").inner_text()
    lab.locator(".jp-Notebook h1", has_text="What is in an ONNX model").wait_for()  # next to its lesson
    lab.locator(".oplab-Chapter.oplab-mod-current[data-chapter=c01]").wait_for()  # it follows the document in front


@pytest.mark.nightly
def test_two_tabs_and_a_file_that_changes_elsewhere(course, lab, new_page):
    other = new_page(viewport={"width": 390, "height": 844})
    other.goto(course.url("lab/workspaces/other?reset"))
    other.locator(".oplab-MapList").wait_for()  # a list: the picture has no room
    assert not other.locator(".oplab-MapPicture").is_visible()
    shot(other, "start-390")
    stub = course.root / "exercises" / "c03_dynamic_models.py"
    stub.write_text(stub.read_text().replace("import", "import import", 1))  # in an editor outside, and wrong
    for page in (lab, other):
        page.wait_for_function("() => document.querySelector('.oplab-Panel [data-chapter=c03] .oplab-mod-odd')")


@pytest.mark.nightly
def test_a_c_plus_plus_answer_that_does_not_compile_and_then_passes(course, lab):
    """The mark in the editor opens what the last check said; the graphs and places of other exercises stay apart."""
    clamp = open_answer(lab, "cA1.clamp")
    file = "exercises/csrc/cA1_clamp.cpp"
    answer = (ROOT / "solutions" / "csrc" / "cA1_clamp.cpp").read_text()
    write(lab, answer.replace("return", "retrun", 1), file)
    lab.keyboard.press("Control+s")
    lab.locator(".oplab-Panel [data-exercise='cA1.clamp'][data-status=build_failed]").wait_for()
    sign = lab.locator(".jp-FileEditor .oplab-Gutter .oplab-Sign")
    sign.first.wait_for(state="attached")
    assert "retrun" in lab.locator(".oplab-MarkedLine").first.inner_text()
    clamp.locator(".oplab-ExerciseHeader").click()  # closed
    lab.evaluate("() => window.jupyterapp.shell.activateById('filebrowser')")
    sign.first.click()  # shows the panel, and what the last check said
    clamp.locator(".oplab-Report").wait_for()
    clamp.locator("a.oplab-place").first.click()
    number = next(n for n, line in enumerate(answer.splitlines(), start=1) if "return" in line)
    lab.wait_for_function(f"() => document.querySelector('#jp-main-statusbar').innerText.includes('Ln {number},')")
    write(lab, answer, file)
    lab.keyboard.press("Control+s")
    lab.locator(".oplab-Panel [data-exercise='cA1.clamp'][data-status=passed]").wait_for()
    lab.wait_for_function("() => !document.querySelector('.oplab-MarkedLine')")
    assert lab.problems == []


@pytest.mark.nightly
def test_the_graphs_have_a_tab(lab):
    asinh = open_answer(lab, "c04.asinh")
    answers = (ROOT / "solutions" / "c04_aten_symbolic.py").read_text()
    assert answers.count('"Asinh"') == 1
    write(lab, answers.replace('"Asinh"', '"Sinh"'), "exercises/c04_aten_symbolic.py")
    lab.keyboard.press("Control+s")
    lab.locator(".oplab-Panel [data-exercise='c04.asinh'][data-status=failed]").wait_for()
    asinh.locator("button.oplab-Graph").first.click()
    lab.locator(".oplab-Large img").first.wait_for()
    lab.locator(".oplab-Large .oplab-card").wait_for()
    shot(lab, "graphs")


@pytest.mark.nightly
def test_a_newer_lesson_replaces_a_changed_copy_if_that_is_wanted(course, lab):
    lab.locator(".oplab-Panel [data-chapter=c05] .oplab-ChapterHeader").click()
    lab.locator(".oplab-Panel [data-chapter=c05]").get_by_role("button", name=re.compile("[Ll]esson")).click()
    lab.locator(".jp-Notebook h1", has_text="Writing symbolic functions").wait_for()
    (mine,) = (course.root / "work").glob("05_*.ipynb")
    lesson = course.root / "notebooks" / mine.name
    mine.write_text(mine.read_text().replace("After this chapter you can", "My own words"))
    lesson.write_text(lesson.read_text().replace("After this chapter you can", "After a newer chapter you can"))
    lab.locator(".oplab-Panel").get_by_role("button", name="Take the new lesson").click()
    lab.locator(".jp-Dialog").get_by_role("button", name="Keep my copy").click()
    assert "My own words" in mine.read_text()
    lab.locator(".oplab-Panel").get_by_role("button", name="Take the new lesson").click()
    lab.locator(".jp-Dialog").get_by_role("button", name="Take the new one").click()
    lab.locator(".jp-Notebook p", has_text="After a newer chapter you can").wait_for()
    lab.get_by_role("button", name="Take the new lesson").first.wait_for(state="detached")
    (kept,) = (course.root / "build" / "backup").rglob(mine.name)
    assert "My own words" in kept.read_text()


@pytest.mark.nightly
def test_a_page_that_is_older_than_the_installed_panel_says_so(course, new_page):
    def older(client: Any) -> None:
        """The server's news, as of a server whose panel was built later."""
        server = client.connect_to_server()
        server.on_message(lambda text: client.send(re.sub(r"static/remoteEntry\.\w+\.js", "static/later.js", text)))

    page = new_page()
    page.route_web_socket(re.compile("oplab/lab/events"), older)
    page.goto(course.url("lab?reset"))
    page.get_by_text("The course was updated.").first.wait_for()
    page.get_by_role("button", name="Reload").first.wait_for()


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core, among the packages that the extension is built with."""
    try:
        return build_labextension.axe(install=True).read_text()
    except OplabError as error:
        pytest.skip(f"axe-core is a package of npm: {error.message}")


@pytest.mark.nightly
def test_axe_has_no_serious_finding(course, lab, axe):
    lab.locator(".oplab-Panel [data-chapter=c02] .oplab-ChapterHeader").click()
    lab.locator(".oplab-Panel [data-chapter=c02] .oplab-Exercise").first.wait_for()
    lab.evaluate(axe)
    for theme, ground in THEMES.items():
        lab.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        lab.wait_for_function(f"() => document.body.dataset.jpThemeName === '{theme}'")
        lab.wait_for_function(  # the style sheet of a theme comes after its name
            """(ground) => {
                const probe = document.body.appendChild(document.createElement('i'));
                probe.style.color = 'var(--jp-layout-color0)';
                const now = getComputedStyle(probe).color;
                probe.remove();
                return now === ground;
            }""",
            arg=ground,
        )
        found = lab.evaluate("async () => (await axe.run({include: ['.oplab-Panel', '.oplab-Start']})).violations")
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], theme
        shot(lab, f"start-{theme.split()[-1].lower()}")


@pytest.mark.nightly
def test_notebook_7_has_no_panel_and_no_error(start_course, new_page):
    server = start_course(app="notebook")
    page = new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(f"{error} {error.stack}"))  # Notebook 7.6 itself has one
    open_notebook(page, server, "notebooks/00_first_round_trip.ipynb")
    assert page.locator(".oplab-Panel").count() == 0
    assert [text for text in wrong if "oplab" in text] == []
