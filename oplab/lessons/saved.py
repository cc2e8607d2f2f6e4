"""The learner's module in a notebook, read again after each save."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from oplab.course.parsing import parse
from oplab.errors import OplabError


class Answers:
    """A module that is read again whenever its file has changed, so that ``ex.asinh`` is what was saved last.

    An attribute raises OplabError when the file cannot be read, is not valid Python, or does not define it.
    """

    def __init__(self, file: Path):
        self._file, self._stamp, self._module = file, None, None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        module = self._load()
        if not hasattr(module, name):
            raise OplabError(
                f"{self._file.name} has no function {name}.",
                f"`oplab reset c{self._file.stem[1:3]}.{name}` restores its stub.",
            )
        return getattr(module, name)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._load()) if not name.startswith("_")]

    def _load(self) -> ModuleType:
        try:
            seen = self._file.stat()
            text = self._file.read_text(encoding="utf-8")
        except OSError as error:
            raise OplabError(
                f"{self._file} cannot be read: {error.strerror}.", f"`oplab reset c{self._file.stem[1:3]}` restores it."
            ) from None
        stamp = (seen.st_mtime_ns, seen.st_size)
        if stamp != self._stamp:
            try:
                parse(text)
            except SyntaxError as error:
                raise OplabError(
                    f"{self._file.name}, line {error.lineno}: {error.msg}.", "Fix that line and save the file."
                ) from None
            spec = importlib.util.spec_from_file_location(f"answers_{self._file.stem}", self._file)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module.__name__] = module
            exec(compile(text, str(self._file), "exec"), module.__dict__)  # not the loader: its cache is by the second
            self._module, self._stamp = module, stamp
        assert self._module is not None
        return self._module
