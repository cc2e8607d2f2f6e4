"""Cards in a real kernel: the live line that a card replaces, hints, the reference, ``%%exercise``, and a check that is stopped."""

from __future__ import annotations

import html
import json
import os
import re
import shutil

import pytest
from jupyter_client.manager import KernelManager

from oplab.course.manifest import load
from oplab.course.stubs import line_of, make_stub
from tests.support import ROOT

FILE = "c04_aten_symbolic.py"
OPEN = 'from oplab import lesson\nlab = lesson("04_aten_symbolic")'
HINTS = load(ROOT).exercise("c04.sinc").hints


class Kernel:
    """A notebook's kernel on its own course. An output is what a notebook would have in the end."""

    def __init__(self, root, track: str):
        self.manager = KernelManager(kernel_name="python3")
        env = {**os.environ, "OPLAB_ROOT": str(root), "OPLAB_TRACK": track}
        self.manager.start_kernel(env=env, cwd=str(root))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def start(self, code: str) -> str:
        return self.client.execute(code)

    def run(self, code: str) -> list[dict]:
        return self.outputs(self.start(code))

    def outputs(self, cell: str, seen=lambda message: None) -> list[dict]:
        """The outputs of a cell; ``seen`` gets each message as it comes."""
        found: list[dict] = []
        named: dict[str, dict] = {}
        self.messages = []
        while True:
            message = self.client.get_iopub_msg(timeout=300)
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            self.messages.append((kind, content))
            seen(message)
            if kind in ("display_data", "execute_result", "stream", "error"):
                found.append({"kind": kind, **content})
                if name := content.get("transient", {}).get("display_id"):
                    named[name] = found[-1]
            elif kind == "update_display_data":
                named[content["transient"]["display_id"]]["data"] = content["data"]
            elif kind == "status" and content["execution_state"] == "idle":
                return found

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def copy_of_the_course(root):
    for part in ("course.toml", "oplab", "csrc", "notebooks"):
        (root / part).symlink_to(ROOT / part)
    shutil.copytree(ROOT / "solutions", root / "solutions")
    shutil.copytree(ROOT / "solutions", root / "exercises")
    file = root / "exercises" / FILE
    file.write_text(make_stub(file.read_text(), FILE))
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return copy_of_the_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def kernel(root):
    started = Kernel(root, "exercises")
    started.run(
        (ROOT / "oplab" / "jupyter" / "kernel.ipy").read_text()
    )  # what an installed course starts each kernel with
    started.early = started.run('lab.check("hypot")') + started.run("%%exercise hypot\npass") + started.run("labb")
    started.run(OPEN)
    yield started
    started.end()


def plain(outputs: list[dict]) -> str:
    (output,) = outputs
    return output["data"]["text/plain"]


def test_before_the_first_cell_a_sentence_asks_for_it(kernel):
    check, exercise, typo = ("\n".join(output["traceback"]) for output in kernel.early)
    assert check == exercise == "The kernel has not run this notebook's first cell.\nRun the first cell, then this one."
    assert "name 'labb' is not defined" in typo and "Traceback" in typo


def test_a_todo_names_its_file_and_line_as_a_link(kernel, root):
    outputs = kernel.run('lab.check("hypot")')
    line = line_of((root / "exercises" / FILE).read_text(), "c04.hypot", "hypot")
    text = plain(outputs)
    assert text.startswith("○ c04.hypot  to do  0/")
    assert f"    Write it in exercises/{FILE}, line {line}.\n" in text and 'Stuck? lab.hint("hypot")' in text
    link = f'href="../exercises/{FILE}#line={line - 1}" data-oplab-file="exercises/{FILE}" data-oplab-line="{line}"'
    assert link in outputs[0]["data"]["text/html"]


@pytest.mark.nightly
def test_a_live_line_becomes_the_card_with_the_same_words(kernel, root, tmp_path):
    seen = tmp_path / "seen"
    waits = f"import os, time\n\n    while not os.path.exists({str(seen)!r}):\n        time.sleep(0.02)"
    seen.touch()
    kernel.run(f'%%exercise asinh\ndef asinh() -> None:\n    {waits}\n    raise ValueError("no")\n')  # checks it, too
    seen.unlink()

    def goes_on(message):
        if re.search(r"… [1-9]\d* s\.", message["content"].get("data", {}).get("text/plain", "")):
            seen.touch()

    outputs = kernel.outputs(kernel.start('lab.check("c04.asinh")'), goes_on)
    shown = [content["data"]["text/plain"] for kind, content in kernel.messages if "data" in content]
    assert shown[0] == "Grading c04.asinh … 0 s."
    assert any(re.fullmatch(r"Grading c04.asinh … [1-9]\d* s\..*", line) for line in shown)
    text, card = plain(outputs), outputs[0]["data"]["text/html"]
    assert text == shown[-1] and "Grading" not in card
    assert text.startswith("✗ c04.asinh" if "failed" in text else "! c04.asinh") and "ValueError: no" in text
    assert 'Stuck? lab.hint("asinh")' in text
    card = re.sub(r"</?(?:p|li|ul|div|pre)\b[^>]*>", " ", re.sub(r"<style>.*?</style>", "", card))
    assert html.unescape(re.sub(r"<[^>]+>", "", card)).split() == text.replace("`", "").split()


def test_a_cell_is_the_answer_and_a_pass_offers_the_next_exercise(kernel, root):
    right = (
        "def asinh() -> None:\n    import torch\n\n"
        '    torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("Asinh", x), 9)\n'
    )
    changed, checked = kernel.run(f"%%exercise asinh\n{right}")
    assert "What changed in exercises/c04" in changed["data"]["text/plain"]
    assert 'class="oplab-add"' in changed["data"]["text/html"]
    text = checked["data"]["text/plain"]
    assert text.startswith("✓ c04.asinh  passed  2/2 points")
    assert f"Next: c04.per_opset in exercises/{FILE}, line " in text and "Stuck?" not in text
    assert right in (root / "exercises" / FILE).read_text()
    assert kernel.run("print(lab.exercises.asinh.__doc__)")[0]["text"] == "None\n"
    saved = json.loads((root / "build" / "progress.json").read_text())["exercises"]["c04.asinh"]
    assert saved["status"] == "passed"
    # After the pass: what the reference does.
    difference = kernel.run('lab.diff("asinh")')
    assert "+    def symbolic(g, x):" in plain(difference) and 'class="oplab-del"' in difference[0]["data"]["text/html"]
    reference = kernel.run('lab.solution("asinh")')
    assert "def symbolic(g, x):" in plain(reference) and "ANSWER" not in plain(reference)
    hints, same = kernel.run('lab.hint("asinh")')
    assert "Hint 3 of 3" in hints["data"]["text/plain"] and "+    def symbolic" in same["data"]["text/plain"]


def test_before_a_pass_the_reference_is_a_sentence(kernel):
    for call in ('lab.solution("sinc")', 'lab.diff("sinc")'):
        text = plain(kernel.run(call))
        assert text.startswith("c04.sinc has not passed yet.") and text.endswith('until then lab.hint("sinc") helps.')


def test_hints_add_up_and_after_the_last_the_reference_can_be_read(kernel):
    first, second, third, fourth = (kernel.run('lab.hint("sinc")') for _ in range(4))
    total = len(HINTS)
    assert total == 3
    assert plain(first) == f'Hints for c04.sinc\nHint 1 of 3: {HINTS[0]}\nlab.hint("sinc") again shows the next one.'
    assert plain(second).splitlines()[1:3] == [f"Hint {n} of 3: {HINTS[n - 1]}" for n in (1, 2)]
    assert plain(third).splitlines()[-1] == 'Still stuck? lab.solution("sinc")'
    assert plain(fourth).splitlines()[-2] == "These are all the hints."
    assert "counts half" in plain(kernel.run('lab.solution("sinc")'))
    assert "def symbolic" in plain(kernel.run('lab.solution("sinc", show=True)'))
    assert "<strong>Hint 2 of 3:</strong>" in second[0]["data"]["text/html"]


def test_a_mistake_is_a_sentence_without_a_traceback(kernel):
    for code, words in (
        ('lab.check("asin")', "There is no exercise c04.asin.\nDid you mean c04.asinh"),
        ('lab.check("my_add")', "have an exercise my_add.\nName one: c05.my_add"),
        ("%%exercise\ndef asinh(): ...", "Write `%%exercise asinh`."),
    ):
        (output,) = kernel.run(code)
        assert output["kind"] == "error" and words in "\n".join(output["traceback"])
        assert "Traceback" not in "\n".join(output["traceback"]) and len(output["traceback"]) == 1


@pytest.mark.nightly
def test_an_interrupted_check_ends_with_a_sentence_and_the_kernel_goes_on(kernel, root):
    hangs = "def per_opset() -> None:\n    import time\n\n    time.sleep(900)\n"
    file = root / "exercises" / FILE
    start = file.read_text()
    head, _, tail = start.partition("def per_opset(")
    rest = tail[tail.index("\n\n\n") :]
    file.write_text(head + hangs.rstrip("\n") + rest)
    progress = root / "build" / "progress.json"
    before = progress.read_text() if progress.exists() else ""
    seen: list[str] = []

    def stop(message):
        text = message["content"].get("data", {}).get("text/plain", "")
        if re.search(r"… ([2-9]|\d\d) s\.", text) and not seen:
            seen.append(text)
            kernel.manager.interrupt_kernel()

    live, error = kernel.outputs(kernel.start('lab.check("per_opset")'), stop)
    assert seen and live["data"]["text/plain"] == ""
    assert error["kind"] == "error"
    assert error["traceback"] == ["The check of c04.per_opset was stopped. Nothing was recorded."]
    assert (progress.read_text() if progress.exists() else "") == before
    file.write_text(start)
    assert plain(kernel.run('lab.check("per_opset")')).startswith("○ c04.per_opset  to do")
