"""The ``oplab`` command: its answers, its exit codes, and what it says to a user's mistake."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from oplab.course.manifest import load
from oplab.grading.grader import grade
from tests.support.fixture_course import command


@pytest.fixture
def course(warm_course):
    return warm_course


def write(course, text, name="c01_cases.py"):
    (course / "exercises" / name).write_text(text, encoding="utf-8")


def test_pass_exits_0_and_is_remembered(course, oplab):
    done = oplab("check", "c01.passes")
    assert done.returncode == 0, done.stdout
    assert "c01.passes  passed  1/1 points" in done.stdout
    listed = json.loads(oplab("list", "--json").stdout)
    states = {entry["id"]: entry["status"] for chapter in listed["chapters"] for entry in chapter["exercises"]}
    assert (states["c01.passes"], states["c01.fails"]) == ("passed", "todo")
    assert "1 of 21 exercises passed" in oplab("list").stdout
    line = 1 + (course / "exercises/c01_cases.py").read_text().splitlines().index("def fails(x):")
    following = oplab("next").stdout
    assert "c01.fails: return 2 * x" in following and f"exercises/c01_cases.py, line {line}" in following


def test_a_check_loads_few_files_of_oplab(course):
    shown = "print('loaded', sum(name.partition('.')[0] == 'oplab' for name in sys.modules))"
    code = f"import atexit, sys; atexit.register(lambda: {shown}); from oplab.cli.__main__ import main; main()"
    line, env = command(course, "check", "c01.passes")
    done = subprocess.run([line[0], "-c", code, *line[3:]], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split()[-1]) <= 45


def test_failure_exits_1_with_its_message(oplab):
    done = oplab("check", "c01.fails")
    assert done.returncode == 1
    assert "✗ doubles: y: 12 of 12 elements differ; first at [0, 0] expected" in done.stdout
    assert "Next: c01.fails in exercises/c01_cases.py" in done.stdout


def test_solutions_pass_and_are_not_remembered(course, oplab):
    assert oplab("check", "c01.fails", "--track", "solutions").returncode == 0
    assert not (course / "build" / "progress.json").exists()


def test_seed_repeats_the_inputs_and_without_one_they_are_fresh(oplab):
    fresh = oplab("check", "c01.fails", env={"OPLAB_SEED": ""}).stdout
    others = {
        oplab("check", "c01.fails", "--seed", seed).stdout for seed in (fresh.rpartition("--seed ")[2].split()[0], "8")
    }
    assert len({fresh, *others}) == 2


WRONG_CALLS = (
    (["check", "c01.pases"], "Did you mean c01.passes"),
    (["check", "c07"], "There is no chapter c07"),
    (["check", "--submission", "nowhere"], "The folder nowhere does not exist."),
    (["check", "--track", "mine"], "There is no track mine."),
    (["check", "--track", "solutions", "--submission", "."], "exclude each other"),
    (["check", "--jobs", "0"], "--jobs"),
    (["check", "--frobnicate"], "--frobnicate"),
    (["reset", "c09"], "There is no chapter c09."),
)


def test_a_wrong_call_is_a_sentence_and_exits_2(call):
    for args, words in WRONG_CALLS:
        code, _, err = call(*args)
        assert code == 2, args
        assert words in err


def test_course_is_found_from_below_and_named_when_missing(course, oplab, tmp_path):
    assert oplab("list", cwd=course / "exercises", env={"OPLAB_ROOT": ""}).returncode == 0
    done = oplab("list", env={"OPLAB_ROOT": str(tmp_path)})
    assert done.returncode == 2
    assert "there is no course.toml in it" in done.stderr


def test_broken_manifest_names_the_line(course, oplab):
    file = course / "course.toml"
    file.write_text(file.read_text().replace("points = 1", "poinst = 1", 1))
    done = oplab("list")
    assert done.returncode == 2
    line = 1 + file.read_text().splitlines().index("poinst = 1")
    assert f"course.toml, line {line}: an exercise has no key 'poinst'; did you mean 'points'?" in done.stderr


def test_incomplete_submission_costs_only_its_own_points(course, oplab, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "c01_cases.py").write_text("def passes(x):\n    return x + x\n")
    done = oplab("check", "c01.passes", "c02.stuck", "c01.compiles", "--submission", str(folder))
    assert done.returncode == 1
    assert "c01.passes  passed" in done.stdout
    assert "The file c02_import.py is missing from mine/." in done.stdout
    assert "The file csrc/c01_compiles.cpp is missing from mine/." in done.stdout


def test_a_syntax_error_costs_only_the_functions_that_need_it(course, oplab):
    file = course / "exercises" / "c01_cases.py"
    text = file.read_text().replace("return 3 * x", '"""Three times.\n    return 3 * x')
    text = text.replace("def raises(x):", "def helper(x):\nreturn x\n\n\ndef raises(x):").replace(
        "undefined_name", "helper(x)"
    )
    file.write_text(text)
    opened = text.splitlines().index('    """Three times.') + 1
    done = oplab("check", "c01.passes", "c01.fails", "c01.untouched", "c01.raises")
    assert "c01.passes  passed" in done.stdout and "c01.untouched  to do" in done.stdout
    assert f'(c01_cases.py, line {opened}): """Three times.' in done.stdout
    assert "IndentationError: expected an indented block" in done.stdout and done.stdout.count("Error: ") == 2
    assert oplab("reset", "c01.fails").returncode == 0
    assert 'raise todo("c01.fails")' in file.read_text() and "def helper(x):\nreturn x\n" in file.read_text()


WRONG_ANSWERS = {
    b"\xff\xfe\x00": "it is not UTF-8 text",
    "import no_such_library\n": "ModuleNotFoundError: No module named 'no_such_library' (c01_cases.py, line 1)",
    "passes = 3\n": "passes in c01_cases.py is a int, not a function.",
    "def passes(x):\n    return [x]\n": "y: expected a tensor, got a list.",
    "def passes(x):\n    return None\n": "y: expected a tensor, got nothing (None).",
    "def passes(x):\n    return (2 * x).double()\n": "y: expected float32[3, 4], got float64[3, 4].",
    "def passes(x):\n    return (2 * x)[:2]\n": "y: expected float32[3, 4], got float32[2, 4].",
    "def passes(x):\n    y = 2 * x\n    y[1, 2] = float('nan')\n    return y\n": (
        "1 of 12 elements differ; first at [1, 2]"
    ),
}


def test_a_wrong_answer_is_explained(course, host):
    plan, (_, server) = load(course), host
    for text, words in WRONG_ANSWERS.items():
        (course / "exercises" / "c01_cases.py").write_bytes(text if isinstance(text, bytes) else text.encode())
        results = grade(plan, [plan.exercise("c01.passes")], course / "exercises", server=server)
        assert results.exit_code == 1
        assert words in results.exercises[0].message


def test_a_folder_that_cannot_be_written_still_grades(course, oplab):
    """As root every folder can be written, so a file stands where build/ would be."""
    for part in ("lib", "cache"):
        (course / "build" / part).unlink()
    (course / "build").rmdir()
    (course / "build").write_text("")
    done = oplab("check", "c01.passes")
    assert done.returncode == 0
    assert "Progress is not saved" in done.stderr


def test_ctrl_c_stops_at_once_and_says_so(course, tmp_path):
    write(course, "import time\n\n\ndef passes(x):\n    open('begun', 'w').close()\n    time.sleep(900)\n")
    line, env = command(course, "check", "c01.passes")
    env["TMPDIR"] = str(tmp_path)  # its current folder is below, and the only one that it may write to
    running = subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not any(tmp_path.glob("oplab-*/*/scratch/begun")):  # from here on its own limit is 60 s
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert "Stopped." in err and "Traceback" not in err
    assert "timeout" not in out, "it waited until the exercise had reached its limit"


def test_hints_come_one_by_one_and_all_after_a_pass(oplab):
    first, second, third, fourth = (oplab("hint", "c01.passes").stdout for _ in range(4))
    assert first == "Hint 1 of 2: Multiply.  (run again for the next hint)\n"
    stuck = "Still stuck? `oplab diff c01.passes --show` shows the reference; the exercise then counts half.\n"
    assert second == f"Hint 2 of 2: By two.\n{stuck}"
    assert third == fourth == f"Hint 1 of 2: Multiply.\nHint 2 of 2: By two.\nThese are all the hints.\n{stuck}"
    oplab("check", "c01.passes")
    after = oplab("hint", "c01.passes").stdout
    assert "Hint 1 of 2" in after and "Hint 2 of 2" in after and "the same" in after


def test_diff_after_a_pass_has_what_the_learner_wrote(course, oplab):
    assert oplab("diff", "c01.passes", "--show").returncode == 1
    given = "def passes(x):\n    # TODO c01.passes: return 2 * x\n"
    write(course, f"{given}    return x + x\n")
    oplab("check", "c01.passes")
    done = oplab("diff", "c01.passes")
    assert done.returncode == 0
    assert "-    return x + x" in done.stdout and "+    return 2 * x" in done.stdout
    assert "ANSWER" not in done.stdout and "TODO" not in done.stdout
    write(course, f"{given}    return 2*x  # mine\n")
    assert oplab("diff", "c01.passes").stdout == "Your answer and the reference are the same.\n"


def test_the_last_hint_opens_the_reference_unless_the_course_wants_a_pass(course, oplab):
    write(course, "def fails(x):\n    return 3 * x\n")
    for _ in range(2):
        oplab("hint", "c01.fails")
    manifest = course / "course.toml"
    text = manifest.read_text()
    manifest.write_text(f'solutions = "after_pass"\n{text}')
    assert "shown after a pass; until then" in oplab("diff", "c01.fails", "--show").stderr
    manifest.write_text(text)
    before = oplab("diff", "c01.fails")
    assert before.returncode == 1 and "`oplab diff c01.fails --show`" in before.stderr and "half" in before.stderr
    assert "+    return 2 * x" in oplab("diff", "c01.fails", "--show").stdout
    assert "+    return 2 * x" in oplab("diff", "c01.fails").stdout
    shown = json.loads(oplab("list", "--json").stdout)["chapters"][0]["exercises"]
    assert next(one["state"] for one in shown if one["id"] == "c01.fails") == "to do, counts half"


def test_next_offers_the_core_first_and_then_what_is_deeper(course, oplab):
    manifest = course / "course.toml"
    first, passes, fails, *_ = manifest.read_text().split("[[chapter.exercise]]\n")
    deeper = "deeper = true\nrepair = true\n"
    manifest.write_text("[[chapter.exercise]]\n".join([first, deeper + passes, fails]))
    done = oplab("next").stdout
    assert done.startswith("c01.fails: return 2 * x")
    assert "Deeper, in chapters that you have finished: c01.passes (1 minute)" in done
    manifest.write_text("[[chapter.exercise]]\n".join([first, passes, deeper + fails]))
    assert "Next: c01.fails" in oplab("check", "c01.passes").stdout
    done = oplab("next").stdout
    assert done.startswith("The core path is finished. Optional exercises:\nc01.fails: ")
    listed = oplab("list").stdout
    assert "deeper" in listed and "repair" in listed and "The core path takes about" in listed


def test_reset_restores_one_function_and_keeps_the_file(course, oplab):
    file = course / "exercises" / "c01_cases.py"
    mine = file.read_text()
    oplab("check", "c01.passes")
    done = oplab("reset", "c01.passes")
    assert done.returncode == 0
    text = file.read_text()
    assert 'raise todo("c01.passes")' in text
    assert (
        text.replace('    # TODO c01.passes: return 2 * x\n    raise todo("c01.passes")\n', "    return 2 * x\n", 1)
        == mine
    )
    (backup,) = (course / "build" / "backup").rglob("c01_cases.py")
    assert backup.read_text() == mine
    assert str(backup.relative_to(course)) in done.stdout
    assert "c01.passes  to do" in oplab("check", "c01.passes").stdout


def test_reset_of_a_broken_file_asks_for_the_chapter(course, oplab):
    write(course, "import import json\n")
    done = oplab("reset", "c01.passes")
    assert done.returncode == 2
    assert "is not valid Python (line 1" in done.stderr and "oplab reset c01" in done.stderr
    assert (course / "exercises/c01_cases.py").read_text() == "import import json\n"
    assert oplab("reset", "c01").returncode == 0
    write(course, "two = 2\n")
    oplab("reset", "c01")  # in the same second
    backups = {path.read_text() for path in (course / "build" / "backup").rglob("c01_cases*.py")}
    assert backups == {"import import json\n", "two = 2\n"}


def test_reset_brings_back_a_file_that_was_deleted(course, oplab):
    (course / "exercises" / "c01_cases.py").unlink()
    assert oplab("reset", "c01.passes").returncode == 0
    assert "c01.passes  to do" in oplab("check", "c01.passes").stdout


@pytest.mark.nightly
def test_sanitizer_names_the_line(oplab):
    done = oplab("check", "c01.overflows", "c01.compiles", "--sanitize")
    assert done.returncode == 1 and "c01.compiles  passed" in done.stdout
    assert "c01.overflows  crashed" in done.stdout
    assert "heap-buffer-overflow, a " in done.stdout and "(c01_overflows.cpp, line 7):" in done.stdout
    assert " 7 | for (int64_t i = 0; i < (n << 24); ++i) out[i] = 2 * in[i];" in done.stdout
    assert "0x" not in done.stdout and "SIGABRT" not in done.stdout
