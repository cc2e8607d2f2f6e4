"""What ``make executorch`` runs in the environment that has ExecuTorch: ``executorch_steps.py export|run FOLDER [LIBRARY]``.

Each result is one line, ``result`` and JSON, written at once: a crash does not take what came before it.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import torch

# name: shapes of a and b, alpha, beta, dtype. A program has them fixed.
PROGRAMS = {
    "small": ((2, 3), (2, 3), 0.5, -2.0, torch.float32),
    "large": ((4, 5, 6), (4, 5, 6), 3.0, 2.0, torch.float32),
    "double": ((7,), (7,), -1.25, 0.1, torch.float64),
    "broadcast": ((2, 3), (1, 3), 0.5, -2.0, torch.float32),
    "integers": ((2, 3), (2, 3), 3.0, 2.0, torch.int64),
}
COMPARED = ("small", "large", "double")
# name of the case: program, and the inputs that do not fit it or the kernel
REFUSED = {
    "an input of another shape": ("small", lambda: (torch.ones(2, 4), torch.ones(2, 4))),
    "an input of another dtype": ("small", lambda: (torch.ones(2, 3).double(), torch.ones(2, 3).double())),
    "one input too few": ("small", lambda: (torch.ones(2, 3),)),
    "a program that broadcasts b": ("broadcast", lambda: (torch.ones(2, 3), torch.ones(1, 3))),
    "a program of int64": ("integers", lambda: (torch.ones(2, 3).long(), torch.ones(2, 3).long())),
}


def tell(**result: object) -> None:
    print("result", json.dumps(result), flush=True)


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class Net(torch.nn.Module):
    """``relu(alpha*a + beta*b)``."""

    def __init__(self, operator, alpha: float, beta: float):
        super().__init__()
        self.operator, self.alpha, self.beta = operator, alpha, beta

    def forward(self, a, b):
        return torch.relu(self.operator(a, b, self.alpha, self.beta))


def operators() -> torch.library.Library:
    """``lab::my_add`` with its two schemas, and ``lab::no_out`` with one."""
    lib = torch.library.Library("lab", "DEF")
    arguments = "Tensor a, Tensor b, float alpha, float beta"

    def weighted_sum(a, b, alpha, beta):
        return (alpha * a + beta * b).to(a.dtype)

    def weighted_sum_out(a, b, alpha, beta, *, out):
        return out.copy_(weighted_sum(a, b, alpha, beta))

    for name in ("my_add", "no_out"):
        lib.define(f"{name}({arguments}) -> Tensor")
        lib.impl(name, weighted_sum, "CompositeExplicitAutograd")
    lib.define(f"my_add.out({arguments}, *, Tensor(a!) out) -> Tensor(a!)")
    lib.impl("my_add.out", weighted_sum_out, "CompositeExplicitAutograd")
    return lib


def inputs(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    first, second, _, _, dtype = PROGRAMS[name]
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator).mul(4).to(dtype) for shape in (first, second))


def net(name: str) -> Net:
    _, _, alpha, beta, _ = PROGRAMS[name]
    return Net(torch.ops.lab.my_add, alpha, beta)


def export(folder: Path) -> None:
    from executorch.exir import to_edge

    def program(model: torch.nn.Module, name: str) -> bytes:
        return to_edge(torch.export.export(model, inputs(name))).to_executorch().buffer

    for name in PROGRAMS:
        content = program(net(name), name)
        (folder / f"{name}.pte").write_bytes(content)
        tell(program=name, size=len(content))
    try:
        program(Net(torch.ops.lab.no_out, 0.5, -2.0), "small")
        tell(no_out="")
    except Exception as error:  # whatever it is: it is what is shown
        tell(no_out=f"{type(error).__name__}: {first_line(error)}")


def run(folder: Path, library: str | None) -> None:
    from executorch.runtime import Runtime

    if library:
        ctypes.CDLL(library)  # registers its kernels
    runtime = Runtime.get()
    names = [str(name) for name in runtime.operator_registry.operator_names]
    tell(operators=len(names), ours=sorted(name for name in names if name.startswith("lab::")))

    def result(name: str, given):
        method = runtime.load_program(folder / f"{name}.pte").load_method("forward")
        return method.execute(given)[0]

    for name in COMPARED if library else COMPARED[:1]:
        first, _, alpha, beta, dtype = PROGRAMS[name]
        case = {"case": name, "shape": first, "alpha": alpha, "beta": beta, "dtype": str(dtype).removeprefix("torch.")}
        try:
            got, expected = result(name, inputs(name)), net(name)(*inputs(name))
        except RuntimeError as error:
            tell(**case, error=first_line(error))
            continue
        same = got.dtype == expected.dtype and got.shape == expected.shape
        tell(**case, equal=same and torch.equal(got, expected), close=same and torch.allclose(got, expected))
    for title, (name, given) in REFUSED.items() if library else ():
        tell(begins=title)
        try:
            result(name, given())
            tell(refused=title, error="")
        except (RuntimeError, ValueError, TypeError) as error:
            tell(refused=title, error=first_line(error))


def main() -> None:
    what, folder, *more = sys.argv[1:]
    lib = operators()  # kept: its operators go with it
    if what == "export":
        export(Path(folder))
    else:
        run(Path(folder), more[0] if more else None)
    del lib


if __name__ == "__main__":
    main()
