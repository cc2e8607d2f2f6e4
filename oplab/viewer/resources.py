"""What a browser may fetch: Netron's unmodified files, and the models that were shown.

Both servers, Jupyter's and the one on 127.0.0.1, answer with what this module returns, so they cannot differ. The one page
that is changed on its way is Netron's ``index.html``: without a version it sends no telemetry, without a date it does not
refuse to open anything half a year after its release, and ``quiet.js`` answers its question for consent.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from oplab.errors import OplabError
from oplab.viewer.store import Store

STATIC = Path(__file__).with_name("static")
# the browser itself refuses whatever is not listed, should Netron ever try
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self'; frame-src 'none'; object-src 'none'; "
    "base-uri 'none'; form-action 'none'"
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
# what Netron loads for every ONNX model, six levels of imports deep: listed at once, they cost one round trip instead of six
_MODULES = (
    "base text flatbuffers flexbuffers zip tar python json xml protobuf hdf5 grapher browser view message "
    "onnx onnx-proto onnx-schema"
).split()
_FOREVER = "private, max-age=31536000, immutable"


@dataclass
class Reply:
    """An answer: a status, headers, and a body that is bytes or an open file."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    descriptor: int | None = None  # an open file, sent instead of ``body``; the sender closes it
    size: int = 0


@functools.cache
def netron_folder() -> Path:
    """Where the netron package is installed; it is not imported."""
    spec = importlib.util.find_spec("netron")
    if spec is None or not spec.submodule_search_locations:
        raise OplabError("The package netron is not installed.", "Install it with: pip install netron")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


@functools.cache
def netron_version() -> str:
    """The version of the installed netron package."""
    return importlib.metadata.version("netron")


@functools.cache
def index() -> bytes:
    """Netron's page, changed so that it asks no question, sends no report and looks for no update."""
    text = (netron_folder() / "index.html").read_text(encoding="utf-8")
    present = [name for name in _MODULES if (netron_folder() / f"{name}.js").is_file()]
    hints = "".join(f'<link rel="modulepreload" href="{name}.js">\n' for name in present)
    for pattern, new in (
        (r'<meta name="version" content="[^"]*">\n?', '<meta name="version" content="0.0.0">\n'),
        (r'<meta name="date" content="[^"]*">\n?', ""),
        (
            r'(<script type="text/javascript" src="index.js">)',
            r'<script type="text/javascript" src="quiet.js"></script>\n' + hints + r"\1",
        ),
    ):
        text, count = re.subn(pattern, new, text)
        if count != 1:
            raise OplabError(
                f"Netron {netron_version()} has a start page that oplab does not know.",
                "Install a version that pyproject.toml names.",
            )
    return text.encode()


def page_url(name: str, identifier: str, suffix: str) -> str:
    """The address of a model in Netron, relative to the viewer's root."""
    return (
        f"netron/{netron_version()}/?url=../../models/{identifier}/model{suffix}"
        f"&identifier={quote(name + suffix, safe='')}"
    )


def respond(store: Store, path: str, query: str = "") -> Reply:
    """Answer GET ``path`` (relative to the viewer's root, no leading slash)."""
    kind, _, rest = path.partition("/")
    if kind == "models":
        return _model(store, rest)
    if kind == "netron":
        version, _, name = rest.partition("/")
        if version == netron_version():
            return _netron(name, query)
    if path == "mount.js":
        return Reply(200, {"Content-Type": _TYPES[".js"], "Cache-Control": "no-cache"}, _static("mount.js"))
    return Reply(404, {"Content-Type": "text/plain"}, b"not found")


def _netron(name: str, query: str) -> Reply:
    if name in ("", "index.html"):
        headers = {"Content-Type": _TYPES[".html"], "Cache-Control": "no-cache"}
        return Reply(200, headers | {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}, index())
    if name == "quiet.js":
        return Reply(200, {"Content-Type": _TYPES[".js"], "Cache-Control": "no-cache"}, _static("quiet.js"))
    if not re.fullmatch(r"[A-Za-z0-9_-]+\.(js|css|json|png|ico)", name):  # one flat folder: no paths, so no way out
        return Reply(404, {"Content-Type": "text/plain"}, b"not found")
    if query:  # Netron adds the time to each address; the version in the path already makes it safe to keep
        return Reply(302, {"Location": name, "Cache-Control": "no-store"})
    file = netron_folder() / name
    if not file.is_file():
        return Reply(404, {"Content-Type": "text/plain"}, b"not found")
    return Reply(200, {"Content-Type": _TYPES[file.suffix], "Cache-Control": _FOREVER}, file.read_bytes())


@functools.cache
def _static(name: str) -> bytes:
    return (STATIC / name).read_bytes()


def _model(store: Store, rest: str) -> Reply:
    identifier, _, name = rest.partition("/")
    entry = store.entry(identifier)
    if entry is None:
        return Reply(
            404, {"Content-Type": "application/json", "Cache-Control": "no-store"}, b'{"message": "not shown"}'
        )
    if not name:
        facts = {
            "name": entry.name,
            "page": "oplab/viewer/" + page_url(entry.name, identifier, entry.suffix),
            "netron": netron_version(),
        }
        return Reply(200, {"Content-Type": "application/json", "Cache-Control": "no-store"}, json.dumps(facts).encode())
    wanted = {f"model{entry.suffix}": entry.suffix, "weights": ".weights"}.get(name)
    opened = store.open(identifier, wanted) if wanted else None
    if opened is None:
        return Reply(404, {"Content-Type": "text/plain"}, b"not found")
    descriptor, size = opened
    headers = {"Content-Type": "application/octet-stream", "Cache-Control": "no-store"}
    return Reply(200, headers, b"", descriptor, size)
