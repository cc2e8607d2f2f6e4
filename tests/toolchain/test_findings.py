"""Sanitizers' and Python's last words, cut to the learner's line. The real tools run in test_diagnostics.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from oplab.toolchain.findings import python_finding, sanitizer_finding

GCC = """
==71==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x604000116400 at pc 0x7fb7 bp 0x7ffd sp 0x7ffd
WRITE of size 4 at 0x604000116400 thread T0
    #0 0x7fb7cd30eaec in twice(Tensor<float> const&) /course/exercises/csrc/c12_twice.cpp:2
    #1 0x7fb7cd30 in operator() /include/onnxruntime_lite_custom_op.h:910
0x604000116400 is located 0 bytes to the right of 48-byte region [0x6040001163d0,0x604000116400)
"""
CLANG = GCC.replace("cpp:2", "cpp:2:17").replace("to the right of", "after").replace("WRITE", "READ")
ELSEWHERE = GCC.replace("c12_twice.cpp", "another.cpp")
UBSAN = """
/course/exercises/csrc/c12_twice.cpp:2:9: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'
    #0 0x7f32 in twice /course/exercises/csrc/c12_twice.cpp:2
"""
POINTER = "/course/c12_twice.cpp:2:9: runtime error: load of misaligned address 0x7ffd5ff26508 for type 'float'\n"
IN_A_HEADER = (
    "/usr/include/c++/12/bits/stl_vector.h:1124:34: runtime error: reference binding to null pointer\n"
    + GCC.split("thread T0")[1]
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c12_twice.cpp"
    path.write_text("void twice() {\n  y[n] = 2;\n}\n")
    return path


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            GCC,
            "AddressSanitizer: heap-buffer-overflow, a write of 4 bytes that begins 0 bytes after a block of 48 bytes",
        ),
        (
            CLANG,
            "AddressSanitizer: heap-buffer-overflow, a read of 4 bytes that begins 0 bytes after a block of 48 bytes",
        ),
        (
            UBSAN,
            "UndefinedBehaviorSanitizer: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'",
        ),
        (POINTER, "UndefinedBehaviorSanitizer: load of misaligned address for type 'float'"),
        (IN_A_HEADER, "UndefinedBehaviorSanitizer: reference binding to null pointer"),
    ],
)
def test_the_finding_and_its_line(report, said, file):
    assert sanitizer_finding("noise\n" + report, file) == f"{said} (c12_twice.cpp, line 2):\n    2 | y[n] = 2;"


def test_a_finding_outside_of_the_file_says_so(file):
    assert sanitizer_finding(ELSEWHERE, file).endswith("The report names no line of c12_twice.cpp.")


def test_no_finding(file):
    assert sanitizer_finding("Segmentation fault", file) == ""


def test_python_names_the_innermost_line_of_the_file(file):
    report = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
        f'  File "/lib/ctypes/__init__.py", line 519 in string_at\n  File "{file}", line 2 in inner\n'
        f'  File "{file}", line 3 in outer\n'
    )
    assert python_finding(report, file) == "Python was in inner (c12_twice.cpp, line 2):\n    2 | y[n] = 2;"
    assert python_finding(report.replace("Fatal", "A"), file) == ""
    assert python_finding("", file) == ""
