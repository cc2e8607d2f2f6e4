"""Compiling a learner's C++ file: what the compiler may read, and when a compiled library is taken again."""

from __future__ import annotations

from pathlib import Path

import pytest

from oplab.errors import OplabError
from oplab.toolchain import compile as compiling
from oplab.toolchain import compiler, landlock, one_file
from oplab.toolchain.diagnostics import BuildFailed
from oplab.toolchain.one_file import compiled
from tests.support.killing import COMPILER, killed

SECRET = "char secret_of_the_solution[] = {1, 2};\n"
TINY = "int answer() { return 42; }\n"


@pytest.fixture
def build(tmp_path: Path):
    """Compiles a text as ``mine/x.cpp``, with ``solution.cpp`` next to its folder."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "solution.cpp").write_text(SECRET)

    def build(text: str, **more) -> one_file.Compiled:
        source = tmp_path / "mine" / "x.cpp"
        source.write_text(text)
        return compiled(source, text.encode(), "torch", cache=tmp_path / "cache", **more)

    return build


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were really run."""
    made: list[list[str]] = []
    run = compiler.run
    monkeypatch.setattr(compiling, "run", lambda command, **more: made.append(command) or run(command, **more))
    return made


REACHES = {
    "relative": '#include "../solution.cpp"\n',
    "absolute": '#include "{folder}/solution.cpp"\n',
    "in brackets": "#include <{folder}/solution.cpp>\n",
    "a macro": '#define WHERE "../solution.cpp"\n#include WHERE\n',
    "a link": '#include "link.h"\n',
    "through csrc": '#include "oplab_kernel.h/../../../solutions/csrc/c07_my_add.cpp"\n',
    "not C++": '#include "/etc/passwd"\n',
    "has_include": '#if __has_include("/etc/shadow")\n#error there\n#endif\n#include "../solution.cpp"\n',
}


@pytest.mark.parametrize("kernel", ["as it is", pytest.param("without Landlock", marks=pytest.mark.nightly)])
def test_a_file_outside_is_not_included_and_not_shown(build, tmp_path, monkeypatch, kernel):
    if kernel == "without Landlock":
        monkeypatch.setattr(landlock, "abi", lambda: 0)
    (tmp_path / "mine" / "link.h").symlink_to(tmp_path / "solution.cpp")
    for way, text in REACHES.items():
        with pytest.raises(BuildFailed) as caught:
            build(text.replace("{folder}", str(tmp_path)) + TINY)
        said = str(caught.value)
        assert "secret_of_the_solution" not in said and "root:" not in said, way
        if way == "through csrc":  # it is no folder
            continue
        if way != "has_include" or kernel == "as it is":
            assert "may not be included: such a file can include" in said, way


@pytest.mark.parametrize("directive", [".incbin", ".include"])
@pytest.mark.skipif(not landlock.abi(), reason="only the confinement stops the assembler")
def test_the_assembler_reads_no_file_outside(build, tmp_path, directive):
    with pytest.raises(BuildFailed) as caught:
        build(f'asm("{directive} \\"{tmp_path}/solution.cpp\\"");\n{TINY}')
    assert "secret_of_the_solution" not in str(caught.value)


@pytest.mark.skipif(not landlock.abi(), reason="there is no confinement to look at")
def test_the_compiler_writes_its_scratch_folder_alone(tmp_path, monkeypatch):
    target = tmp_path / "stolen"
    evil = tmp_path / "bin" / "evil-c++"
    evil.parent.mkdir()
    real = compiler.find_compiler().command[0]
    evil.write_text(
        f'#!/bin/sh\ncase "$1" in -dM) exec {real} "$@";; esac\necho mine > here && echo x > {target}\nexec {real} "$@"\n'
    )
    evil.chmod(0o755)
    monkeypatch.setenv("CXX", str(evil))
    source = tmp_path / "x.cpp"
    source.write_text(TINY)
    compiled(source, TINY.encode(), "torch", cache=tmp_path / "cache")
    assert not target.exists()


def test_the_text_that_was_read_is_compiled_and_messages_name_the_file(tmp_path, monkeypatch):
    source = tmp_path / "x.cpp"
    source.write_text("int changed_since;\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuildFailed, match=r"^x\.cpp:2:13: error: 'missing' was not declared"):
        compiled(source, b"// 1\nint two = { missing };\n", "torch", cache=tmp_path / "cache")
    compiled(source, TINY.encode(), "torch", cache=tmp_path / "cache")


class TestCache:
    def test_a_header_that_a_macro_names_is_part_of_the_key(self, build, tmp_path, calls):
        own = tmp_path / "mine" / "own.h"
        text = f'#define OWN "own.h"\n#include OWN\n{TINY}'
        own.write_text("const int a = 1;\n")
        first = build(text)
        assert first.read == (own,) and build(text) == first and len(calls) == 1
        own.write_text("const int a = 2;\n")
        second = build(text)
        assert second.library != first.library and len(calls) == 2
        own.write_text("const int a = 1;\n")
        assert build(text) == first and len(calls) == 2, "both are kept"

    def test_a_file_that_comes_first_from_now_on_is_noticed(self, build, tmp_path, calls):
        text = f'#include "torch_kernel.h"\n{TINY}'
        first = build(text)
        (tmp_path / "mine" / "torch_kernel.h").write_text("const int mine = 1;\n")
        assert build(text).read == (tmp_path / "mine" / "torch_kernel.h",) != first.read
        assert len(calls) == 2

    def test_a_library_that_is_not_what_was_made_is_made_again(self, build, calls):
        library = build(TINY).library
        right = library.read_bytes()
        library.write_bytes(right[:-1] + b"x")
        assert build(TINY).library.read_bytes() == right and len(calls) == 2

    def test_a_broken_record_is_made_again(self, build, tmp_path, calls):
        build(TINY)
        (record,) = (tmp_path / "cache").glob("*.json")
        for text in ("", "[]", '{"variants": [{"library": 3}]}', '{"variants": [{"read": []}]}'):
            record.write_text(text)
            build(TINY)
        assert len(calls) == 5


def test_a_course_inside_of_a_system_folder_hides_its_solutions(tmp_path):
    for part in ("lib", "src/course/solutions", "src/course/csrc", "src/other"):
        (tmp_path / part).mkdir(parents=True)
    found = landlock.around(str(tmp_path), [str(tmp_path / "src/course/solutions")])
    assert found == [str(tmp_path / part) for part in ("lib", "src/course/csrc", "src/other")]


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_killed_compiler_is_not_the_sources_fault(tmp_path):
    """A system that is out of memory kills the largest process, which is often the compiler."""
    source = tmp_path / "c12_waits.cpp"
    source.write_text('#include "endless.h"\n')

    with (
        killed(*COMPILER, gate=tmp_path / "endless.h"),
        pytest.raises(OplabError, match="The compiler was killed from outside"),
    ):
        compiled(source, source.read_bytes(), "cpp", cache=tmp_path / "cache")
