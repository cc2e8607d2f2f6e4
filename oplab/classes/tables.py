"""Tables from spreadsheets and platforms: any common encoding, commas, semicolons, tabs or pipes between columns, a header or none."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oplab.classes.decoding import decoded
from oplab.errors import OplabError

MAX_BYTES = 16 << 20
Columns = Mapping[str, Sequence[str]]  # what a column means, to the names that say so: small letters alone


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        text: the file's.
        problem: what had to be assumed of its encoding, as the end of a sentence without its full stop; may be empty.
        header: whether the first row was one.
        rows: the line, and the cells by what their columns mean; all meanings are there. Without rows in which every cell is empty.
    """

    text: str
    problem: str
    header: bool
    rows: tuple[tuple[int, dict[str, str]], ...]


def read(path: Path, what: str, columns: Columns, needed: Sequence[str]) -> Table:
    """Read a CSV file.

    Args:
        columns: what it can have. Without a header, the first four are its columns in their order.
        needed: those that a header has to have.
    """
    fix = f"Name a CSV file with a column {needed[0]}."
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise OplabError(f"The {what} {path} cannot be read: {error.strerror}.", fix) from None
    if len(data) > MAX_BYTES:
        raise OplabError(f"The {what} {path} is larger than 16 MB.", fix)
    text, problem = decoded(data)
    first = text.partition("\n")[0]
    body = text.replace("\0", "")
    if first.startswith("sep="):  # how Excel is told
        delimiter, body = first[4:5] or ",", body[len(first) :]
    else:  # a name may hold a comma
        split = {one: next(csv.reader([first], delimiter=one), []) for one in ",;\t|"}
        delimiter = max(split, key=lambda one: (len(_header(split[one], columns)), first.count(one)))
    reader = csv.reader(io.StringIO(body), delimiter=delimiter)
    rows = []
    try:
        for row in reader:
            cells = [" ".join(cell.split()) for cell in row]
            if any(cells):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise OplabError(f"The {what} is not a table: line {reader.line_num}, {error}.", "Save it as CSV.") from None
    places = _header(rows[0][1], columns) if rows else {}
    if header := places.keys() >= set(needed):
        rows = rows[1:]
    else:
        places = {meaning: place for place, meaning in enumerate(columns) if place < 4}
    found = (
        (number, {meaning: _cell(row, places.get(meaning, len(row))) for meaning in columns}) for number, row in rows
    )
    return Table(text, problem, header, tuple(found))


def _header(row: Sequence[str], columns: Columns) -> dict[str, int]:
    """What each column means, by its place."""
    plain = [re.sub(r"[^a-z]", "", cell.casefold()) for cell in row]
    found: dict[str, int] = {}
    for meaning, names in columns.items():
        for name in names:
            if name in plain and meaning not in found:
                found[meaning] = plain.index(name)
    return found


def _cell(row: Sequence[str], place: int) -> str:
    return row[place] if place < len(row) else ""
