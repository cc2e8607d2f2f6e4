"""Make the executed notebooks from ``notebooks/src/*.py``.

    python tools/notebooks.py            all of them, two at a time
    python tools/notebooks.py 04 00      these chapters
    python tools/notebooks.py --text 04  only the text between the cells has changed: take it over, and keep the outputs
    python tools/notebooks.py --check    only say whether notebooks and sources agree

A notebook is replaced only when every cell ran; until then the old one stays. What :func:`problems` names is not written either.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import jupytext
import nbformat
from machine_dependent import findings

from oplab.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "notebooks" / "src"
CELL_LIMIT = (
    600  # seconds, here and in `make test`: the longest cells take a minute, and a machine may be five times slower
)
FORBIDDEN_TAGS = {"raises-exception", "nbval-skip", "nbval-ignore-output", "skip-execution"}
_LONG_FLOAT = re.compile(r"(?<![\w.])\d+\.\d{8,}(?!\w)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,}\b|/tmp/|/home/|site-packages")


def read_source(path: Path) -> nbformat.NotebookNode:
    """The notebook of a source: cells without outputs, ids that depend on nothing but their place and text."""
    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:12]
    return notebook


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run all cells in place, with the reference answers. Raises nbclient's errors."""
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT,
        kernel_name="python3",
        resources={"metadata": {"path": str(ROOT / "notebooks")}},
        record_timing=False,
        coalesce_streams=True,
    )
    env = {**os.environ, "OPLAB_TRACK": "solutions", "OPLAB_ROOT": str(ROOT)}
    env.pop("JPY_SESSION_NAME", None)  # a saved notebook must not look as if a live server had made it
    client.execute(env=env)
    for cell in notebook.cells:
        cell.get("metadata", {}).pop("execution", None)
    del notebook.metadata["language_info"]
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["oplab"] = {"outputs": fingerprint(notebook)}


def fingerprint(notebook: nbformat.NotebookNode) -> str:
    """A hash of which cells have which kinds of output: a notebook whose outputs were stripped no longer has it."""
    kinds = []
    for cell in code_cells(notebook):
        outputs = [sorted(output.get("data", {"text": 0})) for output in cell.outputs]
        kinds.append([cell.get("execution_count"), outputs])
    return hashlib.sha256(json.dumps(kinds).encode()).hexdigest()[:16]


def code_cells(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    return (cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip())


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Why an executed notebook cannot be trusted or compared, one sentence each; an empty list when it can."""
    found = []
    for number, cell in enumerate(code_cells(notebook), start=1):
        if cell.get("execution_count") != number:
            found.append(
                f"code cell {number} has execution count {cell.get('execution_count')}: it was not run in order"
            )
        tags = FORBIDDEN_TAGS & set(cell.metadata.get("tags", []))
        if tags or re.search(r"#\s*NBVAL_", cell.source):
            found.append(
                f"code cell {number} has the tag {', '.join(tags) or 'NBVAL'}: nothing may be skipped or expected to fail"
            )
        for output in cell.outputs:
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            if output.output_type == "error":
                found.append(f"code cell {number} ends in {output.ename}: {output.evalue}")
            if output.get("name") == "stderr":
                found.append(f"code cell {number} writes to stderr: {text.strip()[:200]}")
            if _LONG_FLOAT.search(text):
                found.append(
                    f"code cell {number} prints {_LONG_FLOAT.search(text)[0]}: round it, the last digits differ by machine"
                )
            if str(ROOT) in text:
                found.append(f"code cell {number} prints {ROOT}, the folder of this clone")
            if _ADDRESS.search(text):
                found.append(f"code cell {number} prints {_ADDRESS.search(text)[0]}, which differs by machine")
    found += findings(notebook)
    if not found and notebook.metadata.get("oplab", {}).get("outputs") != fingerprint(notebook):
        found.append("its outputs are not those that were made with it: run `make notebooks`")
    return found


def disagreement(source: Path, target: Path) -> str:
    """How a notebook differs from its source, or an empty string."""
    if not target.is_file():
        return f"{target.name} is missing"
    wanted, found = read_source(source), nbformat.read(target, as_version=4)
    if [(cell.cell_type, cell.source, cell.id) for cell in wanted.cells] != [
        (cell.cell_type, cell.source, cell.get("id")) for cell in found.cells
    ]:
        return f"the cells of {target.name} are not those of src/{source.name}"
    return ""


def make(source: Path) -> tuple[Path, float, list[str]]:
    """Execute one source and write its notebook. Returns the target, the seconds it took, and what is wrong (then nothing is written)."""
    target = ROOT / "notebooks" / f"{source.stem}.ipynb"
    started = time.monotonic()
    notebook = read_source(source)
    try:
        execute(notebook)
    except Exception as error:  # nbclient: a cell failed, ran too long, or the kernel died
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
        return target, time.monotonic() - started, [text[-3000:]]
    wrong = problems(notebook)
    if not wrong:
        write_atomically(target, nbformat.writes(notebook) + "\n")
    return target, time.monotonic() - started, wrong


def take_text(source: Path) -> str:
    """Write the source's text into its notebook, which keeps its outputs. Returns why it cannot, or an empty string."""
    target = ROOT / "notebooks" / f"{source.stem}.ipynb"
    if not target.is_file():
        return f"{target.name} is missing: run `make notebooks`."
    notebook, old = read_source(source), nbformat.read(target, as_version=4)
    cells, made = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, old))
    if [cell.source for cell in cells] != [cell.source for cell in made]:
        return f"the code of src/{source.name} has changed, too: its cells have to run."
    for cell, executed in zip(cells, made, strict=True):
        cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
    notebook.metadata = old.metadata
    write_atomically(target, nbformat.writes(notebook) + "\n")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the executed notebooks from notebooks/src.")
    parser.add_argument("chapters", nargs="*", help="numbers or stems, for example 04; all if left out")
    parser.add_argument("--check", action="store_true", help="only say whether notebooks and sources agree")
    parser.add_argument("--text", action="store_true", help="take over the text between the cells; nothing runs")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at the same time")
    args = parser.parse_args()
    sources = [
        path for path in sorted(SOURCES.glob("*.py")) if not args.chapters or path.stem.startswith(tuple(args.chapters))
    ]
    if not sources:
        print(f"No source in notebooks/src fits {' '.join(args.chapters) or 'anything'}.", file=sys.stderr)
        return 2
    if args.check:
        wrong = [text for path in sources if (text := disagreement(path, ROOT / "notebooks" / f"{path.stem}.ipynb"))]
        print(
            "\n".join(
                [*wrong, "Run `make notebooks`."] if wrong else [f"{len(sources)} notebooks agree with their sources."]
            )
        )
        return 1 if wrong else 0
    if args.text:
        wrong = [text for path in sources if (text := take_text(path))]
        print("\n".join(wrong or [f"{len(sources)} notebooks have the text of their sources."]))
        return 1 if wrong else 0
    failed = 0
    print(f"Running {len(sources)} notebooks, {args.jobs} at a time.", flush=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        waiting = {pool.submit(make, path): path for path in sources}
        for number, done in enumerate(as_completed(waiting), start=1):
            target, seconds, wrong = done.result()
            failed += bool(wrong)
            state = "NOT written" if wrong else "written"
            print(f"[{number}/{len(sources)}] {target.relative_to(ROOT)}: {state} after {seconds:.0f} s", flush=True)
            for line in wrong:
                print(f"    {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Stopped. The notebooks that were not finished are as they were.", file=sys.stderr)
        os._exit(130)
