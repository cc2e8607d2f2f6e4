"""Submissions and rosters from other people's computers: each fault is one sentence, and no other submission suffers."""

from __future__ import annotations

import gzip
import io
import os
import random
import subprocess
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oplab.classes import archives, roster
from oplab.classes.answers import Unreadable
from oplab.classes.records import Learner
from oplab.classes.submissions import scan, time_in
from oplab.errors import OplabError

FILES = ("c00_first.py", "csrc/c01_add.cpp")
CLASS = {
    login: Learner(login, name, f"{login}@x.org")
    for login, name in (("ada", "Ada Abel"), ("bob", "Bob Ito"), ("ada_b", "Ada B"))
}
GIT = ["git", "-c", "user.name=A", "-c", "user.email=a@x.org", "-c", "init.defaultBranch=main"]


def found(folder, learners=CLASS, **more):
    scratch = folder.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    every = list(scan(str(folder), learners, FILES, scratch, **more))
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


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tar.gz", "git", "folder with a zip"])
def test_each_form_of_submission(folder, form):
    wanted = {"c00_first.py": "x = 1\n", "csrc/c01_add.cpp": "int y;\n"}
    place = folder / "ada"
    if form in ("folder", "git"):
        for name, text in wanted.items():
            (place / "exercises" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "exercises" / name).write_text(text)
        if form == "git":
            for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "m", "--date=2026-01-01"]):
                env = {**os.environ, "GIT_COMMITTER_DATE": "2026-11-01T10:00:00+00:00"}
                subprocess.run([*GIT, *command], cwd=place, check=True, env=env, capture_output=True)
            (place / "exercises" / "c00_first.py").write_text("not committed")
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
    assert one.submitted_at == (datetime(2026, 11, 1, 10, tzinfo=UTC) if form == "git" else None)


def test_a_pattern_of_repositories_and_of_folders(tmp_path):
    repo = tmp_path / "course-ada"
    subprocess.run([*GIT, "init", "-q", str(repo)], check=True)
    (repo / "c00_first.py").write_text("x = 2\n")
    (repo / "run.sh").write_text("#!/bin/sh\n")
    for command in (["add", "."], ["commit", "-qm", "m"]):
        subprocess.run([*GIT, *command], cwd=repo, check=True, capture_output=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for pattern in (str(tmp_path / "course-{login}"), f"file://{tmp_path}/course-{{login}}"):
        every = list(scan(pattern, CLASS, FILES, scratch))
        ada = next(one for one in every if one.learner == "ada")
        assert dict(ada.files) == {"c00_first.py": "x = 2\n"} and ada.submitted_at is not None and ada.label
        missing = [one.problems for one in every if one.learner != "ada"]
        assert all("cannot be cloned" in problems[0] for problems in missing)
        assert len(missing) == (2 if "://" in pattern else 0)
    assert list(scratch.iterdir()) == []
    with pytest.raises(OplabError, match="not a pattern"):
        list(scan("repos/{user}", CLASS, FILES, scratch))


@pytest.mark.parametrize(
    "name, login, label",
    [
        ("ada", "ada", ""),
        ("ada_b", "ada_b", ""),
        ("ada_b_2", "ada_b", "2"),
        ("ADA@2026-11-01T10-00Z", "ada", "2026-11-01T10-00Z"),
        ("bob@x.org", "bob", ""),
        ("Bob Ito_1234_assignsubmission_file", "bob", "1234_assignsubmission_file"),
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


def test_times_in_labels():
    assert time_in("x 20261101-180000Z") == time_in("2026-11-01T18:00Z") == datetime(2026, 11, 1, 18, tzinfo=UTC)
    assert time_in("2026-13-01T10-00") is None and time_in("1234_assignsubmission") is None


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


# --- bad archives -----------------------------------------------------------------------------------------------------

GOOD = ("deep/c01_add.cpp", b"int y;")


def bad(folder: Path, what: str) -> Path:
    path = folder / ("ada.tar.gz" if what.startswith("tar") else "ada.zip")
    plain = (tarfile.TarInfo(GOOD[0]), GOOD[1])
    if what == "../":
        return zipped(path, ("../../c00_first.py", b"x"), GOOD)
    if what == "absolute":
        return zipped(path, ("/etc/c00_first.py", b"x"), GOOD)
    if what == "drive":
        return zipped(path, ("C:\\c00_first.py", b"x"), GOOD)
    if what == "zip link":
        info = zipfile.ZipInfo("c00_first.py")
        info.external_attr = 0o120777 << 16
        return zipped(path, (info, b"/etc/passwd"), GOOD)
    if what == "large":
        return zipped(path, ("c00_first.py", b"\0" * (3 << 20)), GOOD)
    if what == "tar ../":
        return tarred(path, (tarfile.TarInfo("../c00_first.py"), b"x"), plain)
    if what == "tar link":
        return tarred(path, (link("c00_first.py", "/etc/passwd"), b""), plain)
    if what == "tar hard link":
        return tarred(path, plain, (link("c00_first.py", "/etc/passwd", tarfile.LNKTYPE), b""))
    if what == "tar pipe":
        return tarred(path, (link("c00_first.py", "", tarfile.FIFOTYPE), b""), plain)
    raise AssertionError(what)


@pytest.mark.parametrize(
    "what, says",
    [
        ("../", "points outside"),
        ("absolute", "points outside"),
        ("drive", "points outside"),
        ("zip link", "links are not followed"),
        ("large", "larger than 1 MB"),
        ("tar ../", "points outside"),
        ("tar link", "links are not followed"),
        ("tar hard link", "links are not followed"),
        ("tar pipe", "not a plain file"),
    ],
)
def test_a_bad_entry_costs_only_itself(folder, what, says):
    bad(folder, what)
    (one,), _ = found(folder)
    assert one.files["csrc/c01_add.cpp"] == "int y;"
    assert isinstance(one.files.get("c00_first.py", Unreadable("left out")), Unreadable)
    assert len(one.problems) == 1 and says in one.problems[0]
    assert one.problems[0].startswith(f"ada: {one.source}: ") and "c00_first.py" in one.problems[0]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["in", "scratch"]


@pytest.mark.parametrize(
    "what, says",
    [
        ("zeros", "unpacks to more than 4 MB"),
        ("many in a zip", "more than 50 files"),
        ("many in a tar", "more than 50 files"),
        ("many in a folder", "more than 50 files"),
        ("torn", "cannot be read"),
        ("no archive", "cannot be read"),
        ("empty", "none of the course's files"),
    ],
)
def test_a_bad_archive_costs_only_itself(folder, what, says, monkeypatch):
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    monkeypatch.setattr(archives, "MAX_UNPACKED", 4 << 20)
    many = [(f"{number}.txt", b"") for number in range(60)]
    if what == "zeros":  # 10 MB here; the limit is the same for 10 GB
        with (
            gzip.open(folder / "ada.tar.gz", "wb", compresslevel=1) as stream,
            tarfile.open(fileobj=stream, mode="w|") as archive,
        ):
            info = tarfile.TarInfo("zeros")
            info.size = 10 << 20
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    elif what == "many in a zip":
        zipped(folder / "ada.zip", *many, GOOD)
    elif what == "many in a tar":
        tarred(folder / "ada.tar", *((tarfile.TarInfo(name), data) for name, data in many))
    elif what == "many in a folder":
        (folder / "ada").mkdir()
        for name, _ in many:
            (folder / "ada" / name).touch()
    elif what == "torn":
        path = zipped(folder / "ada.zip", ("c00_first.py", random.Random(1).randbytes(5000)))
        path.write_bytes(path.read_bytes()[:3000])
    elif what == "no archive":
        (folder / "ada.zip").write_text("hello")
    else:
        (folder / "ada").mkdir()
    zipped(folder / "bob.zip", GOOD)
    owned, others = found(folder)
    ada, bob = owned
    assert ada.files == {} and len(ada.problems) == 1 and ada.problems[0].startswith(f"ada: {ada.source}: it ")
    assert says in ada.problems[0]
    assert dict(bob.files) == {"csrc/c01_add.cpp": "int y;"} and bob.problems == () and others == []


def test_a_zip_that_says_it_is_small_is_not_believed(folder, monkeypatch):
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    monkeypatch.setattr(archives, "_LISTED", 100)
    path = zipped(folder / "ada.zip", *((f"{number:060}.txt", b"") for number in range(60)))
    data = bytearray(path.read_bytes())
    data[-14:-10] = b"\1\0\1\0"  # the number of entries, twice
    path.write_bytes(data)
    (one,), _ = found(folder)
    assert one.files == {} and "more than 50 files" in one.problems[0]


def test_a_tar_that_says_it_is_huge_is_not_read_to_memory(folder):
    info = tarfile.TarInfo("c00_first.py")
    info.size = 10 << 30
    (folder / "ada.tar").write_bytes(info.tobuf() + bytes(1024))
    (one,), _ = found(folder)
    assert one.problems and "ada.tar" in one.problems[0]


def test_links_in_folders_are_not_followed(folder, tmp_path):
    (tmp_path / "secret.py").write_text("secret")
    (folder / "ada").mkdir()
    (folder / "ada" / "c00_first.py").symlink_to(tmp_path / "secret.py")
    (folder / "ada" / "csrc").symlink_to(tmp_path)
    (folder / "bob").symlink_to(tmp_path)
    owned, _ = found(folder)
    assert owned[0].files == {"c00_first.py": Unreadable("it is a link, and links are not followed")}
    assert owned[1].files == {} and owned[1].problems


@pytest.mark.parametrize(
    "data, says",
    [
        ("# ä\r\nx = 1\r\n".encode(), ""),
        (b"\xef\xbb\xbf# \xc3\xa4\nx = 1\n", ""),
        ("# ä\nx = 1\n".encode("utf-16"), ""),
        ("# ä\nx = 1\n".encode("utf-32"), ""),
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


# --- the roster -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, problems",
    [
        (b"login,name,email,section\nada,Ada Abel,ada@x.org,1\nbob,Bob,,\n", []),
        (b"\xef\xbb\xbfSection;Login ID;Student;E-Mail Address\n1;ada;Ada Abel;ada@x.org\n;bob;Bob;\n", []),
        (
            "First name\tLast name\tUsername\tEmail address\tGroup\nAda\tAbel\tada\tada@x.org\t1\nBob\t\tbob\t\t\n".encode(
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
