"""Requests and responses as values: kafka-python's message classes, corrected where Kafka 3.9 differs.

Answers to: ``org.apache.kafka.common.requests.AbstractRequest.parseRequest`` and the generated messages. Pure.
"""

from __future__ import annotations

from typing import Any


def request_class(api_key: int) -> Any:
    """kafka-python's class of the request; fields under the library's names."""
    raise NotImplementedError


def response_class(api_key: int) -> Any:
    """kafka-python's class of the response; nested structures are its attributes."""
    raise NotImplementedError


def decode_request(api_key: int, version: int, body: memoryview) -> Any:
    """The request in ``body``. Raises :class:`ProtocolError`."""
    raise NotImplementedError


def encode_response(api_key: int, version: int, message: Any) -> bytes:
    """The body of a response."""
    raise NotImplementedError


def encode_request(api_key: int, version: int, message: Any) -> bytes:
    """The body of a request."""
    raise NotImplementedError


def decode_response(api_key: int, version: int, body: memoryview) -> Any:
    """The response in ``body``. Raises :class:`ProtocolError`."""
    raise NotImplementedError
