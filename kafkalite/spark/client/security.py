"""TLS and SASL of a connection.

Answers to: ``org.apache.kafka.common.security.ssl.DefaultSslEngineFactory`` and
``common.security.authenticator.SaslClientAuthenticator``. Blocking shell.

The exchanges of PLAIN and SCRAM are kafka-python's.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.spark.client.config import ClientConfig, SaslConfig, SslConfig
from kafkalite.spark.client.errors import AuthenticationError, BrokerUnreachableError

Ask = Callable[[int, dict[str, Any], int], Any]
"""Sends a request: API key, fields, newest version; returns the decoded answer."""


def wrap(plain: socket.socket, host: str, config: ClientConfig) -> ssl.SSLSocket:
    """``plain`` with TLS. Raises :class:`AuthenticationError`, :class:`BrokerUnreachableError`."""
    try:
        return context(config.ssl).wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(f"the certificate of {host} is not trusted: {error.verify_message}") from None
    except (ssl.SSLError, OSError) as error:
        raise BrokerUnreachableError(f"TLS handshake with {host} failed: {error}") from None


def context(config: SslConfig) -> ssl.SSLContext:
    """Trusted certificates and the client's own. Raises :class:`AuthenticationError` for files that are not PEM."""
    found = ssl.create_default_context()
    found.check_hostname = config.check_hostname
    try:
        if config.truststore_certificates or config.truststore_location:
            found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            found.check_hostname = config.check_hostname
            found.load_verify_locations(cafile=config.truststore_location, cadata=config.truststore_certificates)
        if config.keystore_location:
            found.load_cert_chain(config.keystore_location, password=config.key_password)
        elif config.keystore_key and config.keystore_certificate_chain:
            with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:  # created with mode 600
                file.write(f"{config.keystore_key}\n{config.keystore_certificate_chain}\n")
            try:
                found.load_cert_chain(file.name, password=config.key_password)
            finally:
                with contextlib.suppress(OSError):
                    Path(file.name).unlink()
    except (OSError, ssl.SSLError) as error:
        where = config.truststore_location or config.keystore_location or "the certificates given"
        raise AuthenticationError(f"{where}: {error} (PEM files are read, not JKS or PKCS12)") from None
    return found


def authenticate(broker: str, ask: Ask, config: SaslConfig) -> None:
    """SASL by SaslHandshake and SaslAuthenticate, sent by ``ask``. Raises :class:`AuthenticationError`."""
    from kafka.net.sasl.plain import SaslMechanismPlain
    from kafka.net.sasl.scram import SaslMechanismScram

    mechanism = (SaslMechanismPlain if config.mechanism == "PLAIN" else SaslMechanismScram)(
        sasl_mechanism=config.mechanism, sasl_plain_username=config.username, sasl_plain_password=config.password
    )
    answer = ask(ApiKey.SASL_HANDSHAKE, {"mechanism": config.mechanism}, 1)
    if answer.error_code:
        raise AuthenticationError(
            f"broker {broker} refuses {config.mechanism}: it has {', '.join(answer.mechanisms) or 'no mechanism'}"
        )
    while not mechanism.is_done():
        answer = ask(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": mechanism.auth_bytes()}, 1)
        if answer.error_code:
            name = ErrorCode(answer.error_code).name
            raise AuthenticationError(f"broker {broker}: {answer.error_message or name}")
        try:
            mechanism.receive(bytes(answer.auth_bytes))
        except (ValueError, KeyError) as error:
            raise AuthenticationError(f"broker {broker}: {error}") from None
