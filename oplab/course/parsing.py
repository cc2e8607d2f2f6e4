"""Python text as a syntax tree, in a process that has several threads."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()
_TRIES = 10


def parse(text: str | bytes, name: str = "<unknown>") -> ast.Module:
    """``ast.parse`` in one thread at a time, and again where Python has lost count.

    Python 3.11 counts the depth of the tree that it builds once for the whole process. When something else parses meanwhile, it ends
    with ``SystemError: AST constructor recursion depth mismatch``, whatever the text is. Other threads can be kept out, but not Python
    itself: a traceback that it formats parses the line that it shows, in another thread or in a finaliser that the garbage collector calls.

    Raises:
        SyntaxError: the text is not valid Python.
        ValueError: the text contains null bytes.
    """
    with _ONE_AT_A_TIME:
        for _ in range(_TRIES - 1):
            try:
                return ast.parse(text, name)
            except SystemError as error:
                if "recursion depth mismatch" not in str(error):
                    raise
        return ast.parse(text, name)
