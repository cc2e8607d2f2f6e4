"""Markdown for a pull request or a class forum: a table, and the details of what did not pass folded away."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from oplab.grading.text import MARKS, word
from oplab.reports import common


def render(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The report in GitHub's dialect of Markdown. Messages are in fenced blocks that they cannot close."""
    lines = [f"**{common.summary(results)}**", ""]
    if common.open_points(results):
        lines += [f"> {common.open_points(results)}", ""]
    lines += ["| | exercise | points | state |", "|---|---|---:|---|"]
    for stem, entries in common.chapters(results):
        points, max_points = common.points(entries)
        lines.append(f"| | **{_cell(common.title(stem, titles))}** | **{points}/{max_points}** | |")
        for entry in entries:
            lines.append(
                f"| {MARKS[entry['status']]} | `{entry['id']}` | {entry['points']}/{entry['max_points']} "
                f"| {word(entry['status'])} |"
            )
    for entry in results["exercises"]:
        if entry["status"] not in ("passed", "todo"):
            text = common.plain(entry)
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            lines += [
                "",
                f"<details><summary>{MARKS[entry['status']]} <code>{html.escape(entry['id'])}</code>: "
                f"{word(entry['status'])}</summary>",
                "",
                f"{fence}text",
                text,
                fence,
                "",
                "</details>",
            ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text that stays text inside a table's cell."""
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text)
