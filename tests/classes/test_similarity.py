"""Similarity: what a disguise cannot change, what is subtracted, what is reported, and the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oplab.classes import records, similarity
from oplab.classes.similarity import Given, compare_parts, own_part
from oplab.classes.similarity_prints import canonical, grams
from oplab.classes.similarity_tokens import tokens
from oplab.cli.main import main
from oplab.course.manifest import load

ROOT = Path(__file__).resolve().parents[2]
NOTHING = Given("", "")
PYTHON = '''
import numpy as np


def helper(rows, *, limit=4):
    """Sorts."""
    kept = []
    for row in rows:
        if row.sum() > limit:
            kept.append(np.sort(row, axis=0))
    return kept


def answer(rows):
    low, high = min(rows[0]), max(rows[0])
    scale = 0.5 / (high - low)
    shift = "moved by %s" % low
    # The rows that are left, sorted.
    chosen = helper(rows, limit=12)
    if not chosen:
        raise ValueError(f"no row is left: {len(rows)} " + shift)
    return {"scale": scale, "rows": [np.clip(row * scale, low, high) for row in chosen]}
'''
CPP = """
#include <vector>
static float largest(const std::vector<float>& values, size_t first) {
  float best = values[first];  // so far
  for (size_t i = first + 1; i < values.size(); ++i) {
    if (values[i] > best) best = values[i];
  }
  return best;
}
int run(const float* x, float* y, size_t size) {
  std::vector<float> copy(x, x + size);
  const float top = largest(copy, 0);
  const float share = 0.25f;
  float total = 0;
  for (size_t i = 0; i < size; ++i) total += copy[i] - top;
  for (size_t i = 0; i < size; ++i) y[i] = share * (copy[i] - top) / total;
  return 17;
}
"""
OTHER = """
def answer(rows):
    found = {}
    while rows:
        row, *rows = rows
        found.setdefault(tuple(row.tolist()), []).append(len(rows))
    best = sorted(found, key=lambda row: (-len(found[row]), row))
    with open("answers.txt", "w") as stream:
        for row in best[:3]:
            print(row, *found[row], sep=", ", file=stream)
    return best and best[0]
"""


# What a disguise of PYTHON, CPP and OTHER changes: names that their author chose, and statements that may be exchanged.
NAMES = "rows kept row limit low high scale shift chosen values first best i copy top share total found stream size x y".split()
EXCHANGED = (
    ("    scale = 0.5 / (high - low)\n", '    shift = "moved by %s" % low\n'),
    ("  const float share = 0.25f;\n", "  float total = 0;\n"),
)


def renamed(source: str) -> str:
    """Every name that the author chose, replaced by another one."""
    pattern = r'(?<!f)"[^"\n]*"|(?<![.\w])(' + "|".join(NAMES) + r")\b"
    return re.sub(pattern, lambda found: f"amber_{NAMES.index(found[1])}" if found[1] else found[0], source)


def laid_out(source: str) -> str:
    """Other white space and other comments."""
    lines = re.sub(r"\s*(//|# )[^\n]*", "", source).replace("\n  ", "\n    ").split("\n")
    mark = "//" if "#include" in source else "#"
    return "\n".join(f"{line}  {mark} words" if "=" in line else line for line in lines)


def reordered(source: str) -> str:
    """Functions in another order, and neighbouring statements exchanged that do not use each other's variables."""
    for one, other in EXCHANGED:
        source = source.replace(one + other, other + one)
    head, answer, tail = source.partition("\n\ndef answer")
    before, helper, rest = head.partition("\n\ndef helper")
    return before + answer + tail + helper + rest if helper else source


def constants_split(source: str) -> str:
    """Each whole number as a sum."""
    return re.sub(r"(?<![\w.%])(\d+)(?![\w.])", lambda found: f"({int(found[1]) + 1} - 1)", source)


def padded(source: str) -> str:
    """A statement without effect after every third one: winnowing has no remedy for it but the passages between."""
    lines, count = [], 0
    for line in source.split("\n"):
        lines.append(line)
        if re.match(r"\s+[\w ,.]+ \+?= .*[\w\])];?$", line):
            count += 1
            if count % 3 == 0:
                spare = f"spare_{count} = {count}"
                lines.append(f"  int {spare};" if line.endswith(";") else line[: -len(line.lstrip())] + spare)
    return "\n".join(lines)


def everything(source: str) -> str:
    return laid_out(constants_split(renamed(reordered(source))))


def words(source: str, language: str = "python") -> tuple[str, ...]:
    return canonical(tokens(source, language))


def report(texts: dict[str, str], given: Given = NOTHING, language: str = "python", **limits):
    return compare_parts("c00.export", texts, language, given, **limits)


# Tokens --------------------------------------------------------------------------------------------------------------------------


def test_what_an_author_cannot_rename_stays():
    texts = [token.text for token in tokens('import numpy as np\ny = np.sort(g.op("Mul", x), axis=2)\n', "python")]
    assert texts[-15:] == 'sort ( g . op ( "Mul" , x ) , axis = number )'.split()
    assert "numpy" in texts and "np" not in texts
    texts = [token.text for token in tokens("auto s = Ort::Status{api.GetShape(n)};", "cpp")]
    assert texts == "auto name = Ort :: Status { name . GetShape ( name ) } ;".split()


def test_which_names_are_equal_counts():
    assert words("def f(a, b):\n    return a - b\n") != words("def f(a, b):\n    return b - a\n")
    assert words("def f(a, b):\n    return a - b\n") == words("def g(x, y):\n    return x - y\n")


@pytest.mark.parametrize("language", ["python", "cpp"])
@pytest.mark.parametrize("source", ["", "def (", "é = 'ü' + \x00", "\udc80 = 1", '"""'])
def test_any_text_has_tokens(source, language):
    for token in tokens(source, language):
        assert 0 <= token.begin < token.end <= len(source)
    grams(tokens(source, language))


# Fingerprints --------------------------------------------------------------------------------------------------------------------


# The part of a file --------------------------------------------------------------------------------------------------------------


def test_the_part_of_an_exercise_has_its_helpers_and_imports_and_nothing_else():
    exercise = load(ROOT).exercise("c04.asinh")
    text = "import os\nimport torch\nA = B = 1\nB = 2\n\ndef used():\n    return torch.ones(B)\n\ndef other():\n    return os\n"
    text += "\ndef asinh():\n    return 1\n\n@str\ndef asinh():\n    return used()\n"
    part = own_part(text, exercise)
    assert part.split("\n\n") == [
        "import torch\nA = B = 1",
        "B = 2",
        "def used():\n    return torch.ones(B)",
        "@str\ndef asinh():\n    return used()",
        "",
    ]
    assert own_part("def other(): pass\n", exercise) == ""
    assert own_part("def asinh(:", exercise) == "def asinh(:"


# Pairs ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, language", [(PYTHON, "python"), (CPP, "cpp")])
@pytest.mark.parametrize("disguise", [renamed, laid_out, reordered, constants_split, padded, everything])
def test_a_disguised_copy_is_found(source, language, disguise):
    copy = disguise(source)
    assert copy != source
    found = report({"ada": source, "bob": copy}, language=language)
    if found.equal:
        assert found.equal[0].logins == ("ada", "bob") and found.equal[0].share == 0
    else:
        (pair,) = found.pairs
        assert pair.score >= similarity.THRESHOLD and pair.evidence >= similarity.LEAST


def test_two_answers_of_two_people_are_not_a_pair():
    found = report({"ada": PYTHON, "bob": OTHER})
    assert (found.pairs, found.equal, found.short, found.answers) == ((), (), 0, 2)


def test_what_is_given_does_not_count():
    changed = PYTHON.replace("high - low", "high + low")
    assert report({"ada": PYTHON, "bob": changed}).pairs
    for given in (Given(PYTHON), Given("", PYTHON)):
        found = report({"ada": PYTHON, "bob": changed}, given)
        assert not found.pairs and not found.equal
        assert found.short == 2


def test_a_copy_of_the_reference_is_near_the_reference_not_near_another_copy():
    edited = {f"learner{i}": PYTHON.replace("limit=12", f"limit=12 {'+ low ' * i}") for i in range(4)}
    found = report(edited, Given("", PYTHON))
    assert not found.pairs and not found.equal
    assert {login for entry in found.near for login in entry.logins} == set(edited)
    assert not report(edited, Given(PYTHON, PYTHON)).near, "the stub says nothing about the reference"


def test_what_many_learners_have_counts_less():
    def mine(i: int) -> str:  # what tells each learner's answer apart is longer than what they share
        return PYTHON + "\n".join(
            f"def f{j}(a):\n    return a.{chr(97 + i)}{j}.go{i}(a).to{i}(a.by{i})\n" for j in range(4)
        )

    few, many = ({f"learner{i:02}": mine(i) for i in range(count)} for count in (2, 24))
    (pair,) = report(few, threshold=0.0).pairs
    assert pair.evidence > 60
    assert report(many, threshold=0.0).pairs == ()


def test_equal_answers_are_one_group_and_one_side():
    laid = laid_out(PYTHON)
    texts = {"eve": laid_out(renamed(PYTHON)), "bob": laid, "dan": laid + "\n\n# end\n"}
    found = report(texts)
    (group,) = found.equal
    assert group.logins == ("bob", "dan", "eve") and group.share == 0 and not found.pairs
    (group,) = report({"ada": PYTHON, "bob": PYTHON + "\n"}).equal
    assert group.share == 1


# The page and the command --------------------------------------------------------------------------------------------------------


def test_the_page_escapes_asks_for_nothing_and_says_what_a_pair_is(tmp_path):
    nasty = PYTHON.replace("moved by", "</pre><script>alert(1)</script>").replace("# The", "# <b>")
    texts = {"a<i>": nasty, "bob&": reordered(nasty), "c": nasty}
    found = report({login: text + "\n# \ud800" for login, text in texts.items()}, threshold=0.0)
    similarity.write(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert found.pairs and found.equal
    assert "<script" not in page and "# <b>" not in page and "a<i>" not in page and "a&lt;i&gt;" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", page)
    assert "default-src 'none'" in page
    assert "a reason to look, not a proof" in page
    assert page.count("<mark ") == page.count("</mark>") >= 4


def test_the_command_reads_the_newest_answers_of_a_folder_of_grades(tmp_path, monkeypatch, capsys):
    def handed_in(login: str, *texts: str):
        made = []
        for text in texts:
            sha = records.sha256(text)
            records.save_answer(tmp_path, sha, text)
            made.append(records.Submission(login, tasks={"cA1.mean": records.Task("cA1.mean", "0" * 64, sha)}))
        return tuple(made)

    newest = {"ada": handed_in("ada", CPP), "bob": handed_in("bob", "int x;", renamed(CPP)), "eve": ()}
    learners = {login: records.Learner(login) for login in newest}
    records.save_submissions(tmp_path, learners, newest, ())
    exercise = load(ROOT).exercise("cA1.mean")
    sources = similarity.answers_of(records.load(tmp_path), [exercise])
    assert sources == {"cA1.mean": {"ada": CPP, "bob": renamed(CPP)}}

    page = tmp_path / "page.html"
    monkeypatch.setattr("sys.argv", ["oplab", "class", "similar", str(tmp_path), "-o", str(page), "--exercise", "cA1"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert "2 answers" in capsys.readouterr().out
    assert "ada, bob" in page.read_text(encoding="utf-8")
