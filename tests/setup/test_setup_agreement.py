"""pyproject.toml, requirements.lock and environment.yml say the same, and the code imports nothing that they do not name."""

from __future__ import annotations

import ast
import itertools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import setup_packages as packages
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK_TEXT = (ROOT / "requirements.lock").read_text()
LOCK = packages.parse_lock(LOCK_TEXT)
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = (
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "darwin", "platform_machine": "arm64"},
)

NEEDED = [Requirement(text) for text in PROJECT["dependencies"]]
DEV = [Requirement(text) for text in PROJECT["optional-dependencies"]["dev"]]


def environment_of(python: str, system: dict[str, str]) -> dict[str, str]:
    environment = {"python_version": python, "python_full_version": f"{python}.9", "os_name": "posix", **system}
    return {**environment, "implementation_name": "cpython"}


def pins_for(python: str, system: dict[str, str]) -> dict[str, list[str]]:
    environment = environment_of(python, system)
    held: dict[str, list[str]] = {}
    for name, version, marker in LOCK:
        if not marker or Marker(marker).evaluate(environment):
            held.setdefault(name, []).append(version)
    return held


@pytest.mark.parametrize(("python", "system"), list(itertools.product(PYTHONS, SYSTEMS)))
def test_the_lock_pins_each_package_once_and_in_range(python: str, system: dict[str, str]) -> None:
    held = pins_for(python, system)
    assert [name for name, versions in held.items() if len(versions) != 1] == []
    for requirement in NEEDED + DEV:
        name = packages.normalize(requirement.name)
        if requirement.marker and not requirement.marker.evaluate(environment_of(python, system)):
            assert name not in held, (
                f"`make lock`: pyproject.toml leaves {name} out for Python {python}, the lock does not"
            )
            continue
        assert name in held, f"`make lock`: {name} is in pyproject.toml and not in the lock"
        assert requirement.specifier.contains(held[name][0]), f"`make lock`: {name} {held[name][0]}, not {requirement}"


def test_the_pythons_that_are_promised() -> None:
    promised = SpecifierSet(PROJECT["requires-python"])
    inside = [f"3.{minor}" for minor in range(8, 20) if f"3.{minor}" in promised]
    assert tuple(inside) == PYTHONS
    import bootstrap
    import lock

    assert (bootstrap.OLDEST, bootstrap.NEWEST) == ((3, 11), (3, 14)) == ((3, lock.OLDEST), (3, lock.NEWEST))
    conda = conda_requirements()["python"]
    assert [python for python in PYTHONS if python in conda] == list(PYTHONS) and "3.10" not in conda


def conda_requirements() -> dict[str, SpecifierSet]:
    named = {}
    for entry in CONDA["dependencies"]:
        if isinstance(entry, str):
            name, _, ranges = entry.partition(" ")
            named[name] = SpecifierSet(ranges)
    return named


def test_conda_s_headers_are_never_newer_than_the_runtime() -> None:
    runtime = Version(next(version for name, version, _ in LOCK if name == "onnxruntime"))
    headers = conda_requirements()["onnxruntime-cpp"]
    assert str(runtime) in headers and f"1.{runtime.minor + 1}.0" not in headers
    assert next(need for need in NEEDED if need.name == "onnxruntime").specifier.contains(str(runtime))


@pytest.mark.parametrize("name", ["requirements.lock", "environment.yml", "pyproject.toml", "Makefile"])
def test_no_index_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text and not re.search(r"--(extra-)?index-url|--find-links", text)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


# Imports that are tried and may fail, or that belong to an extra.
OPTIONAL = set("torch_cluster tensorrt openvino ncnn pnnx executorch dask distributed cryptography".split())
OPTIONAL.add("triton")  # comes with the PyTorch of some platforms


@pytest.mark.parametrize(
    ("folders", "allowed"),
    [(("oplab", "solutions", "exercises", "notebooks/src"), NEEDED), (("tools", "tests", "benchmarks"), NEEDED + DEV)],
    ids=["course", "development"],
)
def test_every_import_is_declared(folders: tuple[str, ...], allowed: list[Requirement]) -> None:
    homes = packages_distributions()
    declared = {packages.normalize(requirement.name) for requirement in allowed}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    own = {path.stem for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    own |= {"oplab", "exercises", "solutions", "benchmarks", "tests"}
    stray: dict[str, set[str]] = {}
    for path in files:
        if path.is_relative_to(ROOT / "tests" / "support" / "course"):
            continue
        for name in imported(path) - set(sys.stdlib_module_names) - own - OPTIONAL:
            if not declared & {packages.normalize(home) for home in homes.get(name, [name])}:
                stray.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert not stray, f"not in pyproject.toml: {stray}"
