"""The Jupyter Server extension: Netron and the shown models, under the server's own address and its own authentication.

Enabled by ``etc/jupyter/jupyter_server_config.d/oplab.json``, which the package installs.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from oplab.viewer import resources
from oplab.viewer.store import Store

_CHUNK = 1 << 20


class ViewerHandler(JupyterHandler):
    """Every address below ``oplab/viewer/``."""

    auth_resource = "contents"

    def initialize(self, store: Store) -> None:
        """Tornado calls this with the arguments of the route."""
        self.store = store

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Sends the page or file at ``path``, below ``oplab/viewer/``."""
        reply = resources.respond(self.store, path, self.request.query)
        self.set_status(reply.status)
        for name, value in reply.headers.items():
            if name == "Content-Security-Policy":  # Jupyter's own rules, about who may frame it, stay
                value = f"{self.content_security_policy}; {value}"
            self.set_header(name, value)
        if reply.descriptor is None:
            await self.finish(reply.body)
            return
        with os.fdopen(reply.descriptor, "rb") as file:
            self.set_header("Content-Length", reply.size)
            while block := file.read(_CHUNK):
                self.write(block)
                await self.flush()
        await self.finish()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "oplab.viewer.server"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    store = Store(serverapp.runtime_dir)
    pattern = url_path_join(serverapp.web_app.settings["base_url"], "oplab", "viewer", "(.*)")
    serverapp.web_app.add_handlers(".*$", [(pattern, ViewerHandler, {"store": store})])
    serverapp.log.info("oplab: graphs are shown by Netron %s under oplab/viewer/", resources.netron_version())
