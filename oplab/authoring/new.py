"""``oplab new-exercise``: everything that an exercise needs, in the right places, working from the first minute.

The solution of the skeleton passes its check and its stub is `todo`; what the author has to write is marked ``WRITE:``, and
``oplab lint-course`` finds every mark that is left.
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from oplab.authoring.lesson_rules import COLUMNS
from oplab.course import quiz, stubs
from oplab.course.manifest import KINDS, NUMBER, Chapter, Course, load
from oplab.course.parsing import parse
from oplab.errors import OplabError
from oplab.files import write_atomically

# What comes after the core of a lesson, and after what is deeper; the heading may be in the middle of a cell.
_AFTER = {
    deeper: re.compile(rf"^(# %% \[markdown\][^\n]*\n)?# ## (?:{next_}Five questions)", re.MULTILINE)
    for deeper, next_ in ((False, "Deeper: |"), (True, ""))
}
_LETTERS = {"str": "s", "float": "f", "int": "i", "bool": "b", "List[int]": "is", "List[float]": "fs"}  # of parse_args
_NUMBERS = {
    "s": '""',
    "f": "1.0",
    "i": "1",
    "b": "False",
    "is": "[1]",
    "fs": "[1.0]",
}  # for arguments without a default
_HIDDEN = """
[hidden_by_pytorch]
says = "the export uses PyTorch's own mapping of {operator}, which is there from opset {opset} on"
find = "({versions})"
with = "(9,)"
"""
_ID = re.compile(rf"c({NUMBER})\.([a-z][a-z0-9_]*)")


@dataclass(frozen=True)
class Plan:
    """What an author asks for.

    Attributes:
        id: ``c05.clip``.
        goal: one line, for the manifest and the TODO.
        title: the chapter's title; needed for a new chapter, must be left out for one that exists.
        kind: one of :data:`oplab.course.manifest.KINDS`, or ``symbolic``: Python that maps an operator to ONNX.
        operator: of a symbolic function, ``aten::gelu``.
        deeper: whether it is optional, in the last of the lesson's deeper sections.
    """

    id: str
    goal: str
    title: str = ""
    kind: str = "python"
    points: int = 2
    difficulty: int = 2
    minutes: int = 10
    operator: str = ""
    deeper: bool = False

    @property
    def python(self) -> bool:
        """Whether it is a function in the chapter's Python file."""
        return self.kind in ("python", "symbolic")


def create(course: Course, plan: Plan) -> list[Path]:
    """Write the files of a new exercise. Nothing that exists is overwritten; text files grow at their end.

    Raises:
        OplabError: the id is taken or malformed, or the plan does not fit the manifest. Nothing has changed then.
    """
    match = _ID.fullmatch(plan.id)
    if not match:
        raise OplabError(
            f"{plan.id!r} is not an exercise's id.", "An id looks like c05.clip: the chapter's number, then a name."
        )
    if plan.kind not in (*KINDS, "symbolic"):
        raise OplabError(f"There is no kind {plan.kind}.", f"It can be {', '.join(KINDS)} or symbolic.")
    if (plan.kind == "symbolic") != bool(plan.operator):
        raise OplabError("--kind symbolic and --operator belong together.", "For example --operator aten::gelu.")
    if any(exercise.id == plan.id for exercise in course.exercises):
        raise OplabError(f"{plan.id} exists already.", "Choose another name; nothing was changed.")
    for what, text in (("goal", plan.goal), ("title", plan.title)):
        if "\n" in text or (what == "goal" and not text.strip()):
            raise OplabError(f"The {what} {text!r} has to be one line of text.")
    if (long := len(f"    # TODO {plan.id}: {plan.goal}") - COLUMNS) > 0:
        raise OplabError(f"The goal is {long} characters too long for one line of the stub.", "Say it in fewer words.")
    number, name = match.groups()
    chapter = next((entry for entry in course.chapters if entry.stem[:2] == number), None)
    if plan.deeper and not (chapter and chapter.deeper):
        raise OplabError(
            f"Chapter {number} has no deeper section.",
            "Add one to its lesson, and its title to `deeper` in course.toml; or leave --deeper out.",
        )
    stem = _stem(number, chapter, plan.title)
    texts = _Writer(course, plan, stem, name, chapter).texts()
    _validate(course, plan, texts)
    _write(texts)
    return list(texts)


class _Writer:
    """The new text of each file."""

    def __init__(self, course: Course, plan: Plan, stem: str, name: str, chapter: Chapter | None):
        self.root, self.plan, self.stem, self.name, self.chapter = course.root, plan, stem, name, chapter
        number = stem[:2]
        self.file = f"c{stem}.py" if plan.python else f"csrc/c{number}_{name}.cpp"
        self.words = {
            "id": plan.id,
            "name": name,
            "file": self.file,
            "number": number,
            "stem": stem,
            "goal": plan.goal,
            "chapter_title": chapter.title if chapter else plan.title,
            "op": "".join(part.capitalize() for part in name.split("_")),
            "namespace": f"c{number}_{name}",  # the course's own library has the namespace oplab
            "points": str(plan.points),
            "difficulty": str(plan.difficulty),
            "minutes": str(plan.minutes),
            "builds_on": _toml(
                [entry.id for entry in course.chapters if entry.stem < stem and not entry.appendix][-1:]
            ),
            "deeper_line": "deeper = true\n" if plan.deeper else "",
            "kind_line": "" if plan.python else f'kind = "{plan.kind}"\n',
            "toml_goal": _toml(plan.goal),
            "toml_title": _toml(plan.title),
            # the only line of the skeleton's answer, and a wrong one
            "right": "return x" if plan.kind == "python" else "out[i] = in[i];",
            "wrong": "return 2 * x" if plan.kind == "python" else "out[i] = 2 * in[i];",
            **(_mapping(plan.operator) if plan.operator else {}),
        }

    def texts(self) -> dict[Path, str]:
        texts: dict[Path, str] = {}
        solution = self.root / "solutions" / self.file
        if self.plan.python:
            part = "solution.py" if self.plan.kind == "python" else "solution.symbolic"
            texts[solution] = self._grown(solution, "solution_head.py", part)
            if _has(solution, self.name):
                raise self._exists(solution, f"a function {self.name}")
        else:
            texts[solution] = self._fresh(solution, f"solution.{self.plan.kind}")
        texts |= self._stub(solution, texts[solution])
        stub = texts[self.root / "exercises" / self.file]
        self.words["line"] = str((stubs.line_of(stub, self.plan.id, self.name) or 1) - 1)  # JupyterLab counts from 0
        checks = self.root / "oplab" / "checks" / f"c{self.stem}.py"
        texts[checks] = self._grown(checks, "checks_head.py", f"checks.{self.plan.kind}")
        if self.plan.operator:
            texts[checks] = _importing_symbolic(texts[checks])
        for half in ("collect", "judge"):
            if _has(checks, f"{half}_{self.name}"):
                raise self._exists(checks, f"{half}_{self.name}")
        texts |= self._mutant()
        notebook = self.root / "notebooks" / "src" / f"{self.stem}.py"
        texts[notebook] = self._lesson(notebook)
        questions = quiz.path(self.root, self.stem)
        if not questions.exists():
            texts[questions] = self._filled("quiz.toml")
        texts[self.root / "course.toml"] = self._manifest()
        return texts

    def _stub(self, solution: Path, text: str) -> dict[Path, str]:
        """The stub. A file that somebody works in keeps all that is there."""
        path = self.root / "exercises" / self.file
        stub = stubs.make_stub(text, self.file)
        if not path.exists():
            return {path: stub}
        if not self.plan.python:
            raise self._exists(path, "a file")
        if _has(path, self.name):
            raise self._exists(path, f"a function {self.name}")
        if not solution.exists() or _text(path) == stubs.make_stub(_text(solution), self.file):
            return {path: stub}
        return {path: f"{_text(path).rstrip()}\n\n\n{stubs.function_text(stub, self.name)}\n"}

    def _mutant(self) -> dict[Path, str]:
        path = self.root / "tests" / "mutants" / f"c{self.stem}" / f"{self.name}.toml"
        return {path: self._fresh(path, "mutant.symbolic" if self.plan.operator else "mutant.toml")}

    def _lesson(self, path: Path) -> str:
        """The lesson with the exercise's cells at the end of its core, or of what is deeper: before what comes next, if anything does."""
        before = _text(path) if path.exists() else self._filled("notebook.py")
        after = _AFTER[self.plan.deeper].search(before)
        at = after.start() if after else len(before)
        rest = before[at:] if not after or after[1] else f"# %% [markdown]\n{before[at:]}"
        core = re.sub(r"(\n#?)*\Z", "", before[:at])  # a cell that is cut ends with an empty line of text
        return f"{core}\n{self._filled('notebook_cell.py').rstrip()}\n\n{rest}".rstrip() + "\n"

    def _manifest(self) -> str:
        """The manifest with the new entry. Everything else stays as it is, to the byte."""
        text = _text(self.root / "course.toml")
        lines = text.splitlines()
        entry = self._filled("exercise.toml").splitlines()
        starts = [number for number, line in enumerate(lines) if line.strip().startswith("[[chapter]]")]
        stems = [_stem_below(lines, start) for start in starts]
        if self.chapter is not None:
            at = stems.index(self.stem)
            end = starts[at + 1] if at + 1 < len(starts) else len(lines)
        else:
            entry = [*self._filled("chapter.toml").splitlines(), "", *entry]
            after = [start for start, stem in zip(starts, stems, strict=True) if stem > self.stem]
            end = after[0] if after else len(lines)
        # Comments right above the next chapter are that chapter's.
        while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")) and end < len(lines):
            end -= 1
        while end == len(lines) and lines and not lines[-1].strip():
            lines.pop()
            end -= 1
        return "\n".join([*lines[:end], "", *entry, *lines[end:]]) + "\n"

    def _grown(self, path: Path, head: str, part: str) -> str:
        before = _text(path) if path.exists() else self._filled(head)
        return f"{before.rstrip()}\n{self._filled(part)}"

    def _fresh(self, path: Path, part: str) -> str:
        if path.exists():
            raise self._exists(path, "a file")
        return self._filled(part)

    def _filled(self, template: str) -> str:
        source = resources.files("oplab.authoring").joinpath("templates", f"{template}.txt").read_text(encoding="utf-8")
        return Template(source).substitute(self.words)

    def _exists(self, path: Path, what: str) -> OplabError:
        return OplabError(
            f"{path.relative_to(self.root).as_posix()} is there already, with {what}.",
            "Choose another name, or move it away; nothing was changed.",
        )


def _mapping(operator: str) -> dict[str, str]:
    """What the templates of a symbolic function need to know of an operator."""
    import torch

    from oplab.checks.exporting import own

    namespace, _, name = operator.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), name)
    except (AttributeError, RuntimeError):
        raise OplabError(f"PyTorch has no operator {operator!r}.", "Its name looks like aten::gelu.") from None
    schema = getattr(packet, packet.overloads()[0])._schema
    if [str(result.type) for result in schema.returns] != ["Tensor"]:
        raise OplabError(
            f"{operator} does not return one tensor.", "Leave --kind and --operator out, and write its check."
        )
    free, tensors, arguments, letters, call = iter("xyzuvw"), [], [], [], []
    numbers: list[str] = []  # what the cases have for each argument that is not a tensor
    for argument in schema.arguments:
        letter = _LETTERS.get(re.sub(r"Optional\[(.+)\]", r"\1", str(argument.type)), "v")
        arguments.append(next(free) if str(argument.type) == "Tensor" else argument.name)
        letters.append(letter)
        if str(argument.type) == "Tensor":
            tensors.append(arguments[-1])
            call.append(arguments[-1])
        else:
            call.append(f"{argument.name}=case.numbers[{len(numbers)}]")
            given = json.dumps(argument.default_value) if letter == "s" else repr(argument.default_value)
            numbers.append(given if argument.has_default_value() else _NUMBERS.get(letter, "1"))
    later = [opset for opset in own(operator) if opset > 9]
    versions = ", ".join(map(str, [9, *later])) if later else "9,"
    tensor = max(place for place, part in enumerate(call) if "=" not in part)
    call = [part.partition("=")[2] if "=" in part and place < tensor else part for place, part in enumerate(call)]
    shown = re.sub(r"case\.(numbers\[\d+\])", r"{\1!r}", ", ".join(call))
    return {
        "operator": operator,
        "torch_name": f"{namespace}.{name}",
        "schema": str(schema),
        "letters": _toml(letters)[1:-1],
        "arguments": ", ".join(arguments),
        "tensors": ", ".join(tensors),
        "letters_of_tensors": "".join(tensors),
        "sum": " + ".join(tensors),
        "call": ", ".join(call),
        "numbers": "".join(f", {number}" for number in numbers),
        "other_numbers": "  # WRITE: other numbers, too" if numbers else "",
        "shown": f'{"f" * bool(numbers)}"{name}({shown})"',
        "versions": versions,
        "hidden": _HIDDEN.format(operator=operator, opset=later[-1], versions=versions) if later else "",
    }


def _importing_symbolic(checks: str) -> str:
    names = re.search(r"^from oplab\.checks import (?P<names>\w.*)$", checks, re.MULTILINE)
    if names is None:
        return checks.replace("from oplab.checks.", "from oplab.checks import symbolic\nfrom oplab.checks.", 1)
    if "symbolic" in names["names"].split(", "):
        return checks
    return f"{checks[: names.end()]}, symbolic{checks[names.end() :]}"


def _stem(number: str, chapter: Chapter | None, title: str) -> str:
    if chapter is not None:
        if title and title != chapter.title:
            raise OplabError(
                f"Chapter {number} exists and is called {chapter.title!r}.",
                "Leave --title out, or take another number.",
            )
        return chapter.stem
    slug = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    if not slug:
        raise OplabError(f"There is no chapter {number} yet.", 'Name the new one: --title "What it teaches".')
    return f"{number}_{slug}"


def _stem_below(lines: list[str], start: int) -> str:
    for line in lines[start + 1 :]:
        found = re.match(r"\s*stem\s*=\s*[\"'](.+?)[\"']", line)
        if found:
            return found[1]
        if line.strip().startswith("[["):
            break
    return ""


def _validate(course: Course, plan: Plan, texts: dict[Path, str]) -> None:
    """The manifest can be read and holds the exercise, and every Python file can be parsed. Raises OplabError."""
    with tempfile.TemporaryDirectory(prefix="oplab-") as folder:
        (Path(folder) / "course.toml").write_text(texts[course.root / "course.toml"], encoding="utf-8")
        load(Path(folder)).exercise(plan.id)
    for path, text in texts.items():
        if path.suffix == ".py":
            try:
                parse(text)
            except SyntaxError as error:
                raise OplabError(
                    f"{path.relative_to(course.root).as_posix()}, line {error.lineno}: {error.msg}.", "Fix that first."
                ) from None


def _write(texts: dict[Path, str]) -> None:
    """The manifest is the last: an exercise that it names is complete."""
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
        except OSError as error:
            fix = "Make it writable; `git status` lists what was written before it."
            raise OplabError(f"{path} cannot be written: {error.strerror}.", fix) from None


def _has(path: Path, function: str) -> bool:
    try:
        return path.exists() and stubs.function_span(_text(path), function) is not None
    except SyntaxError as error:
        raise OplabError(
            f"{path.name} is not valid Python: line {error.lineno}, {error.msg}.", "Fix that first."
        ) from None


def _toml(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OplabError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}."
        ) from None
