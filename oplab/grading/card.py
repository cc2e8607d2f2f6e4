"""Outcomes, hints, differences and references as HTML: in a notebook's output, and in the panel of JupyterLab.

A card holds the words of :func:`oplab.grading.text.lines`. It has no script, everything in it is escaped, and it is readable
without its style, as GitHub shows it. The colours follow JupyterLab's theme; elsewhere they are those of a light page.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from oplab.course.language import gettext
from oplab.grading.places import places
from oplab.grading.results import Outcome
from oplab.grading.text import Line, lines

Href = Callable[[str, int], str | None]
"""The address of a line (counted from 1) of a file (relative to the course), or None for no link."""

_CODE = re.compile(r"`([^`\n]+)`")
_TONES = {"passed": "good", "todo": "quiet", "grader_error": "odd"}
_LIGHT = {
    "good": "#1a7f37",
    "bad": "#b3261e",
    "odd": "#7a5f00",
    "quiet": "#59636e",
    "link": "#0b57b8",
    "add": "#d9e8fb",
    "del": "#fbe6d0",
    "c": "#5f666d",
    "k": "#1a6e2e",
    "t": "#0f6b66",
    "p": "#7437b0",
    "s": "#a3302a",
    "n": "#1a6e2e",
    "f": "#1f5cb8",
}
_DARK = {
    "good": "#5fce7d",
    "bad": "#ff8a80",
    "odd": "#e0c341",
    "quiet": "#b0b8c1",
    "link": "#82b6ff",
    "add": "#123458",
    "del": "#57300d",
    "c": "#a9b1ba",
    "k": "#74d08c",
    "t": "#63cfc6",
    "p": "#cda6ff",
    "s": "#ff9f95",
    "n": "#74d08c",
    "f": "#8db9ff",
}


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--oplab-{name}:{colour}" for name, colour in colours.items())


_MONO = "font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace)"
# Important: JupyterLab has its own rules for lists, paragraphs and code in an output, and its selectors are stronger.
STYLE = (
    f".oplab-card{{{_variables(_LIGHT)};box-sizing:border-box;max-width:60rem;margin:4px 0;padding:8px 12px;"
    "border:1px solid var(--jp-border-color1,#c4cbd2);border-left:4px solid var(--oplab-tone);border-radius:4px;"
    "background:var(--jp-layout-color0,#fff);color:var(--jp-ui-font-color1,#1f2328);--oplab-tone:var(--oplab-quiet);"
    "font:14px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);overflow-wrap:anywhere}"
    f"[data-jp-theme-light=false] .oplab-card{{{_variables(_DARK)};background:var(--jp-layout-color0,#111);"
    "color:var(--jp-ui-font-color1,#fff)}"
    ".oplab-card.oplab-good{--oplab-tone:var(--oplab-good)}.oplab-card.oplab-bad{--oplab-tone:var(--oplab-bad)}"
    ".oplab-card.oplab-odd{--oplab-tone:var(--oplab-odd)}"
    ".oplab-card .oplab-head{display:flex;flex-wrap:wrap;gap:0 10px;align-items:baseline}"
    ".oplab-card .oplab-head .oplab-mark,.oplab-card .oplab-state{color:var(--oplab-tone);font-weight:600}"
    ".oplab-card .oplab-score{margin-left:auto;font-variant-numeric:tabular-nums}"
    ".oplab-card ul,.oplab-card p{margin:4px 0 0!important;padding:0!important}"
    ".oplab-card li{list-style:none!important;margin:4px 0 0!important;padding:0 0 0 1.5em!important}"
    ".oplab-card li>.oplab-mark{display:inline-block;width:1.25em;margin-left:-1.5em;font-weight:600}"
    ".oplab-card .oplab-wrong>.oplab-mark{color:var(--oplab-bad)}"
    ".oplab-card .oplab-right>.oplab-mark{color:var(--oplab-good)}"
    ".oplab-card li p{white-space:pre-wrap}.oplab-card .oplab-note{color:inherit}"
    f".oplab-card code{{{_MONO}!important;font-size:.93em!important;background:none!important;"
    "color:inherit!important;padding:0!important;border:0!important}"
    f".oplab-card pre{{{_MONO}!important;font-size:13px!important;line-height:1.4!important;margin:4px 0 0!important;"
    "padding:0!important;white-space:pre!important;overflow-x:auto!important;background:none!important;"
    "color:inherit!important;border:0!important}"
    ".oplab-card .oplab-diff>span{display:inline-block;min-width:100%;box-sizing:border-box;padding:0 6px}"
    ".oplab-card .oplab-add{background:var(--oplab-add)}.oplab-card .oplab-del{background:var(--oplab-del)}"
    ".oplab-card .oplab-gap{color:var(--oplab-quiet)}"
    ".oplab-card a{color:var(--oplab-link)!important;text-decoration:underline!important}"
    ".oplab-card a:focus-visible{outline:2px solid var(--oplab-link);outline-offset:2px}"
    + "".join(f".oplab-card pre .{name}{{color:var(--oplab-{name})}}" for name in "cktpsnf")
)


def card_html(outcome: Outcome, *, href: Href, notes: Sequence[str] = ()) -> str:
    """The card of an outcome.

    Args:
        outcome: what grading found.
        href: the address of a place.
        notes: sentences below the outcome; the places and the `code` in them are found.
    """
    head, *rest = lines(outcome, notes=notes)
    mark, name = head.text.split("  ")[0].split(" ", 1)
    state, score = head.text.split("  ")[1:]
    title = (
        f'<div class="oplab-head">{_mark(mark)} <strong>{escape(name)}</strong> '
        f'<span class="oplab-state">{escape(state)}</span> <span class="oplab-score">{escape(score)}</span></div>'
    )
    label = f"{name}: {state}, {score.replace('/', ' of ')}"
    return _card(_TONES.get(outcome.status, "bad"), label, title + "".join(_body(rest, href)))


def hints_html(id: str, hints: Sequence[str], total: int, *, href: Href, notes: Sequence[str] = ()) -> str:
    """The card of the hints that are shown so far.

    Args:
        id: the exercise.
        hints: those to show, in order, from the first.
        total: how many there are.
        href: the address of a place.
        notes: sentences below the hints.
    """
    items = "".join(
        f"<p><strong>{gettext('Hint {number} of {total}:', number=number, total=total)}</strong> {_inline(text, href)}</p>"
        for number, text in enumerate(hints, start=1)
    )
    title = gettext("Hints for {id}", id=id)
    return _card("quiet", title, _heading(title) + items + _notes(notes, href))


def difference_html(
    title: str, difference: Iterable[str], *, notes: Sequence[str] = (), href: Href | None = None
) -> str:
    """The card of a unified diff: each line has its sign and a colour.

    Args:
        title: what is compared.
        difference: the diff's lines; its two lines with names are left out when ``title`` is there.
        notes: sentences below it.
        href: the address of a place in a note.
    """
    rows = []
    for number, text in enumerate(difference):
        if number < 2 and text.startswith(("---", "+++")):
            continue
        sign, code = text[:1], text[1:]
        if text.startswith("@@"):
            if rows:
                rows.append('<span class="oplab-gap">  …</span>')
            continue
        kind = {"+": ' class="oplab-add"', "-": ' class="oplab-del"'}.get(sign, "")
        rows.append(f"<span{kind}>{'−' if sign == '-' else escape(sign or ' ')} {escape(code)}</span>")
    block = (
        f'<pre class="oplab-diff" tabindex="0" aria-label="{escape(title)}">{chr(10).join(rows)}</pre>' if rows else ""
    )
    return _card("quiet", title, _heading(title) + block + _notes(notes, href))


def reference_html(title: str, code: str, language: str) -> str:
    """The card of a reference answer, highlighted.

    Args:
        title: what it is.
        code: its text.
        language: ``python`` or ``cpp``.
    """
    from oplab.figures.listing import highlighted

    body = "\n".join(highlighted(code.rstrip("\n").expandtabs(4), language))
    return _card("quiet", title, f'{_heading(title)}<pre tabindex="0" aria-label="{escape(title)}">{body}</pre>')


def live_html(text: str) -> str:
    """The card of a check that runs."""
    return _card("quiet", "", f"<p>{escape(text)}</p>", role="status")


def lines_html(lines: Sequence[str]) -> str:
    """A card of a few lines."""
    return _card("quiet", "", "".join(f"<p>{escape(line)}</p>" for line in lines))


def _card(tone: str, label: str, body: str, role: str = "group") -> str:
    named = f' aria-label="{escape(label)}"' if label else ""
    return f'<div class="oplab-card oplab-{tone}" role="{role}"{named}><style>{STYLE}</style>{body}</div>'


def _heading(title: str) -> str:
    return f'<div class="oplab-head"><strong>{escape(title)}</strong></div>'


def _body(rest: Iterable[Line], href: Href) -> Iterator[str]:
    """The checks as a list, the rest as paragraphs. Of the failed checks, two are open."""
    rest = list(rest)
    failed, shown = sum(line.strong > 0 for line in rest), 0
    listed, end = False, "</li></ul>"
    for (kind, indent), group in groupby(rest, lambda line: (_block(line), line.indent)):
        block = list(group)
        if kind in ("wrong", "right"):
            for line in block:
                if line.strong or kind == "right":
                    if shown == 2 < failed:
                        yield f"{end}<details><summary>{gettext('More checks failed: {count}', count=failed - 2)}</summary>"
                        listed, end = False, f"{end}</details>"
                    shown += 1
                    yield "</li>" if listed else "<ul>"
                    listed = True
                    yield f'<li class="oplab-{kind}">{_check(line, href)}'
                else:
                    yield f"<p>{_inline(line.text.strip(), href)}</p>"
            continue
        if listed and indent < 6:
            yield end
            listed = False
        if kind == "pre":
            yield f"<pre>{_linked(textwrap.dedent(chr(10).join(line.text for line in block)), href)}</pre>"
        else:
            yield from (f'<p class="oplab-{kind}">{_inline(line.text.strip(), href)}</p>' for line in block)
    if listed:
        yield end


def _block(line: Line) -> str:
    """Quoted source and whatever is indented further than its neighbours is code."""
    deeper = line.kind == "message" and line.text[line.indent : line.indent + 1].isspace()
    return "pre" if line.kind == "quoted" or deeper else line.kind


def _check(line: Line, href: Href) -> str:
    text = line.text.strip()
    mark, rest = text[0], text[2:]
    if line.strong:
        name = line.text[line.indent + 2 : line.strong]
        return f"{_mark(mark, gettext('failed'))} <strong>{escape(name)}</strong>{_inline(rest[len(name) :], href)}"
    return f"{_mark(mark, gettext('passed'))} {escape(rest)}"


def _mark(mark: str, words: str = "") -> str:
    named = f'role="img" aria-label="{words}"' if words else 'aria-hidden="true"'
    return f'<span class="oplab-mark" {named}>{escape(mark)}</span>'


def _notes(notes: Sequence[str], href: Href | None) -> str:
    return "".join(f'<p class="oplab-note">{_inline(note, href)}</p>' for note in notes)


def _inline(text: str, href: Href | None) -> str:
    return _linked(text, href, lambda part: _CODE.sub(r"<code>\1</code>", escape(part)))


def _linked(text: str, href: Href | None, plain: Callable[[str], str] = escape) -> str:
    """The text as HTML, the places in it as links."""
    parts, at = [], 0
    for place in places(text) if href is not None else ():
        address = href(place.file, place.line)
        if address is None:
            continue
        parts.append(plain(text[at : place.start]))
        parts.append(
            f'<a class="oplab-place" href="{escape(address)}" data-oplab-file="{escape(place.file)}" '
            f'data-oplab-line="{place.line}">{escape(text[place.start : place.end])}</a>'
        )
        at = place.end
    return "".join([*parts, plain(text[at:])])
