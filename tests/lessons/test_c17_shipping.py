"""What chapter 17 and its checks take for granted: where the tables of older versions end, and the boxes of its drawing."""

from __future__ import annotations

import re

from oplab.toolchain.headers import ort_include
from tests.support import ROOT

CPP = ROOT / "notebooks" / "cpp"
# A comment's "\since Version 1.17." is about the function after it.
_ENTRY = re.compile(
    r"\\since Version 1\.(\d+)|ORT_API2_STATUS\((\w+)|ORT_CLASS_RELEASE2?\((\w+)\)|\(ORT_API_CALL\* *(\w+)\)"
)


def table() -> list[tuple[str, int]]:
    """The functions of OrtApi in their order, each with the version that its comment names, or 0."""
    text = (ort_include() / "onnxruntime_c_api.h").read_text(encoding="utf-8")
    start = text.index("struct OrtApi {")
    found, since = [], 0
    for version, *names in _ENTRY.findall(text[start : text.index("\n};", start)]):
        if version:
            since = int(version)
        else:
            found.append(("".join(names), since))
            since = 0
    assert found[0][0] == "CreateStatus" and len(found) > 250
    return found


def test_the_older_tables_end_where_the_headers_say():
    """Each branch of end_of_table: all before the function is old enough, and the function is not."""
    program = (CPP / "17_older_runtime.cpp").read_text(encoding="utf-8")
    ends = re.findall(r"newest < (\d+)\) return offsetof\(OrtApi, (\w+)\)", program)
    assert [int(version) for version, _ in ends] == [17, 18, 20]
    functions = table()
    for version, name in ends:
        place = [each for each, _ in functions].index(name)
        assert functions[place][1] == int(version)
        assert max(since for _, since in functions[:place]) < int(version)


def test_parallel_for_is_as_new_as_the_kernel_assumes():
    kernel = (CPP / "17_my_add.h").read_text(encoding="utf-8")
    assert f"api_version >= {dict(table())['KernelContext_ParallelFor']}" in kernel
