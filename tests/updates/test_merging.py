"""Three-way merges of a learner's file: nothing that the learner wrote is lost, and nothing that the course changed is missed."""

from __future__ import annotations

import ast
import random
import textwrap

import pytest

from oplab.updates.merging import Merge, cut, merge_python, merge_text, rename
from tests.support import ROOT

STUB = '''"""Chapter 05."""

from __future__ import annotations

import math

from oplab import todo

LIMIT = 6


def clip(x):
    """Clip to LIMIT.

    About 3 lines.
    """

    # TODO c05.clip: clip to LIMIT
    raise todo("c05.clip")


def log(x):
    """The logarithm."""

    # TODO c05.log: the logarithm
    raise todo("c05.log")
'''
CLIP = '    # TODO c05.clip: clip to LIMIT\n    raise todo("c05.clip")\n'
LOG = '    # TODO c05.log: the logarithm\n    raise todo("c05.log")\n'
MINE = STUB.replace(CLIP, "    return helper(min(x, LIMIT))\n").replace(
    "def clip", "def helper(x):\n    return x\n\n\ndef clip"
)


def check(merge: Merge) -> Merge:
    compile(merge.text, "merged", "exec")
    return merge


def test_what_one_side_changed():
    assert merge_python(STUB, STUB, MINE) == Merge(MINE)
    assert merge_python(STUB, MINE, STUB) == Merge(MINE)
    assert merge_python(STUB, MINE, MINE) == Merge(MINE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import math\n", "import math\nimport statistics\n"),  # next to the learner's import
        ("LIMIT = 6", "LIMIT = 7"),
        ("The logarithm.", "The natural logarithm."),
        ("About 3 lines.", "About 4 lines."),
        ('"""Chapter 05."""', '"""Chapter 05: attributes."""'),
        ("def log(x):", "def exp(x):\n    return math.exp(x)\n\n\ndef log(x):"),
        ("def clip(x):", "def new(x):\n    return x\n\n\ndef clip(x):"),
        (LOG, LOG + "\n\nEND = 1\n"),
    ],
)
def test_both_are_kept(old, new):
    mine = MINE.replace("import math\n", "import math\nimport numpy as np\n")
    fresh = STUB.replace(old, new)
    assert fresh != STUB
    merge = check(merge_python(STUB, mine, fresh))
    assert merge.clashes == ()
    for line in [*new.splitlines(), "import numpy as np", "    return helper(min(x, LIMIT))", "def helper(x):"]:
        assert line in merge.text.splitlines() or line in merge.text
    assert merge.text.count("def ") == fresh.count("def ") + 1
    assert "\n\n\n\n" not in merge.text


def test_new_words_of_a_todo_are_no_conflict():
    fresh = STUB.replace("TODO c05.clip: clip to LIMIT", "TODO c05.clip: clip to LIMIT at every opset")
    assert merge_python(STUB, MINE, fresh) == Merge(MINE)
    assert merge_python(STUB, STUB, fresh).text == fresh
    cpp = '#include <cmath>\n\n// TODO cA1.clamp: write it\n#error "cA1.clamp is not written yet"\n'
    mine = "#include <cmath>\n\nint clamp() { return 0; }\n"
    assert merge_text(cpp, mine, cpp.replace("write it", "write the function")) == Merge(mine)


def test_in_a_conflict_the_learner_s_lines_stay():
    mine = STUB.replace("def clip(x):", "def clip(x, low=0):").replace(CLIP, "    return max(low, x)\n")
    fresh = STUB.replace("def clip(x):", "def clip(x, high):").replace("About 3 lines.", "About 4 lines.")
    merge = check(merge_python(STUB, mine, fresh))
    (clash,) = merge.clashes
    assert (clash.name, clash.mine, clash.new) == ("clip", ("def clip(x, low=0):",), ("def clip(x, high):",))
    assert merge.text.splitlines()[clash.line - 1] == "def clip(x, low=0):"
    assert "About 4 lines." in merge.text and "return max(low, x)" in merge.text


def test_a_todo_that_became_code_is_a_conflict():
    fresh = STUB.replace(CLIP, "    return x\n")
    (clash,) = check(merge_python(STUB, MINE, fresh)).clashes
    assert clash.new == ("    return x",)


def test_a_constant_that_both_changed_is_a_conflict_outside_of_all_functions():
    merge = check(merge_python(STUB, MINE.replace("= 6", "= 8"), STUB.replace("= 6", "= 7")))
    (clash,) = merge.clashes
    assert (clash.name, clash.mine, clash.new) == (None, ("LIMIT = 8",), ("LIMIT = 7",))
    assert merge.text.splitlines()[clash.line - 1] == "LIMIT = 8"


def test_imports_of_both_sides_are_united():
    base, mine, fresh = (
        STUB.replace("import math\n", text)
        for text in ("from a import b\n", "from a import b, c\n", "from a import b, d\n")
    )
    merge = check(merge_python(base, mine, fresh))
    assert merge.clashes == () and "from a import b, c\nfrom a import b, d\n" in merge.text
    cpp = "#include <a>\nint x;\n"
    merge = merge_text(cpp, cpp.replace("int", "#include <b>\nint"), cpp.replace("int", "#include <c>\nint"))
    assert merge == Merge("#include <a>\n#include <b>\n#include <c>\nint x;\n")


def test_a_merge_that_would_not_compile_is_the_learner_s_file():
    """An import from the future that the course adds after the first line of code of the learner's."""
    base = "import math\n\n\ndef f():\n    pass\n"
    mine = base.replace("import math\n", "import os\nimport math\nimport numpy\n")
    fresh = base.replace("import math\n", "import math\nfrom __future__ import annotations\n").replace(
        "import math\n", "", 1
    )
    merge = check(merge_python(base, mine, fresh))
    assert merge.text == mine
    (clash,) = merge.clashes
    assert (clash.line, clash.name) == (1, None) and "from __future__ import annotations" in clash.new


def test_what_is_moved_stays_whole():
    """The learner has put the functions in another order, and the course changes one of them."""
    header, clip, log = (
        STUB.partition("def clip")[0],
        STUB[STUB.index("def clip") : STUB.index("def log")],
        STUB[STUB.index("def log") :],
    )
    mine = header + log.replace(LOG, "    return math.log(x)\n") + "\n\n" + clip.rstrip("\n") + "\n"
    merge = check(merge_python(STUB, mine, STUB.replace("Clip to LIMIT.", "Clip to the limit.")))
    assert merge == Merge(mine.replace("Clip to LIMIT.", "Clip to the limit."))
    fresh = header + log + "\n\n" + clip.rstrip("\n") + "\n"
    merge = check(merge_python(STUB, MINE, fresh))
    assert merge.clashes == ()
    assert [node.name for node in ast.parse(merge.text).body if isinstance(node, ast.FunctionDef)] == [
        "helper",
        "log",
        "clip",
    ]


def test_what_is_deleted():
    without = STUB[: STUB.index("\n\ndef log")]
    assert merge_python(STUB, without, STUB.replace("Clip to", "Limit to")).absent == ()
    merge = merge_python(STUB, without, STUB.replace("The log", "A log"))
    assert merge == Merge(without, (), ("log",))
    assert "def log" not in merge_python(STUB, MINE, without).text  # the course's, as it was delivered
    mine = MINE.replace(LOG, "    return math.log(x)\n")
    assert merge_python(STUB, mine, without) == Merge(mine)


def test_a_stub_without_a_base():
    merge = check(merge_python("", MINE, STUB))
    assert merge.text == MINE and [clash.name for clash in merge.clashes] == ["clip"]


def test_new_names():
    fresh = STUB.replace("def clip", "def limit").replace("c05.clip", "c05.limit")
    merge = check(merge_python(STUB, MINE, fresh, {"clip": "limit"}))
    assert merge == Merge(MINE.replace("def clip", "def limit"))
    assert merge_python(STUB, STUB, fresh, {"clip": "limit"}).text == fresh
    taken = MINE.replace("def helper", "def limit")
    assert rename(taken, {"clip": "limit"}) == taken
    decorated = "@clip\ndef clip(clip): return clip\n"
    assert rename(decorated, {"clip": "limit"}) == "@clip\ndef limit(clip): return clip\n"


def test_cut():
    rest, function = cut(MINE, "helper")
    assert function == "def helper(x):\n    return x" and "helper(x)" not in rest and "def clip" in rest
    assert cut(MINE, "nothing") == (MINE, "")


@pytest.mark.parametrize("broken", ["def clip(x:\n", "x = (\n", "\x00\n", "\udcff = 1 +\n", "a\rb\n"])
def test_a_file_that_is_not_python_is_merged_by_lines(broken):
    mine = STUB.replace(CLIP, broken)
    merge = merge_python(STUB, mine, STUB.replace("Chapter 05", "Chapter 5"))
    assert merge == Merge(mine.replace("Chapter 05", "Chapter 5"))


def test_line_ends_are_the_learner_s():
    mine = MINE.replace("\n", "\r\n")
    merge = merge_python(STUB, mine, STUB.replace("LIMIT = 6", "LIMIT = 7"))
    assert merge == Merge(mine.replace("LIMIT = 6", "LIMIT = 7"))
    assert merge_text("a\nb\nc\n", "a\r\nb\r\nC\r\n", "A\nb\nc\n") == Merge("A\r\nb\r\nC\r\n")


def test_blanks_at_the_ends_of_lines_are_no_change():
    mine = STUB.replace("\n    About", "   \n    About")
    fresh = STUB.replace("    About 3 lines.", "    About 4 lines.")
    assert merge_python(STUB, mine, fresh).clashes == ()


def test_each_answer_of_this_course_meets_each_change():
    """A learner has written everything; the course changes docstrings, TODOs and imports."""
    for file in sorted((ROOT / "exercises").glob("*.py")):
        stub, mine = file.read_text(), (ROOT / "solutions" / file.name).read_text()
        fresh = stub.replace("Args:", "Arguments:").replace(": map ", ": please map ")
        fresh = fresh.replace("\nfrom oplab", "\nimport new_one\n\nfrom oplab", 1)
        merge = check(merge_python(stub, mine, fresh))
        assert merge.clashes == () and "import new_one" in merge.text, file
        answers = {node.name: node for node in ast.parse(mine).body if isinstance(node, ast.FunctionDef)}
        merged = {node.name: node for node in ast.parse(merge.text).body if isinstance(node, ast.FunctionDef)}
        for name, node in answers.items():
            assert ast.unparse(merged[name].body[1:]) == ast.unparse(node.body[1:])
    for file in sorted((ROOT / "exercises" / "csrc").glob("*.cpp")):
        stub, mine = file.read_text(), (ROOT / "solutions" / "csrc" / file.name).read_text()
        fresh = stub.replace(stub.splitlines()[0], "// Another first line.", 1)
        merge = merge_text(stub, mine, fresh)
        assert merge == Merge(mine.replace(mine.splitlines()[0], "// Another first line.", 1)), file


def test_random_edits_lose_nothing(seed):
    """Each line of the learner's and each of the course's is in the merge, or in a clash."""
    for number in range(seed, seed + 300):
        chance = random.Random(number)
        functions = [f"def f{n}(x):\n    a = {n}\n    b = {n}\n    c = {n}\n    return a\n" for n in range(4)]

        def edited(who: str, chance=chance, functions=functions) -> tuple[str, set[str]]:
            parts, wrote = list(functions), set()
            for count in range(chance.randrange(1, 5)):
                at, line = chance.randrange(4), f"    {who}{count} = 0"
                lines = parts[at].splitlines()
                where = chance.randrange(1, len(lines))
                if chance.random() < 0.5:
                    lines.insert(where, line)
                else:
                    wrote.discard(lines[where])
                    lines[where] = line
                wrote.add(line)
                parts[at] = "\n".join(lines) + "\n"
            if chance.random() < 0.3:
                parts.insert(chance.randrange(5), f"def {who}(x):\n    return x\n")
                wrote.add(f"def {who}(x):")
            return "\n\n".join(parts), wrote

        (mine, by_learner), (fresh, by_course) = edited("mine"), edited("new")
        merge = check(merge_python("\n\n".join(functions), mine, fresh))
        lines = set(merge.text.splitlines())
        assert by_learner <= lines, number
        assert by_course <= lines | {line for clash in merge.clashes for line in clash.new}, number
        for clash in merge.clashes:
            at = clash.line - 1
            assert tuple(merge.text.splitlines()[at : at + len(clash.mine)]) == clash.mine, number


def test_the_text_of_a_clash_is_what_the_stub_has():
    stub = textwrap.dedent('int f();\n\n// TODO cA1.f: write it\n#error "x"\nint g();\n')
    merge = merge_text(stub, stub.replace("int f();", "float f();"), stub.replace("int f();", "double f();"))
    assert merge.clashes[0].new == ("double f();",) and merge.text.startswith("float f();")
