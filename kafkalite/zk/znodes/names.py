"""Names that clients choose, as names of znodes: groups, transactional ids, member ids.

Answers to: nothing in Kafka, whose ZooKeeper consumers put a group's name into paths as it was. Pure.

ZooKeeper's paths have no room for ``/``, for control characters, for what Java keeps in two chars, for empty names and
for ``.`` and ``..``. Such characters are written as ``%`` and two hex digits for each byte of their UTF-8, and so is
a ``%`` that would otherwise be read as such; every other name stays itself, which is what old consumers wrote.
"""

from __future__ import annotations

import re
from typing import Final

# As org.apache.zookeeper.common.PathUtils.validatePath refuses them, char by char; beyond U+FFFF Java has surrogates.
_REFUSED: Final = "\\x00-\\x1f/\\x7f-\\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_ESCAPED: Final = re.compile(f"[{_REFUSED}]|%(?=[0-9A-Fa-f]{{2}})")
_ESCAPE: Final = re.compile("(?:%[0-9A-F]{2})+")
_WHOLE: Final = {"": "%", "%": "%25", ".": "%2E", "..": "%2E%2E"}
_WHOLE_BACK: Final = {encoded: name for name, encoded in _WHOLE.items()}


def encode_name(name: str) -> str:
    """``name`` as the name of a znode. Different names never become the same."""
    whole = _WHOLE.get(name)
    if whole is not None:
        return whole
    return _ESCAPED.sub(lambda found: _escape(found.group()), name)


def decode_name(encoded: str) -> str:
    """The reverse of :func:`encode_name`; what that would not have written stays as it is."""
    whole = _WHOLE_BACK.get(encoded)
    if whole is not None:
        return whole
    if "%" not in encoded:
        return encoded
    try:
        name = _ESCAPE.sub(lambda found: bytes.fromhex(found.group().replace("%", "")).decode("utf-8"), encoded)
    except UnicodeDecodeError:
        return encoded
    return name if encode_name(name) == encoded else encoded


def _escape(text: str) -> str:
    # A lone surrogate is no text at all, but whoever handed it in is better served by a path than by a failure.
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))
