"""What is installed in an environment, what should be, and what a killed pip left. Standard library only."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

# Packages that only torch needs, and only where its wheels carry CUDA; a build from TORCH_INDEX brings its own.
TORCH = ("torch", "torchvision")
TORCH_ONLY = re.compile(r"^(nvidia-.*|cuda-.*|triton)$")

LARGE = {"torch", "playwright", "scipy", "cmake", "onnxruntime"}  # tens of megabytes and more
COMPILED_WITH = ("cmake", "onnxruntime", "torch")  # what compiling csrc needs: they are installed first


def normalize(name: str) -> str:
    """A package's name in the one spelling that indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_lock(text: str) -> list[tuple[str, str, str]]:
    """The pins of a lock.

    Returns:
        (name, version, marker) for each line ``name==version ; marker``; the marker may be "".

    Raises:
        ValueError: a line is something else.
    """
    pins = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)(?:\s*;\s*(.+))?", line)
        if not match:
            raise ValueError(f"requirements.lock, line {number}: not an exact pin: {line}")
        pins.append((normalize(match[1]), match[2], match[3] or ""))
    return pins


def installed(sites: Iterable[Path], finished: bool = False) -> dict[str, str]:
    """The versions of all packages in some site-packages folders, read from the names of their .dist-info folders.

    With ``finished``, only those that have their RECORD: pip writes it last.
    """
    found: dict[str, str] = {}
    for site in sites:
        try:
            entries = list(site.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith(".dist-info") and not entry.name.startswith("~"):
                if finished and not (entry / "RECORD").is_file():
                    continue
                name, _, version = entry.name.removesuffix(".dist-info").rpartition("-")
                found[normalize(name)] = version
    return found


def agrees(pin: str, version: str | None) -> bool:
    """True when an installed version is the pinned one; a local build (``2.15.0+cpu``) of the pinned version is."""
    return version is not None and version.split("+", 1)[0] == pin


def missing(pins: Mapping[str, str], have: Mapping[str, str]) -> dict[str, str]:
    """The pins that are not met. Where torch is a build from another index, the CUDA packages are not asked for."""
    other_torch = "+" in have.get("torch", "") and agrees(pins.get("torch", ""), have.get("torch"))
    return {
        name: version
        for name, version in pins.items()
        if not agrees(version, have.get(name)) and not (other_torch and TORCH_ONLY.match(name))
    }


def batches(names: Iterable[str], size: int = 30) -> list[list[str]]:
    """The packages in the order in which pip gets them: the large ones one by one, :data:`COMPILED_WITH` first, the rest in groups.

    What an ended pip has installed stays when the next one is interrupted, and a wheel's file is gone before the next
    is fetched, which keeps the disk that is needed small.
    """
    names = sorted(names, key=lambda name: name not in COMPILED_WITH)
    large = [name for name in names if name in LARGE or TORCH_ONLY.match(name)]
    rest = [name for name in names if name not in large]
    return [[name] for name in large] + [rest[start : start + size] for start in range(0, len(rest), size)]


def record_is_whole(info: Path) -> bool:
    """True when every file that a package's RECORD lists is there with its size. pip writes RECORD last."""
    record = info / "RECORD"
    try:
        with open(record, newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                if len(row) != 3 or not row[2] or row[0].endswith(".pyc"):
                    continue
                if (info.parent / row[0]).stat().st_size != int(row[2]):
                    return False
    except (OSError, ValueError):
        return False
    return True


def repair(sites: Iterable[Path], names: Iterable[str] | None = None) -> list[str]:
    """Removes what a killed pip left in site-packages; returns the names of the packages that must be installed again.

    pip renames what it removes to ``~name`` and writes RECORD last. A package without a whole RECORD cannot be removed
    by pip itself ("no RECORD file was found"), so its .dist-info is removed here, and pip then writes its files again.
    """
    wanted = None if names is None else {normalize(name) for name in names}
    broken = []
    for site in sites:
        if not site.is_dir():
            continue
        for entry in sorted(site.iterdir()):
            if entry.name.startswith("~"):
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
            elif entry.name.endswith(".dist-info"):
                name = normalize(entry.name.removesuffix(".dist-info").rpartition("-")[0])
                if (wanted is None or name in wanted) and not record_is_whole(entry):
                    shutil.rmtree(entry)
                    broken.append(name)
    return broken
