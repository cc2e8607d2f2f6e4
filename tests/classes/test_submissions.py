"""Submissions from other people's computers: each fault is one sentence, and no other submission suffers."""

from __future__ import annotations

import io
import os
import random
import tarfile
import zipfile
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oplab.classes import archives
from oplab.classes.extraction import Unreadable
from oplab.classes.records import Learner
from oplab.classes.submissions import scan
from oplab.errors import OplabError

FILES = ("c00_first.py", "csrc/c01_add.cpp")
CLASS = {
    login: Learner(login, name, f"{login}@x.org")
    for login, name in (("ada", "Ada Abel"), ("bob", "Bob Ito"), ("ada_b", "Ada B"))
}


def found(folder, learners=CLASS, **more):
    every = list(scan(str(folder), learners, FILES, **more))
    return [one for one in every if not isinstance(one, str)], [one for one in every if isinstance(one, str)]


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def tarred(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for info, data in entries:
            info.size = info.size or len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tar.gz", "folder with a zip"])
def test_each_form_of_submission(folder, form):
    wanted = {"c00_first.py": "x = 1\n", "csrc/c01_add.cpp": "int y;\n"}
    place = folder / "ada"
    if form == "folder":
        for name, text in wanted.items():
            (place / "exercises" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "exercises" / name).write_text(text)
    elif form.endswith("zip"):
        place.mkdir()
        where = place / "any name.zip" if form.startswith("folder") else folder / "ada.zip"
        if form == "zip":
            place.rmdir()
        # flat, and with backslashes: what some platforms and systems make of folders
        zipped(where, ("c00_first.py", b"x = 1\r\n"), ("work\\c01_add.cpp", b"int y;\n"), ("notes.txt", b"?"))
    else:
        entries = [(tarfile.TarInfo(name), text.encode()) for name, text in wanted.items()]
        tarred(folder / f"ada.{form}", *entries)
    (one,), others = found(folder)
    assert (one.learner, dict(one.files), one.problems, others) == ("ada", wanted, (), [])


def test_a_folder_may_name_the_login(folder):
    for login in ("ada", "bob"):
        (folder / login / ".git").mkdir(parents=True)
        (folder / login / "c00_first.py").write_text(login)
    for where in (folder, folder / "{login}"):
        owned, _ = found(where)
        assert [(one.learner, one.files["c00_first.py"], one.problems) for one in owned] == [
            ("ada", "ada", ()),
            ("bob", "bob", ()),
        ]
    for where in ("https://git.example.org/{login}.git", "repos/{user}"):
        with pytest.raises(OplabError, match="no submission at|cannot be listed|has a submission"):
            found(where)


@pytest.mark.parametrize(
    "name, login, label",
    [
        ("ada", "ada", ""),
        ("ada_b", "ada_b", ""),
        ("ada_b_2", "ada_b", "2"),
        ("ADA@2026-11-01T10-00Z", "ada", "2026-11-01T10-00Z"),
        ("bob@x.org", "bob", ""),
        ("Bob Ito_1234_assignsubmission_file", "bob", "1234"),
        ("bobby", "", ""),
    ],
)
def test_whose_submission_it_is(folder, name, login, label):
    zipped(folder / f"{name}.zip", ("c00_first.py", b""))
    owned, others = found(folder)
    assert [(one.learner, one.label) for one in owned] == ([(login, label)] if login else [])
    assert bool(others) == (not login)
    if others:
        assert "bobby.zip" in others[0] and "no learner of the roster" in others[0]


def test_two_submissions_of_one_learner_are_both_kept(folder):
    (folder / "ada").mkdir()
    (folder / "ada" / "c00_first.py").write_text("1")
    zipped(folder / "ada.zip", ("c00_first.py", b"2"))
    owned, _ = found(folder)
    assert [one.files["c00_first.py"] for one in owned] == ["1", "2"]
    assert len({one.label for one in owned}) == 2
    assert owned[1].problems == ("ada: ada and ada.zip are both there; both are graded.",)


def test_the_copy_in_exercises_is_preferred_and_solutions_are_no_answers(folder):
    names = (
        "x/c00_first.py",
        "course/exercises/c00_first.py",
        "solutions/c00_first.py",
        ".git/c00_first.py",
        "__MACOSX/c00_first.py",
    )
    zipped(folder / "ada.zip", *((name, name.encode()) for name in names))
    (one,), _ = found(folder)
    assert one.files == {"c00_first.py": "course/exercises/c00_first.py"}
    assert "is in it 2 times; course/exercises/c00_first.py was graded" in one.problems[0]


# --- what learning platforms let a teacher download ----------------------------------------------------------------------

TWINS = {**CLASS, "abelada": Learner("abelada", "Ida Orr"), "zoe": Learner("zoe", "Ó Sé, Zoë Ann")}
BOTH = {"c00_first.py": "x = 1\n", "csrc/c01_add.cpp": "int y;\n"}


def put(folder: Path, *names: str) -> None:
    """Files of these names with the text of the course's file that each ends with, or is an archive of."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".zip"):
            zipped(path, *((file, text.encode()) for file, text in BOTH.items()))
        else:
            path.write_text(BOTH["c00_first.py" if name.endswith(".py") else "csrc/c01_add.cpp"])


def check(folder: Path, learners=TWINS, **labels: str) -> None:
    """Each of these learners has one submission of both files, and no sentence is left."""
    owned, others = found(folder, learners)
    assert {one.learner: one.label for one in owned} == labels and len(owned) == len(labels)
    assert [(dict(one.files), one.problems) for one in owned] == [(BOTH, ())] * len(owned) and others == []


def test_canvas(folder):
    """``lib/content_zipper.rb`` of Canvas: the sortable name in small letters without what is not a letter or digit, ``LATE``, the ids
    of user and file, the file's name. ``Attachment.make_unique_filename`` adds ``-1`` to a name that was handed in before.
    """
    put(folder, "abelada_LATE_12_345_c00_first-1.py", "abelada_LATE_12_346_c01_add-12.cpp", "itobob_13_347_work-2.zip")
    put(folder, "ósézoëann_14_348_c00_first.py", "ósézoëann_14_349_c01_add.cpp", "ósézoëann_14_text.html")
    check(folder, ada="LATE_12", bob="13", zoe="14")


@pytest.mark.parametrize(
    "form", ["{}_assignsubmission_file_/{}", "{}_assignsubmission_file/{}", "{}_assignsubmission_file_{}"]
)
def test_moodle(folder, form):
    """``downloader.php`` and ``locallib.php`` of Moodle's mod_assign: full name, number, ``assignsubmission``, the plugin; a folder for
    each, or with ``assign_downloadasfolders`` off one file for each. Text typed in Moodle is another plugin's.
    """
    for person in ("Ada Abel_12", "Zoë Ann Ó Sé_14"):
        put(folder, form.format(person, "c00_first.py"), form.format(person, "c01_add.cpp"))
        put(folder, f"{person}_assignsubmission_onlinetext_/onlinetext.html")
    put(folder, form.format("Bob Ito_13", "work.zip"))
    check(folder, ada="12", zoe="14", bob="13")


def test_blackboard(folder):
    """ "Download assignments" (Blackboard Help): the assignment, the username, ``attempt``, its time, the file's name, and for each attempt
    a text file of its name with the learner, the date and the names of the files.
    """
    for login, files in {"ada_b": ("c00_first.py", "c01_add.cpp"), "bob": ("work.zip",)}.items():
        first = f"Lab_1 ada_{login}_attempt_2026-11-01-18-00-00"
        put(folder, f"{first}.txt", *(f"{first}_{file}" for file in files))
    check(folder, ada_b="2026-11-01-18-00-00", bob="2026-11-01-18-00-00")
    assert {one.submitted_at for one in found(folder)[0]} == {datetime(2026, 11, 1, 18, tzinfo=UTC)}


def test_gradescope(folder):
    """ "Export submissions" (Gradescope Guides): a folder ``submission_N`` for each, and ``submission_metadata.yml``, which names its
    submitters, several for a group, and the time.
    """
    put(
        folder,
        "submission_1/c00_first.py",
        "submission_1/c01_add.cpp",
        "submission_2/work.zip",
        "submission_3/work.zip",
    )
    (folder / "submission_metadata.yml").write_text(
        "submission_1:\n  :submitters:\n  - :name: Ada Abel\n    :sid: '0123'\n    :email: ada@x.org\n"
        "  :created_at: 2026-11-01 17:00:00.123456789 Z\n  :results: !ruby/object:Results\n    output: |\n      submission_3:\n"
        "submission_2:\n  :submitters:\n  - :name: Zoë Ann Ó Sé\n  - :sid: bob\n  :created_at: 2026-11-01 17:00:00 Z\n"
        "submission_3:\n  :submitters:\n  - :name: Eve\n"
    )
    owned, (other,) = found(folder, TWINS)
    assert [(one.learner, dict(one.files), one.problems) for one in owned] == [
        (who, BOTH, ()) for who in ("ada", "zoe", "bob")
    ]
    assert {one.submitted_at for one in owned} == {datetime(2026, 11, 1, 17, tzinfo=UTC)}
    assert other.startswith("submission_3 in in belongs to no learner")
    for spoiled in ("- 1", "submission_1: 1", "a: [", "submission_1: {}", "\x00"):
        (folder / "submission_metadata.yml").write_text(spoiled)
        with pytest.raises(OplabError, match="not as Gradescope writes it"):
            found(folder)


def test_what_a_member_of_a_group_hands_in_counts_for_each(folder):
    """Canvas names the one file of a group after it (``get_user_name`` in ``content_zipper.rb``). Moodle's download has each member's
    copy, with the group's name in front (``locallib.php``); under a member's own name, it is the group's.
    """
    groups = {"ada": "Team 1", "bob": "Team 1", "zoe": "Team 2", "ada_b": ""}
    learners = {login: replace(TWINS[login], group=group) for login, group in groups.items()}
    put(folder, "team1_LATE_12_345_work.zip", "ada_b.zip", "zoe.zip")
    check(folder, learners, ada="LATE_12", bob="LATE_12", ada_b="", zoe="")
    for path in folder.iterdir():
        path.unlink()
    put(folder, *(f"Team 1-{name}_assignsubmission_file/work.zip" for name in ("Ada Abel_12", "Bob Ito_13")))
    check(folder, learners, ada="12", bob="13")
    put(folder, "bob@x.org.zip")
    owned, _ = found(folder, learners)
    assert [(one.learner, one.label) for one in owned] == [("ada", "12"), ("bob", "13"), ("ada", ""), ("bob", "")]


def test_single_answer_files_are_a_submission(folder):
    put(folder, "ada_c00_first.py", "ada_c01_add.cpp", "Bob Ito c00_first (2).py", "bob@x.org-c01_add.cpp")
    check(folder, ada="", bob="")


def test_the_name_of_a_file_gives_it_to_no_other_learner(folder):
    as_bobs = "x_bob_attempt_2026-11-01-18-00-00_c00_first.py"
    put(
        folder,
        f"abelada_12_345_{as_bobs}",
        f"Lab_zoe_attempt_2026-10-01-18-00-00_{as_bobs}",
        f"abeleve_12_345_{as_bobs}",
    )
    owned, others = found(folder, TWINS)
    assert {one.learner for one in owned} == {"ada", "zoe"} and len(others) == 1


def test_a_name_that_several_learners_have(folder):
    put(folder, "itobob_13_347_work.zip", "-_13_348_work.zip", "_.zip")
    owned, others = found(folder, {**CLASS, "ito2": Learner("ito2", "Ito, Bob"), "nix": Learner("nix")})
    assert owned == [] and all("no learner of the roster, or to several" in other for other in others)


def test_archives_in_an_archive(folder):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("c00_first.py", "x = 1\n")
    tar = tarred(folder / "x.tgz", (tarfile.TarInfo("c01_add.cpp"), b"int y;\n")).read_bytes()
    (folder / "x.tgz").unlink()
    zipped(folder / "ada.zip", ("work/1.zip", inner.getvalue()), ("work/2.tgz", tar), ("__MACOSX/._1.zip", b"?"))
    check(folder, ada="")


# --- bad submissions --------------------------------------------------------------------------------------------------

GOOD = ("deep/c01_add.cpp", b"int y;")
GOOD_TAR = (tarfile.TarInfo(GOOD[0]), GOOD[1])
FIRST = "c00_first.py"
PACKED = zlib.compress(b"x")[2:-4]


def claims(name: str, size: int, **more) -> bytes:
    """A tar archive of one entry without its data."""
    info = tarfile.TarInfo(name)
    info.size = size
    for key, value in more.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.PAX_FORMAT) + bytes(8192)


def special_in_zip(kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(FIRST)
    info.external_attr = (kind | 0o777) << 16
    return info


def changed_zip(path: Path, before: bytes, after: bytes) -> None:
    """A zip archive of two files in which some bytes are others."""
    zipped(path, (FIRST, b"x"), GOOD)
    data = path.read_bytes()
    assert data.count(before) and len(before) == len(after)
    path.write_bytes(data.replace(before, after, 1))


def a_folder(folder: Path, make) -> None:
    (folder / "ada" / "deep").mkdir(parents=True)
    (folder / "ada" / GOOD[0]).write_bytes(GOOD[1])
    make(str(folder / "ada" / FIRST))


BAD_ENTRIES = {
    "zip: ../": (lambda at: zipped(at / "ada.zip", (f"../../{FIRST}", b"x"), GOOD), "points outside"),
    "zip: absolute": (lambda at: zipped(at / "ada.zip", (f"/etc/{FIRST}", b"x"), GOOD), "points outside"),
    "zip: drive": (lambda at: zipped(at / "ada.zip", (f"C:\\{FIRST}", b"x"), GOOD), "points outside"),
    "zip: link": (lambda at: zipped(at / "ada.zip", (special_in_zip(0o120000), b"/x"), GOOD), "links are not followed"),
    "zip: device": (lambda at: zipped(at / "ada.zip", (special_in_zip(0o020000), b""), GOOD), "not a plain file"),
    "zip: large": (lambda at: zipped(at / "ada.zip", (FIRST, b"\0" * (3 << 20)), GOOD), "larger than 1 MB"),
    "zip: damaged": (lambda at: changed_zip(at / "ada.zip", PACKED, b"\xff" * len(PACKED)), "cannot be read"),
    "zip: encrypted": (lambda at: changed_zip(at / "ada.zip", b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"), "encrypted"),
    "tar: ../": (lambda at: tarred(at / "ada.tar", (tarfile.TarInfo(f"../{FIRST}"), b"x"), GOOD_TAR), "points outside"),
    "tar: link": (lambda at: tarred(at / "ada.tar", (link(FIRST, "/etc/passwd"), b""), GOOD_TAR), "links are not followed"),
    "tar: pipe": (lambda at: tarred(at / "ada.tar", (link(FIRST, "", tarfile.FIFOTYPE), b""), GOOD_TAR), "not a plain file"),
    "tar: escapes": (lambda at: tarred(at / "ada.tar", (tarfile.TarInfo(f"/\x1b[2J\n\udcff/{FIRST}"), b""), GOOD_TAR), "points outside"),
    "folder: link": (lambda at: a_folder(at, lambda name: os.symlink("/etc/passwd", name)), "links are not followed"),
    "folder: pipe": (lambda at: a_folder(at, os.mkfifo), "not a plain file"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_ENTRIES)
def test_a_bad_entry_costs_only_itself(folder, what, monkeypatch):
    monkeypatch.chdir(folder)
    make, says = BAD_ENTRIES[what]
    make(folder)
    (one,), _ = found(folder)
    assert one.files["csrc/c01_add.cpp"] == "int y;"
    assert isinstance(one.files.get(FIRST, Unreadable("left out")), Unreadable)
    (problem,) = one.problems
    assert says in problem and problem.startswith(f"ada: {one.source}: ") and FIRST in problem and problem.isprintable()
    assert [path.name for path in folder.parent.iterdir()] == ["in"]


def copies(path: Path) -> None:
    """A small zip archive with more and more likely copies of a file, of 1 MB each."""
    zipped(path, *((f"{300 - number:03}/{FIRST}", bytes(1 << 20)) for number in range(300)))


def long_name(path: Path) -> None:
    path.write_bytes(claims("x", 1 << 30, type=b"L"))
    os.truncate(path, 1 << 30)


def torn(path: Path) -> None:
    zipped(path, (FIRST, random.Random(1).randbytes(5000)))
    path.write_bytes(path.read_bytes()[:3000])


def nested(path: Path) -> None:
    for _ in range(100):
        path /= "a"
    path.mkdir(parents=True)
    (path / FIRST).write_text("x")


CLAIM = {"size": str(10**15)}
BAD_SUBMISSIONS = {
    "tar: a file of a petabyte": (lambda at: (at / "ada.tar").write_bytes(claims("x", 0, pax_headers=CLAIM)), "more than 256 MB"),
    "tar: a name of a gigabyte": (lambda at: long_name(at / "ada.tar"), "512 MB of memory"),
    "tar: many files": (lambda at: (at / "ada.tar").write_bytes(tarfile.TarInfo("x").tobuf() * 20_001), "more than 20000 files"),
    "tar: torn": (lambda at: (at / "ada.tar").write_bytes(claims(FIRST, 100_000)), "cannot be read"),
    "zip: many copies": (lambda at: copies(at / "ada.zip"), "more than 256 MB"),
    "zip: torn": (lambda at: torn(at / "ada.zip"), "cannot be read"),
    "zip: text": (lambda at: (at / "ada.zip").write_text("hello"), "cannot be read"),
    "zip: a pipe": (lambda at: os.mkfifo(at / "ada.zip"), "not a folder or an archive"),
    "zip: the course": (lambda at: zipped(at / "ada.zip", (f"tests/{FIRST}", b"x"), ("course.toml", b"")), "none of the course's files"),
    "folder: deep": (lambda at: nested(at / "ada"), "none of the course's files"),
    "folder: a link": (lambda at: (at / "ada").symlink_to("bob"), "not a folder or an archive"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_SUBMISSIONS)
def test_a_bad_submission_costs_only_itself(folder, what):
    make, says = BAD_SUBMISSIONS[what]
    (folder / "bob").mkdir()
    (folder / "bob" / "c01_add.cpp").write_text("int y;")
    make(folder)
    (ada, bob), others = found(folder)
    (problem,) = ada.problems
    assert ada.files == {} and problem.startswith("ada: ada") and says in problem and problem.isprintable()
    assert (dict(bob.files), bob.problems, others) == ({"csrc/c01_add.cpp": "int y;"}, (), [])


def test_what_takes_too_long_costs_only_itself(folder):
    (folder / "ada.tar").write_bytes(tarfile.TarInfo("x").tobuf() * 19_999)
    zipped(folder / "bob.zip", GOOD)
    with archives.Reader(seconds=0.001) as reader:
        assert "cannot be read in 0.001 s" in reader.read([folder / "ada.tar"], FILES).problems[0]
        reader._seconds = 60.0
        assert reader.read([folder / "bob.zip"], FILES).files == {"csrc/c01_add.cpp": "int y;"}


@pytest.mark.parametrize(
    "data, says",
    [
        ("# ä\r\nx = 1\r\n".encode(), ""),
        ("# ä\nx = 1\n".encode("utf-16"), ""),
        ("# ä\rx = 1\r".encode("cp1252"), "Windows-1252"),
        ("# coding: cp437\n# ä\nx = 1\n".encode("cp437"), "cp437"),
    ],
)
def test_encodings_and_line_ends(folder, data, says):
    (folder / "ada").mkdir()
    (folder / "ada" / "c00_first.py").write_bytes(data)
    (one,), _ = found(folder)
    assert one.files["c00_first.py"].endswith("# ä\nx = 1\n")
    assert [says in problem for problem in one.problems] == ([True] if says else [])


def test_other_things_in_the_folder(folder):
    (folder / "roster.csv").write_text("")
    (folder / "readme.txt").write_text("")
    (folder / ".hidden").mkdir()
    owned, others = found(folder, ignore=[folder / "roster.csv"])
    assert owned == [] and len(others) == 1 and "readme.txt" in others[0]
    with pytest.raises(OplabError, match="cannot be listed"):
        found(folder / "nowhere")
