"""How fast the course's panel in JupyterLab follows: a save, a check elsewhere, the start; and how large it is.

    python -m benchmarks.lab [--repeat 5]

It needs Chromium, and prints a table with the target of each figure. The grading server is warm, and each C++ text is new.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import document
from .document import ROOT
from .kernels.processor import describe

HEAD = ("what", "median", "worst", "target")
STATUS = "([id, status]) => document.querySelector(`.oplab-Panel [data-exercise='${id}']`)?.dataset.status === status"


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def row(what: str, values: Sequence[float], target: str, unit: str = "s") -> tuple[str, ...]:
    return what, f"{statistics.median(values):.2f} {unit}", f"{max(values):.2f} {unit}", target


# In the page itself, at each frame: a test driver notices either later than it is there.
MARKS = """(() => {
    const marks = window.marks = {};
    const seen = (selector) => document.querySelector(selector)?.getBoundingClientRect().height > 0;
    const look = () => {
        marks.shell ??= seen('#jp-main-dock-panel') ? performance.now() : undefined;
        marks.panel ??= seen('.oplab-Panel .oplab-Chapter') ? performance.now() : undefined;
        if (!marks.shell || !marks.panel) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""


class Panel:
    """JupyterLab with the panel in a learner's course, and a page on it."""

    def __init__(self, page: Any, server: Any):
        self.page, self.server = page, server

    def start(self) -> float:
        """Seconds from JupyterLab's own shell to the panel's chapters, both as they are seen."""
        self.page.goto(self.server.url("lab?reset"))
        self.page.wait_for_function("() => window.marks.shell && window.marks.panel")
        marks = self.page.evaluate("() => window.marks")
        return (marks["panel"] - marks["shell"]) / 1000

    def until(self, id: str, status: str, file: Path, text: str) -> float:
        """Write a file, and wait until the panel shows this state of an exercise; seconds."""
        began = time.perf_counter()
        other = file.with_name(f".{file.name}.new")
        other.write_text(text)
        other.replace(file)
        self.page.wait_for_function(STATUS, arg=[id, status])
        return time.perf_counter() - began

    def open(self, chapter: str) -> None:
        header = self.page.locator(f".oplab-Panel [data-chapter={chapter}] .oplab-ChapterHeader")
        if header.get_attribute("aria-expanded") != "true":
            header.click()

    def saves(self, id: str, file: str, repeat: int) -> list[float]:
        """Seconds from saving a right answer to its pass on the screen; the stub is saved between two of them."""
        path, mark = self.server.root / "exercises" / file, "//" if file.endswith(".cpp") else "#"
        stub, solution = path.read_text(), (ROOT / "solutions" / file).read_text()
        self.open(id.partition(".")[0])
        found = []
        for number in range(repeat):
            found.append(self.until(id, "passed", path, f"{solution}{mark} {number} {time.time()}\n"))
            self.until(id, "todo", path, stub)
        return found

    def elsewhere(self, repeat: int) -> list[float]:
        """Milliseconds from a progress that another process has written to the screen."""
        path = self.server.root / "build" / "progress.json"
        progress = json.loads(path.read_text())
        self.open("c05")
        found = []
        for number in range(2 * repeat):
            status = ("failed", "timeout")[number % 2]
            entry = {"status": status, "points": 0, "passed_once": False, "hints": 0}
            progress["exercises"]["c05.clip"] = entry
            found.append(1000 * self.until("c05.clip", status, path, json.dumps(progress)))
            time.sleep(0.5)
        return found


def measure(repeat: int) -> list[tuple[str, ...]]:
    from playwright.sync_api import sync_playwright

    from tests.support.labdriver import CHROMIUM_FLAGS, Jupyter, chromium_path
    from tests.support.learner_course import learner_course

    chromium = chromium_path()
    if chromium is None:
        raise SystemExit("Chromium is missing: install it, or set OPLAB_CHROMIUM to its path.")
    rows, sizes = [], {}
    static = ROOT / "oplab" / "jupyter" / "labextension" / "static"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        for enabled in (False, True):
            place = Path(folder) / str(enabled)
            config = {"ServerApp": {"jpserver_extensions": {"oplab.jupyter.server": enabled}}}
            environment = {"OPLAB_ROOT": str(place / "root"), "OPLAB_TRACK": ""}
            server = Jupyter(place, env=environment, config=config)
            try:
                learner_course(server.root)
                server.start()
                browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                page.set_default_timeout(120_000)
                page.add_init_script(MARKS)
                requests: list[str] = []
                page.on("request", lambda request, requests=requests: requests.append(request.url))
                page.on("websocket", lambda socket, requests=requests: requests.append(socket.url))
                panel = Panel(page, server)
                if enabled:
                    starts = [panel.start() for _ in range(repeat)]
                    rows.append(row("panel, after JupyterLab's own shell", starts, "1 s"))
                    time.sleep(3)
                    sizes["with a page open"] = memory(server.process.pid)
                    panel.saves("c05.my_add", "c05_writing_symbolic.py", 1)  # starts the grading server
                    rows.append(
                        row("save to outcome, Python", panel.saves("c04.asinh", "c04_aten_symbolic.py", repeat), "1 s")
                    )
                    # The first of a kind of kernel has no precompiled header; the second comes while that is being made.
                    first, second, *later = panel.saves("c12.my_add", "csrc/c12_my_add.cpp", repeat + 2)
                    rows.append(row("save to outcome, C++, the first", [first], "4 s"))
                    rows.append(row("save to outcome, C++, the second", [second], "4 s"))
                    rows.append(row("save to outcome, C++, later ones", later, "4 s"))
                    rows.append(row("a state on disk to the screen", panel.elsewhere(repeat), "500 ms", "ms"))
                    sizes["after these gradings"] = memory(server.process.pid)
                    own = (server.origin, server.origin.replace("http", "ws"), "data:", "blob:")
                    other = sum(not address.startswith(own) for address in requests)
                    rows.append(("requests to other hosts", str(other), "", "0"))
                else:
                    page.goto(server.url("lab?reset"))
                    page.locator("#jp-main-dock-panel").wait_for()
                    time.sleep(3)
                    sizes["without"] = memory(server.process.pid)
                browser.close()
            finally:
                server.stop()
    for what in ("with a page open", "after these gradings"):
        more = (sizes[what] - sizes["without"]) / 1e6
        rows.append((f"memory of Jupyter's server that the extension takes, {what}", f"{more:.0f} MB", "", "60 MB"))
    script = sum(path.stat().st_size for path in static.glob("*.js"))
    rows.append(("JavaScript", f"{script / 1000:.0f} kB", "", "150 kB"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="how often each time is taken (default: 5)")
    options = parser.parse_args()
    print(f"{describe()}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr, flush=True)
    print(document.markdown(measure(max(1, options.repeat)), HEAD))


if __name__ == "__main__":
    main()
