"""Words that the course does not use, because a reader stumbles over them, and what to write instead.

They are looked for in all that is read: the text of the lessons and their questions, the stubs, ``course.toml`` with its hints, ``docs/``,
the README, and the messages in the course's own code.
``tests/allowed_words.toml`` lists the lines in which such a word is right, each with its reason.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from oplab.authoring import prose
from oplab.course.parsing import parse

WORDS = {
    r"mend(?:s|ed|ing)?": "fix",
    r"nobody": "there is no …, or: it is not …",
    r"st(?:ands?|ood|anding)(?! out| for)": "is in, is at, is listed in",
    r"l(?:ies|ay|ying)|(?<!to )lie": "is",
    r"behind": "after",
    r"in front of": "before",
    r"beside": "next to, or: compared with",
    r"(?<!here )(?:is|are|was|were) no (?!longer|more\b|less\b|different\b|worse\b|better\b|\w+er\b)[a-z]\w*": "is not a …",
    r"for ?ever|endless(?:ly)?": "always, or: infinite",
    r"as a law|to be had": "name what happens",
    r"com(?:e|es|ing) (?:in)?to life": "is created",
    r"that which|what (?:is|was) given|what comes out": "the input, the output: name it",
    # "the points of its own batch" is plain English, "a place of its own" is not.
    r"of (?:its|their|your|our|his|her) own(?! \w)": "its own …",
    r"of (?:its|their|your|our|his|her) own(?= (?:and|or|in|at|on|for|from|with|which|that|where|when)\b)": "its own …",
    r"whoever": "if you …",
    r"rooms?|houses?": "folder, or: package",
}
ALLOWED = "tests/allowed_words.toml"
_ANY = re.compile("|".join(rf"\b(?P<w{number}>{word})\b" for number, word in enumerate(WORDS)), re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`")


def found(text: str) -> Iterator[tuple[str, str]]:
    """(word, what to write instead) for each word of :data:`WORDS` in a line; code in backticks does not count."""
    for match in _ANY.finditer(_CODE.sub("", text)):
        yield match[0], list(WORDS.values())[int(match.lastgroup[1:])]


def lines(root: Path, chapter: str = "") -> Iterator[tuple[str, int, str]]:
    """(file below ``root``, line number, line) of everything that is read, or of what belongs to the chapter of this number."""
    for path in sorted((root / "notebooks" / "src").glob(f"{chapter}*.py")):
        for number, line, is_prose in prose.lesson(path):
            if is_prose:
                yield path.relative_to(root).as_posix(), number, line
    others = [
        *(root / "exercises").rglob(f"c{chapter}*"),
        *(root / "notebooks" / "quiz").glob(f"{chapter}*.toml"),
        root / "course.toml",
        *([] if chapter else [root / "README.md", *(root / "docs").glob("*.md")]),
    ]
    for path in sorted(others):
        if path.suffix in (".py", ".cpp", ".toml", ".md") and path.is_file():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                yield path.relative_to(root).as_posix(), number, line


def messages(root: Path, chapter: str = "") -> Iterator[tuple[str, int, str]]:
    """(file, line number, text) of each text in the code of ``oplab``, or in a chapter's checks: messages, not docstrings or names."""
    for path in sorted((root / "oplab").rglob(f"c{chapter}_*.py" if chapter else "*.py")):
        if path.name == Path(__file__).name:
            continue
        tree = parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docstrings
                and " " in node.value
            ):
                yield path.relative_to(root).as_posix(), node.lineno, node.value


def problems(root: Path, chapters: Collection[str] = ("",)) -> Iterator[tuple[str, str]]:
    """(where, sentence) for each word of the list that is not allowed there, and for each allowance that nothing needs any more.

    Args:
        chapters: numbers, to look only at what belongs to these chapters.
    """
    path = root / ALLOWED
    allowed = tomllib.loads(path.read_text(encoding="utf-8"))["allow"] if path.is_file() else []
    used = [False] * len(allowed)
    for file, number, line in (
        line for chapter in chapters for read in (lines, messages) for line in read(root, chapter)
    ):
        words = list(found(line))
        for index, entry in enumerate(allowed):
            if words and entry["file"] == file and entry["line"] in line:
                used[index], words = True, []
        for word, instead in words:
            yield f"{file}, line {number}", f"“{word}”: write {instead} (or list the line in {ALLOWED})."
    for entry, needed in zip(allowed, used, strict=True):
        if not needed and "" in chapters:
            yield ALLOWED, f"no line of {entry['file']} with {entry['line']!r} needs to be allowed: remove the entry."
