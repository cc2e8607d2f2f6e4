"""``my::Twist``, a project that `oplab new-operator` has made: y = alpha * x / (1 + x * x)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oplab.project import new, schema
from oplab.project.build import build_project
from oplab.project.layout import open_project


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "twist"
    new.create(new.Plan("twist", schema.from_options("x", "y", "alpha=0.5")), folder)
    build_project(open_project(folder), say=str)
    return folder


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "twist", symlinks=True)
