"""Runs of a learner's C++ program (an exercise of the kind ``host``), and what came of them.

A program runs in a separate process, started by the worker that collects: it has the worker's limits, and where it is confined, its
confinement. Nothing of it is loaded into that worker, so it may call ``exit`` or crash.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from functools import partial
from pathlib import Path

from oplab.checks.children import share_fate
from oplab.checks.evidence import Collect, Evidence
from oplab.checks.kernels import announce
from oplab.parity.arrays import WrongAnswer
from oplab.toolchain.findings import sanitizer_finding, thrown

MAX_SAID = 20_000  # characters of stderr that are kept


def run_program(c: Collect, title: str, *arguments: str | Path, room: int | None = None) -> bool:
    """Run the learner's program in the scratch folder; how it ended and what it said on stderr are evidence under ``title``.

    On Linux, memory that it frees is overwritten and memory that it gets is not 0: what is used after it was freed, or before it was
    set, shows in what the program does.

    Args:
        room: the most bytes that a file may have; writing more fails, as on a full disk. Its stderr is one, too.

    Returns:
        whether it ended by itself. Else it is of no use to run it again: it may have used up its processor time.

    Raises:
        WrongAnswer: it was compiled with sanitizers, and one of them has found something.
    """
    announce(title)
    said = c.scratch / "stderr.txt"
    perturbed = {} if os.environ.get("OPLAB_SANITIZE") else {"MALLOC_PERTURB_": "165"}
    with open(said, "wb") as stream:
        # Its stdout is the worker's: a learner's own lines are shown with the verdict.
        code = subprocess.run(
            [str(c.library), *map(str, arguments)],
            cwd=c.scratch,
            env={**os.environ, **perturbed},
            stdin=subprocess.DEVNULL,
            stderr=stream,
            # Python ignores SIGXFSZ: where that is kept, write() fails and the program lives.
            restore_signals=room is None,
            preexec_fn=room and partial(resource.setrlimit, resource.RLIMIT_FSIZE, (room, room)),
        ).returncode
    share_fate(code)
    with open(said, "rb") as stream:
        text = stream.read(MAX_SAID).decode(errors="replace")
    print(text, end="", flush=True)
    if os.environ.get("OPLAB_SANITIZE") and (finding := sanitizer_finding(text, c.file_of_learner)):
        raise WrongAnswer(f"{title}: {finding}")
    c.value(f"{title}: exit code", code)
    c.value(f"{title}: stderr", text)
    return code >= 0


def ended(v: Evidence, title: str) -> tuple[int, str]:
    """The exit code of a run, and what the program said on stderr.

    Raises:
        WrongAnswer: a signal ended it.
    """
    code, said = v.value(f"{title}: exit code"), v.value(f"{title}: stderr")
    if type(code) is not int or type(said) is not str:
        raise WrongAnswer(f"{title}: the evidence of the run is not what was expected.")
    if code >= 0:
        return code, said
    name = signal.Signals(-code).name if -code in iter(signal.Signals) else f"signal {-code}"
    if exception := thrown(said):
        why = f"An exception ({exception}) reached the end of main, or a function that is noexcept. Catch it in main."
    elif name == "SIGXCPU":
        why = "It used up its processor time, or its memory. Does a loop never end?"
    elif name == "SIGXFSZ":
        why = "It wrote a file that is larger than any that it may write."
    else:
        why = "`oplab check c12.host --sanitize` finds the line."
    raise WrongAnswer(f"{title}: the program was ended by {name}, and returned nothing. {why}")


def last_line(said: str) -> str:
    """The last line of what a program said, for messages."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing"
