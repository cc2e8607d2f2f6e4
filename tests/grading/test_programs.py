"""Exercises that are programs (kind ``host``): what a hostile ``main`` does costs its own points, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from oplab.authoring import lint
from oplab.course.manifest import load
from oplab.grading.client import Server
from tests.support import ROOT
from tests.support.killing import killed

COURSE = load(ROOT)

# What main does -> its text, the state of the exercise, and words of the message.
HOSTILE = {
    "ends with success": ("#include <cstdlib>\nint main() { std::exit(0); }", "failed", "out.raw was not written"),
    "aborts": ("#include <cstdlib>\nint main() { std::abort(); }", "failed", "was ended by SIGABRT"),
    "never ends": ("int main() { volatile int i = 0; for (;;) i = i + 1; }", "failed", "Does a loop never end?"),
    "writes a huge file": (
        "#include <cstdio>\nint main(int, char** a) {\n"
        'FILE* out = std::fopen(a[4], "wb"); std::fseek(out, 1L << 40, SEEK_SET); std::fputc(0, out); }',
        "failed",
        "It wrote a file that is larger than any that it may write",
    ),
    "kills its parent": (
        "#include <csignal>\n#include <unistd.h>\nint main() { kill(getppid(), SIGKILL); pause(); }",
        "crashed",
        "SIGKILL",
    ),
    "says success and writes no floats": (
        '#include <fstream>\nint main(int, char** a) { std::ofstream(a[4]) << "passed"; }',
        "failed",
        "OUTPUT has 6 bytes, and the 15 floats of the first output have 60",
    ),
}


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def attempt(text: str, server: Server):
    return lint.attempt(COURSE, lint.Trial(COURSE.exercise("c12.host"), "mutant", "", text, "failed"), server)


FEW = ("writes a huge file",)  # in `make test`


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what in FEW else pytest.mark.nightly) for what in HOSTILE]
)
def test_a_hostile_program_gets_no_points_and_a_sentence(what, server):
    text, status, says = HOSTILE[what]
    outcome = attempt(text, server)
    assert (outcome.status, outcome.points) == (status, 0), outcome.message
    assert says in outcome.message


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are found in /proc")
def test_a_program_that_is_killed_from_outside_runs_again(server, tmp_path):
    gate = tmp_path / "gate"
    waits = f'''
#include <unistd.h>
static const int waits = [] {{
  while (access("{gate}", F_OK) == 0) usleep(10000);
  return 0;
}}();
'''
    with killed("c12_host", gate=gate) as victims:
        outcome = attempt((ROOT / "solutions" / "csrc" / "c12_host.cpp").read_text() + waits, server)
    assert outcome.passed, outcome.message
    assert victims


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are found in /proc")
def test_what_a_program_leaves_running_is_ended(server, tmp_path):
    mark = f"oplab-left-{os.getpid()}"
    text = f"""#include <sys/prctl.h>
#include <unistd.h>
int main() {{
  if (fork() == 0) {{
    setsid();
    prctl(PR_SET_NAME, "{mark[-15:]}");
    for (;;) pause();
  }}
}}
"""
    assert attempt(text, server).points == 0
    limit = time.monotonic() + 120
    while any(_name(entry) == mark[-15:] for entry in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < limit, "the program's child still runs"
        time.sleep(0.05)


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:  # it has ended
        return ""
