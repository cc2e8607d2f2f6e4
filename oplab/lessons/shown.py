"""What a lesson shows: a card in a notebook, the same words as lines everywhere else."""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oplab.grading.card import difference_html, live_html


@dataclass(frozen=True)
class Card:
    """HTML and the same words as text. As the last line of a cell it shows itself.

    Attributes:
        html: for a notebook.
        text: for everything else.
    """

    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


def difference_card(title: str, difference: Sequence[str] = (), notes: Sequence[str] = ()) -> Card:
    """A title, the lines of a unified diff and sentences below it, see :func:`oplab.grading.card.difference_html`."""
    return Card(difference_html(title, difference, notes=notes), "\n".join([title, *difference, *notes]))


def ipython() -> Any:
    """IPython's shell, or None where this process has none."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def kernel() -> bool:
    """Whether this process is a notebook's kernel, in which a card can be shown and replaced."""
    return getattr(ipython(), "kernel", None) is not None


def show(card: Card) -> None:
    """Show a card in a notebook; elsewhere print its text."""
    if kernel():
        from IPython.display import display

        display(card)
    else:
        print(card.text)


class Live:
    """A ``with`` block that takes a while: a line with the seconds that have passed, until :meth:`replace` puts a card there.

    Outside of a notebook only the card's text is printed. In a block that raises, the line goes.

    Args:
        doing: what happens, for example ``Grading c04.asinh``.
        slow: what is added to it after a few seconds.
    """

    SLOW = 4

    def __init__(self, doing: str, slow: str = ""):
        self._doing, self._slow = doing, slow
        self._handle: Any = None
        self._over = threading.Event()
        self._ticking: threading.Thread | None = None

    def __enter__(self) -> Live:
        if kernel():
            from IPython.display import display

            self._began = time.monotonic()
            self._handle = display(self._line(), display_id=True)
            # A thread belongs to no cell: in a copy of this context the updates belong to the cell that runs.
            context = contextvars.copy_context()
            self._ticking = threading.Thread(target=context.run, args=(self._tick,), daemon=True)
            self._ticking.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._stop()
        if kind is not None and self._handle is not None:
            self._handle.update(Card("", ""))

    def replace(self, card: Card) -> None:
        """Show the card in the place of the line."""
        self._stop()
        if self._handle is None:
            show(card)
        else:
            self._handle.update(card)

    def _line(self) -> Card:
        seconds = int(time.monotonic() - self._began)
        more = f" {self._slow}" if self._slow and seconds >= self.SLOW else ""
        text = f"{self._doing} … {seconds} s.{more}"
        return Card(live_html(text), text)

    def _tick(self) -> None:
        while not self._over.wait(1):
            self._handle.update(self._line())

    def _stop(self) -> None:
        self._over.set()
        if self._ticking is not None:
            self._ticking.join()
