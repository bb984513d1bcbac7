"""Java's properties syntax, as ``server.properties`` and the files of client properties are written.

Answers to: ``java.util.Properties.load``. Pure, except for :func:`load_properties`, which reads a file.
"""

from __future__ import annotations

import re
from pathlib import Path

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_BLANK = " \t\f"


def load_properties(path: str | Path) -> dict[str, str]:
    """Names and values of the file at ``path``: UTF-8, or else Latin-1. Raises ``OSError``."""
    data = Path(path).read_bytes()
    try:
        # Java reads Latin-1, but editors write UTF-8.
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of ``text``; a later line wins over an earlier one of the same name."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANK)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending = ""
        pending += line
        # An odd number of backslashes at the end continues the line; an even number is escaped backslashes.
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        lines.append(pending)
        pending = None
    if pending:
        lines.append(pending)
    return lines


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    name = line[:position]
    rest = line[position:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return name, rest


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2]) if match[2] else ""

    if "\\" not in text:
        return text
    # A character beyond U+FFFF is written as the two halves that Java's strings have.
    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
