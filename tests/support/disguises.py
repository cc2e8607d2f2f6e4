"""Copies of an answer that are made to look different."""

from __future__ import annotations

import ast
import builtins
import random
import re
from collections.abc import Callable, Iterator

_WORDS = "amber basin cedar delta ember fjord grove heath islet jetty knoll larch marsh ochre plume quarry ridge slate".split()
_CPP_PIECE = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<preprocessor>^[ \t]*#[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*")|(?P<char>\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<number>(?<![\w.])\d[\w.]*)|(?P<name>[A-Za-z_]\w*)|(?P<space>\s+)|(?P<sign>.)",
    re.DOTALL | re.MULTILINE,
)
_CPP_KEPT = set(
    "auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false float for"
    " if inline int int32_t int64_t uint8_t uint32_t uint64_t long namespace new noexcept nullptr operator override private public"
    " return short signed size_t sizeof static static_cast struct switch template this throw true try typename union unsigned using"
    " virtual void while".split()
)


def renamed(source: str, language: str, seed: int = 0) -> str:
    """Every name that the author chose, replaced by another one."""
    return _Renamer(source, seed).text() if language == "python" else _cpp_renamed(source, seed)


def laid_out(source: str, language: str, seed: int = 0) -> str:
    """Other white space, quotes and line breaks, without the comments, with new ones."""
    draw = random.Random(seed)
    if language == "python":
        lines = ast.unparse(_without_docstrings(ast.parse(source))).split("\n")
        return "\n".join(_with_comments(lines, "#", draw)) + "\n"
    pieces = []
    for kind, text in _pieces(source):
        if kind == "space":
            text = "\n" if "\n" in text and draw.random() < 0.5 else " "
        pieces.append("" if kind == "comment" else f"\n{text}\n" if kind == "preprocessor" else text)
    return "\n".join(_with_comments("".join(pieces).split("\n"), "//", draw)) + "\n"


def reordered(source: str, language: str, seed: int = 0) -> str:
    """Functions in another order, and neighbouring statements exchanged that do not use each other's variables."""
    if language != "python":
        return _cpp_reordered(source)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                _exchange(block)
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    tree.body = [node for node in tree.body if node not in functions] + functions[::-1]
    return ast.unparse(tree) + "\n"


def split(source: str, language: str, seed: int = 0) -> str:
    """Each number as a sum and each text in two parts."""
    if language == "python":
        tree = _Splitter().visit(_without_docstrings(ast.parse(source)))
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    pieces = []
    for kind, text in _pieces(source):
        if kind == "number" and text.isdigit():
            text = f"({int(text) + 1} - 1)"
        elif kind == "text" and len(text) > 5 and "\\" not in text:
            text = f'{text[:3]}" "{text[3:]}'
        pieces.append(text)
    return "".join(pieces)


def padded(source: str, language: str, seed: int = 0) -> str:
    """A statement without effect after every third one: winnowing has no remedy for it but the passages between."""
    if language == "python":
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.For, ast.If, ast.With)):
                for place in range(len(node.body) // 3 * 3, 0, -3):
                    if not isinstance(node.body[place - 1], ast.Return):
                        node.body.insert(place, ast.parse(f"spare_{place} = {place}").body[0])
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    lines, count = [], 0
    for line in source.split("\n"):
        lines.append(line)
        if _CPP_STATEMENT.match(line) and not line.strip().startswith("return"):
            count += 1
            if count % 3 == 0:
                lines.append(f"  int spare_{count} = {count};")
    return "\n".join(lines)


def everything(source: str, language: str, seed: int = 0) -> str:
    """All of it but the statements without effect."""
    for step in (reordered, renamed, split, laid_out):
        source = step(source, language, seed)
    return source


DISGUISES: dict[str, Callable[[str, str, int], str]] = {
    "names": renamed,
    "comments and layout": laid_out,
    "order": reordered,
    "constants split": split,
    "all four": everything,
    "a useless statement after every third": padded,
}
# Python --------------------------------------------------------------------------------------------------------------------------


class _Renamer(ast.NodeTransformer):
    """Renames variables, parameters and functions, but for the functions of the top level that a grader calls."""

    def __init__(self, source: str, seed: int):
        self.tree = ast.parse(source)
        draw = random.Random(seed)
        kept = {node.name for node in self.tree.body if isinstance(node, ast.FunctionDef)} | set(dir(builtins))
        names: dict[str, None] = {}
        self.functions = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
            elif isinstance(node, ast.arg):
                names[node.arg] = None
            elif isinstance(node, ast.FunctionDef):
                self.functions.add(node.name)
                names[node.name] = None
        for node in ast.walk(self.tree):  # methods are called by their names from outside
            if isinstance(node, ast.ClassDef):
                kept |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        self.new = {
            name: f"{draw.choice(_WORDS)}_{number}" for number, name in enumerate(names) if name not in kept | {"self"}
        }

    def text(self) -> str:
        return ast.unparse(self.visit(self.tree)) + "\n"

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.new.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.new.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.new.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in self.functions:
            for keyword in node.keywords:
                keyword.arg = self.new.get(keyword.arg, keyword.arg) if keyword.arg else None
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self.new.get(name, name) for name in node.names]
        return node

    visit_Global = visit_Nonlocal

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        return self.generic_visit(node)


class _Splitter(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    visit_MatchValue = visit_JoinedStr

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int:
            return ast.BinOp(ast.Constant(node.value - 1), ast.Add(), ast.Constant(1))
        if isinstance(node.value, str) and len(node.value) > 3:
            half = len(node.value) // 2
            return ast.BinOp(ast.Constant(node.value[:half]), ast.Add(), ast.Constant(node.value[half:]))
        return node


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _exchange(block: list[ast.stmt]) -> None:
    """Exchange neighbours from left to right where that changes no variable's value."""
    place = 0
    while place + 1 < len(block):
        first, second = block[place], block[place + 1]
        plain = all(isinstance(node, (ast.Assign, ast.FunctionDef)) for node in (first, second))
        if plain and not (_stored(first) & _used(second) or _stored(second) & _used(first)):
            block[place], block[place + 1] = second, first
            place += 2
        else:
            place += 1


def _stored(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _used(node: ast.stmt) -> set[str]:
    own = {node.name} if isinstance(node, ast.FunctionDef) else set()
    return own | {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _with_comments(lines: list[str], mark: str, draw: random.Random) -> Iterator[str]:
    for line in lines:
        if draw.random() < 0.3 and not line.startswith("#"):
            yield ""
            yield f"{line[: len(line) - len(line.lstrip())]}{mark} {' '.join(draw.sample(_WORDS, 4))}"
        yield line


# C++ -----------------------------------------------------------------------------------------------------------------------------

_CPP_STATEMENT = re.compile(r"^\s+[^{}#/]*;\s*$")


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    for found in _CPP_PIECE.finditer(source):
        yield found.lastgroup or "sign", found[0]


def _cpp_renamed(source: str, seed: int) -> str:
    """Names that are declared in the text: after a type, ``&``, ``*`` or ``>``, and before ``=``, ``(``, ``;`` or the like."""
    draw = random.Random(seed)
    code = [(kind, text) for kind, text in _pieces(source) if kind not in ("space", "comment", "preprocessor")]
    own: dict[str, str] = {}
    fields = {text for (_, before), (_, text) in zip(code, code[1:], strict=False) if before in (".", "->", ":", "~")}
    for (_, before), (kind, text), (_, after) in zip(code, code[1:], code[2:], strict=False):
        typed = before in ("auto", "float", "int64_t", "size_t", "int", "double", "bool", "&", "*", ">")
        if kind == "name" and typed and after in ("=", ";", ",", ")", "[", "{", ":") and text not in fields | _CPP_KEPT:
            own.setdefault(text, f"{draw.choice(_WORDS)}_{len(own)}")
    return "".join(own.get(text, text) if kind == "name" else text for kind, text in _pieces(source))


def _cpp_reordered(source: str) -> str:
    lines = source.split("\n")
    place = 0
    while place + 1 < len(lines):
        first, second = lines[place], lines[place + 1]
        plain = all(_CPP_STATEMENT.match(line) and "=" in line and "return" not in line for line in (first, second))
        if plain and not _assigned(first) & _names(second) and not _assigned(second) & _names(first):
            lines[place], lines[place + 1] = second, first
            place += 2
        else:
            place += 1
    return "\n".join(lines)


def _assigned(line: str) -> set[str]:
    return set(re.findall(r"(\w+)\s*(?:\[[^\]]*\])?\s*(?:[-+*/]?=)(?!=)", line))


def _names(line: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", line))
