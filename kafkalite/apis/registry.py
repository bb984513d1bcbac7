"""The registry of API keys: a handler says here which key it serves in which versions. ApiVersions answers from it.

Answers to: the ``match`` of ``kafka.server.KafkaApis.handle`` and ``kafka.server.ApiVersionManager``. Pure.

A handler is a function ``handle(context, request)`` under :func:`serves`. It returns the response (a class of
``kafkalite.protocol.messages``, or encoded bytes) or something to be awaited that does. Produce and Fetch are classes,
which ``dispatch.py`` calls apart. Keys that Kafka serves and no handler serves here are not advertised; a request for
one closes the connection, as in Kafka.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple, TypeVar

from kafkalite.protocol.api_keys import ApiKey, VersionRange

Handler = Callable[..., object]
H = TypeVar("H", bound=Handler)


class Api(NamedTuple):
    """What serves an API key, and in which versions."""

    versions: VersionRange
    handler: Handler


_apis: dict[ApiKey, Api] = {}


def serves(api_key: ApiKey, oldest: int, newest: int) -> Callable[[H], H]:
    """Register the decorated handler for the versions from ``oldest`` to ``newest`` of ``api_key``.

    The clients and the codec read versions from a generated table: run ``python -m tests.protocol.generate_messages``
    after a change here. Raises ``ValueError`` for a key that has a handler.
    """

    def register(handler: H) -> H:
        if api_key in _apis:
            raise ValueError(f"{api_key.name} is served by {_apis[api_key].handler} and by {handler}")
        _apis[api_key] = Api(VersionRange(oldest, newest), handler)
        return handler

    return register


@cache
def served() -> Mapping[ApiKey, Api]:
    """What ApiVersions advertises, by rising key. The first call imports every handler, so that it registers itself."""
    room = import_module("kafkalite.apis")
    for module in pkgutil.iter_modules(room.__path__):
        import_module(f"kafkalite.apis.{module.name}")
    return {key: _apis[key] for key in sorted(_apis)}
