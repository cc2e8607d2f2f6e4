"""The static picture: one SVG, the same bytes for the same model on every machine."""

from __future__ import annotations

from collections.abc import Iterable

from oplab.viewer.fold import fold
from oplab.viewer.graph import Graph, Model, Node, short_name, walk
from oplab.viewer.paint import LIGHT, MARKS, MONO, ROW_SIZE, SANS, esc, num, style, text_width
from oplab.viewer.panel import WIDE, Drawing, Look, domain_colours, draw_graph

PAD = 14
MAX_PANELS = 16  # bodies, functions and blocks next to the main graph


def draw_model(model: Model, title: str) -> str:
    """The picture of one model, with a panel for each body, function and folded block."""
    panels, look, notes = _panels(model)
    return _compose([panels], look, heading(model, title), [*model.problems, *notes], [])


def draw_pair(before: tuple[Model, str], after: tuple[Model, str], title: str, sentence: str) -> str:
    """Two models side by side. Their nodes carry marks."""
    columns, notes = [], []
    domains = domain_colours(graph for model, _ in (before, after) for graph in _all_graphs(model))
    marks: set[str] = set()
    for model, name in (before, after):
        panels, _, more = _panels(model, right=False, domains=domains)
        panels[0] = _headed(panels[0], name, heading(model, "")[1])
        columns.append(panels)
        notes += [f"{name}: {note}" for note in (*model.problems, *more)]
        marks |= {node.mark for node in model.graph.nodes} | set(model.graph.marks.values())
    legend = [mark for mark in MARKS if mark in marks]
    return _compose(columns, Look(domains), (title, ""), [sentence, *notes], legend)


def _all_graphs(model: Model) -> Iterable[Graph]:
    yield from walk(model.graph)
    for function in model.functions:
        yield from walk(function)


def _headed(panel: Drawing, name: str, facts: str) -> Drawing:
    head = (
        f'<text class="text" fill="{LIGHT["text"]}" font-family="{SANS}" font-size="12" font-weight="600" x="0" y="10">'
        f'{esc(name)}<tspan class="mute" fill="{LIGHT["mute"]}" font-weight="400" dx="8">{esc(facts)}</tspan></text>'
    )
    width = max(panel.width, text_width(name, 12, True) + text_width(facts, 12) + 12)
    shift = (width - panel.width) / 2
    body = f'{head}<g transform="translate({num(shift)} 24)">{panel.body}</g>'
    return Drawing(width, panel.height + 24, body)


def heading(model: Model, title: str) -> tuple[str, str]:
    """The title, and the facts that follow it: ``12 nodes · opset 20 · IR 10``."""
    count = model.count
    facts = [f"{count:,} node" + ("" if count == 1 else "s"), *model.facts]
    return title, " · ".join(facts)


def _panels(
    model: Model, right: bool | None = None, domains: dict[str, tuple[str, str]] | None = None
) -> tuple[list[Drawing], Look, list[str]]:
    """The main graph and, after it, everything that is drawn next to it; and notes for the reader."""
    look = Look({})
    panels: list[tuple[str, Graph]] = []
    notes: list[str] = []
    waiting = [("", model.graph), *((f"function {function.name}", function) for function in model.functions)]
    while waiting:
        title, graph = waiting.pop(0)
        if len(panels) > MAX_PANELS:
            notes.append(f"{len(waiting) + 1:,} more bodies and functions are not drawn.")
            break
        if title:
            look.letters[id(graph)] = _letter(len(panels) - 1)
            title = f"{look.letters[id(graph)]}: {title}"
        folded = fold(graph)
        notes += folded.notes
        panels.append((title, folded.graph))
        inner = [(_body_title(n, label), body) for n in folded.graph.nodes for label, body in n.bodies]
        waiting = inner + waiting
    look.functions = {f.name: look.letters[id(f)] for f in model.functions if id(f) in look.letters}
    look.domains = domains or domain_colours(graph for _, graph in panels)
    drawings = []
    for title, graph in panels:
        drawing = draw_graph(graph, look, right)
        drawing.title = title
        drawings.append(drawing)
    return drawings, look, notes


def _body_title(node: Node, label: str) -> str:
    if node.times:
        return f"occurs {node.times} times in a row, drawn once"
    return f"{label} of {node.title}" + (f" ({short_name(node.name)})" if node.name else "")


def _letter(index: int) -> str:
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(65 + rest) + text
    return text


def _wrap(text: str, limit: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        while len(word) > limit:
            word, lines, line = word[limit:], [*lines, (line + " " + word[:limit]).strip()], ""
        if len(line) + len(word) + 1 > limit and line:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line] if line else lines


def _compose(
    columns: list[list[Drawing]],
    look: Look,
    head: tuple[str, str],
    notes: list[str],
    legend_marks: list[str],
) -> str:
    """Panels under each other (a column a model), a heading above, a legend below."""
    width = sum(max(p.width for p in _flow(column)) for column in columns) + 40 * (len(columns) - 1)
    name, facts = head
    width = max(width, text_width(name, 14, True) + text_width(facts, 12) + 20, 260)
    out: list[str] = []
    y = 16.0
    out.append(
        f'<text class="text" fill="{LIGHT["text"]}" font-family="{SANS}" font-size="14" font-weight="600" x="0" y="{num(y)}">'
        f'{esc(name)}<tspan class="mute" fill="{LIGHT["mute"]}" font-size="12" font-weight="400" dx="10">{esc(facts)}</tspan></text>'
    )
    y += 8
    for note in notes:
        for line in _wrap(note, max(int(width / 6.6), 40)):
            y += 16
            out.append(
                f'<text class="text" fill="{LIGHT["text"]}" font-family="{SANS}" font-size="12" x="0" y="{num(y)}">{esc(line)}</text>'
            )
    y += 14
    x, bottom = 0.0, y
    for column in columns:
        row_width, at = 0.0, y
        for panel in _flow(column):
            out.append(f'<g transform="translate({num(x)} {num(at)})">{panel.body}</g>')
            at += panel.height + 20
            row_width = max(row_width, panel.width)
        x += row_width + 40
        bottom = max(bottom, at - 20)
    legend = _legend(look, legend_marks)
    if legend:
        svg, legend_width = legend
        out.append(f'<g transform="translate(0 {num(bottom + 14)})">{svg}</g>')
        bottom += 34
        width = max(width, legend_width)
    return _document(width, bottom, "".join(out), f"{name}: {facts}")


def _flow(column: list[Drawing]) -> list[Drawing]:
    """The main graph, then its panels, side by side while they fit."""
    main, *rest = column
    limit = max(main.width, WIDE)
    rows, row, used = [main], [], 0.0
    for panel in map(_framed, rest):
        if row and used + panel.width + 16 > limit:
            rows.append(_beside(row))
            row, used = [], 0.0
        row.append(panel)
        used += panel.width + 16
    if row:
        rows.append(_beside(row))
    return rows


def _framed(panel: Drawing) -> Drawing:
    width = max(panel.width, text_width(panel.title, 12, True)) + 2 * PAD
    height = panel.height + 2 * PAD + 18
    body = (
        f'<rect class="rim" fill="none" stroke="{LIGHT["rim"]}" width="{num(width)}" height="{num(height)}" rx="8"/>'
        f'<text class="text" fill="{LIGHT["text"]}" font-family="{SANS}" font-size="12" font-weight="600" x="{PAD}" y="20">'
        f'{esc(panel.title)}</text><g transform="translate({PAD} {PAD + 18})">{panel.body}</g>'
    )
    return Drawing(width, height, body)


def _beside(row: list[Drawing]) -> Drawing:
    x, parts = 0.0, []
    for panel in row:
        parts.append(f'<g transform="translate({num(x)} 0)">{panel.body}</g>')
        x += panel.width + 16
    return Drawing(x - 16, max(p.height for p in row), "".join(parts))


def _legend(look: Look, marks: list[str]) -> tuple[str, float] | None:
    parts, x = [], 0.0
    for domain, (fill, _) in look.domains.items():
        parts.append(f'<rect fill="{fill}" x="{num(x)}" y="0" width="12" height="12" rx="3"/>')
        x = _legend_text(parts, x + 18, f"domain {domain}")
    for mark in marks:
        sign, colour = MARKS[mark]
        dash = ' stroke-dasharray="4 2"' if mark == "removed" else ""
        parts.append(
            f'<rect class="{mark}" fill="none" stroke="{colour}" stroke-width="2.5"{dash} '
            f'x="{num(x + 1)}" y="0" width="12" height="12" rx="3"/>'
        )
        x = _legend_text(parts, x + 20, f"{sign} {mark}")
    return ("".join(parts), x) if parts else None


def _legend_text(parts: list[str], x: float, text: str) -> float:
    parts.append(
        f'<text class="mute" fill="{LIGHT["mute"]}" font-family="{SANS}" font-size="12" x="{num(x)}" y="10">{esc(text)}</text>'
    )
    return x + text_width(text, 12) + 22


def _document(width: float, height: float, body: str, label: str) -> str:
    w, h = int(width + 2 * PAD + 1), int(height + 2 * PAD + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="oplab-graph" role="img" aria-label="{esc(label)}" '
        f'width="{w}" height="{h}" viewBox="{-PAD} {-PAD} {w} {h}" font-family="{MONO}" font-size="{ROW_SIZE}">'
        f'{style()}<rect class="bg" fill="{LIGHT["bg"]}" x="{-PAD}" y="{-PAD}" width="{w}" height="{h}" rx="6"/>{body}</svg>'
    )
