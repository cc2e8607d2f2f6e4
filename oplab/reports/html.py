"""One HTML page that needs nothing else: no other file, no script, no network."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oplab.grading.text import MARKS, word
from oplab.reports import common

if TYPE_CHECKING:
    import jinja2


def render(
    results: Mapping[str, Any], titles: Mapping[str, str], *, heading: str = "", notes: Sequence[str] = ()
) -> str:
    """The page: points by chapter, then each exercise with its message, its named checks and its graphs.

    Everything from the results is escaped. Graphs are images in data addresses, where no script runs, and the page's
    content security policy forbids scripts and every request.

    Args:
        heading: whose results these are; the course's name if left out.
        notes: sentences below the heading.
    """
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
    return template(__package__, "page.html.j2").render(
        results=results,
        chapters=groups,
        summary=common.summary(results),
        open_points=common.open_points(results),
        heading=heading or "Operator Lab",
        notes=notes,
    )


@functools.cache
def template(package: str, name: str) -> jinja2.Template:
    """A template, compiled. It escapes whatever it prints, and may include the files of ``oplab.reports``."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(folder, ".") for folder in dict.fromkeys((package, __package__))])
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.get_template(name)


def _exercise(entry: common.Entry) -> dict[str, Any]:
    return {
        **entry,
        "mark": MARKS[entry["status"]],
        "state": word(entry["status"]),
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
