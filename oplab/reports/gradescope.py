"""The ``results.json`` that a Gradescope autograder writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from oplab.grading.text import word
from oplab.reports import common


def render(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The report as JSON: one test for each exercise. Students see all of it, as they do on their own machines."""
    tests = []
    numbers: dict[str, int] = {}
    for entry in results["exercises"]:
        chapter = entry["chapter"]
        numbers[chapter] = numbers.get(chapter, 0) + 1
        text = common.plain(entry)
        state = word(entry["status"])
        tests.append(
            {
                "score": entry["points"],
                "max_score": entry["max_points"],
                "status": "passed" if entry["status"] == "passed" else "failed",
                "name": entry["id"],
                "name_format": "text",
                "number": f"{chapter[:2].removeprefix('0')}.{numbers[chapter]}",
                "output": state if not text else f"{state}\n{text}",
                "output_format": "text",  # never html: a message may quote what the student wrote
                "tags": [common.title(chapter, titles)],
                "visibility": "visible",
            }
        )
    report = {
        "score": results["points"],
        "execution_time": round(sum(entry["seconds"] for entry in results["exercises"])),
        "output": "\n".join(part for part in (common.summary(results) + ".", common.open_points(results)) if part),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }
    return json.dumps(report, indent=1) + "\n"
