"""A client that has logged in, and how long the broker takes for it while strangers disturb."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import psutil

from integration.harness.raw import batch
from integration.security.secured_broker import TOPIC, SecuredBroker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.produce import ProduceRequest, decode_produce_response, encode_produce
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.connection import SparkConnection

PRODUCE_VERSION = 8
ALONE, CONNECTING, AMONG = "without strangers", "while they connect", "with them"
"""Phases of a test."""
PAUSE = 0.005
"""Seconds between two requests."""
LOGIN_EVERY = 0.5
"""Seconds between two logins on a new connection."""
PATIENCE = 60.0
"""Seconds that a few requests or a login may take at most."""


@dataclass
class Measured:
    """What a healthy client has seen."""

    took: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds of its requests in each phase of the test."""
    logins: list[float] = field(default_factory=list)
    """Seconds of its logins."""
    memory: int = 0
    """The greatest memory of the broker, in bytes, after a login."""
    error: str = ""
    """What ended the client; empty while all goes well."""


class HealthyClient:
    """Produces one record after the other, logs in twice a second, and watches the broker's memory.

    In a process of its own, because a client that waited for Python's lock in the test's process would measure that.
    """

    def __init__(self, broker: SecuredBroker, listener: str) -> None:
        here, there = multiprocessing.Pipe()
        self._pipe = here
        task = (broker.address(listener), broker.client_config(listener), broker.process.pid, there)
        self._process = multiprocessing.get_context("spawn").Process(target=_work, args=task, daemon=True)
        self._process.start()
        there.close()
        self.begin(ALONE)

    def begin(self, phase: str) -> None:
        """What the client measures from now on belongs to ``phase``. Returns once a request was answered in it."""
        self._ask(phase)

    def stop(self) -> Measured:
        """End. Fails unless every request and every login has succeeded."""
        measured = self._ask("")
        self._process.join(PATIENCE)
        return measured

    def _ask(self, phase: str) -> Measured:
        # A client that has failed has closed its end; why it failed can still be read.
        with contextlib.suppress(BrokenPipeError):
            self._pipe.send(phase)
        assert self._pipe.poll(PATIENCE), "the healthy client is not served"
        measured: Measured = self._pipe.recv()
        assert not measured.error, measured.error
        return measured


def _work(address: tuple[str, int], config: ClientConfig, broker: int, pipe: Connection) -> None:
    """The client's process: it answers each phase that ``pipe`` names once it is served in it; an empty one ends it."""
    # Only root may; without it the scheduler lets the client wait for up to 4 ms now and then.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    measured, phase = Measured(), ALONE
    try:
        process = psutil.Process(broker)
        connection = SparkConnection(*address, config)
        next_login = 0.0
        while True:
            asked = pipe.recv() if pipe.poll(PAUSE) else None
            phase = asked or phase
            begun = time.monotonic()
            _produce(connection)
            now = time.monotonic()
            measured.took[phase].append(now - begun)
            if now >= next_login:
                SparkConnection(*address, config).close()
                measured.logins.append(time.monotonic() - now)
                measured.memory = max(measured.memory, process.memory_info().rss)
                next_login = time.monotonic() + LOGIN_EVERY
            if asked == "":
                break
            if asked:
                pipe.send(Measured())
        connection.close()
        pipe.send(measured)
    except Exception as error:
        pipe.send(Measured(error=repr(error)))


def _produce(connection: SparkConnection) -> None:
    """One record. Fails unless the broker has taken it."""
    request = ProduceRequest(None, 1, 10_000, [(TopicPartition(TOPIC, 0), memoryview(batch()))])
    body = b"".join(encode_produce(PRODUCE_VERSION, request))
    (answer,) = decode_produce_response(PRODUCE_VERSION, connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, body))
    assert answer.error == ErrorCode.NONE, answer
