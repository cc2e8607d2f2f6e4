"""The assembly of a loop, as the compiler writes it: to be read, not to be run."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oplab.errors import OplabError
from oplab.toolchain import compiler


def innermost_loop(source: Path, flags: Sequence[str] = ()) -> list[str]:
    """The instructions of the shortest loop that multiplies floats, one a line.

    Args:
        source: a C++ file that needs no headers but those of the compiler.
        flags: besides ``-std=c++17 -O3``.

    Raises:
        ValueError: there is no such loop.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "loop.s"
        options = ["-std=c++17", "-O3", "-ffp-contract=fast", "-fno-omit-frame-pointer", *flags, "-x", "c++"]
        command = [*compiler.find_compiler().command, *options, "-S", "-o", str(made), str(source)]
        done = compiler.run(command, timeout=120)
        if done.returncode:
            raise OplabError(f"{source.name} does not compile:\n{done.log}", "Correct the file.")
        text = made.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if re.match(r"\t[a-z]|\S+:", line)]
    labels = {line.split(":")[0]: place for place, line in enumerate(lines) if re.match(r"\S+:", line)}
    jumps = [(labels.get(line.split()[-1], place), place) for place, line in enumerate(lines)]
    loops = [lines[begin + 1 : end + 1] for begin, end in jumps if begin < end]
    return min((loop for loop in loops if any(map(is_product, loop))), key=len)


def is_product(instruction: str) -> bool:
    """Whether it multiplies floats, on x86-64 or AArch64."""
    return bool(re.match(r"v?f?m(ul|add|la)|v?fm", instruction))


def uses_stack(instruction: str) -> bool:
    """Whether it reads or writes memory of the stack."""
    return bool(re.search(r"\(%[re][sb]p\)|\[(sp|x29)\b", instruction))
