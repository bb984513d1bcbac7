"""One small request to a broker: which brokers are in the cluster? Needs no client library and no group.

Answers to: ``kafka.tools.BrokerApiVersionsCommand`` in purpose (does the broker answer?). Blocking shell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafkalite.common.errors import StartupError
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response
from kafkalite.protocol.errors import ProtocolError
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.connection import SparkConnection
from kafkalite.spark.client.errors import KafkaClientError

METADATA_VERSION = 1
"""The first version whose answer has the controller; every broker since 0.10 serves it."""
NO_TOPICS = bytes(4)
"""An empty array of topics."""

POLL_INTERVAL = 0.02
REQUEST_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as one broker sees it. ``controller`` is -1 if there is none."""

    brokers: dict[int, tuple[str, int]]
    controller: int


def ask(host: str, port: int, timeout: float = REQUEST_TIMEOUT, client: ClientConfig | None = None) -> ClusterView:
    """The cluster as the broker at ``host:port`` sees it. ``OSError`` if no broker answers there in time.

    A broker that is not open to all is asked as ``client`` says.
    """
    if client is not None:
        return _ask_as(client, host, port, timeout)
    with BlockingConnection.open(host, port, "probe", timeout) as connection:
        try:
            return _view(connection.call(ApiKey.METADATA, METADATA_VERSION, NO_TOPICS))
        except ProtocolError as error:
            raise OSError(f"no Kafka broker answers at {host}:{port}: {error}") from None


def wait_for_brokers(
    addresses: Sequence[tuple[str, int]],
    expected: set[int],
    timeout: float,
    keep_waiting: Callable[[], bool] = lambda: True,
    client: ClientConfig | None = None,
) -> None:
    """Wait until each of ``addresses`` answers with exactly the brokers ``expected`` and a live controller.

    Raises :class:`StartupError` with the last answer after ``timeout`` seconds, or once ``keep_waiting`` is false.
    """
    deadline = time.monotonic() + timeout
    for host, port in addresses:
        last = "no answer"
        while True:
            try:
                view = ask(host, port, client=client)
                if set(view.brokers) == expected and view.controller in expected:
                    break
                last = f"brokers {sorted(view.brokers)}, controller {view.controller}"
            except OSError as error:
                last = str(error)
            if time.monotonic() > deadline or not keep_waiting():
                raise StartupError(
                    f"{host}:{port} did not see brokers {sorted(expected)} within {timeout:.0f} s: {last}"
                )
            time.sleep(POLL_INTERVAL)


def _ask_as(client: ClientConfig, host: str, port: int, timeout: float) -> ClusterView:
    limit = round(timeout * 1000)
    try:
        connection = SparkConnection(host, port, replace(client, connection_timeout_ms=limit, request_timeout_ms=limit))
        try:
            return _view(connection.send(ApiKey.METADATA, METADATA_VERSION, NO_TOPICS))
        finally:
            connection.close()
    except (KafkaClientError, ProtocolError) as error:
        raise OSError(f"no Kafka broker answers at {host}:{port}: {error}") from None


def _view(body: memoryview) -> ClusterView:
    answer = decode_response(ApiKey.METADATA, METADATA_VERSION, body)
    return ClusterView({broker.node_id: (broker.host, broker.port) for broker in answer.brokers}, answer.controller_id)
