"""Draws rejected models in a separate process with limits, one JSON line for each. :mod:`oplab.reports.graphs` starts it.

It reads ``{"folder": …, "exercises": {id: [message, …]}, "each": 2}`` from stdin. Before a model is opened a line with the exercise's id
is printed, so that the caller knows which one was the last.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from oplab.grading import isolation

MEMORY = 3 << 30
SECONDS = 25


def main() -> None:
    """Read the job from stdin, limit this process, and print a line for each picture."""
    job = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not a picture
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    isolation.drop_privileges(())
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for id, messages in job["exercises"].items():
        _say(out, {"id": id})
        for name, data in _models(Path(job["folder"]) / id, messages)[: job["each"]]:
            svg = _draw(name, data)
            if svg is not None:
                _say(out, {"id": id, "name": name, "svg": svg})


def _say(out: Any, entry: dict[str, Any]) -> None:
    out.write(json.dumps(entry) + "\n")
    out.flush()


def _models(folder: Path, messages: list[str]) -> list[tuple[str, bytes]]:
    """The recorded models by name: those that a message names first, in the messages' order."""
    items = json.loads((folder / "evidence.json").read_text(encoding="utf-8")).get("items", {})
    found = {}
    for name, item in items.items():
        if isinstance(item, dict) and item.get("kind") == "file":
            path = folder / Path(str(item.get("file"))).name
            if path.is_file():
                found[name] = path
    named = [name for message in messages for name in found if name in message]
    order = list(dict.fromkeys(named)) or list(found)[:1]
    return [(name, found[name].read_bytes()) for name in order]


def _draw(name: str, data: bytes) -> str | None:
    from oplab.viewer import show

    try:
        return show(data, title=name).svg
    except (Exception, RecursionError):  # not a model: the outcome's message reports that
        return None
