"""The two tables of probes, and the decorators that fill them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OLD: dict[str, Callable[[], str]] = {}
NEW: dict[str, Callable[[], str]] = {}


def old(*ids: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Enter the decorated function as the proof of the status of these entries."""
    return functools.partial(_enter, OLD, ids)


def new(*ids: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Enter the decorated function as the proof that the replacement of these entries works."""
    return functools.partial(_enter, NEW, ids)


def _enter(table: dict[str, Callable[[], str]], ids: tuple[str, ...], probe: Callable[[], str]) -> Callable[[], str]:
    @functools.wraps(probe)
    def alone() -> str:
        with untouched():
            return probe()

    for id in ids:
        assert id not in table, f"two probes for {id}"
        table[id] = alone
    return alone


@contextmanager
def untouched() -> Iterator[None]:
    """The exporter's registry as PyTorch ships it: other registrations of this process are removed and restored afterwards."""
    from torch.onnx._internal.torchscript_exporter.registration import _SymbolicFunctionGroup, registry

    groups = registry._registry
    yours = {name: group for name, group in groups.items() if group._functions._overrides or not group._functions}
    for name, group in yours.items():
        del groups[name]
        if group._functions._base:
            groups[name] = plain = _SymbolicFunctionGroup(name)
            for version, function in group._functions._base.items():
                plain.add(function, version)
    try:
        yield
    finally:
        groups.update(yours)
