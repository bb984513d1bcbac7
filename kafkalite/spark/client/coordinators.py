"""Requests to the coordinators of groups and of transactional ids: many at once, again until all are answered.

Answers to: ``org.apache.kafka.clients.admin.internals.CoordinatorStrategy``. Blocking shell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import encode_request, request_class
from kafkalite.spark.client.cluster import TRANSACTION, ClusterConnections
from kafkalite.spark.client.connection import SparkConnection
from kafkalite.spark.client.errors import RETRIABLE, BrokerUnreachableError

T = TypeVar("T")
Request = tuple[ApiKey, Mapping[str, object], int]
"""A request: API key, fields, newest version."""
_AT_ONCE = 100
_BUSY_PAUSES = (0.002, 0.005, 0.01, 0.02, 0.04, 0.0)
"""Seconds between attempts while a transaction's markers are being written; then the client's own backoff."""


class CoordinatorClient:
    """Sends requests to coordinators, which it remembers. For one thread. Raises as ``ClusterConnections.retry``."""

    def __init__(self, cluster: ClusterConnections) -> None:
        self._cluster = cluster
        self._places: dict[tuple[int, str], int] = {}

    def exchange(
        self, what: str, requests: Mapping[str, Request], accepted: Collection[ErrorCode] = ()
    ) -> dict[str, Any]:
        """Send each transactional id's request to its coordinator, many at once, until all are answered."""
        answers: dict[str, Any] = {}

        def attempt() -> None:
            for pause in _BUSY_PAUSES:
                passing = self._round(requests, answers, accepted)
                if passing is None:
                    return
                if passing[0] is not ErrorCode.CONCURRENT_TRANSACTIONS or not pause:
                    raise ApiError(*passing)
                time.sleep(pause)

        self.retry(what, TRANSACTION, requests, attempt)
        return answers

    def _round(
        self, requests: Mapping[str, Request], answers: dict[str, Any], accepted: Collection[ErrorCode]
    ) -> tuple[ErrorCode, str] | None:
        """Send all requests without an answer. Returns an error that may pass, with its id; raises all others."""
        missing = [name for name in requests if name not in answers]
        passing: tuple[ErrorCode, str] | None = None
        for first in range(0, len(missing), _AT_ONCE):
            for name, answer in self._answers({name: requests[name] for name in missing[first : first + _AT_ONCE]}):
                code = ErrorCode(answer.error_code)
                if not code or code in accepted:
                    answers[name] = answer
                elif code in RETRIABLE:
                    passing = code, name
                    if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                        self.forget(TRANSACTION, (name,))
                else:
                    raise ApiError(code, name)
        return passing

    def _answers(self, requests: Mapping[str, Request]) -> list[tuple[str, Any]]:
        posted: list[tuple[str, SparkConnection, int]] = []
        found: list[tuple[str, Any]] = []
        try:
            for node, names in self.at(TRANSACTION, requests).items():
                connection = self._cluster.broker(node)
                for name in names:
                    key, fields, newest = requests[name]
                    version = connection.version(key, newest)
                    message = request_class(key)(version=version, **fields)
                    connection.post(key, version, encode_request(key, version, message))
                    posted.append((name, connection, version))
            for name, connection, version in posted:
                found.append((name, connection.decode(requests[name][0], version, connection.receive())))
        except BaseException:
            # Answers that were not read would be taken for those to the next requests.
            for _, connection, _ in posted[len(found) :]:
                connection.close()
            raise
        return found

    def ask(self, kind: int, key: str, request: Request) -> Any:
        (node,) = self.at(kind, (key,))
        try:
            return self._cluster.broker(node).ask(*request)
        except (ApiError, BrokerUnreachableError):
            self.forget(kind, (key,))
            raise

    def at(self, kind: int, keys: Iterable[str]) -> dict[int, list[str]]:
        """``keys`` by the ids of their coordinators."""
        wanted = list(keys)
        unknown = [key for key in wanted if (kind, key) not in self._places]
        if unknown:
            for key, node in self._cluster.find_coordinators(kind, unknown).items():
                self._places[kind, key] = node
        by_node: dict[int, list[str]] = {}
        for key in wanted:
            by_node.setdefault(self._places[kind, key], []).append(key)
        return by_node

    def forget(self, kind: int, keys: Iterable[str]) -> None:
        for key in keys:
            self._places.pop((kind, key), None)

    def retry(self, what: str, kind: int, keys: Collection[str], attempt: Callable[[], T]) -> T:
        def again() -> T:
            try:
                return attempt()
            except BrokerUnreachableError:
                self.forget(kind, keys)
                raise

        return self._cluster.retry(what, again)
