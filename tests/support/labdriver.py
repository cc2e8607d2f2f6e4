"""What browser tests do in JupyterLab: start it, open a notebook, run it, look at what came out."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from tests.support import ROOT, environment

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str | None:
    """Where Chromium is: ``OPLAB_CHROMIUM``, or the system's."""
    named = os.environ.get("OPLAB_CHROMIUM")
    if named:
        return named if Path(named).is_file() else None
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        path = shutil.which(name)
        if path:
            return path
    mac = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    return str(mac) if mac.is_file() else None


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Jupyter:
    """A Jupyter server of this environment, with nothing of the user's.

    Args:
        folder: everything of this server goes here.
        base_url: such as ``/user/ada/``.
        token: how to log in; random if not given.
        app: ``lab`` or ``notebook``.
        env: more environment variables, for the server and its kernels.
        config: more of ``jupyter_server_config.json``.
        wrapper: a command that starts the server's command, which follows it.
    """

    def __init__(
        self,
        folder: Path,
        base_url: str = "/",
        token: str | None = None,
        app: str = "lab",
        env: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
        wrapper: Sequence[str] = (),
    ):
        self.folder, self.base_url, self.app, self.wrapper = folder, base_url, app, wrapper
        self.token = secrets.token_hex(16) if token is None else token
        self.port = free_port()
        self.root = folder / "root"
        self.runtime = folder / "runtime"
        self.log = folder / "log.txt"
        self.process: subprocess.Popen | None = None
        for name in ("root", "config/labconfig", "data", "runtime", "ipython"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        # no question about news: it would cover the notebook
        page = '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'
        (folder / "config" / "labconfig" / "page_config.json").write_text(page)
        (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(config or {}))
        self.env = {
            **environment(),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "config" / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "config" / "workspaces"),
            "IPYTHONDIR": str(folder / "ipython"),
            "OPLAB_ROOT": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            **(env or {}),
        }

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, path: str = "", token: bool = True) -> str:
        """An address on this server; with the token it logs in."""
        address = self.origin + self.base_url + path
        return address + ("&" if "?" in address else "?") + f"token={self.token}" if token and self.token else address

    def start(self) -> None:
        module = {"lab": "jupyterlab", "notebook": "notebook"}[self.app]
        command = [
            *self.wrapper,
            sys.executable,
            "-m",
            module,
            "--no-browser",
            "--allow-root",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.base_url={self.base_url}",
            f"--ServerApp.root_dir={self.root}",
            f"--IdentityProvider.token={self.token}",
            f"--{'LabApp' if self.app == 'lab' else 'JupyterNotebookApp'}.expose_app_in_browser=True",
        ]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command, env=self.env, cwd=self.root, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + 240
        while True:
            try:
                urllib.request.urlopen(self.url("api/status"), timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"Jupyter did not start:\n{self.log.read_text()[-3000:]}") from None
                time.sleep(0.1)

    def stop(self) -> None:
        """End the server; it ends its kernels."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def end_kernels(self) -> None:
        """End all kernels: a test leaves no memory in use."""
        for kernel in json.loads(self.request("api/kernels")):
            self.request(f"api/kernels/{kernel['id']}", "DELETE")

    def request(self, path: str, method: str = "GET") -> bytes:
        """Ask the server's own interface, logged in."""
        request = urllib.request.Request(
            self.url(path, token=False), method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=240) as answer:
            return answer.read()

    def write(self, name: str, *cells: str) -> str:
        """A notebook of code cells in this server's root."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / name)
        return name

    def read(self, name: str) -> nbformat.NotebookNode:
        return nbformat.read(self.root / name, as_version=4)


def open_notebook(page: Any, server: Jupyter, name: str) -> None:
    """Open a notebook of the server's root and wait until it is there, with its kernel ready."""
    path = f"lab/tree/{name}" if server.app == "lab" else f"notebooks/{name}"
    page.goto(server.url(path + "?reset" if server.app == "lab" else path))
    page.wait_for_function("window.jupyterapp !== undefined", timeout=240_000)
    page.evaluate("() => window.jupyterapp.restored")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=240_000)


# the open notebook, in JavaScript
_FIND = (
    "const panel = [...window.jupyterapp.shell.widgets('main')].find((w) => w.sessionContext && w.content?.widgets);"
)


def wait_until_ready(page: Any, timeout: float = 240) -> None:
    """Wait for the open notebook and its kernel.

    Jupyter's own ``ready`` promises are not awaited: JupyterLab may still replace the panel that they belong to, and a
    promise that is no longer referenced is collected, which ends ``evaluate`` with an error.
    """
    page.wait_for_function(
        f"""() => {{
            if (!window.jupyterapp) return false;
            {_FIND}
            const kernel = panel?.sessionContext.session?.kernel;
            return Boolean(panel && panel.context.isReady && panel.sessionContext.isReady && kernel
                && kernel.connectionStatus === 'connected' && kernel.status === 'idle');
        }}""",
        timeout=timeout * 1000,
        polling=50,
    )


def run_all(page: Any, timeout: float = 120) -> list[dict[str, Any]]:
    """Run all cells of the open notebook and wait until every one is executed, or one has failed.

    Returns:
        the error outputs, in order: ``{"cell": index, "ename": ..., "evalue": ...}``; empty when all went well.
    """
    wait_until_ready(page)
    page.evaluate(
        f"""() => {{
            {_FIND}
            window.jupyterapp.shell.activateById(panel.id);
            window.oplabRunning = true;
            window.jupyterapp.commands.execute('notebook:run-all-cells').finally(() => {{ window.oplabRunning = false; }});
        }}"""
    )
    page.wait_for_function("window.oplabRunning === false", timeout=timeout * 1000, polling=50)
    state = cells(page)
    errors = [
        {"cell": i, "ename": o["ename"], "evalue": o["evalue"]}
        for i, cell in enumerate(state)
        for o in cell["outputs"]
        if o["output_type"] == "error"
    ]
    unrun = [i for i, c in enumerate(state) if c["code"] and c["source"].strip() and c["count"] is None]
    assert errors or not unrun, f"cells {unrun} were not executed"
    return errors


def cells(page: Any) -> list[dict[str, Any]]:
    """The open notebook's cells, as Jupyter holds them: code, source, count, outputs."""
    return page.evaluate(
        f"""() => {{
            {_FIND}
            return panel.content.widgets.map((cell) => ({{
                code: cell.model.type === 'code',
                source: cell.model.sharedModel.getSource(),
                count: cell.model.type === 'code' ? cell.model.executionCount : null,
                outputs: cell.model.type === 'code' ? cell.model.outputs.toJSON() : [],
            }}));
        }}"""
    )


def run_cell(page: Any, index: int, timeout: float = 60) -> None:
    """Run one cell and wait for it."""
    wait_until_ready(page)
    page.evaluate(
        f"""async (index) => {{
            {_FIND}
            panel.content.activeCellIndex = index;
            await window.jupyterapp.commands.execute('notebook:run-cell');
        }}""",
        index,
    )


def save(page: Any) -> None:
    page.evaluate(f"async () => {{ {_FIND} await panel.context.save(); }}")


def scroll_to(page: Any, index: int) -> None:
    """Bring a cell into view, as a reader would."""
    page.evaluate(f"""async (index) => {{ {_FIND} await panel.content.scrollToItem(index, 'start'); }}""", index)
