"""``oplab new-operator``: a project with everything that an operator of your own needs, complete and passing at once.

The template is in ``template/``: Jinja2, with NAME for the operator in names of files. The C++ that every operator shares is copied
from the course's ``csrc``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oplab import paths
from oplab.errors import OplabError
from oplab.project import schema as schemas
from oplab.project import shapes
from oplab.project.schema import Schema

_TEMPLATE = Path(__file__).parent / "template"
_WIDTH = 120
# Of csrc -> of the project.
_COPIED = {
    "ort_ops/oplab_kernel.h": "cpp/oplab/oplab_kernel.h",
    "torch_ops/torch_kernel.h": "cpp/oplab/torch_kernel.h",
    "common/text.h": "cpp/oplab/text.h",
    "ort_ops/exports.map": "cpp/oplab/exports.map",
}
# What the project's modules, tests and C++ call something else.
_MODULES = frozenset(
    "one_node example reference export torch_op session arrays tensors eager several main cases".split()
)
_DOMAINS = frozenset("ai aten com onnx oplab pkg prim prims profiler quantized torch torchvision torchaudio".split())


@dataclass(frozen=True)
class Plan:
    """What a user asks for.

    Attributes:
        name: snake_case: ``rotated_roi_align``.
        schema: its inputs, outputs and attributes.
        domain: of the ONNX operator, and the namespace of the PyTorch operator.
        dtypes: names of :data:`oplab.project.schema.DTYPES`.
    """

    name: str
    schema: Schema
    domain: str = "my"
    dtypes: tuple[str, ...] = ("float", "double")

    @property
    def op(self) -> str:
        """The name of the ONNX operator: ``RotatedRoiAlign``."""
        return "".join(part.capitalize() for part in self.name.split("_"))


def create(plan: Plan, folder: Path) -> list[Path]:
    """Make the project, all of it or nothing.

    Args:
        folder: where; it does not exist yet, and the folder that it is in does.

    Returns:
        the files, in alphabetical order, relative to ``folder``.
    """
    _check(plan)
    folder = Path(os.path.abspath(folder))
    if os.path.lexists(folder):
        raise OplabError(f"{folder} exists already.", "Choose another folder with --to, or remove that one.")
    if not folder.parent.is_dir():
        raise OplabError(f"There is no folder {folder.parent}.", "Make it first, or choose another one with --to.")
    try:
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    except OSError as error:
        raise OplabError(f"{folder.parent} cannot be written: {error.strerror}.", "Choose another folder.") from None
    try:
        made = []
        for name, text in _files(plan):
            file = draft / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            made.append(Path(name))
        draft.chmod(0o755)
        draft.rename(folder)  # over an empty folder that was made meanwhile at most
    except OSError as error:
        raise OplabError(f"{folder} cannot be written: {error.strerror}.", "Nothing was made.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return sorted(made)


def _check(plan: Plan) -> None:
    schemas.identifier(plan.name, "The name")
    if plan.name != plan.name.lower():
        raise OplabError(f"The name {plan.name!r} is not in snake_case.", "Write it like rotated_roi_align.")
    spec = importlib.util.find_spec(plan.name)
    if plan.name in sys.builtin_module_names or (spec is not None and spec.origin is not None):
        raise OplabError(
            f"Python already has a package {plan.name!r}.", "The project is a package with that name: choose another."
        )
    if plan.name in schemas.TAKEN | _MODULES:
        raise OplabError(f"The generated code uses the name {plan.name!r} itself.", "Choose another name.")
    schemas.identifier(plan.domain, "The domain")
    if plan.domain in _DOMAINS:
        raise OplabError(f"The domain {plan.domain!r} is taken.", "Choose your own, for example --domain my.")
    if plan.name in [*(one.name for one in plan.schema.arguments), *plan.schema.outputs]:
        raise OplabError(
            f"The name {plan.name!r} is used twice.", "The operator needs another name than its arguments."
        )


def _files(plan: Plan) -> Iterator[tuple[str, str]]:
    import jinja2

    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["py"] = lambda value: repr(value).replace("'", '"')
    environment.filters["quoted"] = _quoted
    environment.filters["tuple"] = lambda words: f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    context = _context(plan)
    for file in sorted(_TEMPLATE.rglob("*.j2")):
        name = file.relative_to(_TEMPLATE).as_posix().removesuffix(".j2").replace("NAME", plan.name)
        text = environment.from_string(file.read_text(encoding="utf-8")).render(context)
        if file.name.endswith((".h.j2", ".cpp.j2", ".py.j2")):
            text = "".join(f"{_wrapped(line, '.py' in file.name)}\n" for line in text.splitlines())
        yield ".gitignore" if name == "gitignore" else name, text
    csrc = paths.root() / "csrc"
    for source, target in _COPIED.items():
        # All of them are in one folder here.
        yield target, _read(csrc / source).replace('"../common/text.h"', '"text.h"')
    for file in sorted((csrc / "host").glob("*.*")):
        if file.suffix in (".h", ".cpp"):
            text = (
                _read(file)
                .replace('"../common/text.h"', '"../cpp/oplab/text.h"')
                .replace("oplab_host", f"{plan.name}_host")
            )
            yield (
                f"host/{file.name}",
                text.replace("the course's kernels (domain oplab)", f"the kernels of domain {plan.domain}"),
            )


def _context(plan: Plan) -> dict[str, Any]:
    schema = plan.schema
    main = schema.main.name

    def weighted(one: Any) -> str:
        return f"{one.weight} * {one.name}" if one.weight > 1 else one.name

    python_scale = " + ".join(one.python_term for one in schema.attributes) or "1.0"
    total = " + ".join(weighted(one) for one in schema.inputs)
    required = " + ".join(weighted(one) for one in schema.inputs if not one.optional)
    single = schema.attributes[0].python_term if len(schema.attributes) == 1 else "scale"
    formula = [f"{one} = {single} * t / ({number} + t * t)" for number, one in enumerate(schema.outputs, start=1)]
    formula.append(f"with t = {total}")
    if schema.output_dims:
        formula.append("where the values of each input are read in order, again and again")
    if single == "scale":
        formula.append(f"and scale = {python_scale}")
    # They are comments and docstrings, which _wrapped leaves alone.
    formula = [part for line in formula for part in textwrap.wrap(line, 90, subsequent_indent="  ")]
    dtypes = [dict(zip(("scalar", "ort", "numpy"), schemas.DTYPES[one], strict=True)) for one in plan.dtypes]
    for entry, one in zip(dtypes, plan.dtypes, strict=True):
        entry["torch"] = schemas.DTYPES[one][2] or one
    annotated = [
        one.annotated
        if not one.is_input
        else f"{one.name}: torch.Tensor{' | None' if one.optional else ''}{' = None' if one.has_default else ''}"
        for one in schema.arguments
    ]
    # onnx.reference gives the inputs by place and the attributes by name.
    run_parameters = [one.python for one in schema.inputs]
    if schema.attributes:
        run_parameters += ["*", *(one.python for one in schema.attributes)]
    double = "double" in plan.dtypes
    return {
        **shapes.context(schema),
        "name": plan.name,
        "op": plan.op,
        "domain": plan.domain,
        "schema": schema,
        "main": main,
        "main_index": schema.inputs.index(schema.main),
        "others": [one.name for one in schema.inputs if one.name != main],
        "names": [one.name for one in schema.arguments],
        "tensors": [one.name for one in schema.inputs],
        "floats": [one.name for one in schema.attributes if one.type == "float"],
        "list_types": any(one.is_list for one in schema.attributes),
        "dtypes": dtypes,
        "plain": ", ".join(one.python for one in schema.arguments),
        "annotated": ", ".join(annotated),
        "run_parameters": ", ".join(run_parameters),
        "formula": formula,
        "formula_all": total,
        "python_sum": required,
        "python_scale": python_scale,
        "cpp_scale": " +\n      ".join(one.cpp_term for one in schema.attributes) or "1.0",
        "gradcheck": {
            "dtype": "float64" if double else "float32",
            "options": "" if double else ", eps=1e-2, atol=1e-2, rtol=1e-2",
        },
        "torch_flags": _flags("torch"),
        "ort_flags": _flags("ort"),
        "torch_version": _torch_version(),
    }


def _flags(kind: str) -> list[str]:
    return _read(paths.root() / "csrc" / f"{kind}_ops" / "compile_flags.txt").split()


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise OplabError(f"{file} cannot be read: {error.strerror}.", "Restore it: `git checkout csrc`.") from None


def _torch_version() -> str:
    """The oldest PyTorch that loads the library: TORCH_TARGET_VERSION is 0x020d000000000000 for 2.13."""
    target = next(flag.partition("=")[2] for flag in _flags("torch") if "TORCH_TARGET_VERSION" in flag)
    return f"{int(target, 16) >> 56}.{int(target, 16) >> 48 & 255}"


def _quoted(text: str) -> str:
    """A string of C++; a long one is several, which the compiler joins."""
    lines = [""]
    for part in re.split(r"(?<=, )", text):
        if len(lines[-1]) + len(part) > _WIDTH - 20 and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n      ".join(json.dumps(line) for line in lines)


def _wrapped(line: str, python: bool) -> str:
    """A line of C++ or Python, broken at commas inside of its brackets where it is too long."""
    if len(line) <= _WIDTH or line.lstrip().startswith(("//", "#", '"')):
        return line
    margin = line[: len(line) - len(line.lstrip())]
    commas, outer, depth, quoted = [], [], 0, ""
    for place, character in enumerate(line):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "\"'":
            quoted = character
        elif character in "([{":
            depth += 1
            outer += [place] if depth == 1 else []
        elif character in ")]}":
            depth -= 1
            outer += [place] if depth == 0 else []
        elif character == "," and depth and line[place + 1 : place + 2] == " ":
            commas.append(place + 1)
    if not python:
        return _filled([line[start:end].strip() for start, end in _between(commas, len(line))], margin, f"{margin}    ")
    if len(outer) % 2:  # another line closes them
        return line
    if sum(last - first for first, last in zip(outer[::2], outer[1::2], strict=True)) < len(line) / 2:
        return _in_brackets(line, margin)
    # The widest brackets are opened, as formatters of Python do.
    first, last = max(zip(outer[::2], outer[1::2], strict=True), key=lambda pair: pair[1] - pair[0])
    inside = [comma - first - 1 for comma in commas if first < comma < last]
    body = line[first + 1 : last]
    parts = [body[start:end].strip() for start, end in _between(inside, len(body))]
    return f"{line[: first + 1]}\n{_filled(parts, f'{margin}    ', f'{margin}    ')}\n{margin}{line[last:]}"


def _in_brackets(line: str, margin: str) -> str:
    """A long assignment or return, with brackets around its longer side."""
    body = line.strip()
    left, equals, right = body.partition(" = ")
    if body.startswith("return "):
        before, inside, after = "return ", body.removeprefix("return "), ""
    elif not equals:
        return line
    else:
        before, inside, after = ("", left, f" = {right}") if len(left) > len(right) else (f"{left} = ", right, "")
    parts = re.split(r"(?<=,) | (?=\+ )", inside)
    return f"{margin}{before}(\n{_filled(parts, f'{margin}    ', f'{margin}    ')}\n{margin}){after}"


def _between(places: list[int], end: int) -> list[tuple[int, int]]:
    return list(zip([0, *places], [*places, end], strict=True))


def _filled(parts: list[str], first: str, others: str) -> str:
    lines = [first + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= _WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(others + part)
    return "\n".join(lines)
