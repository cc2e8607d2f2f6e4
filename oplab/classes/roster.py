"""The roster: who is in the class. Any table with a column of logins does, as learning platforms export them."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from oplab.classes.records import Learner
from oplab.classes.texts import decoded
from oplab.errors import OplabError

# Names of columns, in lower case and without punctuation, as Canvas, Moodle, Blackboard and people write them.
_COLUMNS = {
    "login": "login sisloginid username user loginid userid netid github githubusername account".split(),
    "name": "name student fullname learner studentname".split(),
    "first": "firstname givenname".split(),
    "last": "lastname surname familyname".split(),
    "email": "email emailaddress mail".split(),
    "section": "section group groups sections class".split(),
}
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
MAX_BYTES = 16 << 20


def read(path: Path) -> tuple[dict[str, Learner], list[str]]:
    """The learners by login, in the order of the file, and a sentence for each row that was left out.

    A first row in which a column is called ``login`` (or as one of the learning platforms calls it) is a header. Without one the
    columns are login, name, email, section. Columns are separated by commas, semicolons, tabs or pipes.

    Raises:
        OplabError: the file cannot be read, or there is no learner in it.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise OplabError(
            f"The roster {path} cannot be read: {error.strerror}.", "Name a CSV file with a column login."
        ) from None
    if len(data) > MAX_BYTES:
        raise OplabError(f"The roster {path} is larger than 16 MB.", "Name a CSV file with a column login.")
    text, problem = decoded(data)
    problems = [f"{path.name}: {problem}."] if problem else []
    rows = _rows(text)
    header = _header(rows[0][1]) if rows else {}
    if header:
        rows = rows[1:]
    else:
        header = {name: index for index, name in enumerate(("login", "name", "email", "section"))}
        problems.append(
            f"{path.name} has no header with a column login: its columns were read as login, name, email, section."
        )
    learners: dict[str, Learner] = {}
    folded: dict[str, str] = {}
    for number, row in rows:
        learner = _learner(row, header)
        where = f"{path.name}, line {number}"
        if not learner.login:
            if any(row):
                problems.append(
                    f"{where}: the row of {learner.name or learner.email or 'a learner'} has no login and was left out."
                )
        elif not _LOGIN.fullmatch(learner.login):
            problems.append(
                f"{where}: {learner.login!r} cannot be a login and was left out; letters, digits and ._@+- can be in one."
            )
        elif learner.login.casefold() in folded:
            problems.append(f"{where}: {learner.login} is in the roster twice; the first row counts.")
        else:
            folded[learner.login.casefold()] = learner.login
            learners[learner.login] = learner
    if not learners:
        raise OplabError(
            f"There is no learner in the roster {path}.",
            "It needs one row for each, with a column login, and commas, semicolons, tabs or pipes between columns.",
        )
    return learners, problems


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """Line number and cells of each row that is not empty."""
    first = text.partition("\n")[0]
    if first.startswith("sep="):  # how Excel is told
        delimiter, text = first[4:5] or ",", text[len(first) :]
    else:  # a name may hold a comma
        delimiter = max(
            ",;\t|", key=lambda one: (len(_header(next(csv.reader([first], delimiter=one), []))), first.count(one))
        )
    reader = csv.reader(io.StringIO(text.replace("\0", "")), delimiter=delimiter)
    rows = []
    try:
        for row in reader:
            cells = [" ".join(cell.split()) for cell in row]
            if any(cells):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise OplabError(f"The roster is not a table: line {reader.line_num}, {error}.", "Save it as CSV.") from None
    return rows


def _header(row: list[str]) -> dict[str, int]:
    """What each column is, by its index; empty if the row is none of a header."""
    found: dict[str, int] = {}
    plain = [re.sub(r"[^a-z]", "", cell.casefold()) for cell in row]
    for meaning, names in _COLUMNS.items():
        for name in names:
            if name in plain and meaning not in found:
                found[meaning] = plain.index(name)
    if "login" not in found and "email" in found:
        found["login"] = found["email"]  # some platforms export no other name
    return found if "login" in found else {}


def _learner(row: list[str], header: dict[str, int]) -> Learner:
    def cell(meaning: str) -> str:
        index = header.get(meaning, -1)
        return row[index] if 0 <= index < len(row) else ""

    name = cell("name") or " ".join(filter(None, (cell("first"), cell("last"))))
    return Learner(cell("login"), name, cell("email"), cell("section"))
