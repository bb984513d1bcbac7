"""TLS and SASL of a connection.

Answers to: ``org.apache.kafka.common.security.ssl.DefaultSslEngineFactory`` and
``common.security.authenticator.SaslClientAuthenticator``. Blocking shell.

The exchanges of PLAIN, SCRAM, GSSAPI and OAUTHBEARER are kafka-python's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.common.token_endpoint import ClientCredentials, RefusedTokenError, fetch_token
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.spark.client.config import GSSAPI, ClientConfig, SaslConfig, SslConfig
from kafkalite.spark.client.errors import AuthenticationError, BrokerUnreachableError

Ask = Callable[[int, Mapping[str, object], int], Any]
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
    mechanism = _mechanism(broker, config)
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
        except Exception as error:  # gssapi's errors are known only where it is installed
            raise AuthenticationError(f"broker {broker}: {error}") from None


def _mechanism(broker: str, config: SaslConfig) -> Any:
    """The exchange with ``broker`` (host:port). Raises :class:`AuthenticationError`."""
    if config.mechanism == GSSAPI:
        return _kerberos(broker, config)
    if config.tokens is not None:
        return _oauth(broker, config.tokens)
    from kafka.net.sasl.plain import SaslMechanismPlain
    from kafka.net.sasl.scram import SaslMechanismScram

    return (SaslMechanismPlain if config.mechanism == "PLAIN" else SaslMechanismScram)(
        sasl_mechanism=config.mechanism, sasl_plain_username=config.username, sasl_plain_password=config.password
    )


def _oauth(broker: str, credentials: ClientCredentials) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth

    try:
        token = fetch_token(credentials).strip()
    except (OSError, ValueError, RefusedTokenError) as error:
        raise AuthenticationError(f"broker {broker}: no token for OAUTHBEARER: {error}") from None

    class Fetched(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    return SaslMechanismOAuth(sasl_oauth_token_provider=Fetched())


def _kerberos(broker: str, config: SaslConfig) -> Any:
    try:
        import gssapi
        from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
    except ImportError:
        raise AuthenticationError(
            f"broker {broker}: the package gssapi is missing for GSSAPI; install kafkalite[gssapi]"
        ) from None
    try:
        if config.keytab:
            # kafka-python takes the tickets that libkrb5 finds: this process has them in memory from now on.
            tickets = f"MEMORY:kafkalite-{config.principal}"
            name = gssapi.Name(config.principal, gssapi.NameType.kerberos_principal)
            store = {"client_keytab": f"FILE:{config.keytab}", "ccache": tickets}
            gssapi.Credentials(name=name, usage="initiate", store=store)
            os.environ["KRB5CCNAME"] = tickets
        host = broker.rpartition(":")[0]
        return SaslMechanismGSSAPI(sasl_kerberos_service_name=config.service, host=host)
    except gssapi.exceptions.GSSError as error:
        raise AuthenticationError(f"broker {broker}: no Kerberos ticket: {error}") from None
