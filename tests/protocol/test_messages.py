"""The generated table and types of the messages: they are what handlers and schemas give today."""

from __future__ import annotations

import pytest

from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import request_class, response_class
from tests.protocol import generate_messages

REGENERATE = "run: python -m tests.protocol.generate_messages"


def test_the_table_is_what_handlers_and_schemas_say() -> None:
    assert generate_messages.TABLE.read_text() == generate_messages.table(), REGENERATE


def test_the_types_of_fields_are_those_of_the_schemas() -> None:
    assert generate_messages.STUBS.read_text() == generate_messages.stubs(), REGENERATE


@pytest.mark.parametrize("key", generate_messages.keys())
def test_a_message_is_the_class_that_the_codec_reads(key: ApiKey) -> None:
    name = messages.message_name(key)
    assert getattr(messages, f"{name}Request") is request_class(key)
    assert getattr(messages, f"{name}Response") is response_class(key)


@pytest.mark.parametrize("name", ["EnvelopeRequest", "Heartbeat", "HeartbeatAnswer", "nonsense"])
def test_a_message_without_a_codec_is_no_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(messages, name)
