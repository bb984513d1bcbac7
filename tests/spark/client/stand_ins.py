"""Brokers that are not there: connections answered by a function, in the bytes of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, decode_response, encode_request, encode_response, request_class
from kafkalite.protocol.codec import response_class as response_of
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import BrokerUnreachableError

CONFIG = ClientConfig((("h", 1),), retry_backoff_ms=0, retry_backoff_max_ms=0, default_api_timeout_ms=2000)
Answer = dict[str, Any] | Exception
Handler = Callable[[int, ApiKey, Any], Answer]
"""Broker, key, request → the response's fields, or what happens instead."""


class StandIn:
    """A connection to broker ``number``."""

    def __init__(self, number: int, handler: Handler) -> None:
        self.number = number
        self.handler = handler
        self.closed = False
        self.pending: list[tuple[ApiKey, int, Answer]] = []

    def version(self, _key: int, newest: int = 0x7FFF) -> int:
        return newest

    def post(self, key: int, version: int, *parts: Any) -> None:
        body = memoryview(b"".join(bytes(part) for part in parts))
        request = decode_request(key, version, body)
        self.pending.append((ApiKey(key), version, self.handler(self.number, ApiKey(key), request)))

    def receive(self) -> memoryview:
        key, version, answer = self.pending.pop(0)
        if isinstance(answer, Exception):
            self.closed = True
            raise answer
        return memoryview(encode_response(key, version, response_of(key)(version=version, **answer)))

    def decode(self, key: int, version: int, body: memoryview) -> Any:
        return decode_response(key, version, body)

    def ask(self, key: int, fields: dict[str, Any], newest: int = 0x7FFF) -> Any:
        assert not self.pending, "another caller waits for an answer"
        version = self.version(key, newest)
        self.post(key, version, encode_request(key, version, request_class(key)(version=version, **fields)))
        return self.decode(key, version, self.receive())

    def close(self) -> None:
        self.closed = True
        self.pending.clear()


class StandInCluster(ClusterConnections):
    """``count`` brokers; ``places`` says who coordinates which key (the first broker where it says nothing)."""

    def __init__(self, handler: Handler, count: int = 2) -> None:
        super().__init__(CONFIG)
        self.handler = handler
        self.places: dict[str, int] = {}
        self.stand_ins = {number: StandIn(number, handler) for number in range(1, count + 1)}
        self.looked_up: list[str] = []

    def broker(self, broker_id: int) -> Any:
        if self.stand_ins[broker_id].closed:
            self.stand_ins[broker_id] = StandIn(broker_id, self.handler)
        return self.stand_ins[broker_id]

    def brokers(self) -> list[int]:
        return sorted(self.stand_ins)

    def any_connection(self) -> Any:
        return self.broker(1)

    def find_coordinators(self, kind: int, keys: Any) -> dict[str, int]:
        assert kind in (0, 1)
        self.looked_up += keys
        return {key: self.places.get(key, 1) for key in keys}


def error(code: ErrorCode) -> Answer:
    """An answer that has only a code."""
    return {"throttle_time_ms": 0, "error_code": int(code)}


LOST = BrokerUnreachableError("the connection was lost")
BUSY = error(ErrorCode.CONCURRENT_TRANSACTIONS)
FINE = error(ErrorCode.NONE)
