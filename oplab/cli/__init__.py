"""The ``oplab`` command."""

from oplab.cli.main import main

__all__ = ["main"]
