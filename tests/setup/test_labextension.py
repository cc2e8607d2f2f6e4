"""The built files of the JupyterLab extension are what labextension/ gives, in any folder, and name no other machine."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import build_labextension
import pytest

import oplab
from oplab.errors import OplabError
from tests.support import ROOT

SOURCE, BUILT = build_labextension.SOURCE, build_labextension.BUILT
EXACT = re.compile(r"\d+\.\d+\.\d+(-[\w.]+)?")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.nightly
def test_the_committed_files_are_what_the_sources_give(tmp_path):
    target = tmp_path / "another folder" / "with a longer name"
    try:
        env = build_labextension.environment(install=True)
        build_labextension.copy_sources(build_labextension.WORK)
        build_labextension.install_packages(build_labextension.WORK, env)
    except OplabError as error:
        pytest.skip(f"Node.js and the packages of npm are needed to build it again: {error.message[:200]}")
    build_labextension.copy_sources(target)
    # a link would not do: the names of modules would be those of the other folder
    shutil.copytree(build_labextension.WORK / "node_modules", target / "node_modules", symlinks=True)
    made, committed = files(build_labextension.build(target, env)), files(BUILT)
    committed.pop("install.json")
    assert sorted(made) == sorted(committed), "run `make lab-extension`"
    assert [name for name in made if made[name] != committed[name]] == [], "run `make lab-extension`"


def test_it_is_built_for_use():
    package = json.loads((BUILT / "package.json").read_text())
    entry = BUILT / package["jupyterlab"]["_build"]["load"]
    assert entry.is_file()
    assert json.loads((BUILT / "install.json").read_text())["packageName"] == "operator-lab"
    assert not list(BUILT.rglob("*.map"))
    for name, data in files(BUILT).items():
        for path in (str(ROOT), "/home/", "/tmp/", "/root/", "/Users/"):
            assert path.encode() not in data, (name, path)


def test_versions_agree():
    version = json.loads((SOURCE / "package.json").read_text())["version"]
    assert version == oplab.__version__
    assert f'\nversion = "{version}"\n' in (ROOT / "pyproject.toml").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"'{version}'" in (SOURCE / "src" / "version.ts").read_text()


def test_packages_are_pinned_and_no_registry_is_named():
    package = json.loads((SOURCE / "package.json").read_text())
    assert package["private"] is True  # it comes with the Python package
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert EXACT.fullmatch(version), (name, version)
    text = (SOURCE / "package-lock.json").read_text()
    lock = json.loads(text)
    assert "resolved" not in text
    assert not re.search(r"//registry|registry\.", text)
    for name, entry in lock["packages"].items():
        if name:
            assert EXACT.fullmatch(entry["version"]), name
            assert entry["integrity"].startswith("sha512-"), name
