"""The picture in the README, ``docs/pictures/lab.png``: JupyterLab with a lesson that has been run, in Chromium.

``python tools/screenshot.py`` makes it again, after ``make setup``. It needs Chromium and Pillow, and the helpers of the browser tests.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for tests.support

from PIL import Image  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from tests.support.labdriver import (  # noqa: E402
    CHROMIUM_FLAGS,
    Jupyter,
    cells,
    chromium_path,
    open_notebook,
    run_all,
    scroll_to,
)

PICTURE = ROOT / "docs" / "pictures" / "lab.png"
LESSON, CELL = "05_writing_symbolic", "lab.show(plugin)"  # the operator as one node of its own domain
SIZE = {"width": 1280, "height": 900}
COLOURS = 256  # a palette: the picture is 250 kB at most
NETRON = ".oplab-view[data-shown=netron] iframe.oplab-frame:not([data-waiting])"


def main() -> int:
    if not (chromium := chromium_path()):
        print("Chromium is missing: install it, or set OPLAB_CHROMIUM to its path.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Jupyter(Path(folder), env={"OPLAB_TRACK": "solutions"})
        try:
            (server.root / "work").mkdir()
            for notebook in (ROOT / "notebooks").glob("*.ipynb"):
                shutil.copy(notebook, server.root / "work")
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
    """A screenshot of the lesson at its graph, after "Run all"."""
    page.set_default_timeout(240_000)
    open_notebook(page, server, f"work/{LESSON}.ipynb")
    if errors := run_all(page, timeout=900):
        raise SystemExit(f"The lesson failed: {errors[0]['ename']}: {errors[0]['evalue']}")
    number = next(number for number, cell in enumerate(cells(page)) if CELL in cell["source"])
    for _ in range(120):  # pictures above it may still move the page
        scroll_to(page, number)
        page.wait_for_timeout(500)
        if page.locator(NETRON).count():
            break
    else:
        raise SystemExit("The graph did not come.")
    graph = page.locator(NETRON).first.element_handle().content_frame()
    graph.locator("g.node").first.wait_for()
    page.locator(NETRON).first.evaluate("frame => frame.scrollIntoView({block: 'end'})")  # with the code above it
    page.wait_for_timeout(1000)
    return page.screenshot()


if __name__ == "__main__":
    sys.exit(main())
