"""A table of a TOML file into a frozen dataclass; errors name unknown and missing keys and wrong types.

Answers to: ``org.apache.kafka.common.config.AbstractConfig``, for files in TOML. Pure.

The fields' types are the allowed types: ``str``, ``int``, ``float``, ``bool``, ``Literal["a", "b"]``, ``tuple[T, ...]``
(a list, or one value alone), ``Mapping[str, T]``, another dataclass (a table below), ``object`` (anything), and any of
them ``| None``. A field without a default is required. Its ``__post_init__`` may raise :class:`PipelineError` or
``ValueError`` for rules that types cannot express.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from kafkalite.pipelines.errors import PipelineError

T = TypeVar("T")
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def parse_table(cls: type[T], table: Mapping[str, object], where: str) -> T:
    """``table`` as a ``cls``, whose fields are its keys. ``where`` is the file and the table's name, for errors.

    Raises :class:`PipelineError`.
    """
    fields = {field.name: field for field in dataclasses.fields(cast(Any, cls)) if field.init}
    hints = typing.get_type_hints(cls)
    for key in table:
        if key not in fields:
            raise unknown_key(key, fields, where)
    given: dict[str, Any] = {}
    for name, field in fields.items():
        if name in table:
            given[name] = _convert(hints[name], table[name], where, name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise PipelineError(f"{where}: the key '{name}' is missing")
    try:
        return cls(**given)
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None


def unknown_key(key: str, known: Iterable[str], where: str) -> PipelineError:
    """The error for an unknown key, with the most similar known key."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names) or 'none'}"
    return PipelineError(f"{where}: unknown key '{key}' ({hint})")


def flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    """``a.b = 1``, which TOML reads as a table in a table, as the one key that was meant."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def as_text(value: object, where: str, key: str) -> str:
    """A value of a setting that is passed on as text: numbers and booleans may be written without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise PipelineError(f"{where}: '{key}' must be a text, a number, true or false")


def _convert(hint: Any, value: Any, where: str, key: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        choices = [argument for argument in arguments if argument is not type(None)]
        if len(choices) == 1:
            return _convert(choices[0], value, where, key)
        return _first_that_fits(choices, value, where, key)
    if origin is Literal:
        if value not in arguments:
            raise _wrong(where, key, f"one of {', '.join(map(str, arguments))}", value)
        return value
    if origin in (tuple, list, Sequence):
        elements = value if isinstance(value, list) else [value]
        return tuple(_convert(arguments[0], element, where, key) for element in elements)
    if origin in (Mapping, dict):
        if not isinstance(value, Mapping):
            raise _wrong(where, key, "a table", value)
        flat = value if arguments[1] in (Any, object) else flatten(value)
        return {name: _convert(arguments[1], each, where, f"{key}.{name}") for name, each in flat.items()}
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise _wrong(where, key, "a table", value)
        return parse_table(cast(Any, hint), value, _below(where, key))
    return _scalar(hint, value, where, key)


def _below(where: str, key: str) -> str:
    """The name of a table in the table ``where``."""
    return f"{where[:-1]}.{key}]" if where.endswith("]") else f"{where} [{key}]"


def _scalar(hint: Any, value: Any, where: str, key: str) -> Any:
    if hint in (Any, object):
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # A bool is an int in Python, but not for the author of a file.
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(where, key, _NAMES.get(hint, hint.__name__), value)
    return value


def _first_that_fits(choices: Sequence[Any], value: Any, where: str, key: str) -> Any:
    for choice in choices[:-1]:
        try:
            return _convert(choice, value, where, key)
        except PipelineError:
            continue
    return _convert(choices[-1], value, where, key)


def _wrong(where: str, key: str, allowed: str, value: object) -> PipelineError:
    return PipelineError(f"{where}: '{key}' must be {allowed}, not {value!r}")
