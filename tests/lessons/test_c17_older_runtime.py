"""What plays an older ONNX Runtime in chapter 17's checks: its numbers are places in the table of functions that the headers describe."""

from __future__ import annotations

import re
from pathlib import Path

from oplab import checks
from oplab.toolchain.headers import api_version, ort_include

SOURCE = (Path(checks.__file__).parent / "older_runtime.cpp").read_text(encoding="utf-8")
# A comment's "\since Version 1.17." is about the function after it; a function without one is as new as the one before it.
_ENTRY = re.compile(
    r"\\since Version 1\.(\d+)|ORT_API2_STATUS\((\w+)|ORT_CLASS_RELEASE2?\((\w+)\)|\(ORT_API_CALL\* ?(\w+)\)"
)


def table() -> list[tuple[str, int]]:
    """The functions of OrtApi in their order, each with the version in which it is new (0: before 1.11)."""
    text = (ort_include() / "onnxruntime_c_api.h").read_text(encoding="utf-8")
    start = text.index("struct OrtApi {")
    found, since = [], 0
    for version, *names in _ENTRY.findall(text[start : text.index("\n};", start)]):
        if version:
            since = int(version)
        else:
            found.append(("".join(names), since))
    return found


def test_the_places_in_the_table():
    entries = table()
    names = [name for name, _ in entries]
    number = {name: int(value) for name, value in re.findall(r"(k\w+) = (\d+)", SOURCE)}
    assert names[0] == "CreateStatus"
    assert names.index("CustomOpDomain_Add") == number["kCustomOpDomainAdd"]
    assert names.index("KernelContext_ParallelFor") == number["kParallelFor"]
    if api_version(ort_include()) == 21:
        assert len(names) == number["kEntries"]


def test_what_is_new_in_each_version():
    first: dict[int, int] = {}
    for place, (_, version) in enumerate(table()):
        if version:
            first.setdefault(version, place)
    written = {int(version): int(place) for version, place in re.findall(r"\{(\d+), (\d+)\}", SOURCE)}
    assert written == {version: place for version, place in first.items() if version in written}
    assert set(written) == {version for version in first if version <= 20}
    called = [int(version) for version in re.findall(r"beyond<(\d+)>[,}]", SOURCE)]
    assert called == list(written), "one function for each version, in the same order"
