"""Writes the project's JupyterLab settings into this Python's environment and marks the course's notebooks as trusted.

The settings go to the environment, never to the user's home; the signatures go to ``build/jupyter``, which only
``make lab`` and ``oplab lab`` use. Without a signature JupyterLab hides a saved notebook's graphs until each cell has been run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from oplab import paths
from oplab.files import write_atomically

SETTINGS = {
    # no question about Jupyter's news, no request for them, no look for updates
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": False,
    },
    # the glossary and the README, which lessons link, as pages; "Open With > Editor" shows their text
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
}
_LOCALE = "@jupyterlab/translation-extension:plugin"


def write_overrides(prefix: Path, language: str = "") -> Path:
    """Merges SETTINGS, and a language of JupyterLab if it is given, into the environment's overrides.json; what else is there stays."""
    folder = Path(
        os.environ.get("JUPYTERLAB_DIR") or prefix / "share" / "jupyter" / "lab"
    )  # as JupyterLab looks for it
    path = folder / "settings" / "overrides.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    before = found if isinstance(found, dict) else {}
    wanted = dict(SETTINGS)
    if language and (language != "en" or _LOCALE in before):  # another course may have left its own
        wanted[_LOCALE] = {"locale": "default" if language == "en" else language}
    overrides = before | {plugin: {**before.get(plugin, {}), **values} for plugin, values in wanted.items()}
    if overrides == before:  # so it is in an image, where a learner cannot write it
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(overrides, indent=2) + "\n")
    return path


def trust(folder: Path, data_dir: Path) -> int:
    """Signs each notebook of a folder in a database of the project's own; returns how many."""
    import nbformat
    from nbformat.sign import NotebookNotary

    data_dir.mkdir(parents=True, exist_ok=True)
    notary = NotebookNotary(data_dir=str(data_dir))
    count = 0
    for path in sorted(folder.glob("*.ipynb")):
        notary.sign(nbformat.read(path, as_version=4))
        count += 1
    return count


def main() -> int:
    """Both, for the course that is found from here. Returns the exit status 0."""
    write_overrides(Path(sys.prefix))
    trust(paths.root() / "notebooks", paths.build_dir() / "jupyter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
