"""Headers that are precompiled: when, for what, and that nothing but the time changes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from oplab.toolchain import precompiled as module
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.diagnostics import BuildFailed
from oplab.toolchain.one_file import Compiled, compiled
from oplab.toolchain.precompiled import Precompiled, precompiled
from oplab.toolchain.recipes import recipe
from tests.support import ROOT

SOURCE = ROOT / "solutions" / "csrc" / "c12_my_add.cpp"
FIRST = "#include <onnxruntime_lite_custom_op.h>"
GCC = replace(find_compiler(), family="gcc")
HOW = recipe("ort")
pytestmark = pytest.mark.skipif(find_compiler().family != "gcc", reason="only GCC looks for precompiled headers")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "precompiled"
    monkeypatch.setattr(module, "headers_folder", lambda: folder)
    return folder


def asked(text: str, times: int = 1, **changes: object) -> Precompiled | None:
    found = None
    for _ in range(times):
        found = precompiled(GCC, replace(HOW, **changes), text.encode())
    return found


def built(tmp_path: Path, text: str, cache: str = "cache") -> Compiled:
    """The library of a source in a separate folder."""
    source = tmp_path / "exercise" / "c12_own.cpp"
    source.parent.mkdir(exist_ok=True)
    source.write_text(text)
    return compiled(source, text.encode(), "ort", cache=tmp_path / cache)


def test_it_is_made_when_it_is_asked_for_the_second_time():
    assert asked(FIRST) is None
    made = asked(FIRST)
    assert made is not None and made == asked(FIRST)
    assert [file.name for file in made.folder.rglob("*.gch")] == ["onnxruntime_lite_custom_op.h.gch"]
    assert any(name.endswith("/onnxruntime_cxx_api.h") for name in made.read)
    assert not [name for name in made.read if "precompiled" in name]


def test_comments_may_come_before_it():
    for begins in ("", "\ufeff", "// a comment\n\n", "/* two\n * lines */ // and one\n", '// "quoted" // twice\r\n\t'):
        match = module._FIRST.match((begins + FIRST).removeprefix("\ufeff").encode())
        assert match and match[1] == b"onnxruntime_lite_custom_op.h", begins


def test_a_file_that_begins_with_something_else_has_none(own_folder: Path):
    for begins in ("#define A 1\n", "#include <cmath>\n", "// ", "int a;\n", "/* "):
        assert asked(begins + FIRST, times=2) is None, begins
    assert asked("", times=2) is None
    assert not own_folder.exists()


def test_other_compilers_have_none(own_folder: Path):
    assert precompiled(replace(GCC, family="clang"), HOW, FIRST.encode()) is None
    assert not own_folder.exists()


def test_what_each_stub_begins_with_is_precompiled():
    """Or it is a header of the standard library, which costs little."""
    stubs = sorted((ROOT / "exercises" / "csrc").glob("c*.cpp"))
    assert stubs
    for stub in stubs:
        name = module._FIRST.match(stub.read_bytes())[1].decode()
        assert name in module.HEADERS or name.startswith("c") and "." not in name, stub.name


@pytest.mark.nightly
def test_the_library_is_the_same(tmp_path: Path):
    text = SOURCE.read_text()
    without = built(tmp_path, text, "first")
    using = [built(tmp_path, text, cache) for cache in ("second", "third")][-1]
    assert list((tmp_path / "precompiled").rglob("*.gch"))
    assert using.library.read_bytes() == without.library.read_bytes()


@pytest.mark.nightly
def test_another_header_includes_it_again(tmp_path: Path):
    text = SOURCE.read_text().replace(FIRST, f'{FIRST}\n#include "oplab_kernel.h"', 1)
    assert text.startswith("//") and FIRST in text
    for cache in ("first", "second", "third"):
        found = built(tmp_path, text, cache)
    assert list((tmp_path / "precompiled").rglob("*.gch")) and found.library.is_file()


@pytest.mark.nightly
def test_it_is_used(tmp_path: Path):
    """The compiler says so: with a file that it cannot use in the header's place, it warns."""
    made = asked(FIRST, times=2)
    header = made.folder / "onnxruntime_lite_custom_op.h.gch"
    header.write_bytes(header.read_bytes()[:4096])
    with pytest.raises(BuildFailed, match="gch|precompiled|PCH"):
        built(tmp_path, SOURCE.read_text())


@pytest.mark.nightly
def test_what_it_has_read_is_in_the_record(tmp_path: Path):
    """A header of csrc decides whether a library of the cache is current, and the grader whether an exercise may include it."""
    text = (ROOT / "solutions" / "csrc" / "c14_fuse_my_add.cpp").read_text()
    without, _, using = (built(tmp_path, text + f"// {number}\n") for number in range(3))
    assert list((tmp_path / "precompiled").rglob("oplab_kernel.h.gch"))
    assert ROOT / "csrc" / "ort_ops" / "oplab_kernel.h" in using.read
    assert using.read == without.read


def test_a_changed_header_is_precompiled_again(tmp_path: Path, own_folder: Path):
    csrc = tmp_path / "csrc"
    csrc.mkdir()
    (csrc / "oplab_kernel.h").write_text("#pragma once\ninline int answer() { return 1; }\n")
    changes = {"flags": (*HOW.flags, f"-I{csrc}"), "includes": (csrc,)}
    changes["flags"] = tuple(flag for flag in changes["flags"] if "ort_ops" not in flag)
    old = asked('#include "oplab_kernel.h"\n', times=2, **changes)
    (csrc / "oplab_kernel.h").write_text("#pragma once\ninline int answer() { return 2; }\n")
    assert asked('#include "oplab_kernel.h"\n', **changes) is None
    new = asked('#include "oplab_kernel.h"\n', **changes)
    assert new.folder != old.folder
    assert not old.folder.exists(), "each takes 100 MB"


@pytest.mark.nightly
def test_a_neighbour_of_the_same_name_comes_first(tmp_path: Path):
    text = '#include "oplab_kernel.h"\n' + 'extern "C" int RegisterCustomOps() { return OF_THE_NEIGHBOUR; }\n'
    asked(text, times=2)
    neighbour = tmp_path / "exercise" / "oplab_kernel.h"
    neighbour.parent.mkdir()
    neighbour.write_text("#define OF_THE_NEIGHBOUR 1\n")
    assert neighbour in built(tmp_path, text).read


def test_one_that_cannot_be_made_is_not_tried_again(tmp_path: Path, own_folder: Path):
    csrc = tmp_path / "csrc"
    csrc.mkdir()
    (csrc / "oplab_kernel.h").write_text("#error no\n")
    changes = {"flags": tuple(re.sub(r"^-I.*ort_ops$", f"-I{csrc}", flag) for flag in HOW.flags), "includes": (csrc,)}
    assert asked('#include "oplab_kernel.h"\n', times=2, **changes) is None
    assert [file.read_text() for file in own_folder.rglob("*.asked")] == ["failed"]
    assert asked('#include "oplab_kernel.h"\n', **changes) is None
