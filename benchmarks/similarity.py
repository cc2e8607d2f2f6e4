"""How often `oplab class similar` is wrong: false alarms on independent answers, and which disguised copies it finds.

``python -m benchmarks.similarity`` prints the tables of docs/class.md. Nothing in them depends on the processor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import document
from benchmarks.disguises import DISGUISES
from oplab.authoring import mutants
from oplab.classes import similarity
from oplab.classes.similarity import LEAST, THRESHOLD, Given
from oplab.classes.similarity_parts import own_part
from oplab.course import answers
from oplab.course.manifest import Course, Exercise, load

SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True)
class Sample:
    """The answers to one exercise.

    Attributes:
        solution: the text of the reference's file.
        alternatives: independent right answers, by name.
        others: wrong answers that are written from scratch.
        edited: the reference with an edit: wrong answers, and right ones.
    """

    exercise: Exercise
    stub: str
    solution: str
    alternatives: dict[str, str]
    others: dict[str, str]
    edited: dict[str, str]

    @property
    def right(self) -> dict[str, str]:
        """The reference, with an empty name, and the alternatives."""
        return {"": own_part(self.solution, self.exercise), **self.alternatives}

    @property
    def language(self) -> str:
        return "python" if self.exercise.kind == "python" else "cpp"


def samples(course: Course) -> Iterator[Sample]:
    """What the course itself has. An alternative in Python gets the imports of the stub, not the reference's helpers."""
    for exercise in course.exercises:
        stub, solution = answers.stub_text(course, exercise), answers.reference_text(course, exercise)
        imports = [line for line in stub.split("\n") if line.startswith(("import ", "from "))]
        before = "\n".join(imports) + "\n" if exercise.kind == "python" else ""
        known = [mutants.read(course, exercise, kind, solution)[0] for kind in ("alternative", "mutant")]
        alternatives, others = ({entry.name: before + entry.code for entry in part if entry.code} for part in known)
        edited = {f"{entry.kind} {entry.name}": entry.text for part in known for entry in part if not entry.code}
        parts = [
            {name: own_part(text, exercise) for name, text in texts.items()} for texts in (alternatives, others, edited)
        ]
        yield Sample(exercise, stub, solution, *parts)


def rows(texts: dict[str, str], language: str, given: Given) -> Iterator[tuple[float, float]]:
    """Score and evidence of each pair of answers that are long enough to be compared."""
    for first, second in itertools.combinations(texts.values(), 2):
        found = compared(first, second, language, given)
        if found is not None:
            yield found


def compared(first: str, second: str, language: str, given: Given) -> tuple[float, float] | None:
    """Score and evidence of two answers; None if one of them is too short, 1 and all of it if they are equal."""
    texts = {"first": first, "second": second}
    report = similarity.compare_parts("pair", texts, language, given, threshold=0.0, least=LEAST)
    if report.short or report.answers < 2:
        return None
    if report.equal:
        return 1.0, report.equal[0].size
    return (report.pairs[0].score, report.pairs[0].evidence) if report.pairs else (0.0, 0.0)


def independent(sample: Sample) -> Iterator[tuple[float, float]]:
    """Pairs of right answers, another right answer subtracted: each takes the part of the reference once."""
    right = sample.right
    for name, text in right.items():
        rest = {other: part for other, part in right.items() if other != name}
        yield from rows(rest, sample.language, Given(sample.stub, text))


def with_reference(sample: Sample) -> Iterator[tuple[float, float]]:
    """Pairs of alternatives, the reference subtracted: what the command does."""
    yield from rows(sample.alternatives, sample.language, Given(sample.stub, sample.solution))


def without_reference(sample: Sample) -> Iterator[tuple[float, float]]:
    """Pairs of right answers, only the stub subtracted: what the subtraction is good for."""
    yield from rows(sample.right, sample.language, Given(sample.stub))


def edited(sample: Sample) -> Iterator[tuple[float, float]]:
    """Pairs of answers that are the reference with an edit, mutants and some alternatives, as one class."""
    given = Given(sample.stub, sample.solution)
    report = similarity.compare_parts("all", sample.edited, sample.language, given, threshold=0.0)
    found = [(pair.score, pair.evidence) for pair in report.pairs]
    found += [(1.0, group.size) for group in report.equal]
    long = report.answers - report.short
    yield from found
    yield from [(0.0, 0.0)] * (long * (long - 1) // 2 - len(found))


def across(found: list[Sample]) -> Iterator[tuple[float, float]]:
    """Pairs of alternatives to different exercises of one language, both references subtracted."""
    for one, other in itertools.combinations(found, 2):
        if one.language == other.language:
            given = Given(f"{one.stub}\n{other.stub}", f"{one.solution}\n{other.solution}")
            for first, second in itertools.product(one.alternatives.values(), other.alternatives.values()):
                row = compared(first, second, one.language, given)
                if row is not None:
                    yield row


def copies(found: list[Sample], name: str) -> Iterator[tuple[float, float]]:
    """Each answer that is not an edit of the reference, and its disguised copy; the reference is subtracted."""
    for sample in found:
        given = Given(sample.stub, sample.solution)
        for text in {**sample.alternatives, **sample.others}.values():
            copy = DISGUISES[name](text, sample.language, 1)
            row = compared(text, copy, sample.language, given) if copy != text else None
            if row is not None:
                yield row


def counted(name: str, found: Iterable[tuple[float, float]]) -> list[str]:
    """A row of a table: the number of pairs, and how many are reported at each threshold."""
    found = list(found)
    reported = [sum(score >= share and evidence >= LEAST for score, evidence in found) for share in SHARES]
    return [name, str(len(found)), *(f"{count} ({count / max(len(found), 1):.1%})" for count in reported)]


def near(found: list[Sample]) -> str:
    """How many edits of the reference are called near the reference."""
    total = reported = small = 0
    for sample in found:
        given = Given(sample.stub, sample.solution)
        report = similarity.compare_parts("all", sample.edited, sample.language, given)
        total += report.answers
        reported += sum(len(entry.logins) for entry in report.near)
        small += report.short
    return f"Of {total} edits of the reference, {reported} are listed as near the reference; {small} keep fewer than {LEAST} tokens."


def main() -> None:
    """Print the tables."""
    found = list(samples(load(Path(__file__).resolve().parents[1])))
    head = ["pairs", "compared", *(f">= {share:g}" for share in SHARES)]
    print(f"Reported pairs, from {LEAST} tokens on, by threshold; `oplab class similar` uses {THRESHOLD:g}.\n")
    print("False alarms: independent answers")
    alarms = [
        counted("alternatives, reference subtracted", itertools.chain(*map(with_reference, found))),
        counted("right answers, another one subtracted", itertools.chain(*map(independent, found))),
        counted("alternatives to different exercises", across(found)),
        counted("right answers, only the stub subtracted", itertools.chain(*map(without_reference, found))),
    ]
    print(document.markdown(alarms, head))
    print("\nDetection: an answer and its disguised copy, reference subtracted")
    print(document.markdown([counted(name, copies(found, name)) for name in DISGUISES], head))
    print("\nEdits of the reference, compared with each other")
    print(document.markdown([counted("mutants and edited alternatives", itertools.chain(*map(edited, found)))], head))
    print("\n" + near(found))
    whole = sum(len(sample.alternatives) + len(sample.others) for sample in found)
    print(f"The disguised answers are those of {whole} that have {LEAST} tokens after the subtraction.")


if __name__ == "__main__":
    main()
