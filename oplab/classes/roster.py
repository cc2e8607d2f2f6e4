"""The roster: who is in the class. Any table with a column of logins does, as learning platforms export them."""

from __future__ import annotations

import re
from pathlib import Path

from oplab.classes import tables
from oplab.classes.records import Learner
from oplab.errors import OplabError

# Names of columns, in lower case and without punctuation, as Canvas, Moodle, Blackboard and people write them.
_COLUMNS = {
    "login": "login sisloginid username user loginid userid netid github githubusername account email emailaddress mail".split(),
    "name": "name student fullname learner studentname".split(),
    "email": "email emailaddress mail".split(),
    "section": "section sections groups class".split(),
    "group": "group groupname team".split(),
    "first": "firstname givenname".split(),
    "last": "lastname surname familyname".split(),
}
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


def read(path: Path) -> tuple[dict[str, Learner], list[str]]:
    """The learners by login, in the order of the file, and a sentence for each row that was left out.

    A first row in which a column is called ``login`` (or as one of the learning platforms calls it) is a header. Without one the
    columns are login, name, email, section.
    """
    table = tables.read(path, "roster", _COLUMNS, ("login",))
    problems = [f"{path.name}: {table.problem}."] if table.problem else []
    if table.rows and not table.header:
        problems.append(
            f"{path.name} has no header with a column login: its columns were read as login, name, email, section."
        )
    learners: dict[str, Learner] = {}
    folded: set[str] = set()
    for number, cell in table.rows:
        login, where = cell["login"], f"{path.name}, line {number}"
        name = cell["name"] or f"{cell['first']} {cell['last']}".strip()
        if not login:
            problems.append(
                f"{where}: the row of {name or cell['email'] or 'a learner'} has no login and was left out."
            )
        elif not _LOGIN.fullmatch(login):
            problems.append(
                f"{where}: {login!r} cannot be a login and was left out; a login may contain letters, digits and ._@+-."
            )
        elif login.casefold() in folded:
            problems.append(f"{where}: {login} is in the roster twice; the first row counts.")
        else:
            folded.add(login.casefold())
            learners[login] = Learner(login, name, cell["email"], cell["section"], cell["group"])
    if not learners:
        raise OplabError(
            f"There is no learner in the roster {path}.",
            "It needs one row for each, with a column login, and commas, semicolons, tabs or pipes between columns.",
        )
    if groups := {learner.group for learner in learners.values()} - {""}:
        problems.append(f"{path.name} has {len(groups)} groups: what a member hands in counts for each member.")
    return learners, problems
