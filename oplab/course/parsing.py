"""Python text as a syntax tree, in a process that has several threads."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(text: str | bytes, name: str = "<unknown>") -> ast.Module:
    """``ast.parse`` in one thread at a time.

    Python 3.11 counts the depth of the tree that it builds once for all threads. When another thread parses meanwhile, both may
    end with ``SystemError: AST constructor recursion depth mismatch``.

    Args:
        text: of a module.
        name: the file, for the message of a SyntaxError.

    Raises:
        SyntaxError: the text is not valid Python.
        ValueError: the text contains null bytes.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(text, name)
