"""One HTML page that needs nothing else: no other file, no script, no network."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib import resources
from typing import Any

from oplab.grading.text import MARKS
from oplab.reports import common


def render(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The page: points by chapter, then each exercise with its message, its named checks and its graphs.

    Everything from the results is escaped. Graphs are images in data addresses, where no script runs, and the page's
    content security policy forbids scripts and every request.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(
        resources.files("oplab.reports").joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    groups = []
    for stem, entries in common.chapters(results):
        points, max_points = common.points(entries)
        groups.append(
            {
                "anchor": f"c{stem[:2]}",
                "title": common.title(stem, titles),
                "points": points,
                "max_points": max_points,
                "passed": sum(entry["status"] == "passed" for entry in entries),
                "exercises": [_exercise(entry) for entry in entries],
            }
        )
    return template.render(
        results=results, chapters=groups, summary=common.summary(results), open_points=common.open_points(results)
    )


def _exercise(entry: common.Entry) -> dict[str, Any]:
    return {
        **entry,
        "mark": MARKS[entry["status"]],
        "state": common.WORDS[entry["status"]],
        "own_message": common.own_message(entry),
        "failed_checks": common.failed(entry),
        "passed_checks": common.passed(entry),
        "pictures": [
            {
                "name": graph["name"],
                "data": "data:image/svg+xml;base64," + base64.b64encode(graph["svg"].encode()).decode(),
            }
            for graph in entry.get("graphs", ())
        ],
    }
