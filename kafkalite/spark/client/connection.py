"""A connection to a broker that Spark's configuration describes: TLS, SASL, API versions.

Answers to: ``org.apache.kafka.clients.NetworkClient`` and ``common.security.authenticator.SaslClientAuthenticator``.
Blocking shell: one socket, used by one thread.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.errors import ProtocolError
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import BrokerUnreachableError
from kafkalite.spark.client.security import authenticate, wrap

RECEIVE_BUFFER = 4 << 20
"""Bytes of the socket's receive buffer: room for a whole answer of ``max.partition.fetch.bytes``, so that a broker
sends it while the caller decodes the one before."""


class SparkConnection:
    """A socket. The constructor connects, authenticates, and asks for the API versions of the broker.

    Raises :class:`BrokerUnreachableError`, also at every use after the first one, and :class:`AuthenticationError`.
    """

    def __init__(self, host: str, port: int, config: ClientConfig) -> None:
        self.host = host
        self.port = port
        self.config = config
        self.closed = False
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            plain = socket.create_connection((host, port), timeout=config.connection_timeout_ms / 1000)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        except OSError as error:
            self.closed = True
            raise BrokerUnreachableError(f"no connection to {self}: {error}") from None
        try:
            self._connection = BlockingConnection(wrap(plain, host, config) if config.tls else plain, config.client_id)
            self._connection.socket.settimeout(config.request_timeout_ms / 1000)
            self._ask_versions()
            if config.sasl is not None:
                authenticate(str(self), self.ask, config.sasl)
        except BaseException:
            self.closed = True
            plain.close()
            raise

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def version(self, api_key: int, newest: int = 0x7FFF) -> int:
        """The newest version that the broker, this client and ``newest`` allow. ``ApiError`` if there is none."""
        low, high = self._versions.get(api_key, (0, -1))
        own = SUPPORTED[ApiKey(api_key)]
        version = min(high, own.max, newest)
        if version < max(low, own.min):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{ApiKey(api_key).name}: broker {self} speaks versions {low} to {high}, this client up to {newest}",
            )
        return version

    def ask(
        self, api_key: int, fields: Mapping[str, object], newest: int = 0x7FFF, timeout_ms: int | None = None
    ) -> Any:
        """Send a request with these ``fields`` of kafka-python's message class, and return its decoded answer."""
        version = self.version(api_key, newest)
        body = encode_request(api_key, version, request_class(api_key)(version=version, **fields))
        return self.decode(api_key, version, self.send(api_key, version, body, timeout_ms))

    def decode(self, api_key: int, version: int, body: memoryview) -> Any:
        """An answer as kafka-python's message class."""
        try:
            return decode_response(api_key, version, body)
        except ProtocolError as error:
            self.close()
            raise BrokerUnreachableError(f"broker {self}: {error}") from None

    def send(self, api_key: int, version: int, body: Buffer, timeout_ms: int | None = None) -> memoryview:
        """Send a request and wait for its answer. Returns the body, in memory of its own."""
        self.post(api_key, version, body)
        return self.receive(timeout_ms=timeout_ms)

    def post(self, api_key: int, version: int, *parts: Buffer) -> None:
        """Send a request whose answer :meth:`receive` will return. Several may wait for answers."""
        if self.closed:
            raise BrokerUnreachableError(f"the connection to {self} is closed")
        try:
            self._connection.post(api_key, version, *parts)
        except OSError as error:
            raise self._lost(error) from None

    def receive(self, *, reuse: bool = False, timeout_ms: int | None = None) -> memoryview:
        """The body of the answer to the oldest request that has none yet.

        With ``reuse`` it lies in memory that the next such call overwrites. Raises :class:`BrokerUnreachableError`,
        also after ``timeout_ms`` (default: ``request.timeout.ms``) without a byte.
        """
        if self.closed:
            raise BrokerUnreachableError(f"the connection to {self} is closed")
        try:
            if timeout_ms is None:
                return self._connection.receive(reuse=reuse)
            self._connection.socket.settimeout(max(timeout_ms, 1) / 1000)
            body = self._connection.receive(reuse=reuse)
            self._connection.socket.settimeout(self.config.request_timeout_ms / 1000)
            return body
        except (OSError, ProtocolError) as error:
            raise self._lost(error) from None

    def close(self) -> None:
        """Close the connection; no error if it is closed already."""
        if not self.closed:
            self.closed = True
            self._connection.close()

    def _lost(self, error: Exception) -> BrokerUnreachableError:
        self.close()
        what = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        return BrokerUnreachableError(f"the connection to {self} was lost: {what}")

    def _ask_versions(self) -> None:
        for version in (3, 0):
            fields = {"client_software_name": "kafkalite", "client_software_version": "1"} if version else {}
            body = encode_request(ApiKey.API_VERSIONS, version, messages.ApiVersionsRequest(version=version, **fields))
            answer = self.decode(ApiKey.API_VERSIONS, version, self.send(ApiKey.API_VERSIONS, version, body))
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        self._versions = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
