"""Updates of a folder that ``oplab init`` has made: what was delivered there, and what brings it to another release."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from oplab import paths
from oplab.errors import OplabError
from oplab.updates import delivery
from oplab.updates.journal import Change, digest, digest_of
from oplab.updates.planning import EXERCISES, Plan, expect_file, kind_of, plan_stubs


@dataclass(frozen=True)
class Delivered:
    """What ``.oplab/`` says about the last delivery. ``release`` and ``files`` are empty where the record is broken."""

    release: str
    files: dict[str, str]
    broken: bool = False


def delivered(root: Path) -> Delivered:
    """What was delivered to a folder.

    Raises:
        OplabError: a newer version of the course has written it down.
    """
    try:
        data = json.loads((root / paths.DELIVERED).read_text(encoding="utf-8"))
        if data["version"] > delivery.VERSION:
            raise OplabError(
                f"A newer Operator Lab has written {paths.DELIVERED}, which this one cannot read.",
                "Install the newer version's wheel, and run the command again.",
            )
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
    """Check that a release is not older than what was delivered.

    Raises:
        OplabError: it is.
    """
    with contextlib.suppress(InvalidVersion):
        if before.release and Version(release) < Version(before.release):
            raise OplabError(
                f"This folder has Operator Lab {before.release}, and the version that is installed is older: {release}.",
                "Install the newer version's wheel, and run the command again.",
            )


def plan_folder(
    plan: Plan,
    root: Path,
    before: Delivered,
    release: str,
    files: Mapping[str, bytes],
    renamed: Mapping[str, str],
) -> None:
    """Add to a plan what brings a folder to another release.

    Args:
        plan: is extended.
        root: the folder.
        before: what was delivered.
        release: the version of ``files``.
        files: the content of all files of the course, by their paths.
        renamed: new ids of exercises by old ones.

    Raises:
        OplabError: a folder is where the course has a file, or a file cannot be read.
    """
    if before.broken:
        plan.backups[paths.DELIVERED] = root / paths.DELIVERED
        plan.notes.append(
            f"{paths.DELIVERED} cannot be read. It is kept as {plan.backup}/{paths.DELIVERED}; "
            "files that are not the new ones count as yours."
        )
    dropped = [path for path in before.files if path not in files and not path.startswith(EXERCISES)]
    for path in dropped:
        _plan_dropped(plan, root, path, before.files[path])
    for path, text in files.items():
        if not path.startswith(EXERCISES):
            expect_file(root, path, dropped)
            _plan_file(plan, root, path, text, before.files.get(path))
    new = {path.removeprefix(EXERCISES): text for path, text in files.items() if path.startswith(EXERCISES)}
    base = _stubs(root, before)

    def pristine(name: str, text: bytes) -> bool:
        return digest(text) == before.files.get(EXERCISES + name) or text == base.get(name)

    plan_stubs(plan, root, base, new, renamed, pristine)
    for name in sorted({*base, *new}):
        path = f"{delivery.STUBS}/{name}"
        was = digest_of(root / path)
        if was != (digest(new[name]) if name in new else None):
            plan.changes.append(Change(path, new.get(name), was))
    record, was = delivery.record(release, files).encode(), digest_of(root / paths.DELIVERED)
    if was != digest(record):
        plan.changes.append(Change(paths.DELIVERED, record, was))


def _stubs(root: Path, before: Delivered) -> dict[str, bytes | None]:
    """The stubs as they were delivered; None for one that is not in ``.oplab/stubs`` any more."""
    folder = root / delivery.STUBS
    kept = {path.relative_to(folder).as_posix(): path for path in folder.rglob("c*") if path.is_file()}
    if not before.files:
        return {name: path.read_bytes() for name, path in sorted(kept.items())}
    found: dict[str, bytes | None] = {}
    for path, known in before.files.items():
        if path.startswith(EXERCISES):
            name = path.removeprefix(EXERCISES)
            text = kept[name].read_bytes() if name in kept else None
            found[name] = text if text is not None and digest(text) == known else None
    return found


def _plan_file(plan: Plan, root: Path, path: str, text: bytes, known: str | None) -> None:
    """A file of the course's own: it is replaced where it differs, and backed up before if the learner has changed it."""
    now = digest_of(root / path)
    if now == digest(text):
        return
    plan.changes.append(Change(path, text, now))
    (plan.added if now is None and known is None else plan.changed)[kind_of(path)] += 1
    if now is not None and now != known:
        _keep(plan, root, path, f"{path} is replaced by the course's; yours is kept as {plan.backup}/{path}.")


def _plan_dropped(plan: Plan, root: Path, path: str, known: str) -> None:
    now = digest_of(root / path)
    if now is None:
        return
    plan.changes.append(Change(path, None, now))
    plan.removed += 1
    if now != known:
        _keep(plan, root, path, f"The course no longer has {path}; yours is kept as {plan.backup}/{path}.")


def _keep(plan: Plan, root: Path, path: str, note: str) -> None:
    if (root / path).is_file():  # not a link to nothing
        plan.backups[path] = root / path
        plan.notes.append(note)
