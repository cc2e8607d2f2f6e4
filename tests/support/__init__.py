"""What test modules share. No test module imports another one; pyproject's ``pythonpath`` makes this package importable."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    """The variables for a process that imports this package, or a module of tools/, from whatever folder it runs in."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}", **more}


def run_python(
    code: str, *arguments: object, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process of its own, in the repository's root: this package and ``benchmarks`` can be imported."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, cwd=ROOT)


def run_async(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns. It runs in a thread: the browser of other tests leaves a running event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
