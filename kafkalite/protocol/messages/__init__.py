"""The messages of Kafka's protocol: ``messages.HeartbeatRequest`` and its like are kafka-python's classes.

Answers to: ``org.apache.kafka.common.message``, the message classes that Kafka generates. Pure.

A class is loaded when its name is used first, because the library parses a message's schema to make its class (2 MB of
memory and 0.15 s for all of them). So modules write ``messages.HeartbeatRequest`` and import no class by name. Type
checkers read ``__init__.pyi``, which ``tests/protocol/generate_messages.py`` writes from the same schemas.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.library import protocol_module
from kafkalite.protocol.message_table import ROWS


def message_name(api_key: int) -> str:
    """Kafka's name of the request without its suffix: ``ListOffsets``. Raises ``ValueError`` for unknown keys."""
    return ApiKey(api_key).name.title().replace("_", "")


_MODULES: Final = {message_name(row[0]): row[1] for row in ROWS}


def message_class(name: str) -> type:
    """The class ``name``, loaded now. Raises ``LookupError`` where there is no codec for it."""
    module = _MODULES.get(name.removesuffix("Request").removesuffix("Response"))
    if module is None or not name.endswith(("Request", "Response")):
        raise LookupError(f"there is no codec for {name}")
    return getattr(protocol_module(module), name) if module else own_class(name)


@cache
def own_class(name: str) -> type:
    """A class as the library would make it, from our schema: the library lacks the messages of delegation tokens."""
    base = protocol_module("api_message").ApiMessage
    return type(base)(name, (base,), {}, load_json=__name__)


def __getattr__(name: str) -> type:
    """The class ``name`` from now on, loaded at its first use."""
    try:
        loaded = globals()[name] = message_class(name)
    except LookupError as error:
        raise AttributeError(str(error)) from None
    return loaded
