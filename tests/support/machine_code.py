"""The machine code of a compiled library, as ``objdump`` prints it, for tests of what the compiler made of the kernels."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# "0000000000012f10 <void oplab::run_with_avx2<…>(…) [clone .isra.0]>:" and "   12f1a:\tvmovss (%rax),%xmm0"
_HEAD = re.compile(r"^([0-9a-f]+) <(.*)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*)$")
_JUMP = re.compile(r"^(?:j\w+|b|b\.\w+|cbn?z|tbn?z)$")  # x86-64, AArch64; no calls
_TARGET = re.compile(r"(?:^|[\s,])(?:0x)?([0-9a-f]+) <")


@dataclass(frozen=True)
class Instruction:
    address: int
    mnemonic: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where a jump inside a function leads."""
        found = _TARGET.search(self.operands) if _JUMP.match(self.mnemonic) else None
        return int(found[1], 16) if found else None

    @property
    def stores(self) -> bool:
        """Whether a move writes to memory."""
        in_aarch64 = self.mnemonic.startswith("st") and "[" in self.operands
        return in_aarch64 or ("mov" in self.mnemonic and self.operands.endswith(")"))

    @property
    def on_stack(self) -> bool:
        return "%rsp" in self.operands or "[sp" in self.operands

    def __str__(self) -> str:
        return f"{self.address:x}: {self.mnemonic} {self.operands}"


@dataclass(frozen=True)
class Function:
    name: str
    code: list[Instruction]


def functions(library: Path, objdump: str = "objdump") -> list[Function]:
    """Every function of a library that was not stripped, with its demangled name."""
    command = [objdump, "-d", "--no-show-raw-insn", "-C", str(library)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[Function] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            found.append(Function(head[2], []))
        elif found and (each := _LINE.match(line)):
            found[-1].code.append(Instruction(int(each[1], 16), each[2], each[3]))
    return found


def inner_loops(function: Function) -> list[list[Instruction]]:
    """The loops that hold no other: from where a jump leads back to, up to that jump."""
    code = function.code
    loops = [
        (each.target, each.address) for each in code if each.target and code[0].address <= each.target <= each.address
    ]
    inner = [
        loop
        for loop in loops
        if not any(loop != other and loop[0] <= other[0] and other[1] <= loop[1] for other in loops)
    ]
    return [[each for each in code if start <= each.address <= end] for start, end in inner]


FUSED = re.compile(r"vfn?m(add|sub)|fn?m(la|ls|add|sub)\b")


# Of each set: the function that is compiled for it, the instruction that adds a product to a sum, and how many of them one turn of
# the product's inner loop has: the registers of a block of sums, rows x panels x registers of a panel (matrix_tile.h).
Set = tuple[str, str, int]


X86_64: dict[str, Set] = {
    "avx512": ("run_with_avx512", r"vfmadd\d+p[sd]", 12 * 2 * 1),
    "avx2": ("run_with_avx2", r"vfmadd\d+p[sd]", 6 * 1 * 2),
    "plain": ("run_plain", r"addp[sd]", 3 * 1 * 4),
}


AARCH64: dict[str, Set] = {"neon": ("run_with_neon", r"fmla", 4 * 1 * 4), "plain": ("run_plain", r"fadd", 3 * 1 * 4)}


def check_product(code: list[Function], simd: Set, dtype: str) -> None:
    """Whether the inner loop of DeformConv2d's product is what the source promises for a set of instructions."""
    name, adds, count = simd
    jobs = [each for each in code if f"{name}<" in each.name and "::Tile," in each.name and f"<{dtype}>" in each.name]
    assert jobs, f"there is no {name}<Tile, …> for {dtype}"

    def sums(loop: list[Instruction]) -> int:
        return sum(re.fullmatch(adds, each.mnemonic) is not None for each in loop)

    loop = max((loop for job in jobs for loop in inner_loops(job)), key=sums)
    shown = "\n".join(map(str, loop))
    assert sums(loop) == count, f"the product's loop has {sums(loop)} {adds}, not {count}:\n{shown}"
    # A sum that is kept in memory is written there in every turn.
    in_memory = [str(each) for each in loop if each.stores or each.on_stack]
    assert not in_memory, f"{in_memory} in the product's loop:\n{shown}"


def check_only_jobs_are_fused(code: list[Function]) -> None:
    """Outside the jobs a sum has the same bits on every processor."""
    fused = [each.name for each in code if any(FUSED.match(line.mnemonic) for line in each.code)]
    assert not [name for name in fused if "run_with_" not in name]
