"""Colours, fonts and text of the static picture.

Every colour is given twice: as a plain attribute, for renderers that know no style sheet, and as a class that follows the
page's theme. On its own the picture carries its background, so it can be read on any page; in JupyterLab it has the page's.
"""

from __future__ import annotations

from oplab.errors import printable

SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
OP_SIZE, ROW_SIZE = 13, 10.5

# Okabe and Ito's palette: told apart with every common colour blindness. The domain is in the text as well.
DOMAIN_COLOURS = (
    ("#b34700", "#ffffff"),
    ("#0067a5", "#ffffff"),
    ("#00785a", "#ffffff"),
    ("#a34d82", "#ffffff"),
    ("#e69f00", "#1f2328"),
    ("#56b4e9", "#1f2328"),
)
PLAIN = ("#44546a", "#ffffff")
MARKS = {"added": ("+", "#0067a5"), "removed": ("−", "#b34700"), "changed": ("~", "#8a6d00")}

LIGHT = dict(
    bg="#ffffff",
    box="#f6f8fa",
    line="#8c959f",
    text="#1f2328",
    mute="#59636e",
    pill="#e8eef5",
    rim="#d0d7de",
    **{name: colour for name, (_, colour) in MARKS.items()},
)
DARK = dict(
    bg="#14181f",
    box="#1e242d",
    line="#7d8794",
    text="#e6edf3",
    mute="#a0a9b4",
    pill="#28323f",
    rim="#3d444d",
    added="#56b4e9",
    removed="#f0834d",
    changed="#e0c341",
)


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{k}:{v}" for k, v in colours.items())


def style() -> str:
    """The style sheet: light and dark, by the page's theme where it has one, else by the system's."""
    light, dark, me = _variables(LIGHT), _variables(DARK), ".oplab-graph"
    rules = [
        f"{me}{{{light}}}",
        f"@media (prefers-color-scheme:dark){{{me}{{{dark}}}}}",
        f"[data-jp-theme-light=true] {me},.vscode-light {me}{{{light}}}",
        f"[data-jp-theme-light=false] {me},.vscode-dark {me}{{{dark}}}",
        f"[data-jp-theme-light] {me}{me}{{--bg:var(--jp-layout-color0)}}",
        f"@media print{{{me}{me}{me}{{{light}}}}}",
        f"{me} .bg{{fill:var(--bg)}}{me} .box{{fill:var(--box);stroke:var(--line)}}",
        f"{me} .pill{{fill:var(--pill);stroke:var(--line)}}{me} .rim{{stroke:var(--rim)}}",
        f"{me} .wire{{stroke:var(--line)}}{me} .tip{{fill:var(--line)}}",
        f"{me} .text{{fill:var(--text)}}{me} .mute{{fill:var(--mute)}}",
        *(f"{me} .{mark}{{stroke:var(--{mark})}}" for mark in MARKS),
    ]
    return "<style>" + "".join(rules) + "</style>"


# --- text -----------------------------------------------------------------------------------------------------------

_NARROW, _BROAD = set("iljtfrI.,:;'|()[]! "), set("mwMWO@%—QG")


def text_width(text: str, size: float, bold: bool = False) -> float:
    """About how wide a proportional font sets this, a little on the safe side."""
    em = 0.0
    for c in text:
        em += 0.34 if c in _NARROW else 0.9 if c in _BROAD else 0.7 if c.isupper() else 1.0 if ord(c) > 0x2E80 else 0.58
    return em * size * (1.06 if bold else 1.0)


def mono_width(text: str) -> float:
    """The width of a text in the monospaced font, in SVG units; characters of East Asian scripts count twice."""
    return sum(2 if ord(c) > 0x2E80 else 1 for c in text) * ROW_SIZE * 0.61


def esc(text: str) -> str:
    """Text for XML: markup escaped, characters that XML forbids or that turn the reading direction replaced."""
    text = printable(text).replace("\n", " ").replace("\r", " ").replace("\t", " ")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def num(x: float) -> str:
    """A coordinate: one decimal at most, no trailing zero."""
    text = f"{x:.1f}"
    return text[:-2] if text.endswith(".0") else text
