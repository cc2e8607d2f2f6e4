"""A view as a file: SVG, PNG, or one HTML page that needs nothing else."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from oplab.errors import OplabError
from oplab.files import write_atomically

SUFFIXES = (".svg", ".png", ".html")
ZOOM = 2.0  # PNG pixels for one SVG unit
MAX_PIXELS = 60_000_000
_SIZE = re.compile(r'<svg[^>]* width="(\d+)" height="(\d+)"')


def save(view: Any, path: Path) -> Path:
    """Write ``view`` to ``path``; its suffix chooses the format.

    Raises:
        OplabError: another ending, or a folder that cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise OplabError(
            f"{path.name} ends in {suffix or 'nothing'}.", f"Choose {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )
    if suffix == ".svg":
        data = view.svg.encode()
    elif suffix == ".png":
        data = png(view.svg)
    else:
        data = page(view).encode()
    try:
        write_atomically(path, data)
    except OSError as error:
        raise OplabError(
            f"{path} cannot be written: {error.strerror}.", "Choose a folder that exists and is yours."
        ) from None
    return path


def png(svg: str) -> bytes:
    """The picture as PNG, in its light colours, with the fonts that matplotlib brings: the same on every machine."""
    try:
        import resvg_py
    except ImportError:
        raise OplabError(
            "PNG needs the package resvg_py.", "Install it with: pip install resvg_py, or write an .svg."
        ) from None
    import matplotlib

    found = _SIZE.search(svg)
    area = float(found[1]) * float(found[2]) if found else 1.0
    zoom = min(ZOOM, (MAX_PIXELS / area) ** 0.5)
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=re.sub(r"<style>.*?</style>", "", svg, count=1, flags=re.DOTALL),
            zoom=zoom,
            skip_system_fonts=True,
            font_dirs=[str(Path(matplotlib.get_data_path()) / "fonts" / "ttf")],
            sans_serif_family="DejaVu Sans",
            monospace_family="DejaVu Sans Mono",
        )
    )


def page(view: Any) -> str:
    """One HTML file: the picture, and below it the same in words. It has no script and loads nothing."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(view.title)}</title>"
        "<style>body{margin:16px;font-family:system-ui,sans-serif}main{overflow-x:auto}pre{white-space:pre-wrap}</style>"
        f"</head><body><main>{view.svg}</main><details><summary>The graph in words</summary><pre>{escape(view.text)}</pre>"
        "</details></body></html>\n"
    )
