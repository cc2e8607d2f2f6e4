"""Fixtures of more than one folder."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.support")  # an assertion of a helper shows its values, too


@pytest.fixture(scope="session")
def compiled() -> None:
    """The operators of csrc/ are compiled, and PyTorch has loaded its own."""
    from oplab import ops
    from oplab.toolchain import build

    build.build_all(say=lambda line: None)
    ops.load()
