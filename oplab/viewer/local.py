"""Netron without Jupyter: a server on 127.0.0.1 whose addresses begin with a random token.

It serves the same pages as the Jupyter extension. There is one server for each process, and it ends with the process.
"""

from __future__ import annotations

import atexit
import hmac
import os
import secrets
import shutil
import tempfile
import threading
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from oplab.viewer import resources
from oplab.viewer.store import Store

_lock = threading.Lock()
_running: LocalServer | None = None


class LocalServer:
    """Serves this process's models to this machine's user."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self.folder = tempfile.mkdtemp(prefix="oplab-viewer-")
        self.store = Store(self.folder)
        self.views: dict[str, tuple[str, str]] = {}  # name -> (title, HTML)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.http.daemon_threads = True
        self.http.owner = self  # type: ignore[attr-defined]
        self.base = f"/{self.token}/"
        self.origin = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True, name="oplab-viewer").start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Ends the server and deletes its folder."""
        self.http.shutdown()
        self.http.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, name: str, title: str, html: str) -> str:
        """Serve one view; returns its address."""
        self.views[name] = (title, html)
        return f"{self.origin}{self.base}view/{name}"

    def respond(self, path: str, query: str) -> resources.Reply:
        """The answer to a request; status 404 without the token."""
        token, _, rest = path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return resources.Reply(404, {"Content-Type": "text/plain"}, b"not found")
        if rest.startswith("oplab/viewer/"):
            return resources.respond(self.store, rest.removeprefix("oplab/viewer/"), query)
        if rest.startswith("view/") and rest[5:] in self.views:
            title, html = self.views[rest[5:]]
            body = (
                '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
                f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
                "<style>body{margin:12px;font-family:system-ui,sans-serif}</style></head>"
                f'<body data-base-url="{self.base}">{html}</body></html>'
            )
            return resources.Reply(
                200, {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}, body.encode()
            )
        return resources.Reply(404, {"Content-Type": "text/plain"}, b"not found")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "oplab"

    def do_GET(self) -> None:
        owner: LocalServer = self.server.owner  # type: ignore[attr-defined]
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):  # a page that rebinds its name
            reply = resources.Reply(403, {"Content-Type": "text/plain"}, b"forbidden")
        else:
            path, _, query = self.path.partition("?")
            reply = owner.respond(path, query)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Length", str(len(reply.body) if reply.descriptor is None else reply.size))
        self.end_headers()
        try:
            if reply.descriptor is None:
                if self.command == "GET":
                    self.wfile.write(reply.body)
                return
            with os.fdopen(reply.descriptor, "rb") as file:
                if self.command == "GET":
                    shutil.copyfileobj(file, self.wfile, 1 << 20)
        except (BrokenPipeError, ConnectionResetError):  # the browser went away
            self.close_connection = True

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: the terminal belongs to the user."""


def server() -> LocalServer:
    """This process's server, started when it is first needed."""
    global _running
    with _lock:
        if _running is None:
            _running = LocalServer()
        return _running
