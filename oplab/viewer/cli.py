"""``oplab show MODEL.onnx [OTHER.onnx] [-o FILE]``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from oplab.errors import OplabError


def cli_show(paths: Sequence[str | Path], output: str | Path | None = None) -> None:
    """Show one model, or compare two.

    Args:
        paths: one or two model files.
        output: a file to write, ending in .svg, .png or .html. Without it a browser opens, and the call returns when the
            user presses Ctrl-C.

    Raises:
        OplabError: the files cannot be shown, or the output not be written.
    """
    from oplab.viewer.view import show

    if not 1 <= len(paths) <= 2:
        raise OplabError(f"{len(paths)} models were given; show draws one, or compares two.", "Pass one or two files.")
    title = Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} → {Path(paths[1]).name}"
    view = show(*paths, title=title)
    if output is not None:
        print(f"{view.save(Path(output))}: {view.text.splitlines()[0]}")
        return
    try:
        address = view.open()
        print(f"{view.text.splitlines()[0]}\n{address}\nPress Ctrl-C to end.", flush=True)
        while True:  # short naps: a Ctrl-C that comes while the interpreter is about to sleep wakes nobody
            time.sleep(0.5)
    except KeyboardInterrupt:
        print()
