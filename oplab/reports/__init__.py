"""Reports of one run. Each is made from the dict that ``results.json`` holds, so that all of them agree.

:data:`FORMATS` maps a format's name to a function ``render(results, titles) -> str``; ``results`` is what
:meth:`oplab.grading.results.Results.as_dict` returns, ``titles`` maps a chapter's stem to its title and may be empty.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from oplab.errors import OplabError
from oplab.files import write_atomically

Render = Callable[[Mapping[str, Any], Mapping[str, str]], str]
FORMATS = ("json", "junit", "html", "gradescope", "markdown")


def render(format: str, results: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The text of a report.

    Args:
        format: one of :data:`FORMATS`.
        results: the dict of ``results.json``.
        titles: chapter stem to title, for people; stems are shown where there is none.
    """
    if format == "json":
        return json.dumps(results, indent=1) + "\n"
    if format not in FORMATS:
        raise ValueError(f"there is no report format {format!r}")
    return importlib.import_module(f"oplab.reports.{format}").render(results, titles or {})


def check_targets(targets: Mapping[str, Path]) -> None:
    """Check before a long run that the reports can be written.

    Args:
        targets: format to file; ``-`` is stdout.
    """
    seen: dict[str, str] = {}
    for format, path in targets.items():
        place = "-" if str(path) == "-" else str(path.resolve())
        if place in seen:
            what = "stdout" if place == "-" else str(path)
            raise OplabError(f"--{seen[place]} and --{format} both go to {what}.", "Give each its own file.")
        seen[place] = format
        if place == "-":
            continue
        if path.is_dir():
            raise OplabError(f"{path} cannot be written: it is a folder.", "Name a file.")
        if not path.parent.is_dir():
            raise OplabError(
                f"{path} cannot be written: the folder {path.parent} does not exist.",
                "Create it, or name another file.",
            )


def write(
    results: Mapping[str, Any], targets: Mapping[str, Path], titles: Mapping[str, str] | None = None
) -> list[str]:
    """Write each report to its file, whole or not at all.

    Returns:
        a sentence for each file that could not be written; the other files are written.

    Raises:
        BrokenPipeError: the reader of stdout has gone.
    """
    problems = []
    for format, path in targets.items():
        text = render(format, results, titles)
        try:
            if str(path) == "-":
                sys.stdout.write(text)
                sys.stdout.flush()
            elif path.exists() and not path.is_file():  # a pipe or a device: it must not be replaced by a file
                path.write_text(text, encoding="utf-8")
            else:
                write_atomically(path.resolve(), text)  # resolved: a link stays a link
        except BrokenPipeError:
            raise
        except OSError as error:
            problems.append(f"{path} cannot be written: {error.strerror}.")
    return problems


def read(path: Path) -> dict[str, Any]:
    """The content of a ``results.json`` from an earlier run."""
    import jsonschema

    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.", "`oplab check --json F` writes one.") from None
    except (ValueError, RecursionError) as error:
        raise OplabError(f"{path} is not JSON: {error}.", "`oplab check --json F` writes one.") from None
    schema = json.loads(resources.files("oplab.grading").joinpath("results.schema.json").read_text(encoding="utf-8"))
    try:
        jsonschema.validate(results, schema)
    except jsonschema.ValidationError as error:
        place = "/".join(map(str, error.absolute_path)) or "the whole file"
        raise OplabError(
            f"{path} is not a results file of this version: {place}: {error.message[:200]}.",
            "`oplab check --json F` writes one.",
        ) from None
    return results
