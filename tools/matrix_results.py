"""What ``make matrix`` makes of what has run: the reason in a log, the outcome of a lesson, and the tables."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import extras

WIDTH = 200  # characters of a reason
COLOURS = re.compile(r"(?:\x1b|#x1B)\[[0-9;]*m")
CPP = re.compile(r"/onnxruntime_src/\S+:\d+ .*?\) (?=[A-Z])")  # where in ONNX Runtime, and in which C++ function
# A lesson's first cell prints them. Of the line, pytest leaves out what is far from a difference, at both ends.
OWN_VERSIONS = re.compile(r"[-+] +(?:torch \d\S* +onnx\b|\w*runtime \d\S* +onnxscr)")
COURSE = re.compile(r"/[^\s\[\]'\"]*/combinations/[^/\s]+/course/")  # a combination's copy of the course


def first_line(text: str) -> str:
    """The first line that says something, shortened, without colours."""
    plain = COLOURS.sub("", text)
    plain = CPP.sub("", plain)
    plain = COURSE.sub("", plain)
    line = next((line.strip() for line in plain.splitlines() if line.strip(" -")), "no reason was given")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def collect(out: Path, wanted: Sequence[str], printed: str) -> dict[str, dict[str, str]]:
    """The outcomes in a file that ``oplab check --json`` wrote; ``printed`` is the reason where it wrote none."""
    read = extras.recorded(out)
    outcomes = {each["id"]: each for each in read["exercises"]} if isinstance(read, dict) else {}
    found = {}
    for id in wanted:
        outcome = outcomes.get(id)
        if outcome is None:
            last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
            found[id] = {"status": "not graded", "why": first_line(last)}
        elif outcome["status"] == "passed":
            found[id] = {"status": "passed", "why": ""}
        else:
            failed = [check["message"] for check in outcome.get("checks", ()) if not check["passed"]]
            found[id] = {"status": outcome["status"], "why": first_line("\n".join([outcome["message"], *failed]))}
    return found


def changed_lines(text: str) -> list[str]:
    """The lines with - or + of what nbval says about a cell."""
    return [line.strip() for line in text.splitlines() if re.match(r"\s*[-+] \S", line)]


def lesson_outcome(junit: Path, printed: str) -> dict[str, str]:
    """What nbval's report says: ``passed``, ``differs`` (it ran, and printed something else) or ``failed``, with the first reason."""
    try:
        cells = list(ElementTree.parse(junit).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
        return {"status": "failed", "why": first_line(f"it did not run: {last}")}
    told = []
    for cell in cells:
        for failure in (*cell.iter("failure"), *cell.iter("error")):
            text = COLOURS.sub("", failure.text or failure.get("message") or "")
            lines = changed_lines(text)
            if "Cell outputs differ" not in text or not lines or not all(map(OWN_VERSIONS.match, lines)):
                told.append((cell.get("name", "").removeprefix("Cell "), text))
    if not told:
        return {"status": "passed", "why": ""}
    raised = [(number, text) for number, text in told if "Cell outputs differ" not in text]
    number, text = (raised or told)[0]
    if raised:
        why = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    else:
        why = f"prints something else ({'; '.join(changed_lines(text)[:2]) or 'other outputs'})"
    others = f", and {len(told) - 1} more cells" if len(told) > 1 else ""
    return {"status": "failed" if raised else "differs", "why": first_line(f"cell {number}: {why}") + others}


def summary(outcome: dict[str, Any]) -> str:
    """``3 of 4 answers pass``, or for a lesson ``the lesson: passed``."""
    if "status" in outcome:
        return f"the lesson: {outcome['status']}" + (f" ({outcome['why']})" if outcome["why"] else "")
    passed = sum(each["status"] == "passed" for each in outcome.values())
    return f"{passed} of {len(outcome)} answers pass"


def number(version: str) -> tuple[int, ...]:
    """A version for sorting: ``(2, 13, 0)``."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def rows(results: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, str] | None]]:
    """For each exercise and lesson what holds in each combination, None where it did not run."""
    found: dict[str, list[dict[str, str] | None]] = {}
    for index, each in enumerate(results):
        for id, chapter in each["chapters"].items():
            for exercise, outcome in chapter["outcome"].items():
                found.setdefault(exercise, [None] * len(results))[index] = outcome
            lesson = each["lessons"].get(id)
            if lesson:
                found.setdefault(f"{id} (lesson)", [None] * len(results))[index] = lesson["outcome"]
    return dict(sorted(found.items()))


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """The table for docs/matrix.md, and after it the reason for each cell that is not ``passed``."""
    if not results:
        return "Nothing has run yet.\n"
    heads = [f"torch {each['torch']}, ORT {each['onnxruntime']}" for each in results]
    if len({each["python"] for each in results}) > 1:
        heads = [f"{head}, Python {each['python']}" for head, each in zip(heads, results, strict=True)]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    reasons: dict[str, list[str]] = {}
    for name, cells in rows(results).items():
        shown = []
        for head, cell in zip(heads, cells, strict=True):
            shown.append("–" if cell is None else cell["status"])
            if cell and cell["status"] != "passed":
                reasons.setdefault(f"{name}, {cell['status']}: {cell['why']}", []).append(head)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    lines.append("")
    for reason, where in reasons.items():
        places = "everywhere" if len(where) == len(heads) > 1 else "; ".join(where)
        lines.append(f"- `{reason.replace('`', chr(39))}` ({places})")
    if reasons:
        lines.append("")
    lines += ["| combination | packages | run on |", "|---|---|---|"]
    for head, each in zip(heads, results, strict=True):
        have = ", ".join(f"{name} {version}" for name, version in each["versions"].items())
        runs = [run for kind in ("chapters", "lessons") for run in each[kind].values()]
        dates = sorted({f"{run['date']} ({run['source']})" if run["source"] else run["date"] for run in runs})
        python = f", Python {each['python']}"
        lines.append(f"| {head.removesuffix(python)}{python} | {have} | {', '.join(dates)} |")
    return "\n".join(lines) + "\n"


def table(results: Sequence[dict[str, Any]]) -> str:
    """The rows for a terminal: what passes everywhere is one line."""
    found = rows(results)
    passed = [name for name, cells in found.items() if all(cell and cell["status"] == "passed" for cell in cells)]
    lines = [f"{len(passed)} of {len(found)} exercises and lessons pass in all {len(results)} combinations that ran."]
    for name, cells in found.items():
        for each, cell in zip(results, cells, strict=True):
            if cell and cell["status"] != "passed":
                where = f"torch {each['torch']}, ORT {each['onnxruntime']}, Python {each['python']}"
                lines.append(f"  {name}  {where}: {cell['status']}: {cell['why']}")
    missing = sum(cell is None for cells in found.values() for cell in cells)
    if missing:
        lines.append(f"  {missing} cells of the table have not run.")
    return "\n".join(lines)
