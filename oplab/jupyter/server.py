"""The Jupyter Server extension: the course under ``oplab/lab/``, under the server's own address and its own authentication.

Enabled by ``etc/jupyter/jupyter_server_config.d/oplab.json``, which the package installs. docs/jupyter.md lists the calls.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from tornado import web, websocket

from oplab.errors import OplabError
from oplab.jupyter.home import Home

Call = Callable[..., dict[str, Any]]


class Pages:
    """The pages that are open, and the news for them. Used on the server's event loop, but for :meth:`tell`."""

    def __init__(self, log: Any):
        self.home: Home | None = None
        self._log = log
        self._sockets: set[EventsHandler] = set()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="oplab-lab")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = False
        self._sending = False
        self._last = ""
        self._closed = False

    def start(self, home: Home) -> None:
        """Called once the loop runs."""
        self.home, self._loop = home, asyncio.get_running_loop()

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run something slow in a thread."""
        if self._closed:
            raise web.HTTPError(503, reason="The server ends.")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    async def add(self, socket: EventsHandler) -> None:
        """Send the state to a page that has just opened, and from now on what changes."""
        assert self.home is not None
        await self.run(self.home.open)  # before it: no state without the copies of the lessons
        self._sockets.add(socket)
        # One order for all pages, so that no older state comes after a newer one; the others may get it once more.
        self._last = ""
        self._tell_state()

    def discard(self, socket: EventsHandler) -> None:
        """Forget a page that has closed."""
        self._sockets.discard(socket)

    def tell(self, kind: str, value: Any) -> None:
        """News of the course's home, from any thread."""
        if self._loop is None or self._loop.is_closed():
            return
        call = (self._tell_outcome, value) if kind == "outcome" else (self._tell_state,)
        try:
            self._loop.call_soon_threadsafe(*call)
        except RuntimeError:  # the server is ending
            pass

    def _tell_outcome(self, outcome: dict[str, Any]) -> None:
        self._send(json.dumps({"type": "outcome", "outcome": outcome}))

    def _tell_state(self) -> None:
        self._changed = True
        if self._sockets and not self._sending:
            self._sending = True
            asyncio.ensure_future(self._send_states())

    async def _send_states(self) -> None:
        """Send the state until it has not changed while it was made: many changes at once are one message."""
        assert self.home is not None
        try:
            while self._changed and self._sockets and not self._closed:
                self._changed = False
                text = json.dumps({"type": "state", "state": await self.run(self.home.state)})
                if text != self._last:
                    self._last = text
                    # Not by this task: it would keep a Ctrl-C that comes meanwhile, and Python would print its traceback.
                    asyncio.get_running_loop().call_soon(self._send, text)
        except Exception:  # a barrier: the next change tries again
            self._log.exception("oplab: the state could not be computed")
        finally:
            self._sending = False

    def _send(self, text: str) -> None:
        for socket in list(self._sockets):
            socket.send(text)

    async def close(self) -> None:
        """End the grading; what runs in a thread is not waited for."""
        for socket in list(self._sockets):
            socket.close(1001, "the server ends")
        if self.home is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.home.close)
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


class CallHandler(APIHandler):
    """Every address below ``oplab/lab/`` but the events."""

    auth_resource = "contents"

    def initialize(self, pages: Pages) -> None:
        """Tornado calls this with the arguments of the route."""
        self.pages = pages

    def _log(self) -> None:
        if self.get_status() != 503:  # a page asks while Ctrl-C ends the server
            super()._log()

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        """``state``, ``outcome``, ``difference``, ``reference`` and ``questions``."""
        if name == "state":
            # with the copies of the lessons: a page that is fast would open the lessons themselves
            return await self._answer(lambda calls, home: home.open() or home.state())
        if name not in ("outcome", "difference", "reference", "questions"):
            raise web.HTTPError(404)
        id = self.get_query_argument("id", "")
        await self._answer(lambda calls, home: getattr(calls, name)(home, id))

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """``check``, ``cancel``, ``saved``, ``hint``, ``show``, ``reset``, ``begin``, ``language`` and ``settings``."""
        if name not in ("check", "cancel", "saved", "hint", "show", "reset", "begin", "language", "settings"):
            raise web.HTTPError(404)
        try:
            given = json.loads(self.request.body or b"{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return self._refuse(400, "The request has to be a JSON object.", "")

        def call(calls: Any, home: Home) -> dict[str, Any]:
            if name == "settings":
                return calls.settings(home, given)
            if name == "cancel":
                return calls.cancel(home)
            return getattr(calls, name)(
                home, given.get({"check": "ids", "saved": "path", "language": "name"}.get(name, "id"))
            )

        await self._answer(call, 202 if name == "check" else 200)

    async def _answer(self, call: Callable[[Any, Home], dict[str, Any]], status: int = 200) -> None:
        home = self.pages.home
        assert home is not None

        def work() -> dict[str, Any]:
            from oplab.jupyter import calls  # in the thread: it takes a tenth of a second the first time

            return call(calls, home)

        try:
            answer = await self.pages.run(work)
        except OplabError as error:
            return self._refuse(getattr(error, "status", 409), error.message, error.fix)
        self.set_status(status)
        await self.finish(json.dumps(answer))

    def _refuse(self, status: int, message: str, fix: str) -> None:
        self.set_status(status)
        self.finish(json.dumps({"message": message, "fix": fix}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """A sentence, never a traceback: that is in the server's log."""
        error = kwargs.get("exc_info", (None, None))[1]
        if isinstance(error, web.HTTPError):
            message, fix = error.log_message or f"{error}.", ""
            if status_code == 404:
                message, fix = f"There is no {self.request.path}.", "Reload the page: the course may have been updated."
            elif status_code == 403:
                message, fix = "You are not logged in, or may not do this.", "Log in again."
        else:
            message, fix = (
                f"Something went wrong in the course's extension: {error}.",
                "See JupyterLab's log.",
            )
        self._refuse(status_code, message, fix)


class EventsHandler(WebSocketMixin, websocket.WebSocketHandler, JupyterHandler):
    """``oplab/lab/events``: the state and each outcome, as they change."""

    auth_resource = "contents"

    def initialize(self, pages: Pages) -> None:
        """Tornado calls this with the arguments of the route."""
        self.pages = pages

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Opens the socket, for a user who may read the files."""
        allowed = await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", "contents"))
        if not allowed:
            raise web.HTTPError(403)
        result = super().get(*args, **kwargs)
        if result is not None:
            await result

    async def open(self, *args: Any, **kwargs: Any) -> None:
        """The page is there."""
        super().open(*args, **kwargs)
        await self.pages.add(self)

    def on_message(self, message: str | bytes) -> None:
        """Nothing is expected from a page."""

    def on_close(self) -> None:
        """The page has gone."""
        self.pages.discard(self)

    def get_compression_options(self) -> dict[str, Any]:
        """The state is 40 kB of text that repeats itself."""
        return {"compression_level": 1, "mem_level": 4}

    def send(self, text: str) -> None:
        """Send a message, unless the page has gone meanwhile."""
        try:
            self.write_message(text)
        except websocket.WebSocketClosedError:
            self.pages.discard(self)


class Extension(ExtensionApp):
    """The extension as Jupyter starts and ends it."""

    name = "oplab"
    load_other_extensions = True

    def initialize_handlers(self) -> None:
        """Add the addresses."""
        settings = self.serverapp.web_app.settings
        base_url = settings["base_url"]
        self._pages = Pages(self.serverapp.log)
        root = getattr(self.serverapp.contents_manager, "root_dir", None) or self.serverapp.root_dir
        self._home = Home(Path(root), base_url, self._pages.tell)
        place = url_path_join(base_url, "oplab", "lab")
        self.serverapp.web_app.add_handlers(
            ".*$",
            [
                (url_path_join(place, "events"), EventsHandler, {"pages": self._pages}),
                (url_path_join(place, "(.*)"), CallHandler, {"pages": self._pages}),
            ],
        )
        self.serverapp.contents_manager.register_pre_save_hook(self._home.before_save)
        _before_exit(self._home.close)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        self._pages.start(self._home)
        asyncio.ensure_future(self._pages.run(self._home.listen))

    async def stop_extension(self) -> None:
        """End the grading with the server."""
        await self._pages.close()


def _before_exit(function: Callable[[], object]) -> None:
    """Have it called when Python ends without Jupyter's own clean-up, as Ctrl-C without a terminal does.

    It has to be before Python waits for the threads of thread pools: they wait for exercises.
    """
    getattr(threading, "_register_atexit", atexit.register)(function)  # what concurrent.futures itself uses


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "oplab.jupyter.server", "app": Extension}]
