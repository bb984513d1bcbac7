"""A refused login ends a command at once; the client libraries would go on trying with the same password.

Answers to: ``org.apache.kafka.common.errors.AuthenticationException``, which Java's clients do not retry. Reactor shell
(client libraries).
"""

from __future__ import annotations

import ssl
import sys
import time
from typing import TYPE_CHECKING

from kafkalite.cli.main import UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka import KafkaError as LibrdkafkaError
    from kafka.net.compat import KafkaNetClient
    from kafka.net.connection import KafkaConnection
    from kafka.net.transport import KafkaTCPTransport
    from kafka.protocol.metadata import MetadataResponse

_POLL_SECONDS = 0.1


class BrokerRefusalError(OSError):
    """A broker refused the login, or its certificate is not trusted; the text says why and has no secret."""


def refusal_aware_client(**configs: object) -> KafkaNetClient:
    """kafka-python's network client whose requests raise :class:`BrokerRefusalError` after a refused login.

    The library repeats a refused login until ``bootstrap_timeout_ms`` is over, because its manager sees no error of a
    login that fails. It raises what it finds in ``_auth_failures`` instead of another try.
    """
    from kafka.net.compat import KafkaNetClient

    client = KafkaNetClient(**configs)
    manager = client._manager
    library_connect, library_transport = manager._connect, manager._build_transport

    async def transport(node: MetadataResponse.MetadataResponseBroker, **options: object) -> KafkaTCPTransport:
        made = await library_transport(node, **options)
        library_receive = made._sock_recv

        def receive() -> tuple[bytes, Exception | None]:
            # The library drops the bytes before the end of a stream, and a broker closes after its refusal.
            data, error = library_receive()
            return data, None if data else error

        made._sock_recv = receive
        return made

    async def connect(
        node: MetadataResponse.MetadataResponseBroker, connection: KafkaConnection, **options: object
    ) -> None:
        await library_connect(node, connection, **options)
        # Not before, because the library removes the error at the end of its own part. The future may fail later still.
        connection.init_future.add_errback(note, node)

    def note(node: MetadataResponse.MetadataResponseBroker, failure: Exception) -> None:
        error = _refusal(f"{node.host}:{node.port}", failure)
        if error is not None:
            manager._auth_failures[node.node_id] = error

    manager._connect, manager._build_transport = connect, transport
    return client


def _refusal(broker: str, error: Exception) -> Exception | None:
    """The error that ends the command; ``None`` for an error that another try may not meet."""
    from kafka.errors import IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError

    if isinstance(error, UsageError):  # the token endpoint gave no token
        return error
    if isinstance(error, (IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError)):
        return BrokerRefusalError(f"broker {broker} refuses the login: {error}")
    # The library makes a KafkaConnectionError of every error of the handshake.
    cause = error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return BrokerRefusalError(f"the certificate of broker {broker} is not trusted: {cause.verify_message}")
    return None


def raise_refusal(error: LibrdkafkaError) -> None:
    """librdkafka's ``error_cb``: raise :class:`BrokerRefusalError` from the next ``poll``, ``flush`` or ``consume``.

    Any other error is printed, because librdkafka goes on trying.
    """
    from confluent_kafka import KafkaError

    text = error.str()
    # A broker that stops during a login is no refusal, nor is one that stops during a handshake.
    if error.code() == KafkaError._AUTHENTICATION and "isconnected" not in text:
        raise BrokerRefusalError(text)
    if error.code() == KafkaError._SSL and "certificate" in text:
        raise BrokerRefusalError(text)
    # That all brokers are down says less than the error of each of them, which is reported as well.
    if error.code() != KafkaError._ALL_BROKERS_DOWN:
        print(text, file=sys.stderr)


def flush(producer: Producer, timeout: float) -> int:
    """Wait until all records are acknowledged; returns how many are not after ``timeout`` seconds.

    Raises :class:`BrokerRefusalError`, which one long ``flush`` of the library would raise at its end only.
    """
    deadline = time.monotonic() + timeout
    while producer.flush(_POLL_SECONDS) and time.monotonic() < deadline:
        pass
    return len(producer)


def await_login(consumer: Consumer, timeout: float) -> None:
    """Wait until a broker answers ``consumer``, because a request alone reports a refused login as a timeout.

    Raises :class:`BrokerRefusalError`, and librdkafka's error after ``timeout`` seconds.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + timeout
    while True:
        try:
            consumer.list_topics("", timeout=_POLL_SECONDS)
            return
        except KafkaException:
            consumer.poll(0)
            if time.monotonic() >= deadline:
                raise
