"""``similarity.html``: one page that needs nothing else, no script and no network."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from oplab.classes.similarity import Pair, Report, Side
from oplab.files import write_atomically

NAME = "similarity.html"
MOST = 300  # pairs on the page: with their code, more than a browser shows well


def render(report: Report) -> str:
    """The page: pairs with their code side by side, learners alike in several exercises, equal answers, those near the reference.

    Everything from learners is escaped, and the page's content security policy forbids scripts and every request.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(
        resources.files("oplab.classes").joinpath("similarity.html.j2").read_text(encoding="utf-8")
    )
    return template.render(
        report=report,
        pairs=[_pair(pair) for pair in report.pairs[:MOST]],
        left_out=max(len(report.pairs) - MOST, 0),
        together=report.together()[:MOST],
        percent=lambda share: f"{int(share * 100)} %",
    )


def write(report: Report, folder: Path, name: str = NAME) -> Path:
    """Write the page to a folder and return its path.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / name
    write_atomically(path, render(report).encode("utf-8", "replace"))
    return path


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "exercise": pair.exercise,
        "score": pair.score,
        "evidence": pair.evidence,
        "who": f"{_who(pair.first)} and {_who(pair.second)}",
        "sides": [
            {"logins": side.logins, "share": side.share, "parts": _parts(side)} for side in (pair.first, pair.second)
        ],
    }


def _who(side: Side) -> str:
    more = len(side.logins) - 1
    return f"{side.logins[0]} (+{more})" if more else side.logins[0]


def _parts(side: Side) -> list[dict[str, Any]]:
    """The text in parts, with the number of the passage or 0."""
    parts, place = [], 0
    for mark in side.marks:
        parts.append({"number": 0, "text": side.text[place : mark.begin]})
        parts.append({"number": mark.number, "text": side.text[mark.begin : mark.end]})
        place = mark.end
    parts.append({"number": 0, "text": side.text[place:].rstrip("\n")})
    return [part for part in parts if part["text"]]
