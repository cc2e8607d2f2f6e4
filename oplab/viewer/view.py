"""`show` and what it returns."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from oplab.errors import OplabError, printable
from oplab.viewer import bundle, source, svg, text
from oplab.viewer.store import MAX_WEIGHTS, Store, identify

# identifier -> digests of the models that had this picture, in the order in which they were shown
_shown: dict[str, list[str]] = {}


class View:
    """A model's graph. As the last line of a cell it shows itself.

    Attributes:
        svg: the static picture.
        alt: the picture in a sentence or two.
        text: the graph in words.
        title: the heading.
    """

    def __init__(self, sources: list[source.Source], picture: str, alt: str, words: str, title: str, height: int):
        self.svg = picture
        self.alt = printable(alt)
        self.text = printable(words)
        self.title = title
        self.height = height
        self._sources = sources

    def __repr__(self) -> str:
        return self.text

    @functools.cached_property
    def html(self) -> str:
        """The HTML of the output; making it hands the model to the Jupyter server, if there is one."""
        return bundle.html(self.svg, self.alt, self.text, self._hand_over(kernel_store()), self.height)

    def _hand_over(self, store: Store | None) -> list[str]:
        sources = [s for s in self._sources if s.payload]
        identifiers = [identify(f"{i}:{s.name}:{self.svg}") for i, s in enumerate(sources)]
        if store is None:
            return identifiers
        try:
            return [put(store, i, s) for i, s in zip(identifiers, sources, strict=True)]
        except OplabError as error:  # the picture is worth more than a traceback
            print(f"Netron is not available: {error}", file=sys.stderr)
            return identifiers

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if _in_terminal():
            return {"text/plain": f"{self.text}\n{self.url()}"}
        return {"text/html": self.html, "text/plain": self.text}

    def url(self) -> str:
        """An address on this machine where a browser shows the graph, as long as this process runs."""
        from oplab.viewer.local import server

        local = server()
        models = self._hand_over(local.store)
        return local.add(
            identify(self.svg), self.title, bundle.html(self.svg, self.alt, self.text, models, self.height)
        )

    def open(self) -> str:
        """Show the graph in a browser window, without Jupyter. Returns the address."""
        import webbrowser

        address = self.url()
        webbrowser.open(address)
        return address

    def save(self, path: str | Path) -> Path:
        """Write the picture; the ending chooses svg, png or html (one self-contained file)."""
        from oplab.viewer.export import save

        return save(self, Path(path))


def put(store: Store, identifier: str, model: source.Source) -> str:
    """Hand one model over. Different models with the same picture get different identifiers."""
    from oplab.viewer.digest import digest

    known = _shown.setdefault(identifier, [])
    mine = digest(model)
    if mine not in known:
        known.append(mine)
    number = known.index(mine)
    identifier = identifier if number == 0 else f"{identifier}-{number + 1}"
    write = model.write_weights if 0 < model.weights_size <= MAX_WEIGHTS else None
    store.put(identifier, model.name, model.suffix, model.payload, write)
    return identifier


def _in_terminal() -> bool:
    """Is this IPython in a terminal, where a picture cannot be shown but an address can?"""
    terminal = sys.modules.get("IPython.terminal.interactiveshell")
    return terminal is not None and terminal.TerminalInteractiveShell.initialized()


def kernel_store() -> Store | None:
    """The folder that this kernel's Jupyter server reads, or None outside a kernel."""
    application = sys.modules.get("ipykernel.kernelapp")
    if application is None or not application.IPKernelApp.initialized():
        return None
    connection = getattr(application.IPKernelApp.instance(), "abs_connection_file", "")
    if connection:
        return Store(Path(connection).parent)
    from jupyter_core.paths import jupyter_runtime_dir

    return Store(jupyter_runtime_dir())


def show(model: Any, after: Any = None, *, height: int = 420, title: str | None = None) -> View:
    """Show a model's graph.

    Args:
        model: a path, bytes, a ModelProto, an onnx_ir.Model, an ONNXProgram, or a traced or scripted module.
        after: a second model; then both are shown side by side, and what changed from the first to the second is marked.
        height: of the interactive view, in pixels.
        title: a heading; the model's own name if not given.

    Returns:
        a view that a notebook displays; ``.svg``, ``.text`` and ``.save(path)`` are for everything else.

    Raises:
        OplabError: the model cannot be read.
    """
    if not isinstance(height, int) or isinstance(height, bool) or not 50 <= height <= 10000:
        raise OplabError(f"height is {height!r}; it is a number of pixels from 50 to 10000.")
    if after is not None:
        from oplab.viewer.compare import compare

        both = source.load(model), source.load(after)
        return View([*both], *compare(*both, title), height)
    loaded = source.load(model)
    title = title or loaded.name
    picture, alt = svg.draw_model(loaded.model, title), text.alt(loaded.model, title)
    return View([loaded], picture, alt, text.describe(loaded.model, title), title, height)
