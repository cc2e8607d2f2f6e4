"""Exercises that the course has renamed: the table ``[renamed]`` of ``course.toml``, old id = new id."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

_ID = re.compile(r"c(?:\d\d|A\d)\.[a-z][a-z0-9_]*")


def problem(table: Mapping[str, Any], ids: Collection[str]) -> tuple[str, str] | None:
    """What is wrong with the table, as (the old id, a sentence without a full stop); None if nothing is."""
    for old, new in table.items():
        if not _ID.fullmatch(old) or not isinstance(new, str) or not _ID.fullmatch(new):
            return old, f'an entry has to look like "c05.old" = "c05.new", not {old!r} = {new!r}'
        if old in ids:
            return old, f"{old} is an exercise of the course, so it is not an old name"
    for old in table:
        if (end := resolve(table).get(old)) not in ids:
            return old, f"{old} leads to {end}, which is not an exercise" if end else f"{old} leads back to itself"
    return None


def resolve(table: Mapping[str, str]) -> dict[str, str]:
    """The present name of each old one: chains are followed to their end. Names that lead back to themselves are left out."""
    found = {}
    for old in table:
        seen, name = {old}, table[old]
        while name in table and name not in seen:
            seen.add(name)
            name = table[name]
        if name not in seen:
            found[old] = name
    return found


def read(manifest: str) -> dict[str, str]:
    """The resolved table in the text of a ``course.toml``, which may have keys that this version does not know."""
    try:
        table = tomllib.loads(manifest).get("renamed", {})
    except tomllib.TOMLDecodeError:
        return {}
    if not isinstance(table, dict):
        return {}
    return resolve({old: new for old, new in table.items() if isinstance(new, str) and _ID.fullmatch(new)})
