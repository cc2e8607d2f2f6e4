"""A Jupyter server reads answers in its own thread while the grader reads others in another one."""

from __future__ import annotations

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from oplab.course.parsing import parse
from tests.support import ROOT


@pytest.fixture
def turns():
    """Threads take turns in the middle of building a tree: where the garbage collector runs Python code, as finalizers are."""

    def yield_to_others(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(yield_to_others)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(yield_to_others)


def test_two_threads_parse_at_a_time(turns):
    # With ast.parse itself, Python 3.11 fails here: SystemError, "AST constructor recursion depth mismatch".
    texts = [path.read_text() for path in sorted((ROOT / "solutions").glob("*.py"))] * 4
    with ThreadPoolExecutor(2) as threads:
        trees = list(threads.map(parse, texts))
    assert [len(tree.body) > 0 for tree in trees] == [True] * len(texts)


def test_a_finaliser_parses_meanwhile(turns):
    """The traceback of an exception that was not retrieved parses lines when the garbage collector finds it."""
    left, outer = [2], (ROOT / "oplab" / "paths.py").read_text()

    def nested(phase, info):
        if left[0]:
            left[0] -= 1
            ast.parse(("(" * 60) + ")" * 60)

    gc.callbacks.append(nested)
    try:
        assert len(parse(outer).body) > 5 and left == [0]
    finally:
        gc.callbacks.remove(nested)
