"""Each protection, taken out of a copy of the grader on purpose: the attack that it stops has to be noticed then.

Without this, a test of the catalogue could be green for a reason that has nothing to do with the protection. ``docs/grader.md``
lists what is broken here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from oplab.grading import isolation
from tests.support import ROOT
from tests.support.hostile_course import HostileCourse, attacks, judge

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the attacks need Linux"),
]
ATTACKS = {attack.name: attack for attack in attacks()}
PAGE = (ROOT / "docs" / "grader.md").read_text(encoding="utf-8")
# Each protection with its layer and the attack that it stops.
LISTED = {row[1]: (row[0], row[2]) for row in re.findall(r"^\| (\w+) \| (.+) \| `(\w+)` \|$", PAGE, re.MULTILINE)}


@dataclass(frozen=True)
class Breakage:
    """``old`` becomes ``new`` in a file of the package, ``also`` too, and then the attack must no longer be stopped as it was.

    Without ``landlock`` this is shown for a kernel that has none: where it has, the attack does not come as far as this protection.
    What the attack leaves behind then gets ``patience`` seconds to end.
    """

    protection: str  # as docs/grader.md calls it
    file: str
    old: str
    new: str
    isolated: bool = False
    bubblewrap: bool = False  # only where it is offered
    also: tuple[tuple[str, str], ...] = ()
    landlock: bool = True
    patience: float = 120

    @property
    def layer(self) -> str:
        return LISTED[self.protection][0]

    @property
    def attack(self) -> str:
        return LISTED[self.protection][1]


BREAKAGES = (
    Breakage(
        "exact types: a subclass of ndarray is not an array",
        "checks/evidence.py",
        "type(value) is np.ndarray:\n        return np.asc",
        "isinstance(value, np.ndarray):\n        return np.asc",
    ),
    Breakage(
        "evidence has plain dtypes and is not unpickled",
        "checks/evidence.py",
        "if dtype.char not in PLAIN_DTYPES or dtype.hasobject:",
        "if dtype.hasobject:\n        return np.load(io.BytesIO(raw), allow_pickle=True)\n    if False:",
    ),
    Breakage(
        "an array's header may not promise more than its data",
        "checks/evidence.py",
        "if math.prod(shape) * dtype.itemsize != len(raw) - stream.tell():",
        "if False:",
    ),
    Breakage(
        "archives are measured before they are unpacked",
        "checks/evidence.py",
        "sum(entry.file_size for entry in entries) > MAX_ARRAYS + (1 << 20)",
        "False",
    ),
    Breakage(
        "evidence is a plain file: no link, no pipe",
        "checks/evidence.py",
        "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
        "os.O_RDONLY",
    ),
    Breakage(
        "weights are in the model's own file",
        "checks/graphs.py",
        "if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:",
        "if False:",
    ),
    Breakage(
        "the worker that runs the learner's code gives no verdict",
        "grading/outcomes.py",
        "    if report is None or report.outcome not in (",
        '    if report is not None and report.outcome == "judged":\n        return from_judge(exercise, answer)\n'
        "    if report is None or report.outcome not in (",
    ),
    Breakage(
        "the learner's process does not hold the judge's code",
        "grading/split_check.py",
        "    tree = parse(text)\n    wanted",
        "    return text\n    tree = parse(text)\n    wanted",
    ),
    Breakage(
        "folders are removed without recursion",
        "grading/grader.py",
        "from oplab.files import remove_tree\n",
        "from shutil import rmtree as remove_tree\n",
    ),
    Breakage(
        "what goes wrong in one exercise does not end the run",
        "grading/grader.py",
        "from oplab.files import remove_tree\n",
        "from shutil import rmtree as remove_tree\n",
        also=(
            (
                "        except Exception as error:  # a barrier",
                "        except ZeroDivisionError as error:  # a barrier",
            ),
        ),
    ),
    Breakage(
        "a report is short",
        "grading/protocol.py",
        "or any(len(text) > MAX_TEXT for text in texts)",
        "",
    ),
    Breakage(
        "text is cleaned when it is parsed",
        "errors.py",
        "return text if text.isascii() else",
        "return text if True else",
    ),
    Breakage(
        "inputs are fresh in each run",
        "grading/grader.py",
        "fresh_seed() if seed is None else seed",
        "7",
    ),
    Breakage(
        "files that grading relies on are watched",
        "grading/integrity.py",
        "                if now != before:",
        "                if False:",
        landlock=False,
    ),
    Breakage(
        "the judge imports no module that was changed meanwhile",
        "grading/integrity.py",
        'if not path.startswith(f"{PACKAGE}{os.sep}"):',
        "if True:",
        landlock=False,
    ),
    Breakage(
        "a worker writes to its own folders alone",
        "grading/isolation.py",
        "[*map(str, own), *landlock.DEVICES]",
        '["/"]',
    ),
    Breakage(
        "no part of a submitted file's name is a link",
        "grading/submitted.py",
        "if stat.S_ISLNK(mode):",
        "if stat.S_ISLNK(mode):\n        return\n    if False:",
        also=(("_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK", "_FILE = os.O_RDONLY | os.O_NONBLOCK"),),
    ),
    Breakage(
        "the compiler sees the submission and no solution",
        "toolchain/one_file.py",
        "if landlock.abi() else command",
        "if False else command",
        also=(('if name.startswith("/") and not', "if False and not"),),
    ),
    Breakage(
        "a module that contains the answer is not used",
        "grading/policy.py",
        "    if exercise.not_allowed:\n",
        "    if False:\n",
    ),
    Breakage(
        "a header that contains the answer is not included",
        "grading/policy.py",
        "        for file in read:\n",
        "        for file in ():\n",
    ),
    Breakage(
        "processes that left the group are ended",
        "grading/processes.py",
        "        if not family:\n            _reap(worker)\n            break",
        "        break",
        patience=3,
    ),
    Breakage(
        "a worker cannot signal the grader",
        "grading/isolation.py",
        "_SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS if _scopes() else 0",
        "0",
    ),
    Breakage(
        "solutions/ is hidden",
        "grading/isolation.py",
        "    roots, shown = _layout(course.resolve(), submission.resolve())\n",
        '    roots, shown = (), ("/",)\n',
        isolated=True,
        bubblewrap=True,
    ),
    Breakage(
        "no network",
        "grading/isolation.py",
        '"--unshare-all", ',
        '"--unshare-pid", ',
        isolated=True,
        bubblewrap=True,
        # Landlock closes it a second time, and seccomp a third.
        also=(("net=3 if plan.landlock >= 4 else 0", "net=0"), ("    seccomp.refuse_calls()\n", "")),
    ),
    Breakage(
        "limits of other processes and memory without a mapping are refused",
        "grading/isolation.py",
        "            seccomp.refuse_calls(isolated=False)\n",
        "            pass\n",
    ),
    Breakage(
        "files without a name count",
        "grading/supervisor.py",
        " + deleted_files(processes.descendants(os.getpid()))",
        "",
    ),
    Breakage(
        "the compiler's files have a limit",
        "toolchain/compiler.py",
        "ulimit -f {_FILE_BLOCKS} 2>/dev/null; ",
        "",
    ),
    Breakage(
        "an error that the reference does not have is the answer's",
        "grading/grader.py",
        "if self._doubt and",
        "if False and",
    ),
    Breakage(
        "a compiled answer does not see the course's operators",
        "grading/isolation.py",
        'libraries = tuple(f"{root}/{LIBRARIES}" for root in self.roots) if compiled else ()',
        "libraries = ()",
        isolated=True,
    ),
    Breakage(
        "services of this machine are out of reach",
        "grading/isolation.py",
        "    seccomp.refuse_calls()\n",
        "",
        isolated=True,
    ),
    Breakage(
        "modes and times of files cannot be changed",
        "grading/isolation.py",
        "    seccomp.refuse_calls()\n",
        "",
        isolated=True,
        # Our own namespaces and those of bubblewrap have the file systems read-only.
        also=(
            ("            namespaces=self.namespaces,\n", "            namespaces=False,\n"),
            ('program = shutil.which("bwrap") if LINUX else None', "program = None"),
        ),
    ),
    Breakage(
        "the environment has no secrets",
        "grading/client.py",
        "_harmless(os.environ)",
        "os.environ",
        isolated=True,
    ),
)


def _needs(breakage: Breakage) -> str:
    """Why this machine cannot show it; empty if it can."""
    if breakage.layer == "scopes" and isolation.can_signal_outside():
        return "this kernel has no Landlock scopes to break"
    if breakage.layer == "files" and not isolation.landlock_abi():
        return "this kernel has no Landlock to break"
    if breakage.isolated and not isolation.detect(Path("/"), Path("/")).offered:
        return "this machine offers no isolation to break"
    if breakage.bubblewrap and not isolation.detect(Path("/"), Path("/")).bubblewrap:
        return "this machine offers no bubblewrap to break"
    return ""


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda entry: entry.protection)
def test_a_broken_protection_is_noticed(breakage, tmp_path):
    if reason := _needs(breakage):
        pytest.skip(reason)
    attack = ATTACKS[breakage.attack]
    course = HostileCourse(tmp_path / "course", [attack], breakage.landlock)
    options = ["--isolate"] if breakage.isolated else []
    stops(course.check(*options), course, attack, breakage)  # as it is, it is stopped

    broken = HostileCourse(tmp_path / "broken", [attack], breakage.landlock)
    file = broken.folder / "oplab" / breakage.file
    text = file.read_text()
    for old, new in ((breakage.old, breakage.new), *breakage.also):
        assert text.count(old) == 1, f"{breakage.file} has changed: bring this entry up to date"
        text = text.replace(old, new)
    file.write_text(text)
    with pytest.raises((AssertionError, KeyError)):
        stops(broken.check(*options, patience=breakage.patience), broken, attack, breakage)


def stops(run, course, attack, breakage) -> None:
    judge(run, course.ids[attack.name], attack, isolated=breakage.isolated, landlock=breakage.landlock)
    assert run.survivors == []
    assert "Traceback" not in run.process.stderr
    for id in course.honest:
        assert run.outcomes[id]["status"] == "passed", run.outcomes[id]["message"]


def test_the_page_lists_what_is_broken_here():
    assert {breakage.protection for breakage in BREAKAGES} == set(LISTED)
