"""Updates of a folder that ``oplab init`` has made: from what was delivered there to the release that is installed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from packaging.version import InvalidVersion, Version

from oplab import paths
from oplab.course import copies, manifest, renaming
from oplab.errors import OplabError
from oplab.files import write_atomically
from oplab.updates import delivery
from oplab.updates.placing import Placing, expect_file
from oplab.updates.stubs import EXERCISES, Report, kind_of, update_stubs


@dataclass(frozen=True)
class Delivered:
    """What ``.oplab/`` says about the last delivery. ``release`` and ``files`` are empty where the record is broken."""

    release: str
    files: dict[str, str]
    broken: bool = False


def delivered(root: Path) -> Delivered:
    """What was delivered to a folder."""
    try:
        data = json.loads((root / paths.DELIVERED).read_text(encoding="utf-8"))
        Version(data["release"])
        files = {str(path): str(found) for path, found in data["files"].items()}
        if any(Path(path).is_absolute() or ".." in Path(path).parts for path in files):
            raise ValueError("a path outside of the folder")
        return Delivered(data["release"], files)
    except FileNotFoundError:
        return Delivered("", {})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):  # InvalidVersion is a ValueError
        return Delivered("", {}, broken=True)


def expect_newer(before: Delivered, release: str) -> None:
    """Check that a release is not older than what was delivered."""
    with contextlib.suppress(InvalidVersion):
        if before.release and Version(release) < Version(before.release):
            raise OplabError(
                f"This folder has Operator Lab {before.release}, and the version that is installed is older: {release}.",
                "Install the newer version's wheel, and run the command again.",
            )


def update_folder(placing: Placing, report: Report, release: str, files: Mapping[str, bytes]) -> dict[str, str]:
    """Bring a folder to a release. A run that was killed is repeated.

    Args:
        files: the content of all files of the course, by their paths.

    Returns:
        new ids of exercises by old ones.
    """
    root, before = placing.root, delivered(placing.root)
    expect_newer(before, release)
    dropped = {path for path in before.files if path not in files and not path.startswith(EXERCISES)}
    for path in files:
        expect_file(root, path, dropped)
    placing.begin()
    if before.broken:
        record = placing.read(paths.DELIVERED) or b""
        placing.remove(paths.DELIVERED, record)
        report.notes.append(
            f"{paths.DELIVERED} cannot be read. It is kept as {placing.backup}/{paths.DELIVERED}; "
            "files that are not the new ones count as yours."
        )
    for path in sorted(dropped):
        _remove(placing, report, path, before.files[path])
    for path, text in files.items():
        if not path.startswith(EXERCISES):
            _put(placing, report, path, text, before.files.get(path))
    new = {path: text for path, text in files.items() if path.startswith(EXERCISES)}
    renamed = renaming.read(files.get("course.toml", b"").decode("utf-8", "replace"))

    def done(path: str) -> None:
        """The base of the next merge is this stub, also if the update ends here."""
        if not placing.dry_run and placing.read(stub := _stub(path)) != new[path]:
            (root / stub).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(root / stub, new[path])

    base = _delivered_stubs(placing, before)
    update_stubs(placing, report, base, new, renamed, done)
    if not placing.dry_run:
        for path in base.keys() - new.keys():
            (root / _stub(path)).unlink(missing_ok=True)
        write_atomically(root / paths.DELIVERED, delivery.record(release, files))
    return renamed


def renew_lessons(root: Path) -> list[str]:
    """Renew the learner's copies of the lessons, after an update.

    Returns:
        sentences about copies that stay as the learner has them, although the lesson is new.
    """
    try:
        course = manifest.load(root)
        copies.sync(course)
    except OplabError as error:
        return [f"Your copies of the lessons were not updated: {error.message} {error.fix}"]
    return [
        f"work/{stem}.ipynb has your changes and is kept; `oplab reset notebooks/{stem[:2]}` restores the new one."
        for stem, state in copies.states(course).items()
        if state == "newer"
    ]


def _delivered_stubs(placing: Placing, before: Delivered) -> dict[str, bytes | None]:
    """The stubs as they were delivered; None for one that is known no more."""
    folder = placing.root / delivery.STUBS
    kept = {EXERCISES + path.relative_to(folder).as_posix(): path for path in folder.rglob("c*") if path.is_file()}
    return {
        path: kept[path].read_bytes() if path in kept else None
        for path in {**before.files, **kept}
        if path.startswith(EXERCISES)
    }


def _stub(path: str) -> str:
    return f"{delivery.STUBS}/{path.removeprefix(EXERCISES)}"


def _put(placing: Placing, report: Report, path: str, text: bytes, known: str | None) -> None:
    """Replaces a file of the course's own, which the backup keeps if the learner has changed it."""
    now = placing.read(path)
    if now == text:
        return
    edited = now is not None and sha256(now).hexdigest() != known
    if not placing.put(path, now, text, keep=edited):
        raise OplabError(f"{path} was saved during the update.", "Run `oplab update` again.")
    (report.added if now is None and known is None else report.changed)[kind_of(path)] += 1
    if edited:
        report.notes.append(f"{path} is replaced by the course's; your version is saved in {placing.backup}/{path}.")


def _remove(placing: Placing, report: Report, path: str, known: str) -> None:
    now = placing.read(path)
    if now is None:
        return
    edited = sha256(now).hexdigest() != known
    placing.remove(path, now, keep=edited)
    report.removed += 1
    if edited:
        report.notes.append(f"The course no longer has {path}; your version is saved in {placing.backup}/{path}.")
