"""One graph as a drawing: boxes for operators, pills for what goes in and out, labels on the edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oplab.onnxtools.names import STANDARD
from oplab.viewer.graph import Graph, Node, Value, short_name, shorten
from oplab.viewer.layout import Box, Layout, layers, place
from oplab.viewer.paint import (
    DOMAIN_COLOURS,
    LIGHT,
    MARKS,
    OP_SIZE,
    PLAIN,
    SANS,
    esc,
    mono_width,
    num,
    text_width,
)

ROW_HEIGHT, HEAD_HEIGHT, LABEL_HEIGHT, PILL_HEIGHT = 15, 23, 15, 24
MAX_ROWS = 7
MAX_FAR = 3  # tensors from far above that a box names, when lines to all of them would hide the graph
ROW_LIMIT = 34  # characters
WIDE = 980  # a picture to the right is made only if it fits a notebook's column
SMALL = 14  # nodes of a graph that may be drawn to the right


@dataclass
class Item(Box):
    """A box of the layout, and what is drawn in it."""

    kind: str = "op"  # op, input, output, label
    node: Node | None = None
    value: Value | None = None
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # (name, rest, class)


@dataclass
class Drawing:
    """A finished panel: its size and its SVG, drawn from (0, 0)."""

    width: float
    height: float
    body: str
    title: str = ""


@dataclass
class Look:
    """What all panels of one picture share."""

    domains: dict[str, tuple[str, str]]
    letters: dict[int, str] = field(default_factory=dict)  # id of a graph -> its panel's letter
    functions: dict[str, str] = field(default_factory=dict)  # name -> its panel's letter
    names: bool = True  # tensor names next to the shapes


def domain_colours(graphs: Iterable[Graph]) -> dict[str, tuple[str, str]]:
    """A colour for each custom domain; the course's own is always the first."""
    found = sorted({n.domain for g in graphs for n in g.nodes if n.domain not in STANDARD})
    found.sort(key=lambda d: d != "oplab")
    return {d: DOMAIN_COLOURS[i % len(DOMAIN_COLOURS)] for i, d in enumerate(found)}


def _rows(node: Node, look: Look) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for param in node.params:
        text = param.text()
        flag = "changed" if param.formal in node.changed else ""
        name, _, rest = text.partition(" ")
        rows.append((f"{name} ", shorten(rest, ROW_LIMIT - len(name)), flag))
    for name, text in node.attrs:
        name = shorten(name, 24)
        if not text:
            rows.append((name, "", ""))
            continue
        rows.append(
            (f"{name} ", shorten(f"= {text}", max(ROW_LIMIT - len(name), 8)), "changed" if name in node.changed else "")
        )
    if len(rows) > MAX_ROWS:
        more = len(rows) - MAX_ROWS + 1
        rows = rows[: MAX_ROWS - 1] + [(f"… {more} more", "", "")]
    if "inputs" in node.changed:
        rows.append(("inputs come from elsewhere", "", "changed"))
    for label, body in node.bodies:
        rows.append((label, f": graph {look.letters.get(id(body), '?')}", ""))
    if node.title in look.functions:
        rows.append(("function", f": graph {look.functions[node.title]}", ""))
    return rows


def _op(node: Node, look: Look, far: Sequence[str] = ()) -> Item:
    rows, far = _rows(node, look), [*node.far, *far]
    rows += [(f"↑ {short_name(name)}", "", "") for name in far[:MAX_FAR]]
    if len(far) > MAX_FAR:
        rows.append((f"↑ {len(far) - MAX_FAR} more from above", "", ""))
    head = text_width(node.title, OP_SIZE, True) + (18 if node.mark else 0)
    width = max([head + 24, *(mono_width(a + b) + 16 for a, b, _ in rows), 56])
    height = HEAD_HEIGHT + (len(rows) * ROW_HEIGHT + 6 if rows else 2)
    return Item(width, height, kind="op", node=node, rows=rows)


def _pill(value: Value, kind: str, captured: bool = False, mark: str = "") -> Item:
    name, kind_text = short_name(value.name, 32), shorten(value.type_text(), 48)
    prefix = "from outside: " if captured else ""
    width = mono_width(prefix + name) + (mono_width(kind_text) + 8 if kind_text else 0) + 24
    name = f"{MARKS[mark][0]} {name}" if mark else name
    return Item(
        width + (12 if mark else 0), PILL_HEIGHT, kind=kind, value=value, rows=[(prefix + name, kind_text, mark)]
    )


def _label(value: Value, right: bool, names: bool) -> Item:
    name, kind = short_name(value.name) if names else "", shorten(value.type_text(), 40)
    if not name and not kind:
        name = short_name(value.name)
    if right:
        width = max(mono_width(name), mono_width(kind)) + 8
        return Item(
            width, 2 * LABEL_HEIGHT if name and kind else LABEL_HEIGHT, 0, 0, "label", None, value, [(name, kind, "")]
        )
    width = mono_width(name) + (mono_width(kind) + 8 if kind and name else mono_width(kind)) + 8
    return Item(width, LABEL_HEIGHT, 0, 0, "label", None, value, [(name, kind, "")])


def _scene(graph: Graph, look: Look, right: bool) -> tuple[list[Item], list[tuple[int, int]], list[tuple[int, int]]]:
    """The boxes, the edges between them, and the edges that only a body uses."""
    items: list[Item] = []
    at: dict[str, int] = {}  # tensor -> the box where its edges start
    uses: dict[str, int] = {}
    for node in graph.nodes:
        for name in (*node.inputs, *node.captures):
            uses[name] = uses.get(name, 0) + 1
    results = {value.name for value in graph.outputs}
    given = {value.name for value in graph.inputs}
    edges: list[tuple[int, int]] = []
    dashed: list[tuple[int, int]] = []
    for value in graph.inputs:
        at[value.name] = len(items)
        items.append(_pill(value, "input", mark=graph.marks.get(value.name, "")))
    produced = {name for node in graph.nodes for name in node.outputs}
    for name in [n for n in uses if n not in produced and n not in given]:
        at[name] = len(items)
        items.append(_pill(graph.value(name), "input", captured=True))
    drawn_outputs: set[str] = set()
    for node in graph.nodes:
        me = len(items)
        items.append(_op(node, look))
        for name in dict.fromkeys(node.inputs):
            if name in at:
                edges.append((at[name], me))
        for name in dict.fromkeys(node.captures):
            if name in at and name not in node.inputs:
                dashed.append((at[name], me))
        for name in node.outputs:
            if name in results:
                item = _pill(graph.value(name), "output", mark=graph.marks.get(name, ""))
                drawn_outputs.add(name)
            elif uses.get(name):
                item = _label(graph.value(name), right, look.names)
            else:
                continue
            at[name] = len(items)
            edges.append((me, len(items)))
            items.append(item)
    for value in graph.outputs:
        if value.name not in drawn_outputs:
            drawn_outputs.add(value.name)
            if value.name in at:
                edges.append((at[value.name], len(items)))
            items.append(_pill(value, "output", mark=graph.marks.get(value.name, "")))
    return items, edges, dashed


def draw_graph(graph: Graph, look: Look, right: bool | None = None) -> Drawing:
    """Lay a graph out and draw it; ``right`` chooses the direction, None lets the picture decide."""
    if right is None:
        count = len(graph.nodes)
        down = _laid_out(graph, look, False)
        if count <= SMALL:
            across = _laid_out(graph, look, True)
            if across[3].width <= WIDE and across[3].height < down[3].height:
                return _draw(*across, True, look)
        return _draw(*down, False, look)
    return _draw(*_laid_out(graph, look, right), right, look)


def _laid_out(graph: Graph, look: Look, right: bool) -> tuple[list[Item], list, list, Layout]:
    items, edges, dashed = _scene(graph, look, right)
    if not right:
        edges, dashed = _without_longest(items, edges, dashed, look)
    layout = place(items, edges + dashed, right=right, gap=20, layer_gap=26 if right else 14)
    return items, edges, dashed, layout


def _without_longest(
    items: list[Item], edges: list[tuple[int, int]], dashed: list[tuple[int, int]], look: Look
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where long lines would fill the page (a DenseNet), the boxes at their ends name the tensors instead."""
    layer = layers(len(items), edges + dashed)
    span = {edge: layer[edge[1]] - layer[edge[0]] for edge in (*edges, *dashed)}
    budget = 40 + 3 * len(items) - sum(s - 1 for s in span.values())
    left = {b: sum(1 for edge in edges if edge[1] == b) for _, b in span}
    far: dict[int, list[str]] = {}
    gone = set()
    for edge in sorted(span, key=lambda e: (-span[e], e)):
        if budget >= 0 or span[edge] < 12:
            break
        a, b = edge
        if items[b].kind != "op" or left[b] < 2:
            continue
        budget += span[edge] - 1
        left[b] -= 1
        gone.add(edge)
        far.setdefault(b, []).append(items[a].value.name if items[a].value else "")
    for b, names in far.items():
        node = items[b].node
        assert node is not None
        order = {name: i for i, name in enumerate(node.inputs)}
        items[b] = _op(node, look, sorted(names, key=lambda n: order.get(n, 0)))
    return [e for e in edges if e not in gone], [e for e in dashed if e not in gone]


def _draw(
    items: list[Item],
    edges: list[tuple[int, int]],
    dashed: list[tuple[int, int]],
    layout: Layout,
    right: bool,
    look: Look,
) -> Drawing:
    solid = [_path(route, right) for route in layout.routes[: len(edges)]]
    soft = [_path(route, right) for route in layout.routes[len(edges) :]]
    tips = [
        _tip(route[-1], right)
        for (_, b), route in zip(edges + dashed, layout.routes, strict=True)
        if items[b].kind in ("op", "output")
    ]
    stroke = f'class="wire" fill="none" stroke="{LIGHT["line"]}" stroke-width="1.2"'
    out = []
    if solid:
        out.append(f'<path {stroke} d="{"".join(solid)}"/>')
    if soft:
        out.append(f'<path {stroke} stroke-dasharray="4 3" d="{"".join(soft)}"/>')
    if tips:
        out.append(f'<path class="tip" fill="{LIGHT["line"]}" d="{"".join(tips)}"/>')
    for item in items:
        out.append(_op_svg(item, look) if item.kind == "op" else _value_svg(item, right))
    return Drawing(layout.width, layout.height, "".join(out))


def _path(route: list[tuple[float, float]], right: bool) -> str:
    """Smooth where an edge changes its column, straight elsewhere."""
    (x, y), *rest = route
    parts = [f"M{num(x)} {num(y)}"]
    for u, v in rest:
        if (abs(v - y) if right else abs(u - x)) < 0.5:
            parts.append(f"L{num(u)} {num(v)}")
        elif right:
            middle = num((x + u) / 2)
            parts.append(f"C{middle} {num(y)} {middle} {num(v)} {num(u)} {num(v)}")
        else:
            middle = num((y + v) / 2)
            parts.append(f"C{num(x)} {middle} {num(u)} {middle} {num(u)} {num(v)}")
        x, y = u, v
    return "".join(parts)


def _tip(point: tuple[float, float], right: bool) -> str:
    x, y = point
    if right:
        return f"M{num(x)} {num(y)}l-7 -3.5v7z"
    return f"M{num(x)} {num(y)}l-3.5 -7h7z"


def _text(x: float, y: float, kind: str, body: str, extra: str = "") -> str:
    colour = LIGHT["text" if kind == "text" else "mute"]
    return f'<text class="{kind}" fill="{colour}" x="{num(x)}" y="{num(y)}"{extra}>{body}</text>'


def _value_svg(item: Item, right: bool) -> str:
    name, kind, _ = item.rows[0]
    x, y = item.x, item.y
    middle = ' text-anchor="middle"'
    mute = f'class="mute" fill="{LIGHT["mute"]}"'
    value = item.value
    tip = f"<title>{esc(value.name)}: {esc(value.type_text() or 'type unknown')}</title>" if value else ""
    if item.kind == "label":
        if right and name and kind:
            body = _text(x, y - 4, "text", esc(name), middle) + _text(x, y + 10, "mute", esc(kind), middle)
            return f"<g>{tip}{body}</g>"
        plate = f'<rect class="bg" fill="{LIGHT["bg"]}" {_frame(item)}/>'
        tail = f'<tspan {mute} dx="6">{esc(kind)}</tspan>' if name and kind else ""
        body = _text(x, y + 3.5, "text" if name else "mute", esc(name or kind) + tail, middle)
        return f"<g>{tip}{plate}{body}</g>"
    pill = f'<rect class="pill" fill="{LIGHT["pill"]}" stroke="{LIGHT["line"]}" {_frame(item)} rx="{num(item.height / 2)}"/>'
    tail = f'<tspan {mute} dx="6">{esc(kind)}</tspan>' if kind else ""
    return f"<g>{tip}{pill}{_ring(item, item.rows[0][2])}{_text(x, y + 3.5, 'text', esc(name) + tail, middle)}</g>"


def _ring(item: Item, mark: str) -> str:
    """The line around something that a comparison marked."""
    if not mark:
        return ""
    colour = MARKS[mark][1]
    dash = ' stroke-dasharray="6 3"' if mark == "removed" else ""
    round_ = num(item.height / 2 + 2) if item.kind != "op" else "8"
    return f'<rect class="{mark}" fill="none" stroke="{colour}" stroke-width="2.5"{dash} {_frame(item, 2.5)} rx="{round_}"/>'


def _frame(item: Box, grow: float = 0) -> str:
    x, y = item.x - item.width / 2 - grow, item.y - item.height / 2 - grow
    return f'x="{num(x)}" y="{num(y)}" width="{num(item.width + 2 * grow)}" height="{num(item.height + 2 * grow)}"'


def _op_svg(item: Item, look: Look) -> str:
    node = item.node
    assert node is not None
    left, top, width = item.x - item.width / 2, item.y - item.height / 2, item.width
    fill, ink = look.domains.get(node.domain, PLAIN)
    kinds = ("", "")
    if node.block:  # not an operator, but a box for several nodes: drawn in a tensor's plain style
        fill, ink, kinds = LIGHT["pill"], LIGHT["text"], (' class="pill"', ' class="text"')
    out = [f"<g><title>{esc(_tooltip(node))}</title>"]
    line = f'stroke="{LIGHT["line"]}"'
    if node.times:
        for step in (6, 3):
            below = Box(item.width, item.height, item.x + step, item.y + step)
            out.append(f'<rect class="box" fill="{LIGHT["box"]}" {line} {_frame(below)} rx="6"/>')
    out.append(f'<rect class="box" fill="{LIGHT["box"]}" {line} {_frame(item)} rx="6"/>')
    if item.rows:
        out.append(
            f'<path{kinds[0]} fill="{fill}" d="M{num(left)} {num(top + HEAD_HEIGHT)}v{num(6 - HEAD_HEIGHT)}a6 6 0 0 1 6 -6'
            f'h{num(width - 12)}a6 6 0 0 1 6 6v{num(HEAD_HEIGHT - 6)}z"/>'
        )
    else:
        out.append(f'<rect{kinds[0]} fill="{fill}" {_frame(item)} rx="6"/>')
    out.append(_ring(item, node.mark))
    middle = top + (HEAD_HEIGHT if item.rows else item.height) / 2 + 4.5
    sign = f"{MARKS[node.mark][0]} " if node.mark else ""
    out.append(
        f'<text{kinds[1]} fill="{ink}" font-family="{SANS}" font-size="{OP_SIZE}" font-weight="600" text-anchor="middle" '
        f'x="{num(item.x)}" y="{num(middle)}">{esc(sign + node.title)}</text>'
    )
    y = top + HEAD_HEIGHT + ROW_HEIGHT - 1
    for name, rest, flag in item.rows:
        tail = f'<tspan class="mute" fill="{LIGHT["mute"]}">{esc(rest)}</tspan>' if rest else ""
        weight = ' font-weight="700" text-decoration="underline"' if flag else ""
        out.append(_text(left + 8, y, "text", esc(name) + tail, weight))
        y += ROW_HEIGHT
    out.append("</g>")
    return "".join(out)


def _tooltip(node: Node) -> str:
    lines = [node.title + (f" ({node.name})" if node.name else "")]
    lines += [f"{name} = {text}" for name, text in (*node.attrs, *node.defaults)]
    return shorten("; ".join(lines), 300)
