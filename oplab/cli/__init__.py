"""The ``oplab`` command."""
