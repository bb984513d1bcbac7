"""A client that has logged in, and how long the broker takes for it while strangers disturb."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from integration.harness.raw import batch
from integration.harness.wait import wait_for
from integration.security.secured_broker import TOPIC, SecuredBroker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.produce import ProduceRequest, decode_produce_response, encode_produce
from kafkalite.spark.client.connection import SparkConnection

PRODUCE_VERSION = 8
ALONE, AMONG = "without strangers", "with them"
"""Phases of a test."""
PAUSE = 0.005
"""Seconds between two requests."""
LOGIN_EVERY = 0.5
"""Seconds between two logins on a new connection."""


class HealthyClient:
    """Produces one record after the other in a thread, logs in twice a second, and watches the broker's memory.

    ``took`` has the seconds of its requests in each ``phase`` of the test. ``logins`` has those of its logins,
    ``highest`` the greatest memory of the broker that it saw.
    """

    def __init__(self, broker: SecuredBroker, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        self.logins: list[float] = []
        self.phase = ALONE
        self.highest = 0
        self._error = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.served()

    def _run(self) -> None:
        try:
            connection = self._broker.login(self._listener)
            next_login = 0.0
            while not self._stopped.wait(PAUSE):
                begun, phase = time.monotonic(), self.phase
                produce(connection)
                now = time.monotonic()
                if phase == self.phase:
                    self.took[phase].append(now - begun)
                if now >= next_login:
                    self._broker.login(self._listener).close()
                    self.logins.append(time.monotonic() - now)
                    self.highest = max(self.highest, self._broker.memory)
                    next_login = time.monotonic() + LOGIN_EVERY
            connection.close()
        except Exception as error:
            self._error = repr(error)

    def served(self, count: int = 20) -> None:
        """Wait until ``count`` more requests were answered."""
        before = self._total

        def more() -> bool:
            assert not self._error, self._error
            return self._total >= before + count

        wait_for(more, "the healthy client is served", 60)

    def stop(self) -> None:
        """End; every request and every login has succeeded."""
        self.served()
        self._stopped.set()
        self._thread.join(60)
        assert not self._error, self._error
        assert not self._thread.is_alive()

    @property
    def _total(self) -> int:
        return sum(map(len, list(self.took.values())))


def produce(connection: SparkConnection) -> None:
    """One record. Fails unless the broker has taken it."""
    request = ProduceRequest(None, 1, 10_000, [(TopicPartition(TOPIC, 0), memoryview(batch()))])
    body = b"".join(encode_produce(PRODUCE_VERSION, request))
    (answer,) = decode_produce_response(PRODUCE_VERSION, connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, body))
    assert answer.error == ErrorCode.NONE, answer
