"""Where the boxes of a graph go: a layered drawing, in pure Python, the same bytes on every machine.

Why not a library: grandalf (last release January 2023) orders by set iteration, so its drawing changes from process to
process, and it lets boxes overlap; networkx has no layered drawing; fast-sugiyama gives every box one size and needs Python
3.11; Graphviz is a native program that pip does not install. The four classic steps are short:

1. layers by longest path, sources pulled down to their consumers;
2. long edges cut into pieces by invisible points, one a layer;
3. order within layers by barycentres, keeping the best of several sweeps (crossings are counted);
4. coordinates after Brandes and Koepf (2001): straight columns first, four times, then the middle of the four. Distances
   hold in each of the four, so they hold in the middle: boxes never overlap.

Everything below speaks of layers that go down. `place` turns the result for drawings that go to the right.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

SWEEPS = 16


@dataclass
class Box:
    """Something with a size. ``x`` and ``y`` are its centre, set by `place`."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


@dataclass
class Layout:
    """Sizes of the whole drawing, and for each edge the points that it passes through."""

    width: float
    height: float
    routes: list[list[tuple[float, float]]] = field(default_factory=list)


def place(
    boxes: Sequence[Box],
    edges: list[tuple[int, int]],
    *,
    right: bool = False,
    gap: float = 18,
    layer_gap: float = 22,
) -> Layout:
    """Set the centre of every box and return the routes of the edges.

    Args:
        boxes: in an order in which every edge goes forward or not at all (a topological order is best).
        edges: pairs of indices into ``boxes``; cycles are an error of the caller.
        right: layers go to the right instead of down.
        gap: least distance between two boxes of one layer.
        layer_gap: distance between two layers.
    """
    if not boxes:
        return Layout(0, 0)
    sizes = [(b.height, b.width) if right else (b.width, b.height) for b in boxes]
    n = len(boxes)
    layer = layers(n, edges)
    widths = [s[0] for s in sizes]
    chains: list[list[int]] = []
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for i in range(n):
        rows[layer[i]].append(i)
    ups: list[list[int]] = [[] for _ in range(n)]
    downs: list[list[int]] = [[] for _ in range(n)]
    depth = list(layer)
    for a, b in edges:
        chain = [a]
        for level in range(layer[a] + 1, layer[b]):
            point = len(widths)
            widths.append(0.0)
            depth.append(level)
            ups.append([])
            downs.append([])
            rows[level].append(point)
            chain.append(point)
        chain.append(b)
        for u, v in zip(chain, chain[1:], strict=False):
            downs[u].append(v)
            ups[v].append(u)
        chains.append(chain)
    _start(rows, ups, downs, depth)
    rows = _order(rows, ups, downs)
    x = _coordinates(rows, ups, downs, widths, n, gap)
    return _finish(boxes, sizes, rows, chains, x, n, right, layer_gap)


def layers(n: int, edges: list[tuple[int, int]]) -> list[int]:
    """The layer of each of ``n`` boxes: as high as its inputs allow, or near its consumers where that is shorter.

    Args:
        edges: pairs of numbers of boxes, from the upper to the lower one.

    Raises:
        ValueError: the edges form a cycle.
    """
    out: list[list[int]] = [[] for _ in range(n)]
    degree = [0] * n
    for a, b in edges:
        out[a].append(b)
        degree[b] += 1
    balance = [len(o) - d for o, d in zip(out, degree, strict=True)]
    queue = [i for i in range(n) if degree[i] == 0]
    layer = [0] * n
    for a in queue:  # grows while it is walked
        for b in out[a]:
            layer[b] = max(layer[b], layer[a] + 1)
            degree[b] -= 1
            if degree[b] == 0:
                queue.append(b)
    if len(queue) != n:
        raise ValueError("the graph has a cycle")
    for a in reversed(queue):  # a box with more edges below than above is better off near those below
        if out[a] and balance[a] > 0:
            layer[a] = max(layer[a], min(layer[b] for b in out[a]) - 1)
    return layer


def _start(layers: list[list[int]], ups: list[list[int]], downs: list[list[int]], depth: list[int]) -> None:
    """A first order: depth first, so that a branch stays together."""
    seen = [False] * len(ups)
    order: list[list[int]] = [[] for _ in layers]
    for roots in layers:
        for root in roots:
            if ups[root] or seen[root]:
                continue
            stack = [root]
            while stack:
                i = stack.pop()
                if seen[i]:
                    continue
                seen[i] = True
                order[depth[i]].append(i)
                stack.extend(j for j in reversed(downs[i]) if not seen[j])
    for i, row in enumerate(order):
        layers[i] = row


def _order(layers: list[list[int]], ups: list[list[int]], downs: list[list[int]]) -> list[list[int]]:
    best, fewest = [row[:] for row in layers], _crossings(layers, downs)
    stale = 0
    for sweep in range(SWEEPS):
        if fewest == 0 or stale >= 4:
            break
        down = sweep % 2 == 0
        for row_index in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            near = layers[row_index - 1 if down else row_index + 1]
            position = {i: p for p, i in enumerate(near)}
            row = layers[row_index]
            links = ups if down else downs
            keys = {}
            for p, i in enumerate(row):
                linked = [position[j] for j in links[i]]
                keys[i] = sum(linked) / len(linked) if linked else _between(row, p, links, position)
            row.sort(key=keys.__getitem__)  # stable: ties keep their order
        _swap(layers, ups, downs)
        count = _crossings(layers, downs)
        if count < fewest:
            best, fewest, stale = [row[:] for row in layers], count, 0
        else:
            stale += 1
    return best


def _between(row: list[int], p: int, links: list[list[int]], position: dict[int, int]) -> float:
    """A box without neighbours on that side stays next to the previous box."""
    for i in reversed(row[:p]):
        if links[i]:
            return max(position[j] for j in links[i]) + 0.1
    return -1.0


def _swap(layers: list[list[int]], ups: list[list[int]], downs: list[list[int]]) -> None:
    """Exchange neighbours wherever that removes crossings."""
    if sum(map(len, layers)) > 1500:
        return
    for index, row in enumerate(layers):
        above = {i: p for p, i in enumerate(layers[index - 1])} if index else {}
        below = {i: p for p, i in enumerate(layers[index + 1])} if index + 1 < len(layers) else {}
        for _ in range(3):
            changed = False
            for p in range(len(row) - 1):
                a, b = row[p], row[p + 1]
                now = _pair(ups[a], ups[b], above) + _pair(downs[a], downs[b], below)
                then = _pair(ups[b], ups[a], above) + _pair(downs[b], downs[a], below)
                if then < now:
                    row[p], row[p + 1] = b, a
                    changed = True
            if not changed:
                break


def _pair(left: list[int], right: list[int], position: dict[int, int]) -> int:
    return sum(position[a] > position[b] for a in left for b in right)


def _crossings(layers: list[list[int]], downs: list[list[int]]) -> int:
    total = 0
    for row, below in zip(layers, layers[1:], strict=False):
        position = {i: p for p, i in enumerate(below)}
        seen: list[int] = []
        for i in row:
            ends = sorted(position[j] for j in downs[i])
            for end in ends:
                total += len(seen) - bisect_left(seen, end + 1)
            for end in ends:
                insort(seen, end)
    return total


def _coordinates(
    layers: list[list[int]], ups: list[list[int]], downs: list[list[int]], widths: list[float], n: int, gap: float
) -> list[float]:
    """Brandes and Koepf: four drawings, each as straight as it can be from one corner; every box takes the middle."""
    marked = _conflicts(layers, ups, n)
    drawings: list[list[float]] = []
    for upward in (False, True):
        for leftward in (False, True):
            rows = [row[::-1] if leftward else row for row in (layers[::-1] if upward else layers)]
            root = _align(rows, downs if upward else ups, marked, len(widths))
            x = _compact(rows, root, widths, gap)
            drawings.append([-v for v in x] if leftward else x)
    spans = []
    for x in drawings:
        lo = min(x[i] - widths[i] / 2 for row in layers for i in row)
        hi = max(x[i] + widths[i] / 2 for row in layers for i in row)
        spans.append((hi - lo, lo, hi))
    _, lo, hi = min(spans, key=lambda span: span[0])
    for k, x in enumerate(drawings):  # even ones were packed to the left, odd ones to the right
        shift = hi - spans[k][2] if k % 2 else lo - spans[k][1]
        drawings[k] = [v + shift for v in x]
    middle = [sorted(values) for values in zip(*drawings, strict=True)]
    return [(v[1] + v[2]) / 2 for v in middle]


def _conflicts(layers: list[list[int]], ups: list[list[int]], n: int) -> set[tuple[int, int]]:
    """Edges that cross a piece inside a long edge: they must bend, so that the long edge is straight."""
    marked: set[tuple[int, int]] = set()
    for above, row in zip(layers, layers[1:], strict=False):
        position = {i: p for p, i in enumerate(above)}
        left, scanned = 0, 0
        for p, i in enumerate(row):
            inner = next((j for j in ups[i] if j >= n), None) if i >= n else None
            if inner is None and p != len(row) - 1:
                continue
            right = position[inner] if inner is not None else len(above)
            for j in row[scanned : p + 1]:
                for u in ups[j]:
                    if (position[u] < left or position[u] > right) and not (j >= n and u >= n):
                        marked.add((u, j))
            left, scanned = right, p + 1
    return marked


def _align(rows: list[list[int]], links: list[list[int]], marked: set[tuple[int, int]], count: int) -> list[int]:
    """For each box the first box of the straight column that it is in."""
    root = list(range(count))
    taken = [False] * count
    for above, row in zip(rows, rows[1:], strict=False):
        position = {i: p for p, i in enumerate(above)}
        last = -1
        for i in row:
            near = sorted(links[i], key=position.__getitem__)
            if not near:
                continue
            for j in dict.fromkeys((near[(len(near) - 1) // 2], near[len(near) // 2])):
                crosses = (j, i) in marked or (i, j) in marked
                if not crosses and not taken[j] and position[j] > last:
                    root[i] = root[j]
                    taken[j] = True
                    last = position[j]
                    break
    return root


def _compact(rows: list[list[int]], root: list[int], widths: list[float], gap: float) -> list[float]:
    """Columns as far left as they go, then back to the right where that costs nothing."""
    before: dict[int, list[tuple[int, float]]] = {}
    after: dict[int, list[tuple[int, float]]] = {}
    waiting: dict[int, int] = {}
    for row in rows:
        for i in row:
            waiting.setdefault(root[i], 0)
        for a, b in zip(row, row[1:], strict=False):
            distance = (widths[a] + widths[b]) / 2 + gap
            before.setdefault(root[b], []).append((root[a], distance))
            after.setdefault(root[a], []).append((root[b], distance))
            waiting[root[b]] += 1
    order = [c for c, w in waiting.items() if w == 0]
    for c in order:  # grows while it is walked
        for d, _ in after.get(c, ()):
            waiting[d] -= 1
            if waiting[d] == 0:
                order.append(d)
    place = dict.fromkeys(waiting, 0.0)
    for c in order:
        place[c] = max((place[d] + s for d, s in before.get(c, ())), default=0.0)
    for c in reversed(order):
        if before.get(c):
            place[c] = max(place[c], min((place[d] - s for d, s in after.get(c, ())), default=place[c]))
    return [place.get(root[i], 0.0) for i in range(len(root))]


def _finish(
    boxes: Sequence[Box],
    sizes: list[tuple[float, float]],
    layers: list[list[int]],
    chains: list[list[int]],
    x: list[float],
    n: int,
    right: bool,
    layer_gap: float,
) -> Layout:
    y: list[float] = [0.0] * len(x)
    tops, bottoms, at = [], [], 0.0
    for row in layers:
        height = max((sizes[i][1] for i in row if i < n), default=0.0)
        for i in row:
            y[i] = at + height / 2
        tops.append(at)
        bottoms.append(at + height)
        at += height + layer_gap
    left = min((x[i] - (sizes[i][0] / 2 if i < n else 0) for row in layers for i in row), default=0.0)
    x = [value - left for value in x]
    level = {i: index for index, row in enumerate(layers) for i in row}
    routes = []
    for chain in chains:
        first, last = chain[0], chain[-1]
        points = [(x[first], y[first] + sizes[first][1] / 2)]
        for i in chain[1:-1]:
            points += [(x[i], tops[level[i]]), (x[i], bottoms[level[i]])]
        points.append((x[last], y[last] - sizes[last][1] / 2))
        if y[first] + sizes[first][1] / 2 < bottoms[level[first]]:  # leave the layer straight, past taller neighbours
            points.insert(1, (x[first], bottoms[level[first]]))
        if y[last] - sizes[last][1] / 2 > tops[level[last]]:
            points.insert(-1, (x[last], tops[level[last]]))
        routes.append([(py, px) for px, py in points] if right else points)
    width = max((x[i] + (sizes[i][0] / 2 if i < n else 0) for row in layers for i in row), default=0.0)
    height = at - layer_gap
    for i, box in enumerate(boxes):
        box.x, box.y = (y[i], x[i]) if right else (x[i], y[i])
    return Layout(height, width, routes) if right else Layout(width, height, routes)
