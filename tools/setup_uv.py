"""uv in place of pip, where it is installed: the same packages from the same places, in seconds. Standard library only.

uv does not read pip's settings, and a set-up that works with pip must not fail because of that: they are handed on here. What has no
counterpart is left out, and where uv fails, pip does the work (:meth:`setup_pip.PackagesStep.install_pins`).
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import url2pathname

# pip's setting and the variables of uv that mean the same. The first that the user has set already stays as it is.
_SAME = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("ALL_PROXY", "all_proxy"),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "no-index": ("UV_NO_INDEX",),
}
_SETTING = re.compile(r"^(global|install|:env:)\.([a-z-]+)=(.+)$")


def find(path: str) -> str | None:
    """The program uv, or None.

    Args:
        path: the folders that are searched, as in PATH.
    """
    return shutil.which("uv", path=path)


def pip_settings(listed: str) -> dict[str, str]:
    """What ``pip config list`` printed, as pip combines it: the environment before ``install``, and that before ``global``."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        if match := _SETTING.match(line.strip()):
            try:
                value = ast.literal_eval(match[3])
            except (ValueError, SyntaxError):
                continue
            found[match[1]][match[2]] = str(value)
    return {**found["global"], **found["install"], **found[":env:"]}


def variables(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that make uv look where pip would.

    Args:
        settings: from :func:`pip_settings`.
        environ: the variables that are set; what the user tells uv is not replaced.
    """
    found = {}
    for name, same in _SAME.items():
        value = " ".join(settings.get(name, "").split())
        if not value or any(environ.get(variable) for variable in same):
            continue
        if name == "find-links":
            # pip passes over a folder that is not there, and uv does not.
            places = [place for place in value.split() if "://" in place or os.path.isdir(place)]
            value = ",".join(places)
        elif name in ("extra-index-url", "index-url"):
            value = " ".join(place for place in value.split() if _is_there(place))
        if value:
            found[same[0]] = value
    if "UV_INDEX" in found and "UV_INDEX_STRATEGY" not in environ:
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip does: the best version of all indexes
    return found


def _is_there(index: str) -> bool:
    return not index.startswith("file://") or os.path.isdir(url2pathname(urlsplit(index).path))


def command(uv: str, python: str) -> list[str]:
    """``uv pip install`` into the environment of that Python, without a question."""
    return [uv, "pip", "install", "--python", python, "--no-progress", "--no-python-downloads"]
