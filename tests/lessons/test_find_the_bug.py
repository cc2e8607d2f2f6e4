"""The cases of c15.find_the_bug are right as they are built: none is computed and thrown away, so each seed has to give good ones."""

from __future__ import annotations

import math

from oplab.checks import c15_surgery_and_debugging as checks
from oplab.checks.draws import rng_for


def bugs(seed):
    return list(checks._bugs(rng_for(seed, "c15.find_the_bug")))


def frontier(nodes, count):
    """The values that are still needed after the first ``count`` nodes."""
    later = {name for node in nodes[count:] for name in node.input}
    return [node.output[0] for node in nodes[:count] if node.output[0] in later]


def halve(count, wrong_after):
    right, wrong = 0, count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if wrong_after(middle) else (middle, wrong)
    return right


def bad(error):
    return not error <= checks.ROUNDING


def test_the_fault_is_found_by_frontiers_and_by_nothing_less(seed):
    for draw in range(seed, seed + 6):
        look_at(draw)


def look_at(draw):
    misled = False
    for bug in bugs(draw):
        nodes = list(bug.model.graph.node)
        wide = [frontier(nodes, count) for count in range(1, len(nodes))]
        assert all(1 <= len(names) <= checks.NAMES for names in wide)
        assert [any(bad(bug.errors[name]) for name in names) for names in wide] == [
            count > bug.place for count in range(1, len(nodes))
        ]
        assert bad(bug.errors[nodes[bug.place].output[0]]) and bad(bug.errors[nodes[-1].output[0]])
        assert not any(bad(bug.errors.get(name, 0)) for name in nodes[bug.place].input)
        for error in bug.errors.values():
            clear = 0 < error <= checks.ROUNDING / 50 or error >= checks.ROUNDING * 10
            close = error == checks.ROUNDING or checks.ROUNDING * 1.1 <= error
            assert math.isnan(error) or (close if bug.title == checks.LIMIT else clear)
        one = halve(len(nodes), lambda count, bug=bug, nodes=nodes: bad(bug.errors[nodes[count - 1].output[0]]))
        misled |= one != bug.place
    assert misled, f"one value alone would have shown every fault of draw {draw}"
