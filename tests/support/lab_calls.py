"""The course's part of a Jupyter server, as a page of JupyterLab uses it: calls over HTTP, and the socket with the news."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from oplab.grading import processes
from tests.support import run_async
from tests.support.labdriver import Jupyter

Message = dict[str, Any]


class Lab(Jupyter):
    """A Jupyter server whose root folder is ``root``, and which finds the course by itself."""

    def __init__(self, folder: Path, root: Path, *, env: dict[str, str] | None = None, **options: Any):
        super().__init__(folder, env=env, **options)
        self.root = root
        if "OPLAB_ROOT" not in (env or {}):
            del self.env["OPLAB_ROOT"]

    def call(self, name: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        """The status and the answer of a call below ``oplab/lab/``; with a body it is a POST."""
        token = self.token if token is None else token
        request = urllib.request.Request(
            self.url(f"oplab/lab/{name}", token=False),
            data=None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Authorization": f"token {token}"} if token else {},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def refused(self, status: int, name: str, body: Any = None) -> str:
        """The sentence with which a call is refused."""
        got, answer = self.call(name, body)
        assert got == status, answer
        assert set(answer) == {"message", "fix"} and answer["message"].endswith("."), answer
        assert "Traceback" not in json.dumps(answer)
        return answer["message"]

    def grading_processes(self) -> list[int]:
        """The fork servers below this server and all of their processes."""
        found = []
        for pid in processes.descendants(self.process.pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
                if b"oplab.grading.fork_server" in stream.read():
                    found.append(pid)
        return found


class Page:
    """A page that listens to the news. :meth:`wait` takes messages in their order."""

    def __init__(self, lab: Lab):
        self._news: queue.Queue[Message] = queue.Queue()
        self._address = f"ws{lab.url('oplab/lab/events', token=False)[4:]}"
        self._headers = {"Authorization": f"token {lab.token}"}
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._read(),), daemon=True)
        self.closed = threading.Event()
        self._thread.start()
        self.first = self.wait(lambda message: True)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(60)

    async def _read(self) -> None:
        # Its own limits are 20 seconds: on a busy machine the message would never come.
        request = HTTPRequest(self._address, headers=self._headers, connect_timeout=240, request_timeout=240)
        socket = await websocket_connect(request)
        waiting = asyncio.ensure_future(self._closing.wait())
        while not self._closing.is_set():
            reading = asyncio.ensure_future(socket.read_message())
            await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done() or reading.result() is None:
                reading.cancel()
                break
            self._news.put(json.loads(reading.result()))
        socket.close()
        self.closed.set()

    def wait(self, true: Callable[[Message], bool], seconds: float = 240) -> Message:
        """The next message of which ``true`` is true; those before it are forgotten."""
        deadline, seen = time.monotonic() + seconds, []
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                seen.append(self._news.get(timeout=0.2))
                if true(seen[-1]):
                    return seen[-1]
        raise AssertionError(f"the message did not come; the last ones: {json.dumps(seen[-3:])[-3000:]}")

    def state(self, true: Callable[[Message], bool]) -> Message:
        """The next state of which ``true`` is true."""
        return self.wait(lambda message: message["type"] == "state" and true(message["state"]))["state"]

    def outcome(self, id: str) -> Message:
        """The next outcome of an exercise."""
        return self.wait(lambda message: message["type"] == "outcome" and message["outcome"]["id"] == id)["outcome"]

    def outcomes(self, *ids: str) -> dict[str, Message]:
        """The next outcome of each of some exercises, in whatever order they end."""
        found: dict[str, Message] = {}
        while missing := set(ids) - set(found):
            next_one = self.wait(lambda message: message["type"] == "outcome" and message["outcome"]["id"] in missing)
            found[next_one["outcome"]["id"]] = next_one["outcome"]
        return found


def exercise_of(state: Message, id: str) -> Message:
    """An exercise's part of a state."""
    return next(entry for chapter in state["chapters"] for entry in chapter["exercises"] if entry["id"] == id)


def socket_refused(lab: Lab, headers: dict[str, str]) -> int | None:
    """The status with which the socket of the news is refused; None where it opens."""

    async def connect() -> int | None:
        request = HTTPRequest(f"ws{lab.url('oplab/lab/events', token=False)[4:]}", headers=headers)
        try:
            (await websocket_connect(request)).close()
        except HTTPClientError as error:
            return error.code
        return None

    return run_async(connect())
