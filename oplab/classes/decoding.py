"""Texts from other people's computers: any common encoding, with or without a byte order mark, any kind of line end."""

from __future__ import annotations

import codecs
import io
import tokenize

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decoded(data: bytes) -> tuple[str, str]:
    """The text without a byte order mark and with ``\\n`` at line ends, and what had to be assumed, as a sentence without its end.

    UTF-8 is tried first, then the encoding that a Python file declares, then Windows-1252, in which every text can be read.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            try:
                return _lines(data[len(mark) :].decode(name)), ""
            except UnicodeDecodeError:
                break
    try:
        return _lines(data.decode("utf-8")), ""
    except UnicodeDecodeError:
        pass
    try:
        declared, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return _lines(data.decode(declared)), f"it is not UTF-8 and was read as {declared}, which it declares"
    except (SyntaxError, LookupError, UnicodeDecodeError, ValueError):
        return _lines(data.decode("cp1252", "replace")), "it is not UTF-8 and was read as Windows-1252"


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
