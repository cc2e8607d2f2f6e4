"""The graph viewer in real Chromium: live in JupyterLab and Notebook 7, saved, exported, and without Jupyter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from oplab.viewer import show
from tests.support import environment, run_python
from tests.support import viewer_models as m
from tests.support.labdriver import Jupyter, cells, open_notebook, run_all, save, scroll_to

pytestmark = pytest.mark.nightly
START = "from tests.support import viewer_models as m\nimport oplab"
LIVE = ".oplab-view[data-shown=netron]"


def netron(page: Any, index: int = 0) -> Any:
    """The frame of the index-th interactive graph."""
    return page.locator(LIVE).nth(index).frame_locator("iframe.oplab-frame:not([data-waiting])")


def wait_live(page: Any, count: int, timeout: float = 120) -> None:
    page.wait_for_function(f"document.querySelectorAll({LIVE!r}).length >= {count}", timeout=timeout * 1000)


def wait_for(page: Any, condition: Any, seconds: float = 120) -> None:
    """Wait until something is true that the page's events change."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        page.wait_for_timeout(50)


def inside(page: Any, script: str, index: int = 0) -> Any:
    """Evaluate ``script`` with ``view`` and ``document`` of the index-th interactive graph.

    Netron forbids eval in its own window, so this looks in from the notebook's.
    """
    return page.evaluate(
        f"""([selector, index]) => {{
            const frame = document.querySelectorAll(selector)[index].querySelector('iframe.oplab-frame:not([data-waiting])');
            return ((view, document) => {script})(frame.contentWindow, frame.contentDocument);
        }}""",
        [LIVE, index],
    )


def labels(page: Any, index: int = 0) -> list[str]:
    """What Netron has written on its nodes."""
    return inside(page, "[...document.querySelectorAll('#canvas text')].map((e) => e.textContent)", index)


def origins(page: Any) -> set[str]:
    return {"/".join(url.split("/")[:3]) for url in page.requests if not url.startswith(("data:", "blob:"))}


def test_two_models_come_alive_in_jupyterlab(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page()
    name = jupyter.write("two.ipynb", START, "oplab.show(m.conv(), title='one')", "oplab.show(m.custom())")
    open_notebook(page, jupyter, name)
    assert run_all(page) == []
    wait_live(page, 2)
    assert "Conv" in labels(page, 0) and "MyAdd" not in labels(page, 0)
    assert "MyAdd" in labels(page, 1) and "Conv" not in labels(page, 1)
    assert any("alpha" in text for text in labels(page, 1)), "attributes are shown without a click"
    credit = page.locator(".oplab-credit").first.text_content()
    assert "Netron" in credit and "Lutz Roeder" in credit and "MIT" in credit

    # no question, no stranger, no cookie, and the keyboard is still the notebook's
    assert netron(page).locator("#message-button").is_hidden()
    assert origins(page) == {jupyter.origin}
    assert not [c for c in page.context.cookies() if c["name"] in ("consent", "_ga")]
    assert page.evaluate("document.activeElement.tagName") != "IFRAME"
    assert page.problems == []

    # the picture is one click away, its text can be selected
    page.locator(".oplab-view").first.get_by_role("button", name="Picture").click()
    picture = page.locator(".oplab-view").first.locator("svg.oplab-graph")
    assert picture.is_visible() and "float32[4,3,3,3]" in picture.text_content()
    picture.get_by_text("Conv", exact=True).select_text()
    assert page.evaluate("getSelection().toString()") == "Conv"
    assert page.locator(".oplab-view").first.locator("iframe").is_hidden()
    page.emulate_media(media="print")  # on paper: pictures only
    assert page.locator("svg.oplab-graph").nth(1).is_visible() and page.locator("iframe:visible").count() == 0
    page.emulate_media(media="screen")

    # the output that is saved holds no address of this server and no weights
    output = cells(page)[1]["outputs"][0]["data"]
    assert set(output) == {"text/html", "text/plain"}
    html = "".join(output["text/html"])
    assert str(jupyter.port) not in html and "127.0.0.1" not in html and str(Path.home()) not in html


def test_thirty_models_in_one_notebook(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page()
    shows = [f"oplab.show(m.chain({k + 2}, name='chain {k}'), height=300)" for k in range(30)]
    name = jupyter.write("thirty.ipynb", START, *shows)
    open_notebook(page, jupyter, name)
    assert run_all(page) == []
    # each cell in turn is scrolled to, as a reader does; its graph comes alive with as many nodes as the model has
    for index in (1, 2, 10, 12, 14, 17, 20, 24, 28, 30, 1):
        scroll_to(page, index)
        view = page.locator(f'.oplab-view:has(iframe[title="Netron: chain {index - 1}"])')
        view.first.wait_for()
        page.wait_for_function(
            """(title) => {
                const frame = document.querySelector(`iframe[title="${title}"]`);
                return frame && !('waiting' in frame.dataset);
            }""",
            arg=f"Netron: chain {index - 1}",
        )
        drawn = page.evaluate(
            """title => [...document.querySelector(`iframe[title="${title}"]`).contentDocument.querySelectorAll('#canvas text')]
                .filter((e) => ['Relu', 'Sigmoid', 'Tanh', 'Neg'].includes(e.textContent)).length""",
            f"Netron: chain {index - 1}",
        )
        assert drawn == index - 1 + 2
    assert page.locator("iframe.oplab-frame").count() <= 8 + 3, "graphs far out of sight give their memory back"
    assert page.problems == []
    assert origins(page) == {jupyter.origin}


def test_comparison_is_a_picture_with_both_netrons_behind_it(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page()
    name = jupyter.write("compare.ipynb", START, "oplab.show(m.decomposed(), m.custom())")
    open_notebook(page, jupyter, name)
    assert run_all(page) == []
    page.locator(".oplab-view[data-shown=picture]").wait_for()
    text = page.locator("svg.oplab-graph").text_content()
    assert "3 nodes (2 Mul, 1 Add) replaced by 1 oplab::MyAdd." in text
    page.get_by_role("button", name="Netron: custom").click()
    wait_live(page, 1)
    assert "MyAdd" in labels(page)
    page.get_by_role("button", name="Netron: decomposed").click()
    page.wait_for_function("document.querySelectorAll('.oplab-frame:not([data-waiting])').length === 2")
    visible = page.locator("iframe.oplab-frame:visible")
    assert visible.count() == 1 and visible.get_attribute("title") == "Netron: decomposed"


def test_dark_theme(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page()  # the system is light; JupyterLab alone is dark
    name = jupyter.write("dark.ipynb", START, "oplab.show(m.custom())")
    open_notebook(page, jupyter, name)
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
    page.evaluate(change, "JupyterLab Dark")
    page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    try:
        assert run_all(page) == []
        wait_live(page, 1)
        colour = "view.getComputedStyle(document.body).backgroundColor"
        assert inside(page, colour) == "rgb(64, 64, 64)", "Netron does not follow Jupyter's theme"
        page.get_by_role("button", name="Picture").click()
        ground = "getComputedStyle(document.querySelector('svg.oplab-graph rect.bg')).fill"
        assert page.evaluate(ground) == "rgb(17, 17, 17)", "the picture has the page's background"
        page.evaluate(change, "JupyterLab Light")
        page.wait_for_function("document.body.dataset.jpThemeLight === 'true'")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.get_by_role("button", name="Netron").click()
        page.locator(LIVE).wait_for()
        assert inside(page, colour) == "rgb(255, 255, 255)"
    finally:
        page.evaluate(change, "JupyterLab Light")


def test_the_wheel_scrolls_the_notebook_until_the_graph_is_clicked(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page(viewport={"width": 1280, "height": 700})
    tail = ["print('\\n' * 30)"] * 4
    name = jupyter.write("wheel.ipynb", START, "oplab.show(m.chain(20))", *tail)
    open_notebook(page, jupyter, name)
    assert run_all(page) == []
    scroll_to(page, 0)
    wait_live(page, 1)
    box = page.locator("iframe.oplab-frame").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    page.mouse.wheel(0, 200)
    page.wait_for_function(
        f"document.querySelector('iframe.oplab-frame').getBoundingClientRect().top < {box['y'] - 100}"
    )
    top = "document.getElementById('target').scrollTop"
    before = inside(page, top)
    box = page.locator("iframe.oplab-frame").bounding_box()
    page.mouse.click(box["x"] + 40, box["y"] + box["height"] - 140)
    page.mouse.wheel(0, 120)
    wait_for(page, lambda: inside(page, top) > before)


def test_reload_after_the_kernel_is_gone(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page()
    name = jupyter.write("reload.ipynb", START, "oplab.show(m.custom())", "oplab.show(m.decomposed())")
    open_notebook(page, jupyter, name)
    assert run_all(page) == []
    wait_live(page, 2)
    save(page)
    page.evaluate(
        """async () => {
            const panel = [...window.jupyterapp.shell.widgets('main')].find((w) => w.sessionContext);
            panel.sessionContext.kernelPreference = { ...panel.sessionContext.kernelPreference, autoStartDefault: false };
            await panel.sessionContext.shutdown();
        }"""
    )
    for file in (jupyter.runtime / "oplab-viewer").iterdir():  # as after a month, or on another machine
        file.unlink()
    page.close()
    page = new_page()
    refused = []  # the viewer asks for each model once, and leaves the picture there then
    page.on("response", lambda answer: refused.append(answer.url) if "/viewer/models/" in answer.url else None)
    open_notebook(page, jupyter, name)
    for number in (1, 2):
        scroll_to(page, number)
        page.locator("svg.oplab-graph").nth(number - 1).wait_for()
    wait_for(page, lambda: len(refused) >= 2)
    assert "oplab::MyAdd" in page.locator("svg.oplab-graph").first.text_content()
    assert page.locator("iframe.oplab-frame").count() == 0
    assert page.get_by_text("not trusted").first.is_hidden()
    assert origins(page) == {jupyter.origin}


def test_untrusted_notebooks_are_readable(jupyter: Jupyter, new_page: Any) -> None:
    """Somebody else's notebook: Jupyter strips scripts and styles, so the words are seen next to the picture."""
    page = new_page()
    name = jupyter.write("stranger.ipynb", "1")
    notebook = jupyter.read(name)
    code = START + "\nprint(oplab.show(m.custom()).html)"
    html = run_python(code).stdout
    output = {"output_type": "display_data", "data": {"text/html": html, "text/plain": "-"}, "metadata": {}}
    notebook.cells[0].outputs = [output]
    (jupyter.root / name).write_text(json.dumps(notebook))
    open_notebook(page, jupyter, name)
    words = page.locator(".oplab-words")
    words.wait_for()
    assert page.get_by_text("not trusted").is_visible()
    assert "oplab::MyAdd(a, b" in words.text_content()


def test_behind_a_prefix_with_every_other_port_blocked(jupyter_server: Any, new_page: Any) -> None:
    server = jupyter_server(base_url="/user/ada/", token="correct horse".replace(" ", "-"))
    page = new_page()
    blocked: list[str] = []

    def only_this_port(route: Any) -> None:
        if route.request.url.startswith(server.origin + "/user/ada/"):
            route.continue_()
        else:
            blocked.append(route.request.url)
            route.abort()

    page.context.route("**/*", only_this_port)
    name = server.write("prefix.ipynb", START, "oplab.show(m.conv())")
    open_notebook(page, server, name)
    assert run_all(page) == []
    wait_live(page, 1)
    assert "Conv" in labels(page)
    assert blocked == []

    # the same addresses without logging in, and addresses that were never shown
    model = next(url for url in page.requests if re.search(r"/models/[0-9a-f]{20}/model.onnx", url))
    frame = next(url for url in page.requests if "/netron/" in url and "?url=" in url)
    for url in (model, frame, server.origin + "/user/ada/oplab/viewer/mount.js"):
        assert fetch(url)[0] in (403, "login"), url
    token = f"token={server.token}"
    assert fetch(f"{model}&{token}")[0] == 200


def fetch(url: str) -> tuple[Any, bytes]:
    """A status and a body; 'login' when the server asks who we are."""
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return ("login" if "/login" in answer.url else answer.status), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_notebook_7(jupyter_server: Any, new_page: Any) -> None:
    server = jupyter_server(app="notebook")
    page = new_page()
    name = server.write("seven.ipynb", START, "oplab.show(m.control_flow())")
    open_notebook(page, server, name)
    assert run_all(page) == []
    wait_live(page, 1)
    assert "If" in labels(page) and "Loop" in labels(page)
    assert origins(page) == {server.origin}


def test_text_fits_its_boxes_with_real_fonts(new_page: Any) -> None:
    """The layout guesses how wide text is, without a browser. Here the browser measures."""
    page = new_page()
    pairs = [(m.decomposed(), m.custom())]
    singles = [m.conv(), m.control_flow(), m.transformer(14), m.tangle(50), m.custom()]
    pictures = [show(p).svg for p in singles] + [show(a, b).svg for a, b in pairs]
    page.set_content("<body>" + "".join(pictures))
    outside = page.evaluate(
        """() => {
            const found = [];
            for (const svg of document.querySelectorAll('svg')) {
                const whole = svg.getBoundingClientRect();
                for (const text of svg.querySelectorAll('text')) {
                    const t = text.getBoundingClientRect();
                    const frames = text.parentElement.querySelectorAll(':scope > rect.box, :scope > rect.pill');
                    const frame = frames[frames.length - 1];
                    const f = frame ? frame.getBoundingClientRect() : whole;
                    if (t.left < f.left || t.right > f.right || t.top < f.top - 1 || t.bottom > f.bottom + 1) {
                        found.push([text.textContent, t.left - f.left, f.right - t.right]);
                    }
                }
            }
            return found;
        }"""
    )
    assert outside == []
    overlapping = page.evaluate(
        """() => {
            const found = [];
            for (const svg of document.querySelectorAll('svg')) {
                const boxes = [...svg.querySelectorAll('text')].map((e) => [e.textContent, e.getBoundingClientRect()]);
                for (let i = 0; i < boxes.length; i++) {
                    for (let j = 0; j < i; j++) {
                        const [a, b] = [boxes[i][1], boxes[j][1]];
                        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) {
                            found.push([boxes[i][0], boxes[j][0]]);
                        }
                    }
                }
            }
            return found;
        }"""
    )
    assert overlapping == []


def test_without_jupyter_a_local_server(new_page: Any, tmp_path: Path) -> None:
    code = START + "\nprint(oplab.show(m.conv()).url(), flush=True)\ninput()"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().strip()
        page = new_page()
        page.goto(url)
        wait_live(page, 1)
        assert "Conv" in labels(page)
        origin, token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/([\w-]{32})/view/[0-9a-f]{20}", url).groups()
        assert origins(page) == {origin}
        # Netron reads the weights only when asked, and gets them
        assert not [u for u in page.requests if re.search("/models/.*/weights", u)]
        for wrong in ("/", f"/{token[:-1]}x/oplab/viewer/mount.js", f"/{token}/../etc/passwd", f"/{token}/view/x"):
            assert fetch(origin + wrong)[0] == 404
        rebound = urllib.request.Request(url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(rebound, timeout=120)
    finally:
        process.communicate("\n", timeout=120)


def test_weights_are_read_when_somebody_looks_at_them(jupyter: Jupyter, new_page: Any) -> None:
    page = new_page()
    big = (
        "import numpy as np\nfrom onnx import helper, numpy_helper\n"
        "w = numpy_helper.from_array(np.full((64, 64), 7.25, np.float32), 'w')\n"
        "big = m.model([helper.make_node('MatMul', ['x', 'w'], ['y'])], [m.info('x', [1, 64])], [m.info('y', [1, 64])], (w,))"
    )
    name = jupyter.write("weights.ipynb", START, big, "oplab.show(big)")
    open_notebook(page, jupyter, name)
    assert run_all(page) == []
    wait_live(page, 1)
    assert not [u for u in page.requests if re.search("/models/.*/weights", u)]
    frame = netron(page)
    frame.locator("#canvas text", has_text="64×64").first.click(force=True)
    frame.locator("#sidebar-content").get_by_text("7.25").first.wait_for()
    assert [u for u in page.requests if re.search("/models/.*/weights", u)]
