"""What a kernel of this environment says before a lesson's first cell has run, as after a restart.

``etc/ipython/startup/oplab.ipy``, which the package installs, loads it into each kernel.
"""

from __future__ import annotations

from typing import Any

from oplab.errors import OplabError

_FIRST = ("The kernel has not run this notebook's first cell.", "Run the first cell, then this one.")


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext``: a NameError about ``lab`` and ``%%exercise`` become a sentence."""
    shell.set_custom_exc((NameError,), _show)
    shell.register_magic_function(_exercise, "cell", "exercise")


def _show(shell: Any, kind: type[NameError], error: NameError, trace: Any, tb_offset: int | None = None) -> None:
    if error.name == "lab":
        kind, error = OplabError, OplabError(*_FIRST)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)


def _exercise(line: str, cell: str) -> None:
    raise OplabError(*_FIRST)
