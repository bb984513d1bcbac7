"""One connection to a broker that only logs in, because kafka-python hides why a broker refuses its connections.

Answers to: ``org.apache.kafka.clients.ClusterConnectionStates.AuthenticationFailed``. Blocking shell: a socket.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from kafkalite.consumer.errors import ConsumerAuthenticationError
from kafkalite.consumer.security import ConsumerSecurity
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.errors import ProtocolError
from kafkalite.spark.client.config import SaslConfig
from kafkalite.spark.client.errors import AuthenticationError
from kafkalite.spark.client.security import authenticate


def check_login(broker: str, security: ConsumerSecurity, timeout: float) -> None:
    """Log in at ``broker`` (``host:port``) and leave; each wait takes ``timeout`` seconds at most.

    Raises :class:`ConsumerAuthenticationError` if the broker refuses the login or its certificate is not trusted, and
    ``OSError`` if the broker does not answer.
    """
    host, _, port = broker.rpartition(":")
    try:
        with closing(_connected(host, int(port), security, timeout)) as connected:
            if security.login is not None:
                connection = BlockingConnection(connected, "login")
                authenticate(broker, partial(_ask, connection), SaslConfig(*security.login))
    except (ssl.SSLCertVerificationError, AuthenticationError) as error:
        why = getattr(error, "verify_message", "") or error
        raise ConsumerAuthenticationError(f"the connection to broker {broker} is refused: {why}") from None
    except ProtocolError as error:
        raise OSError(f"broker {broker}: {error}") from None


def _connected(host: str, port: int, security: ConsumerSecurity, timeout: float) -> socket.socket:
    plain = socket.create_connection((host, port), timeout)
    if security.tls is None:
        return plain
    try:
        return security.tls.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise


def _ask(connection: BlockingConnection, api_key: int, fields: Mapping[str, object], version: int) -> Any:
    body = encode_request(api_key, version, request_class(api_key)(version=version, **fields))
    return decode_response(api_key, version, connection.call(api_key, version, body))
