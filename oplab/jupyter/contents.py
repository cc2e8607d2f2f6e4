"""What ``make lab`` and ``oplab lab`` change in Jupyter's server: which files it lists, what it saves, and what it prints at its start."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Callable
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyterlab.labapp import LabApp
from tornado.web import HTTPError

# Not a learner's: the course's own code, its tools and tests, the reference answers, and what is built. Only the listing of the
# course's folder leaves them out. They can be opened: `File > Open from Path…`, links, and the panel's buttons do so.
HIDDEN = (
    *"benchmarks binder build docker labextension notebooks oplab solutions src tests tools *.egg-info".split(),
    *("conftest.py", "course.toml", "Dockerfile", "environment.yml", "pyproject.toml", "requirements.lock", "Makefile"),
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "LICENSE-docs"),
)
OWN = "notebooks/*.ipynb"


class CourseFiles(AsyncLargeFileManager):
    """The course's folder as a learner sees it. The lessons in ``notebooks/`` are read-only: their copies in ``work/`` are not."""

    async def get(self, path: str, content: bool = True, **options: Any) -> Any:
        """A file or a folder, as Jupyter's own class gives it."""
        model = await super().get(path, content=content, **options)
        if model["type"] == "directory" and content and not path.strip("/"):
            model["content"] = [entry for entry in model["content"] if not is_hidden(entry["name"])]
        elif fnmatch.fnmatch(path.strip("/"), OWN):
            model["writable"] = False
        return model

    async def save(self, model: dict[str, Any], path: str = "") -> Any:
        """Save a file. Raises HTTPError 403 for a lesson."""
        name = path.strip("/")
        if fnmatch.fnmatch(name, OWN):
            raise HTTPError(403, f"{name} belongs to the course. Your copy is work/{name.partition('/')[2]}.")
        return await super().save(model, path)


def is_hidden(name: str) -> bool:
    """Whether the listing of the course's folder leaves a file or folder out."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in HIDDEN)


def shown_address(server: ServerApp) -> str:
    """What a user opens. Of a server on all interfaces, as in a container, Jupyter's own first address is the machine's name inside."""
    everywhere = server.ip in ("", "0.0.0.0", "::", "*") and not server.custom_display_url
    return server.local_url if everywhere else server.connect_url


def serve(arguments: list[str], last_lines: Callable[[str], str]) -> None:
    """Run JupyterLab until Ctrl-C.

    Args:
        last_lines: what to print when it listens, for its address.
    """

    class Server(ServerApp):
        """Jupyter's server, which ends its first page of output with what to do next."""

        def start_app(self) -> None:
            address = self.connect_url
            # Jupyter's own paragraph with the address, which depends on how the user logs in
            own = logging.Filter()
            own.filter = lambda record: address not in record.getMessage()
            self.log.addFilter(own)
            super().start_app()
            self.log.removeFilter(own)
            print(last_lines(shown_address(self)), flush=True)

    LabApp.serverapp_class = Server
    LabApp.launch_instance(arguments)
