"""The search for ONNX Runtime's headers: its order, its refusals, and what is fetched."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from oplab.errors import OplabError
from oplab.toolchain import headers
from oplab.toolchain.headers import apt, archive, folders


def put(folder: Path, api: int = 21, skip: str = "") -> Path:
    """Headers as a distribution lays them out, with no content but the version."""
    folder.mkdir(parents=True)
    for name in folders.NEEDED:
        if name != skip:
            (folder / name).write_text(f"// {name}\n")
    with open(folder / "onnxruntime_c_api.h", "a") as file:
        file.write(f"#pragma once\n#define ORT_API_VERSION {api}\n")
    return folder


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course's folder, ORT 1.31.1, no apt, and no system headers."""
    root = tmp_path / "course"
    root.mkdir()
    (root / "course.toml").write_text("")
    monkeypatch.setenv("OPLAB_ROOT", str(root))
    for name in ("ORT_INCLUDE_DIR", "CONDA_PREFIX", "OPLAB_ORT_ARCHIVE", "OPLAB_ORT_ARCHIVE_SHA256"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(folders, "runtime_version", lambda: "1.31.1")
    monkeypatch.setattr(headers, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    return root


def test_the_order_of_the_routes(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = put(course / "build" / "cache" / "ort-headers", 20)
    assert headers.find() == headers.Headers(cache, 20, "the project's cache")
    system = put(tmp_path / "system", 21)
    assert headers.find().path == system
    conda = put(tmp_path / "conda" / "include" / "onnxruntime", 22)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    assert headers.find() == headers.Headers(conda, 22, "conda")
    named = put(tmp_path / "named", 23)
    monkeypatch.setenv("ORT_INCLUDE_DIR", str(named))
    assert headers.ort_include() == named and headers.look() == headers.find()


def test_layouts_under_the_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, layout in enumerate(filter(None, folders.LAYOUTS)):
        home = put(tmp_path / str(number) / layout, 30)
        monkeypatch.setenv("ORT_INCLUDE_DIR", str(tmp_path / str(number)))
        assert headers.find() == headers.Headers(home, 30, "ORT_INCLUDE_DIR")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.mkdir(), "there is no onnxruntime_cxx_api.h in it"),
        (lambda path: put(path, 21, "onnxruntime_lite_custom_op.h"), "onnxruntime_lite_custom_op.h missing in"),
        (lambda path: put(path, 32), "of ONNX Runtime 1.32, newer than the installed runtime 1.31.1"),
    ],
)
def test_a_named_folder_that_cannot_be_used_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], words: str
) -> None:
    put(tmp_path / "system")  # would do, but the user asked for another
    make(tmp_path / "named")
    monkeypatch.setenv("ORT_INCLUDE_DIR", str(tmp_path / "named"))
    with pytest.raises(OplabError, match="its headers cannot be used") as caught:
        headers.find()
    assert words in caught.value.message and "unset it" in caught.value.fix


def test_newer_headers_are_passed_over_and_named(tmp_path: Path, course: Path) -> None:
    put(tmp_path / "system", 32)
    with pytest.raises(OplabError) as caught:
        headers.find()
    message = caught.value.message
    assert "ONNX Runtime 1.32, newer than the installed runtime 1.31.1" in message
    assert f"the project's cache ({course}/build/cache/ort-headers): there is no such folder" in message
    assert "the package libonnxruntime-dev: there is no apt-get" in message
    assert "the release archive: OPLAB_ORT_ARCHIVE is not set" in message
    assert f"download {archive.file_name()} from ONNX Runtime's release page" in caught.value.fix
    assert "1.31.1.tgz" in archive.file_name()
    assert headers.look() is None
    cache = put(course / "build" / "cache" / "ort-headers", 31)
    assert headers.find().path == cache


def release(path: Path, api: int = 31, extra: dict[str, str] | None = None) -> Path:
    """A release archive as ONNX Runtime's are: NAME/include/*.h, NAME/lib/…"""
    files = {name: f"// {name}\n" for name in folders.NEEDED}
    files["onnxruntime_c_api.h"] += f"#define ORT_API_VERSION {api}\n"
    entries = {f"ort/include/{name}": text for name, text in files.items()}
    entries |= {"ort/include/core/providers/custom.h": "// deeper\n", "ort/lib/libonnxruntime.so": "binary"}
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (entries | (extra or {})).items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def test_headers_from_an_archive(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = {"ort/include/../../../escaped.h": "x", "/include/absolute.h": "// kept inside\n"}
    monkeypatch.setenv("OPLAB_ORT_ARCHIVE", str(release(tmp_path / "ort.tgz", extra=outside)))
    found = headers.find()
    assert (found.api, found.route) == (31, "release archive")
    assert found.path == course / "build" / "cache" / "ort-headers"
    assert (found.path / "core" / "providers" / "custom.h").is_file()
    assert not list(tmp_path.rglob("escaped.h")) and not list(tmp_path.rglob("libonnxruntime.so"))
    monkeypatch.delenv("OPLAB_ORT_ARCHIVE")
    assert headers.find().route == "the project's cache, release archive"
    assert [path.name for path in found.path.parent.iterdir()] == [".ort-headers.lock", "ort-headers"]


def test_an_archive_with_another_hash_is_refused(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = release(tmp_path / "ort.tgz")
    monkeypatch.setenv("OPLAB_ORT_ARCHIVE", str(path))
    monkeypatch.setenv("OPLAB_ORT_ARCHIVE_SHA256", "0" * 64)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(OplabError, match=f"ort.tgz has the SHA-256 {sha}, not 0"):
        headers.find()
    assert not (course / "build" / "cache" / "ort-headers").exists()
    monkeypatch.setenv("OPLAB_ORT_ARCHIVE_SHA256", sha)
    assert headers.find().api == 31
    monkeypatch.setenv("OPLAB_ORT_ARCHIVE", str(tmp_path / "gone.tgz"))
    (course / "build" / "cache" / "ort-headers").rename(tmp_path / "away")
    with pytest.raises(OplabError, match="there is no such file"):
        headers.find()


def test_a_broken_cache_is_replaced(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = put(course / "build" / "cache" / "ort-headers", 31, "onnxruntime_cxx_inline.h")
    (cache.parent / ".ort-headers-killed").mkdir()
    monkeypatch.setenv("OPLAB_ORT_ARCHIVE", str(release(tmp_path / "ort.tgz")))
    assert headers.find().path == cache and (cache / "onnxruntime_cxx_inline.h").is_file()
    assert not (cache.parent / ".ort-headers-killed").exists()


DEBIAN = """\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main


Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
INLINE_KEY = """\
Types: deb
URIs: http://keyed.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc=
 -----END PGP PUBLIC KEY BLOCK-----
"""
OLD_LIST = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/keys/one.gpg] http://listed.example/debian bookworm main contrib
deb http://listed.example/debian bookworm-updates main
deb-src http://listed.example/debian bookworm main
"""


def test_sources_of_another_release_keep_mirror_and_key(tmp_path: Path) -> None:
    parts = tmp_path / "apt" / "sources.list.d"
    parts.mkdir(parents=True)
    (parts / "debian.sources").write_text(DEBIAN)
    (parts / "keyed.sources").write_text(INLINE_KEY)
    (tmp_path / "apt" / "sources.list").write_text(OLD_LIST)
    text = apt.rewrite_sources(tmp_path / "apt", "bookworm", "trixie", "main")
    stanzas = text.strip().split("\n\n")
    assert stanzas == [
        "Types: deb\nURIs: http://listed.example/debian\nSuites: trixie\nComponents: main\nSigned-By: /keys/one.gpg",
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
        "Types: deb\nURIs: http://keyed.example/debian\nSuites: trixie\nComponents: main\nSigned-By: \n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc=\n -----END PGP PUBLIC KEY BLOCK-----",
    ]
    assert apt.rewrite_sources(tmp_path / "apt", "forky", "trixie", "main").strip() == ""


def test_families() -> None:
    mint = {"ID": "linuxmint", "ID_LIKE": "ubuntu debian", "VERSION_CODENAME": "wilma", "UBUNTU_CODENAME": "noble"}
    assert apt._family({"ID": "debian", "VERSION_CODENAME": "bookworm"}) == ("debian", "bookworm")
    assert apt._family({"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_CODENAME": "noble"}) == ("ubuntu", "noble")
    assert apt._family(mint) == ("ubuntu", "noble")
    with pytest.raises(folders.RouteFailed, match="not Debian or Ubuntu"):
        apt._family({"ID": "fedora"})


def test_no_address_is_written_down() -> None:
    modules = list(Path(headers.__file__).parent.glob("*.py"))
    assert len(modules) == 5 and not [path.name for path in modules if "://" in path.read_text()]


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run(
        [sys.executable, "-m", "oplab.toolchain.headers", *arguments], env=env, capture_output=True, text=True
    )


def test_the_command_line(tmp_path: Path) -> None:
    named = put(tmp_path / "named", 21)
    done = command(ORT_INCLUDE_DIR=str(named))
    assert done.returncode == 0 and done.stdout.startswith(f"{named} (API 21, from ORT_INCLUDE_DIR; the runtime is ")
    answer = json.loads(command("--json", ORT_INCLUDE_DIR=str(named)).stdout)
    assert answer == {"path": str(named), "api": 21, "route": "ORT_INCLUDE_DIR"}
    done = command("--json", ORT_INCLUDE_DIR=str(tmp_path / "none"))
    assert done.returncode == 2 and "no such folder" in json.loads(done.stdout)["error"]
    done = command(ORT_INCLUDE_DIR=str(tmp_path / "none"))
    assert done.returncode == 2 and "no such folder" in done.stderr and "Traceback" not in done.stderr
