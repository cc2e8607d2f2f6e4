"""Fixtures of more than one folder, and how the tests are shared out among pytest-xdist's workers."""

from __future__ import annotations

import os
import random
import re
import sys
import zlib
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support")  # an assertion of a helper shows its values, too

# `make test` draws the same inputs for a commit each time; `make test-all` sets another number in each run, and prints it.
os.environ.setdefault("OPLAB_SEED", "20261121")

_EXERCISE = re.compile(r"\[(c[\dA]\d\.\w+)")


def scope_of(test: str) -> str:
    """The unit of work that a test belongs to: its file, and in a test of one exercise (``[c13.grid-…]``) that exercise, too.

    A worker runs a unit from its first test to its last. The known answers are a third of all the work and in one file, which
    would keep one worker busy long after the others are done.
    """
    file = test.rpartition("::")[0]
    exercise = _EXERCISE.search(test)
    return f"{file}[{exercise[1]}]" if exercise else file


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist, too
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByExercise(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return ByExercise(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What a test's random inputs are drawn with: 31 bits from its name and ``OPLAB_SEED``."""
    return zlib.crc32(f"{os.environ['OPLAB_SEED']} {request.node.nodeid}".encode()) >> 1


@pytest.fixture(autouse=True)
def _draws_without_a_seed(seed: int) -> None:
    """What a test draws without a seed does not depend on the tests that the same worker ran before."""
    random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(scope="session")
def compiled() -> None:
    """The operators of csrc/ are compiled, and PyTorch has loaded its own."""
    from oplab import ops
    from oplab.toolchain import build

    build.build_all(say=lambda line: None)
    ops.load()
