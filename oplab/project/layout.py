"""Where the parts of an operator's project are: the folder that ``oplab new-operator`` makes."""

from __future__ import annotations

import keyword
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from oplab.errors import OplabError
from oplab.toolchain.recipes import SUFFIX

_OPERATOR = re.compile(r"[A-Za-z_][\w.]*::[A-Za-z_]\w*")


@dataclass(frozen=True)
class Project:
    """An operator's project.

    Attributes:
        folder: its root, which has ``pyproject.toml``.
        package: the name of its Python package, for example ``rotated_roi_align``.
        operator: the ONNX operator, ``domain::Name``.
    """

    folder: Path
    package: str
    operator: str

    @property
    def sources(self) -> Path:
        """The folder of the Python package."""
        return self.folder / "src" / self.package

    def source(self, kind: str) -> Path:
        """The C++ file of a library: ``cpp/torch_op.cpp`` or ``cpp/ort_op.cpp``."""
        return self.folder / "cpp" / f"{kind}_op.cpp"

    def library(self, kind: str) -> Path:
        """Where the library of a kind is, or will be: in the package, as in the wheel."""
        return self.sources / f"{self.package}_{kind}{SUFFIX}"

    @property
    def host_sources(self) -> tuple[Path, ...]:
        """The C++ files of the host program; none where the project has no ``host``."""
        return tuple(sorted((self.folder / "host").glob("*.cpp")))

    @property
    def host_program(self) -> Path:
        """Where the host program is, or will be."""
        return self.folder / "build" / f"{self.package}_host"

    @property
    def example(self) -> Path:
        """The network and the inputs that tests and the report run."""
        return self.folder / "tests" / "example.py"


def open_project(folder: str | os.PathLike[str]) -> Project:
    """The project in a folder."""
    given = Path(folder)
    if not given.is_dir():
        raise OplabError(
            f"{given} is not a folder." if given.exists() else f"The folder {given} does not exist.",
            "Give the folder that `oplab new-operator` made.",
        )
    for place in (given.resolve(), *given.resolve().parents):
        file = place / "pyproject.toml"
        if file.is_file():
            found = _read(file)
            if found is not None:
                return found
    raise OplabError(
        f"{given} is not the project of an operator: no pyproject.toml there has a table [tool.oplab].",
        "`oplab new-operator NAME` makes one.",
    )


def _read(file: Path) -> Project | None:
    """The project that a ``pyproject.toml`` describes; None where it is that of something else."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OplabError(f"{file} cannot be read: {error}.", "Correct it, or restore it.") from None
    own = table.get("tool", {}).get("oplab")
    if own is None:
        return None
    operator, name = own.get("operator"), table.get("project", {}).get("name")
    if not isinstance(operator, str) or not _OPERATOR.fullmatch(operator):
        raise OplabError(
            f"{file}: [tool.oplab] operator must be the ONNX operator as domain::Name, not {operator!r}.",
            'For example operator = "my::RotatedRoiAlign".',
        )
    package = name.replace("-", "_") if isinstance(name, str) else ""
    if not package.isidentifier() or keyword.iskeyword(package):
        raise OplabError(
            f"{file}: [project] name is {name!r}, and the package in src/ must have that name.",
            "Give the name of the package.",
        )
    return Project(file.parent, package, operator)
