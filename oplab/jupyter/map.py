"""The map of the chapters: a box for each, and a line from each chapter to those that build on it."""

from __future__ import annotations

from typing import Any

from oplab.course.manifest import Course

WIDTH, HEIGHT = 124, 66
GAP, LAYER_GAP = 9, 32


def chapter_map(course: Course) -> dict[str, Any]:
    """Where the boxes and lines are: the upper left corner of each box, and the points of each line, in pixels."""
    from oplab.viewer.layout import Box, place

    order = _order({chapter.id: list(chapter.builds_on) for chapter in course.chapters})
    number = {id: index for index, id in enumerate(order)}
    boxes = [Box(WIDTH, HEIGHT) for _ in order]
    pairs = [(before, chapter.id) for chapter in course.chapters for before in chapter.builds_on]
    layout = place(boxes, [(number[a], number[b]) for a, b in pairs], gap=GAP, layer_gap=LAYER_GAP)
    return {
        "width": round(layout.width),
        "height": round(layout.height),
        "nodes": [
            {"id": id, "x": round(box.x - WIDTH / 2), "y": round(box.y - HEIGHT / 2), "width": WIDTH, "height": HEIGHT}
            for id, box in zip(order, boxes, strict=True)
        ],
        "edges": [
            {"from": a, "to": b, "points": [[round(x), round(y)] for x, y in route]}
            for (a, b), route in zip(pairs, layout.routes, strict=True)
        ],
    }


def _order(needs: dict[str, list[str]]) -> list[str]:
    """The chapters, each after those that it builds on: an appendix comes before the first chapter that needs it."""
    done: list[str] = []

    def visit(id: str) -> None:
        if id not in done:
            for before in needs[id]:
                visit(before)
            done.append(id)

    for id in needs:
        visit(id)
    return done
