"""Rosters as spreadsheets and platforms write them: each is read or is a sentence."""

from __future__ import annotations

import pytest

from oplab.classes import roster
from oplab.classes.records import Learner
from oplab.errors import OplabError


@pytest.mark.parametrize(
    "data, problems",
    [
        (b"login,name,email,section\nada,Ada Abel,ada@x.org,1\nbob,Bob,,\n", []),
        (b"\xef\xbb\xbfSection;Login ID;Student;E-Mail Address\n1;ada;Ada Abel;ada@x.org\n;bob;Bob;\n", []),
        (
            "First name\tLast name\tUsername\tEmail address\tGroups\nAda\tAbel\tada\tada@x.org\t1\nBob\t\tbob\t\t\n".encode(
                "utf-16"
            ),
            [],
        ),
        (b"ada,Ada Abel,ada@x.org,1\nbob,Bob,,\n", ["has no header"]),
        (
            b'login,name,email,section\r\nada,"Ada  Abel",ada@x.org,1\r\n\r\nbob,Bob\r\nADA,x\r\n',
            ["ADA is in the roster twice"],
        ),
        (
            b"login,name,email,section\nada,Ada Abel,ada@x.org,1\n../x,X\n,Nix\nbob,Bob\n",
            ["'../x' cannot be", "Nix has no login"],
        ),
    ],
)
def test_rosters(tmp_path, data, problems):
    (tmp_path / "roster.csv").write_bytes(data)
    learners, said = roster.read(tmp_path / "roster.csv")
    assert list(learners.values()) == [Learner("ada", "Ada Abel", "ada@x.org", "1"), Learner("bob", "Bob")]
    assert len(said) == len(problems) and all(part in sentence for part, sentence in zip(problems, said, strict=True))
    assert all("roster.csv" in sentence for sentence in said)


def test_an_empty_roster_is_a_sentence(tmp_path):
    for data in (b"", b"login,name\n", b"\0\0\0"):
        (tmp_path / "roster.csv").write_bytes(data)
        with pytest.raises(OplabError, match="no learner in the roster"):
            roster.read(tmp_path / "roster.csv")
    with pytest.raises(OplabError, match="cannot be read"):
        roster.read(tmp_path / "none.csv")
