"""C++ as a lesson shows it: a file, one definition of it, or the difference of two files, highlighted and with line numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from oplab.errors import OplabError
from oplab.figures import cpp

CONTEXT = 3  # lines around a change

# (Pygments' token, or the start of its name; class; JupyterLab's variable; the colour where there is none)
# The colours without a theme have about 4.5:1 on white and 4:1 on a dark page.
_KINDS = (
    ("Token.Comment.Preproc", "p", "operator", "#9a5fd0"),
    ("Token.Comment", "c", "", ""),
    ("Token.Keyword.Type", "t", "variable-3", "#16807a"),
    ("Token.Keyword", "k", "keyword", "#2a8235"),
    ("Token.Literal.String", "s", "string", "#c7453b"),
    ("Token.Literal.Number", "n", "number", "#2a8235"),
    ("Token.Name.Function", "f", "def", "#2f74d0"),
    ("Token.Name.Class", "f", "def", "#2f74d0"),
)
_PYTHON_KINDS = (
    ("Token.Name.Decorator", "p", "", ""),
    ("Token.Operator.Word", "k", "", ""),
    ("Token.Name.Builtin", "t", "", ""),
)
_STYLE = (
    ".oplab-code{border:1px solid var(--jp-border-color2,#8886);border-radius:3px;margin:0.3em 0;overflow:hidden}"
    ".oplab-code .head{font-family:var(--jp-code-font-family,monospace);font-size:0.85em;padding:3px 8px;"
    "border-bottom:1px solid var(--jp-border-color2,#8886)}"
    ".oplab-code pre{white-space:pre!important;margin:0!important;padding:4px 0!important;overflow-x:auto;"
    "line-height:1.35;background:none!important}"
    ".oplab-code pre>span{display:inline-block;min-width:100%;box-sizing:border-box;padding-right:8px}"
    ".oplab-code i{font-style:normal;user-select:none;-webkit-user-select:none;"
    "color:var(--jp-ui-font-color2,#757575)}"
    # JupyterLab's own colour of comments has 4.2:1 in its dark theme
    ".oplab-code .c{color:var(--jp-ui-font-color2,#757575);font-style:italic}"
    ".oplab-code .add{background:rgba(0,100,226,.16)}.oplab-code .del{background:rgba(228,116,0,.18)}"
    + "".join(
        f".oplab-code .{name}{{color:var(--jp-mirror-editor-{variable}-color,{colour})}}"
        for name, variable, colour in {kind[1]: kind[1:] for kind in _KINDS if kind[2]}.values()
    )
)


class Listing:
    """Lines of code. As the last line of a cell it shows itself.

    Attributes:
        title: what it is: ``12_my_add.cpp, lines 10 to 24``.
        text: the same with line numbers, as plain text.
    """

    def __init__(self, title: str, rows: Sequence[tuple[str, str, str, str]]):
        """Args: ``rows`` are (line number, sign, code, code as HTML); the number is empty in a row between two parts."""
        self.title, self._rows = title, rows
        width = max(len(number) for number, _, _, _ in rows)
        signs = any(sign for _, sign, _, _ in rows)
        lines = []
        for number, sign, code, _ in rows:
            mark = f" {sign or ' '}" if signs else ""
            lines.append(f"{number:>{width}}{mark}  {code}".rstrip() if number else "…")
        self.text = "\n".join([title, *lines])
        self._width, self._signs = width, signs

    def __repr__(self) -> str:
        return self.text

    @property
    def html(self) -> str:
        """The HTML of the output. Numbers and signs are not selected with the code."""
        lines = []
        for number, sign, _, code in self._rows:
            mark = f" {sign or ' '}" if self._signs else ""
            kind = {"+": "add", "−": "del"}.get(sign, "")
            margin = f"{number:>{self._width}}{mark}" if number else "…"
            start = f'<span class="{kind}">' if kind else "<span>"
            lines.append(f"{start}<i> {margin}  </i>{code}</span>")  # spaces: an untrusted notebook has no styles
        return (
            f'<div class="oplab-code"><style>{_STYLE}</style><div class="head">{escape(self.title)}</div>'
            f"<pre>{chr(10).join(lines)}</pre></div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


def find(folder: Path, name: str) -> Path:
    """The file ``name`` in a folder."""
    path = folder / name
    if path.is_file():
        return path
    names = sorted(entry.name for entry in folder.glob("*.cpp")) if folder.is_dir() else []
    near = difflib.get_close_matches(name, names, n=3) or [entry for entry in names if entry[:2] == name[:2]][:8]
    where = "/".join(folder.parts[-2:])
    raise OplabError(f"There is no file {name} in {where}.", _meant(near))


def source(path: Path, part: str | None = None) -> Listing:
    """A file, or the definition in it whose first line contains ``part``, up to its closing brace.

    Raises:
        OplabError: no definition fits, or several do.
    """
    lines = _read(path).splitlines()
    coloured = highlighted(_read(path))
    first, last = (1, len(lines)) if part is None else _definition(path.name, _read(path), part)
    title = path.name if part is None else f"{path.name}, lines {first} to {last}"
    return Listing(title, [(str(n), "", lines[n - 1], coloured[n - 1]) for n in range(first, last + 1)])


def diff(before: Path, after: Path) -> Listing:
    """What changes from one file to another, with three lines around each change.

    A line that goes has the number that it had before; all others have their number in the new file.
    """
    old, new = (_read(path).splitlines() for path in (before, after))
    if old == new:
        raise OplabError(f"{before.name} and {after.name} are the same.")
    old_html, new_html = (highlighted(_read(path)) for path in (before, after))
    rows: list[tuple[str, str, str, str]] = []
    added = removed = 0
    for number, group in enumerate(
        difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT)
    ):
        if number:
            rows.append(("", "", "", ""))
        for tag, old_start, old_end, new_start, new_end in group:
            if tag != "equal":
                rows += [(str(n + 1), "−", old[n], old_html[n]) for n in range(old_start, old_end)]
                removed += old_end - old_start
                added += new_end - new_start
            sign = "" if tag == "equal" else "+"
            rows += [(str(n + 1), sign, new[n], new_html[n]) for n in range(new_start, new_end)]
    return Listing(f"{before.name} → {after.name}: {removed} removed (−), {added} added (+)", rows)


def _definition(name: str, text: str, part: str) -> tuple[int, int]:
    every = cpp.definitions(text)
    found = [entry for entry in every if part in entry.heading]
    if len(found) > 1:  # Compute, and not ComputeAll
        found = [entry for entry in found if re.search(rf"(?<!\w){re.escape(part)}(?!\w)", entry.heading)] or found
    if len(found) == 1:
        return found[0].first, found[0].last
    if found:
        listed = "; ".join(f"line {entry.first}: {entry.heading}" for entry in found)
        raise OplabError(
            f"{part!r} is in the first line of {len(found)} definitions of {name}: {listed}.", "Name more of one."
        )
    headings = {word: entry.heading for entry in every for word in [entry.heading, *re.findall(r"\w+", entry.heading)]}
    near = {headings[word]: None for word in difflib.get_close_matches(part, headings, n=5)}
    raise OplabError(
        f"No definition in {name} has {part!r} in its first line.", _meant(list(near) or [e.heading for e in every[:8]])
    )


def _meant(near: list[str]) -> str:
    return f"Near it: {'; '.join(near)}." if near else ""


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8").expandtabs(4)


def highlighted(text: str, language: str = "cpp") -> list[str]:
    """The lines of a file as HTML: a ``span`` with a class of one letter for each kind of token."""
    from pygments import lex
    from pygments.lexers import CppLexer, PythonLexer

    kinds, lexer = (_KINDS, CppLexer) if language == "cpp" else ((*_PYTHON_KINDS, *_KINDS), PythonLexer)
    lines = [""]
    for token, value in lex(text, lexer(stripnl=False, ensurenl=False)):
        kind = next((entry[1] for entry in kinds if str(token).startswith(entry[0])), "")
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append("")
            if piece:
                lines[-1] += f'<span class="{kind}">{escape(piece)}</span>' if kind and piece.strip() else escape(piece)
    return lines
