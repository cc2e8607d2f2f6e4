"""setup.py builds of chapter 07: made once for their content, measured, and an error of the compiler that names the line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from oplab import OplabError
from oplab.toolchain.build import BuildFailed
from oplab.toolchain.extensions import build_extensions

SETUP = """\
from setuptools import Extension, setup

setup(name="small", ext_modules=[Extension(name, [f"{name}.cpp"]) for name in NAMES])
"""
SOURCE = """\
#include <Python.h>

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "small", nullptr, VALUE, nullptr};
PyMODINIT_FUNC PyInit_small() { return PyModule_Create(&module); }
"""


def folder(path: Path, source: str = SOURCE.replace("VALUE", "-1"), names: str = '["small"]') -> Path:
    path.mkdir()
    (path / "setup.py").write_text(SETUP.replace("NAMES", names))
    (path / "small.cpp").write_text(source)
    return path


def test_the_same_content_is_built_once(tmp_path):
    one = folder(tmp_path / "one")
    (made,) = build_extensions([one], cache=tmp_path / "cache")
    assert made.fresh and made.seconds > 0
    spec = importlib.util.spec_from_file_location("small", made.library)
    assert importlib.util.module_from_spec(spec).__name__ == "small"

    same = folder(tmp_path / "two")  # the folder's name is not content
    (kept,) = build_extensions([same], cache=tmp_path / "cache")
    assert (kept.library, kept.seconds, kept.fresh) == (made.library, made.seconds, False)

    (same / "unused.h").write_text("// headers are content")
    (again,) = build_extensions([same], cache=tmp_path / "cache")
    assert again.fresh and again.library != made.library


def test_an_error_names_the_learners_line(tmp_path):
    broken = folder(tmp_path / "broken", SOURCE.replace("VALUE", "missing_name"))
    with pytest.raises(BuildFailed, match="missing_name") as caught:
        build_extensions([broken], cache=tmp_path / "cache")
    assert caught.value.file.name == "small.cpp" and caught.value.line == 3
    assert not list((tmp_path / "cache").iterdir()), "nothing of a failed build is kept"


def test_no_extension_module_is_said(tmp_path):
    empty = folder(tmp_path / "empty", names="[]")
    with pytest.raises(OplabError, match=r"empty/setup\.py made 0 libraries"):
        build_extensions([empty], cache=tmp_path / "cache")
