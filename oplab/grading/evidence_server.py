"""Grading servers that keep evidence, for the pictures in reports and in the panel (:mod:`oplab.reports.graphs`)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oplab.checks.sizes import MAX_FILE, MAX_JSON
from oplab.grading.client import Server
from oplab.grading.protocol import Answer, Job
from oplab.grading.scratch import scratch_folder


class KeepsEvidence:
    """What makes a grading server one that keeps the evidence of what the judge rejected, until it is closed.

    It comes before the server's class among the bases.

    Attributes:
        kept: a folder with one folder of evidence for each exercise that was rejected when it was last graded.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.kept: Path = self._folders.enter_context(scratch_folder())  # type: ignore[attr-defined]

    def run(self, job: Job, fresh: Callable[[], object] = lambda: None) -> Answer:
        """As :meth:`Server.run`. Afterwards the evidence is kept if its judge did not find all checks passed."""
        if job.half == "collect":
            shutil.rmtree(self.kept / job.id, ignore_errors=True)  # of an earlier run
        answer = super().run(job, fresh)  # type: ignore[misc]
        if job.half == "judge":
            checks = answer.report.checks if answer.report is not None else ()
            if not checks or not all(check.passed for check in checks):
                copy_evidence(job.evidence, self.kept / job.id)
        return answer


class EvidenceServer(KeepsEvidence, Server):
    """A grading server that keeps evidence, for the reports of one run."""


def copy_evidence(evidence: Path, folder: Path) -> None:
    """Copy the evidence of one exercise, as far as it is plain files of at most MAX_FILE bytes together.

    Args:
        evidence: the folder of the evidence.
        folder: the copy; what an earlier run left there is removed.
    """
    try:
        items = evidence / "evidence.json"
        if items.is_symlink() or not items.is_file() or items.stat().st_size > MAX_JSON:
            return
        shutil.rmtree(folder, ignore_errors=True)  # an exercise may be graded twice
        folder.mkdir()  # without parents: a run whose folder another command has removed
        shutil.copyfile(items, folder / items.name)
        room = MAX_FILE
        for file in sorted(evidence.glob("f*.bin")):
            if file.is_symlink() or not file.is_file():
                continue
            room -= file.stat().st_size
            if room < 0:
                return
            shutil.copyfile(file, folder / file.name)
    except OSError:  # a full disk: the page has one picture less
        shutil.rmtree(folder, ignore_errors=True)
