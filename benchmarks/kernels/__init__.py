"""``make bench``: the course's kernels next to what their users would run otherwise, measured in one process.

A kernel's part is the module of this folder with the name of its source (``my_add.py`` for ``csrc/ort_ops/my_add.cpp``): it is
found by that name, and has a function ``cases(quick: bool) -> list[Case]``. A ``Case`` is one kernel at one size; a ``Peer``
computes the same in another way. Everything that computes is made lazily by ``make(threads)``, which returns a callable without
arguments: one call of it is measured. A peer that is not available raises ``Missing`` with one line.

    def cases(quick):
        n = 1 << (12 if quick else 24)
        feed = functools.cache(lambda: {"a": normal(n), "b": normal(n)})       # inputs are made lazily as well
        return [
            Case(
                "MyAdd", f"{n:,} floats",
                lambda threads: bound(session(model, threads), feed()),        # ours: runners.py
                (Peer("ORT Mul, Mul, Add", lambda threads: bound(...), target=2.3),),
            )
        ]

``harness.py`` explains each field and how it is measured. ``quick`` asks for sizes that take a few seconds together: the tests
run them. Targets are set for ONNX Runtime's own kernels and for what the machine can do at most; other peers have none.
"""
