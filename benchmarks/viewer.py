"""How long a graph takes, and what it costs.

    python benchmarks/viewer.py

Needs Chromium. The peer is Netron's own server, opened in the same browser with its question for consent already answered.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from oplab.viewer import show  # noqa: E402
from tests.support import viewer_models as m  # noqa: E402
from tests.support.labdriver import (  # noqa: E402
    CHROMIUM_FLAGS,
    Jupyter,
    cells,
    chromium_path,
    open_notebook,
    run_cell,
    save,
)

MODELS = {
    "conv, 2 nodes": "m.conv()",
    "oplab::MyAdd, 1 node": "m.custom()",
    "If and Loop, 5 nodes": "m.control_flow()",
    "transformer, 52 nodes": "m.transformer(2)",
    "transformer, 364 nodes": "m.transformer(14)",
}
BIG = """
import numpy as np, onnx
from onnx import helper, numpy_helper
ws = [numpy_helper.from_array(np.full((2500, 1000), k, np.float32), f"w{k}") for k in range(10)]
nodes = [helper.make_node("Gemm", [f"t{k}" if k else "x", f"w{k}"], [f"t{k + 1}"]) for k in range(10)]
onnx.save(m.model(nodes, [m.info("x", [1, 2500])], [m.info("t10", [1, 1000])], tuple(ws)), "big.onnx")
"""
MEMORY = 'print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024)'


def row(what: str, value: str, limit: str = "") -> None:
    print(f"{what:58} {value:>16}  {limit}", flush=True)


def median(run: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def pictures() -> None:
    for name, proto in (
        ("SVG of 50 nodes without a pattern", m.tangle(50)),
        ("SVG of 52 nodes of a transformer", m.transformer(2)),
        ("SVG of 364 nodes, folded", m.transformer(14)),
        ("SVG of 20 000 nodes, cut", m.tangle(20_000)),
    ):
        seconds = median(lambda proto=proto: show(proto), 3 if len(proto.graph.node) > 1000 else 9)
        limit = "under 0.3 s" if "50" in name.split()[2:3] else ""
        row(name, f"{seconds:.3f} s", limit)
        row(
            "    its size",
            f"{len(show(proto).svg) / 1000:.0f} kB",
            "under 200 kB" if len(proto.graph.node) < 60 else "",
        )


def timed_cell(page: Any, index: int) -> float:
    """Seconds from running a cell to Netron's finished drawing, measured in the page."""
    return page.evaluate(
        """async (index) => {
            const panel = [...window.jupyterapp.shell.widgets('main')].find((w) => w.sessionContext && w.content?.widgets);
            panel.content.activeCellIndex = index;
            await panel.content.scrollToItem(index, 'start');
            const start = performance.now();
            window.jupyterapp.commands.execute('notebook:run-cell');
            const cell = panel.content.widgets[index].node;
            while (!cell.querySelector('.oplab-view[data-shown=netron]')) {
                await new Promise((r) => setTimeout(r, 5));
            }
            return (performance.now() - start) / 1000;
        }""",
        index,
    )


def live(browser: Any, server: Jupyter) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    start = "from tests.support import viewer_models as m\nimport oplab\noplab.show(m.conv()).html"
    shows = [f"oplab.show({code})" for code in MODELS.values()]
    name = server.write("bench.ipynb", start, *shows)
    open_notebook(page, server, name)
    run_cell(page, 0)
    page.wait_for_timeout(1000)
    for number, what in enumerate(MODELS, start=1):
        first = timed_cell(page, number)
        again = statistics.median(timed_cell(page, number) for _ in range(4))
        row(f"cell to visible Netron: {what}", f"{first:.2f} s", f"under 1 s; again {again:.2f} s")
    page.close()


def big(browser: Any, server: Jupyter) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    start = "from tests.support import viewer_models as m\nimport oplab"
    maker = subprocess.run([sys.executable, "-c", start + BIG], cwd=server.root, env=server.env)
    assert maker.returncode == 0
    name = server.write(
        "big.ipynb", start + "\noplab.show(m.conv()).html[:0]", MEMORY, "oplab.show('big.onnx')", MEMORY
    )
    empty = (server.root / name).stat().st_size
    open_notebook(page, server, name)
    run_cell(page, 0)
    run_cell(page, 1)
    seconds = timed_cell(page, 2)
    run_cell(page, 3)
    save(page)
    state = cells(page)
    before, after = (int(state[i]["outputs"][0]["text"]) for i in (1, 3))
    size = (server.root / "big.onnx").stat().st_size / 1e6
    row(f"a model of {size:.0f} MB: cell to visible Netron", f"{seconds:.2f} s")
    row("    the notebook grows by", f"{((server.root / name).stat().st_size - empty) / 1000:.0f} kB", "under 300 kB")
    row("    the kernel's memory grows by", f"{after - before} MB", f"less than {size:.0f} MB")
    page.close()


def peer(browser: Any) -> None:
    """Both pages alone in a tab: ours through its local server, and Netron's own."""
    import onnx

    folder = Path(tempfile.mkdtemp())
    onnx.save(m.transformer(2), folder / "model.onnx")
    code = (
        "import sys, netron; a = netron.serve(sys.argv[1], None, ('127.0.0.1', 0)); print(f'http://{a[0]}:{a[1]}/', flush=True)\n"
        "from oplab.viewer import show; v = show(sys.argv[1]); print(v.url(), flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / "model.onnx")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    theirs, ours = process.stdout.readline().strip(), process.stdout.readline().strip()
    drawn = {
        theirs: "document.body.classList.contains('default') && !document.body.classList.contains('spinner')",
        ours: "!!document.querySelector('.oplab-view[data-shown=netron]')",
    }
    found: dict[str, list[float]] = {theirs: [], ours: []}
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    context.add_cookies([{"name": "consent", "value": "1", "url": theirs}])
    context.route("**/*", lambda r: r.continue_() if "127.0.0.1" in r.request.url else r.abort())
    for _ in range(7):
        for url, ready in drawn.items():
            page = context.new_page()
            page.goto(url, wait_until="commit")
            start = f"(() => {{ if ({ready}) return performance.now(); }})()"
            found[url].append(wait(page, start))
            page.close()
    process.communicate("\n")
    a, b = (statistics.median(found[url]) / 1000 for url in (ours, theirs))
    row("a page of its own, 52 nodes", f"{a:.2f} s", f"Netron's own server {b:.2f} s: ratio {a / b:.2f}")


def wait(page: Any, expression: str) -> float:
    """Poll by hand: Netron forbids eval in its window, so Playwright's own waiting does not work there."""
    session = page.context.new_cdp_session(page)
    for _ in range(3000):
        answer = session.send("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        value = answer.get("result", {}).get("value")
        if value is not None:
            return float(value)
        time.sleep(0.005)
    raise RuntimeError("nothing was drawn")


def main() -> None:
    from playwright.sync_api import sync_playwright

    pictures()
    server = Jupyter(Path(tempfile.mkdtemp()))
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_FLAGS)
            live(browser, server)
            big(browser, server)
            peer(browser)
            browser.close()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
