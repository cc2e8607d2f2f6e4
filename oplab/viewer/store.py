"""How a kernel hands a model to the server: through a private folder next to Jupyter's own runtime files.

Only models that `show` put there can be read, by their identifiers. The folder and its files belong to the user, and no other
user can open them; a link, another user's file or a name that is not an identifier is treated as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from oplab.errors import OplabError
from oplab.files import replacing

FOLDER = "oplab-viewer"
SUFFIXES = (".onnx", ".netron")
MAX_AGE = 30 * 24 * 3600  # seconds that a model stays after it was last shown
MAX_BYTES = 2 << 30  # of all models together; the oldest go first
MAX_WEIGHTS = 256 << 20  # of one model; beyond that Netron shows shapes only
_IDENTIFIER = re.compile(r"[0-9a-f]{20}(-[0-9]{1,4})?")


@dataclass(frozen=True)
class Entry:
    """One model that was shown."""

    name: str
    suffix: str


class Store:
    """The folder of shown models. Kernels write to it, servers read from it."""

    def __init__(self, runtime: Path | str):
        self.folder = Path(runtime) / FOLDER

    # --- writing, in the kernel ---

    def put(
        self, identifier: str, name: str, suffix: str, payload: bytes, write: Callable[[BinaryIO], None] | None
    ) -> None:
        """Hand a model over. ``write`` writes its weights; None leaves them out.

        Raises:
            OplabError: the folder cannot be used.
        """
        self._make()
        now = time.time()
        self._file(identifier + suffix, lambda f: f.write(payload))
        weights = self.folder / f"{identifier}.weights"
        if write is not None:
            self._file(weights.name, write)
        else:
            weights.unlink(missing_ok=True)
        facts = json.dumps({"name": name, "suffix": suffix}).encode()
        self._file(f"{identifier}.json", lambda f: f.write(facts))  # last: with it the model is there
        self._tidy(now)

    def _make(self) -> None:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)
            facts = os.lstat(self.folder)
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                raise OplabError(f"{self.folder} is not a folder of yours, so no model is put there.", "Remove it.")
            if facts.st_mode & 0o077:
                os.chmod(self.folder, 0o700)
        except OSError as error:
            raise OplabError(
                f"{self.folder} cannot be created: {error.strerror}.", "Make Jupyter's runtime folder writable."
            ) from None

    def _file(self, name: str, write: Callable[[BinaryIO], None]) -> None:
        # Not synced: after a power failure the kernel that showed it is gone too.
        with replacing(self.folder / name, mode=0o600, sync=False) as file:
            write(file)

    def _tidy(self, now: float) -> None:
        """Delete models that were not shown for long, and the oldest ones when all together are too large."""
        with contextlib.suppress(OSError):
            files = [(f.stat(follow_symlinks=False), f.path) for f in os.scandir(self.folder)]
            total = sum(facts.st_size for facts, _ in files)
            for facts, path in sorted(files, key=lambda item: item[0].st_mtime):
                if facts.st_mtime >= now - 60:  # what is being shown right now stays
                    break
                if facts.st_mtime < now - MAX_AGE or total > MAX_BYTES:
                    total -= facts.st_size
                    with contextlib.suppress(OSError):
                        os.unlink(path)

    # --- reading, in the server ---

    def entry(self, identifier: str) -> Entry | None:
        """What was shown under this identifier, if anything."""
        opened = self.open(identifier, ".json")
        if opened is None:
            return None
        with os.fdopen(opened[0], "rb") as file:
            try:
                facts = json.loads(file.read(65536))
                entry = Entry(str(facts["name"]), str(facts["suffix"]))
            except (ValueError, KeyError, TypeError):
                return None
        return entry if entry.suffix in SUFFIXES else None

    def open(self, identifier: str, suffix: str) -> tuple[int, int] | None:
        """A descriptor of one of a model's files and its size, or None. Links and other users' files are refused."""
        if not _IDENTIFIER.fullmatch(identifier):
            return None
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not _private(os.fstat(folder), stat.S_ISDIR):
                return None
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(identifier + suffix, flags, dir_fd=folder)
        except OSError:
            return None
        finally:
            os.close(folder)
        facts = os.fstat(descriptor)
        if not _private(facts, stat.S_ISREG):
            os.close(descriptor)
            return None
        return descriptor, facts.st_size


def _private(facts: os.stat_result, kind: Callable[[int], bool]) -> bool:
    return kind(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def identify(text: str) -> str:
    """The identifier of a picture: the same on every machine, because everything in it is."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]
