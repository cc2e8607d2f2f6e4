"""A folder to which a release was delivered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.updated_course import deliver, release


@pytest.fixture(autouse=True)
def no_power_failure(monkeypatch):
    """Nothing waits for the disk: on a busy machine that takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder with release 0.2.0."""
    return deliver(tmp_path / "course", release())
