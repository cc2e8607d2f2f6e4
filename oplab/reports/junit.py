"""JUnit XML, which CI servers show: a test suite for each chapter, a test case for each exercise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from oplab.grading.text import word
from oplab.reports import common

# XML 1.0 has no way to write these, not even escaped.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The report as XML. A wrong answer is a ``failure``; what did not run to its end is an ``error``; a stub is ``skipped``."""
    root = ET.Element("testsuites", name="oplab", **_counts(results["exercises"]))
    for stem, entries in common.chapters(results):
        suite = ET.SubElement(root, "testsuite", name=_clean(common.title(stem, titles)), **_counts(entries))
        for entry in entries:
            case = ET.SubElement(
                suite, "testcase", classname=f"c{stem}", name=entry["id"], time=f"{entry['seconds']:.3f}"
            )
            properties = ET.SubElement(case, "properties")
            for name in ("points", "max_points"):
                ET.SubElement(properties, "property", name=name, value=str(entry[name]))
            kind = _kind(entry["status"])
            if kind:
                line = entry["message"].splitlines()[0] if entry["message"] else word(entry["status"])
                result = ET.SubElement(case, kind, message=_clean(line))
                if kind != "skipped":
                    result.set("type", entry["status"])
                result.text = _clean(common.plain(entry))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _kind(status: str) -> str | None:
    return {"passed": None, "failed": "failure", "todo": "skipped"}.get(status, "error")


def _counts(entries: list[common.Entry]) -> dict[str, str]:
    kinds = [_kind(entry["status"]) for entry in entries]
    return {
        "tests": str(len(entries)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{sum(entry['seconds'] for entry in entries):.3f}",
    }


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
