"""docs/your_operator.md is true: its files and commands, in their order, in an empty folder, lead where the page says.

The page is the test's input. A fence after a line ``**`path`**`` is a file or, as a ``diff``, changes a file.
Each line of an ``sh`` fence is a command. A ``text`` fence after it is what the commands print: each of its lines is a line of
the output, in this order, and … is any text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT, environment

pytestmark = pytest.mark.nightly
PAGE = ROOT / "docs" / "your_operator.md"
# 190 MB or more. The test gives the fresh environment the installed PyTorch instead, unless OPLAB_OTHER_TORCH is set.
OTHER_TORCH = re.compile(r"fresh/bin/pip install .*torch==[\d.]+$")


@dataclass(frozen=True)
class Step:
    """One thing that the reader does: a file to write, or commands to run and what they print."""

    line: int
    path: str | None
    text: str
    printed: str = ""
    diff: bool = False

    def __str__(self) -> str:
        return f"{self.line:03d} {self.path or self.text.splitlines()[0]}"


def steps_of(page: str) -> list[Step]:
    fences = list(
        re.finditer(r"^(?:\*\*`(?P<path>[^`\n]+)`\*\*\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", page, re.M | re.S)
    )
    found: list[Step] = []
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        line = page.count("\n", 0, fence.start()) + 1
        if fence["path"]:
            found.append(Step(line, fence["path"], fence["text"], diff=fence["kind"] == "diff"))
        elif fence["kind"] == "sh":
            printed = following["text"] if following and following["kind"] == "text" and not following["path"] else ""
            found.append(Step(line, None, fence["text"], printed))
    return found


STEPS = steps_of(PAGE.read_text(encoding="utf-8"))


def changed(text: str, diff: str) -> str:
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in f" {sign}") for sign in "-+")
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text


def missing(expected: str, output: str) -> str:
    """The first line of ``expected`` that is not in the output after the lines before it, or an empty string."""
    lines = iter(output.splitlines())
    for wanted in filter(str.strip, expected.splitlines()):
        pattern = r".*".join(re.escape(part) for part in wanted.rstrip().split("…"))
        if not any(re.fullmatch(pattern, line.rstrip()) for line in lines):
            return wanted
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator")


@pytest.fixture(scope="module")
def failed() -> list[str]:
    """The steps that failed: what comes after them is not run."""
    return []


def give_installed_torch(folder: Path) -> str:
    """What `pip install torch` would do, without the download: the installed packages come after the fresh environment's own."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "fresh" / "lib" / python / "site-packages"
    (site / "installed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return ""


def run(command: str, folder: Path) -> str:
    if OTHER_TORCH.match(command) and not os.environ.get("OPLAB_OTHER_TORCH"):
        return give_installed_torch(folder)
    scripts = Path(sys.executable).parent
    env = environment(PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}", COURSE=str(ROOT))
    if command.startswith(("fresh/", "ship/")):
        env.pop("PYTHONPATH")  # nothing of the course is there
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_step(step: Step, folder: Path, failed: list[str]):
    if failed:
        pytest.fail(f"not run: {failed[0]} failed")
    try:
        if step.path:
            file = folder / step.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(changed(file.read_text(), step.text) if step.diff else step.text)
        else:
            commands = step.text.replace("\\\n", " ").splitlines()
            output = "".join(run(command, folder) for command in commands if command.strip())
            assert not missing(step.printed, output), f"{missing(step.printed, output)!r} is not in\n{output}"
    except BaseException:
        failed.append(str(step))
        raise


MESSAGES = """
import sys
import onnxruntime

def message(*libraries):
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for library in libraries:
            options.register_custom_ops_library(f"rotated_roi_align/src/rotated_roi_align/rotated_roi_align_{library}.so")
        onnxruntime.InferenceSession("model.onnx", options)
    except Exception as error:
        print(error)

message()
message("ort", "ort")
message("torch")
"""


def test_the_messages_that_the_page_explains(folder: Path, failed: list[str]):
    if failed:
        pytest.fail(f"not run: {failed[0]} failed")
    done = subprocess.run(
        [sys.executable, "-P", "-c", MESSAGES], cwd=folder, capture_output=True, text=True, timeout=60
    )
    page = PAGE.read_text(encoding="utf-8")
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout + done.stderr
    for line, words in zip(
        lines,
        (
            "my:RotatedRoiAlign(-1) is not a registered function/op",
            "Domain already set in registry",
            "libtorch_cpu.so: cannot open shared object file",
        ),
        strict=True,
    ):
        assert words in line and f"`{words}`" in page
