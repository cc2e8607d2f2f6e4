"""``make bench``: the course's kernels beside what their users would run otherwise, measured in one process.

A kernel's part is the module of this folder with the name of its source (``my_add.py`` for ``csrc/ort_ops/my_add.cpp``): it is
found by that name, and has a function ``cases(quick: bool) -> list[Case]``. A ``Case`` is one kernel at one size; ``Peer`` is
somebody else who computes the same. All that computes is made lazily by ``make(threads)``, which returns a callable without
arguments: one call of it is what is measured. So a peer that cannot be had raises ``Missing`` with one line, and costs nothing
where it is not wanted.

    def cases(quick):
        n = 1 << (12 if quick else 24)
        feed = functools.cache(lambda: {"a": normal(n), "b": normal(n)})       # inputs are made lazily as well
        return [
            Case(
                "MyAdd", f"{n:,} floats",
                lambda threads: bound(session(model, threads), feed()),        # ours: runners.py
                (Peer("ORT Mul, Mul, Add", lambda threads: bound(...), target=2.3),),
                bytes=12 * n, flops=3 * n, series="contiguous", at=n,
            )
        ]

``harness.py`` says what each field means and how is measured. ``quick`` asks for sizes of which all together take a few
seconds: the tests run them.
"""
