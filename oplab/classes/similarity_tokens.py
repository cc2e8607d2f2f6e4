"""A source text as tokens in which a disguise leaves no trace: no comments, no layout, no names that the author chose, no values.

What the author of an answer cannot rename stays as it is: keywords, operators, the names of libraries, of their functions and
attributes, and texts that are the name of an operator (``"Mul"``, ``"aten::hypot"``).
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from oplab.course.parsing import parse

NAME, NUMBER, STRING = "name", "number", "string"  # what takes the place of each
_OPERATOR = re.compile(r"[A-Z]\w*|\w+(?:::\w+)+")
_QUOTES = re.compile(r"""^\w*["']+|["']+$""")
_ARITHMETIC = {"+", "-", "*", "/", "//", "%"}
_OPERAND = {NAME, NUMBER, STRING, ")", "]"}  # after these, "-" has two operands and "(" is a call
_LONG = set(":: -> == != <= >= && || += -= *= /= ++ --".split())
_LABEL, _WORD = "label", "word"  # kinds of a raw token; every other kind is the text itself


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        text: what is compared: NAME for a name that the author chose.
        begin: where it is in the source text, in characters.
        end: the first character after it.
        name: the name, where ``text`` is NAME; it only tells which of them are equal.
    """

    text: str
    begin: int
    end: int
    name: str = ""


def tokens(source: str, language: str) -> list[Token]:
    """The tokens of a text, without comments, docstrings, annotations of Python and ``#include``.

    A constant expression counts as one constant, so that ``0.25 + 0.25`` is ``0.5`` and ``"a" "b"`` is ``"ab"``. A text that is not valid
    Python or C++ has tokens too; more of its names count as the author's.

    Args:
        language: ``python`` or ``cpp``.
    """
    raw = list(_lexed(source, language))
    named = _python(source, raw) if language == "python" else _cpp(raw)
    return _folded(named)


@dataclass(slots=True)
class _Raw:
    """A token as the lexer has it: ``kind`` is NUMBER, STRING, _LABEL (an identifier) or _WORD (all else)."""

    kind: str
    text: str
    begin: int
    end: int


def _lexed(source: str, language: str) -> Iterator[_Raw]:
    from pygments.lexers import CppLexer, PythonLexer
    from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, Whitespace

    lexer = PythonLexer() if language == "python" else CppLexer()
    last: _Raw | None = None
    for begin, kind, text in lexer.get_tokens_unprocessed(source):
        if kind in Comment or kind in Text or kind in Whitespace or kind in String.Doc or not text.strip():
            continue
        end = begin + len(text)
        if kind in String and not (kind in String.Interpol and text.strip("{}") == "" and language == "python"):
            if last is not None and last.kind == STRING and last.end == begin:
                last.text, last.end = last.text + text, end
                continue
            found = _Raw(STRING, text, begin, end)
        elif kind in Number:
            found = _Raw(NUMBER, NUMBER, begin, end)
        elif text.isidentifier() and (kind in Name or not (kind in Keyword or kind in Operator.Word)):
            found = _Raw(_LABEL, text, begin, end)
        elif last is not None and last.kind == _WORD and last.end == begin and last.text + text in _LONG:
            last.text, last.end = last.text + text, end  # the lexer of C++ has "::" as two
            continue
        else:
            found = _Raw(_WORD, text.strip(), begin, end)
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last


def _token(entry: _Raw, text: str) -> Token:
    if entry.kind == STRING:
        return Token(STRING, entry.begin, entry.end, _QUOTES.sub("", text))
    return Token(text, entry.begin, entry.end, entry.text if text == NAME else "")


# Python --------------------------------------------------------------------------------------------------------------------------


@dataclass
class _Scope:
    """What the author of a Python text named."""

    names: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    libraries: dict[str, str] = field(default_factory=dict)  # an imported name, and what it means
    keywords: set[int] = field(default_factory=set)  # where a keyword argument of a library is
    left_out: list[tuple[int, int]] = field(default_factory=list)  # annotations


def _python(source: str, raw: list[_Raw]) -> Iterator[Token]:
    try:
        scope = _scope(source)
    except (SyntaxError, ValueError, RecursionError):
        scope = None
    skipped = {place for begin, end in (scope.left_out if scope else ()) for place in range(begin, end)}
    before = ""
    for entry in (entry for entry in raw if entry.begin not in skipped):
        text = _python_name(entry.text, entry.begin, before, scope) if entry.kind == _LABEL else entry.text
        yield _token(entry, text)
        before = entry.text


def _python_name(text: str, place: int, before: str, scope: _Scope | None) -> str:
    if before == ".":
        return NAME if scope and text in scope.attributes else text
    if scope is None:
        return text if hasattr(builtins, text) else NAME
    if place in scope.keywords:
        return text
    if text in scope.names:
        return NAME
    return scope.libraries.get(text, text)


def _scope(source: str) -> _Scope:
    """Raises SyntaxError, ValueError (a null byte) or RecursionError where the text cannot be parsed."""
    tree, scope = parse(source), _Scope()
    place = _places(source)
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                scope.names.add(node.id)
            case ast.arg():
                scope.names.add(node.arg)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                scope.names.add(node.name)
                scope.functions.add(node.name)
            case ast.ExceptHandler(name=str()) | ast.MatchAs(name=str()) | ast.MatchStar(name=str()):
                scope.names.add(node.name)
            case ast.Attribute(ctx=ast.Store()):
                scope.attributes.add(node.attr)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    if alias.asname:
                        scope.libraries[alias.asname] = alias.name.rpartition(".")[2]
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                for part in node.body:
                    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        scope.attributes.add(part.name)
                    elif isinstance(part, (ast.Assign, ast.AnnAssign)):
                        scope.attributes.update(name.id for name in ast.walk(part) if isinstance(name, ast.Name))
            case ast.Call(func=ast.Name(id=name)) if name in scope.functions:
                pass  # its keyword arguments are the author's parameters
            case ast.Call() | ast.ClassDef():
                scope.keywords.update(
                    place(part.lineno, part.col_offset) for part in node.keywords if part.arg is not None
                )
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                begin = place(part.lineno, part.col_offset)
                mark = max(source.rfind(":", 0, begin), source.rfind("->", 0, begin))
                scope.left_out.append((mark, place(part.end_lineno or part.lineno, part.end_col_offset or 0)))
    return scope


def _places(source: str) -> Callable[[int, int], int]:
    """A function from ast's line and column, which counts bytes, to a character of the text."""
    lines = source.split("\n")  # not splitlines: to Python, a form feed ends no line
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    return lambda line, column: begins[line - 1] + len(lines[line - 1].encode()[:column].decode(errors="replace"))


# C++ -----------------------------------------------------------------------------------------------------------------------------


def _cpp(raw: list[_Raw]) -> Iterator[Token]:
    """A name stays if it is qualified by a library's namespace, or called and not declared in the text.

    Whether a name is declared is read off its neighbours, so that renaming changes no verdict: ``float read(`` declares ``read``.
    """
    raw = _without_std(raw)
    texts = [entry.text for entry in raw]
    own = set()
    for i, entry in enumerate(raw):
        if entry.kind != _LABEL or i == 0:
            continue
        before, after = texts[i - 1], texts[i + 1] if i + 1 < len(texts) else ""
        declared = after in ("(", "{", "=", "[") and (_is_type(raw[i - 1]) or before in ("*", "&", ">", "auto"))
        if declared or before in _DECLARES or (before, after) == ("using", "="):
            own.add(entry.text)
    for i, entry in enumerate(raw):
        text = entry.text
        if entry.kind == _LABEL:
            before, after = texts[i - 1] if i else "", texts[i + 1] if i + 1 < len(texts) else ""
            called = after in ("(", "::", "{") or _is_template(raw, i + 1)
            if text in own or not (called or before == "::"):
                text = NAME
        yield _token(entry, text)


def _is_template(raw: list[_Raw], first: int) -> bool:
    """Whether the arguments of a template begin there: ``<float>``, not ``i < size``."""
    for entry in raw[first + 1 : first + 12]:
        if entry.text == ">":
            return raw[first].text == "<"
        if not (_is_type(entry) or entry.text in ("::", ",", "*", "&") or entry.kind == NUMBER):
            return False
    return False


def _is_type(entry: _Raw) -> bool:
    return entry.kind == _LABEL or entry.text in _TYPES


_DECLARES = ("struct", "class", "enum", "namespace", "union", "typename")
_TYPES = {"auto", "bool", "char", "const", "double", "float", "int", "long", "short", "unsigned", "signed", "void"} | {
    f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def _without_std(raw: list[_Raw]) -> list[_Raw]:
    """Without ``std::`` and ``using namespace``: one replaces the other."""
    kept, end = [], 0
    for i, entry in enumerate(raw):
        two = [entry.text for entry in raw[i : i + 2]]
        if i >= end:
            end = i + {("std", "::"): 2, ("using", "namespace"): 4}.get(tuple(two), 0)
        if i >= end:
            kept.append(entry)
    return kept


# Constants -----------------------------------------------------------------------------------------------------------------------


def _folded(found: Iterator[Token]) -> list[Token]:
    """Constant expressions as one constant, without the comma before a closing bracket."""
    stack: list[Token] = []
    for token in found:
        if token.text in (")", "]", "}") and stack and stack[-1].text == ",":
            stack.pop()
        stack.append(token)
        while (size := _constant(stack)) > 1:
            whole = stack[-size:]
            kind = next(part.text for part in whole if part.text in (NUMBER, STRING))
            content = "".join(part.name for part in whole if part.text == STRING)
            stack[-size:] = [Token(kind, whole[0].begin, whole[-1].end, content)]
    return [_without_message(token) if token.text == STRING else token for token in stack]


def _without_message(token: Token) -> Token:
    """A text as what is compared: only the name of an operator cannot be put in other words."""
    content = token.name
    return Token(f'"{content}"' if _OPERATOR.fullmatch(content) else STRING, token.begin, token.end)


def _constant(stack: list[Token]) -> int:
    """How many tokens at the end of the stack are one constant; 0 if they are none that could be shortened."""
    last = [token.text for token in stack[-3:]]
    earlier = [token.text for token in stack[-4:-3]]
    if last[-2:] == [STRING, STRING]:
        return 2
    if len(last) == 3:
        left, middle, right = last
        if (left == right == NUMBER and middle in _ARITHMETIC) or (left == right == STRING and middle == "+"):
            return 3
        if left == "(" and right == ")" and middle in (NUMBER, STRING):
            called = bool(earlier) and (earlier[0] in _OPERAND or earlier[0].isidentifier())
            return 0 if called and earlier[0] not in ("return", "in", "and", "or", "not", "else") else 3
        before = left == "return" or (left not in _OPERAND and not left.isidentifier())
        if middle == "-" and right == NUMBER and before:
            return 2
    return 0
