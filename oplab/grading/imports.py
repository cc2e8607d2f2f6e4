"""Which modules a module of the package can import, read from source texts: nothing is imported or executed for it.

An import inside of a function counts, and so does a name that a package loads when it is first used (``oplab.parity.max_ulp``). An
import for type checkers alone does not.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping

from oplab.course.parsing import parse


def reachable(roots: Iterable[str], sources: Mapping[str, str | bytes]) -> frozenset[str]:
    """The modules that can be imported from ``roots``, directly or through others, with ``roots``.

    Args:
        roots: names of modules in ``sources``.
        sources: module name to source text, a package by its own name. Imports of other modules are left out. A text that is not
            valid Python imports nothing.
    """
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module in found or module not in sources:
            continue
        found.add(module)
        waiting.append(module.rpartition(".")[0])  # importing a module imports the packages around it
        for name in _names(sources[module]):
            waiting.extend(_modules(name, sources))
    return frozenset(found)


def _modules(name: str, sources: Mapping[str, str | bytes]) -> Iterator[str]:
    """The modules that the dotted name of a module or of something in it leads to."""
    module, first = name, ""  # the longest module, and what follows it
    while module and module not in sources:
        module, _, first = module.rpartition(".")
    if module:
        yield module
        if first in (lazy := _lazy_names(sources[module])):
            yield from (lazy[first], f"{module}.{lazy[first]}")  # whichever of them exists


@functools.lru_cache(maxsize=1024)
def _names(text: str | bytes) -> frozenset[str]:
    """The dotted names that a module imports or uses as attributes of what it has imported."""
    imported: set[str] = set()
    bound: dict[str, str] = {}  # a name in this module, and what it was imported as
    attributes: list[ast.Attribute] = []
    for node in _runtime_nodes(_parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported.add(alias.name)
                first = alias.name.partition(".")[0]
                bound[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
            for alias in node.names:
                imported.add(f"{node.module}.{alias.name}")
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute):
            attributes.append(node)
    for attribute in attributes:
        parts: list[str] = []
        node: ast.expr = attribute
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in bound:
            imported.add(".".join([bound[node.id], *reversed(parts)]))
    return frozenset(imported)


def _parse(text: str | bytes) -> ast.Module:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _runtime_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


@functools.lru_cache(maxsize=1024)
def _lazy_names(text: str | bytes) -> Mapping[str, str]:
    """Name to module, from the table of a package whose ``__getattr__`` imports a name's module at its first use."""
    body = _parse(text).body
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in body):
        return {}
    found: dict[str, str] = {}
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and type(value.value) is str:
                    found[str(key.value)] = value.value
    return found
