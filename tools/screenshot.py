"""The picture in the README, ``docs/pictures/lab.png``: JupyterLab with the panel, a lesson and an answer that fails, in Chromium.

``python tools/screenshot.py`` makes it again, after ``make setup``. It needs Chromium and Pillow, and the helpers of the browser tests.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for tests.support

from PIL import Image  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from oplab.course.stubs import function_span  # noqa: E402
from tests.support.labdriver import CHROMIUM_FLAGS, Jupyter, chromium_path  # noqa: E402
from tests.support.learner_course import learner_course  # noqa: E402

PICTURE = ROOT / "docs" / "pictures" / "lab.png"
DONE = ("00", "01", "04")  # chapters whose exercises this learner has passed
FILE, EXERCISE = "c05_writing_symbolic.py", "c05.clip"
# A wrong answer that many write: the bounds are attributes up to opset 10 only.
WRONG = """def clip(g, x, low, high):
    return g.op("Clip", x, min_f=low, max_f=high)"""
SIZE = {"width": 1440, "height": 900}
COLOURS = 256  # a palette: the picture is 250 kB at most


def main() -> int:
    if not (chromium := chromium_path()):
        print("Chromium is missing: install it, or set OPLAB_CHROMIUM to its path.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Jupyter(Path(folder), env={"OPLAB_ROOT": str(Path(folder) / "root"), "OPLAB_TRACK": ""})
        try:
            learner_course(server.root)
            server.start()
            browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
            data = lesson(browser.new_page(viewport=SIZE), server)
        finally:
            server.stop()
    PICTURE.parent.mkdir(exist_ok=True)
    Image.open(io.BytesIO(data)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} kB")
    return 0


def lesson(page, server: Jupyter) -> bytes:
    """A screenshot of a lesson next to its exercise, after some chapters and a check that failed."""
    page.set_default_timeout(240_000)
    page.goto(server.url("lab"))
    for number in DONE:
        chapter = page.locator(f".oplab-Panel [data-chapter=c{number}]")
        chapter.wait_for()
        for solution in sorted((ROOT / "solutions").glob(f"c{number}_*.py")):
            (server.root / "exercises" / solution.name).write_text(solution.read_text())  # saved: so it is checked
        page.wait_for_function(  # 3/3
            """(chapter) => {
                const points = document.querySelector(`.oplab-Panel [data-chapter=${chapter}] .oplab-Points`).innerText;
                return /(\\d+)\\/\\1(?!\\d)/.test(points);
            }""",
            arg=f"c{number}",
        )
    exercise = page.locator(f".oplab-Panel [data-exercise='{EXERCISE}']")
    page.locator(".oplab-Panel [data-chapter=c05] .oplab-ChapterHeader").click()
    if not exercise.get_by_role("button", name="Open: clip").count():
        exercise.locator(".oplab-ExerciseHeader").click()
    exercise.get_by_role("button", name="Open: clip").click()
    page.locator(".jp-Notebook h1").first.wait_for()
    page.locator(".jp-FileEditor .cm-content").wait_for()
    stub = server.root / "exercises" / FILE
    lines = stub.read_text().splitlines()
    first, end = function_span(stub.read_text(), "clip")
    page.evaluate(
        """([path, text]) => {
            const found = [...window.jupyterapp.shell.widgets('main')].find((w) => w.context?.path === path);
            const view = found.content.editor.editor;
            view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: text}});
        }""",
        [f"exercises/{FILE}", "\n".join([*lines[: first - 1], *WRONG.splitlines(), *lines[end:]]) + "\n"],
    )
    exercise.get_by_role("button", name="Check: clip").click()
    page.locator(f".oplab-Panel [data-exercise='{EXERCISE}'][data-status=failed]").wait_for()
    page.wait_for_timeout(4000)  # the pictures of the models come after the outcome
    exercise.get_by_role("button", name="Open: clip").click()
    exercise.scroll_into_view_if_needed()
    page.wait_for_timeout(2000)
    return page.screenshot()


if __name__ == "__main__":
    sys.exit(main())
