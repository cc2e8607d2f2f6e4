"""Real JupyterLab, real Chromium.

Fixtures for every browser test:

- ``browser``: one headless Chromium for the whole session;
- ``jupyter``: a JupyterLab server on a free port, with root, config, data and runtime folders of its own;
- ``jupyter_server``: the same as a factory, for tests that need other options;
- ``new_page``: a page in a fresh context, which records every request and every error in the console.

Helpers (`open_notebook`, `run_all`, `cells`, …) are in ``tests/support/labdriver.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.labdriver import CHROMIUM_FLAGS, Jupyter, chromium_path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium. A machine without it fails the test: a skipped browser test proves nothing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("playwright is missing; install it with: pip install playwright", pytrace=False)
    path = chromium_path()
    if path is None:
        pytest.fail(
            "Chromium is missing; install it with: apt-get install -y chromium (or set OPLAB_CHROMIUM to its path)",
            pytrace=False,
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def jupyter_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Jupyter]]:
    """Start a server: ``jupyter_server(base_url="/user/ada/", token="secret", app="notebook")``."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Jupyter:
            server = Jupyter(tmp_path_factory.mktemp("jupyter"), **options)
            stack.callback(server.stop)
            server.start()
            _started.append(server)
            return server

        yield start


@pytest.fixture(scope="session")
def jupyter(jupyter_server: Callable[..., Jupyter]) -> Jupyter:
    """One JupyterLab for all tests that need nothing special."""
    return jupyter_server()


_started: list[Jupyter] = []


@pytest.fixture(autouse=True)
def no_kernel_is_left() -> Iterator[None]:
    """A lesson's kernel holds a gigabyte; twenty of them would not fit."""
    yield
    for server in _started:
        if server.process is not None and server.process.poll() is None:
            with contextlib.suppress(OSError):  # a server too busy to answer ends them at its own end
                server.end_kernels()


@pytest.fixture
def new_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """``new_page(color_scheme="dark")``: a page with ``page.requests`` and ``page.problems``."""
    contexts = []

    def make(**options: Any) -> Any:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.requests, page.problems = [], []
        context.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
