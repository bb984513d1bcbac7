"""The error codes in a response, which metrics count by request and error.

Answers to: ``org.apache.kafka.common.requests.AbstractResponse.errorCounts``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.protocol import messages


def error_codes(response: messages.Message) -> Iterator[int]:
    """The codes of all errors that ``response`` names, in its parts, too; NONE is left out."""
    has_error, lists = _places(type(response))
    if has_error and (code := getattr(response, "error_code")):  # noqa: B009
        yield code
    for name in lists:
        for element in getattr(response, name) or ():
            yield from error_codes(element)


_known: dict[type[messages.Message], tuple[bool, tuple[str, ...]]] = {}


def _places(kind: type[messages.Message]) -> tuple[bool, tuple[str, ...]]:
    """Whether there is an error code, and the lists whose elements may have one."""
    places = _known.get(kind)
    if places is None:
        lists = (name for name, field in kind.fields.items() if field.is_struct_array())
        places = _known[kind] = (
            "error_code" in kind.fields,
            tuple(name for name in lists if _names_error(kind.fields[name].data_class)),
        )
    return places


def _names_error(kind: type[messages.Message]) -> bool:
    has_error, lists = _places(kind)
    return has_error or bool(lists)
