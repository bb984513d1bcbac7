"""Names of users as names of znodes: ``/config/users/<sanitized name>``.

Answers to: ``org.apache.kafka.common.utils.Sanitizer``, which is ``URLEncoder`` with ``%20`` and ``%2A``. Pure.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_plus


def sanitize(name: str) -> str:
    """``name`` with every character but letters, digits, ``.``, ``-`` and ``_`` as ``%`` and hex digits."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The reverse of :func:`sanitize`. A ``%`` that is no escape stays itself."""
    return unquote_plus(name)
