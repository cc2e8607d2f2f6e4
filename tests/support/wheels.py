"""Wheels of a few bytes, in a folder that pip takes for an index."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with one module, as any package has it."""
    stem = f"{name.replace('-', '_')}-{version}"
    files = {
        f"{name.replace('-', '_')}.py": f"__version__ = {version!r}\n",
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    files[f"{stem}.dist-info/RECORD"] = record + f"{stem}.dist-info/RECORD,,\n"
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(home / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in sorted(home.glob("*.whl")))
    (home / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
