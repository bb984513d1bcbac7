"""Contexts of TLS as ``ssl.*`` asks for them: what a listener shows and demands, and what a broker's connections do.

Answers to: ``org.apache.kafka.common.security.ssl.{SslFactory,DefaultSslEngineFactory}``. It is handed the bytes of
files; only OpenSSL's contexts are made here.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from kafkalite.common.config import ConfigValues
from kafkalite.common.errors import ConfigError
from kafkalite.security.key_stores import (
    KeyStore,
    StoreError,
    pem,
    read_key_store,
    read_pem_certificates,
    read_pem_key,
    read_trust_store,
)
from kafkalite.security.tls_names import JKS, PEM, STORE_TYPES, TLS_1_3_SUITES, openssl_name, unknown_suites

log = logging.getLogger(__name__)

FileReader = Callable[[str], bytes]
"""Reads a file. Raises ``OSError``."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True)
class TlsStores:
    """The stores of one listener. Without ``trust`` the certificate authorities of the system are trusted."""

    key: KeyStore | None
    trust: tuple[x509.Certificate, ...] | None

    @classmethod
    def load(cls, values: ConfigValues, read: FileReader, where: str) -> TlsStores:
        """The stores that ``values`` name; ``where`` says whose they are.

        Raises :class:`ConfigError`, which names key and file.
        """
        return cls(_load_key_store(values, read, where), _load_trust_store(values, read, where))


class ListenerTls:
    """The stores and contexts of one listener: all of one moment. ``client`` is for connections between brokers.

    Raises :class:`ConfigError`, which names the key, and the file if there is one.
    """

    def __init__(
        self, values: ConfigValues, read: FileReader, where: str, client_auth: str, *, between_brokers: bool
    ) -> None:
        self.stores = TlsStores.load(values, read, where)
        self.server = server_context(values, self.stores, client_auth, where)
        self.client = client_context(values, self.stores, where) if between_brokers else None
        if self.client is not None:
            check_handshake(self.server, self.client, where)

    def check_successor(self, new: ListenerTls, values: ConfigValues) -> None:
        """Check that ``new`` may replace this one while the broker runs. Raises :class:`ConfigError`.

        Answers to: ``SslFactory.CertificateEntries.ensureCompatible``.
        """
        if self.stores.key is None or new.stores.key is None:
            return
        old_one, new_one = self.stores.key.chain[0], new.stores.key.chain[0]
        if not values["ssl.allow.dn.changes"] and old_one.subject != new_one.subject:
            raise ConfigError(
                f"Keystore DistinguishedName does not match: existing={{DN={old_one.subject.rfc4514_string()}}}, "
                f"new={{DN={new_one.subject.rfc4514_string()}}}"
            )
        before, after = alternative_names(old_one), alternative_names(new_one)
        if not values["ssl.allow.san.changes"] and not before <= after:
            raise ConfigError(
                f"Keystore SubjectAltNames do not match: existing={{SAN={sorted(before)}}}, new={{SAN={sorted(after)}}}"
            )


def server_context(values: ConfigValues, stores: TlsStores, client_auth: str, where: str) -> ssl.SSLContext:
    """The context of a listener, whose ``client_auth`` is none, requested or required. Raises :class:`ConfigError`."""
    if stores.key is None:
        raise ConfigError(f"Missing required configuration ssl.keystore.location of {where}: TLS needs a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _prepare(context, values, stores, where)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    # A session that is resumed would not be checked against a trust store that changed since; clients rarely do.
    context.num_tickets = 0
    return context


def client_context(values: ConfigValues, stores: TlsStores, where: str) -> ssl.SSLContext:
    """The context of a broker's own connections. Raises :class:`ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = (values["ssl.endpoint.identification.algorithm"] or "").lower() == "https"
    _prepare(context, values, stores, where)
    return context


def alternative_names(certificate: x509.Certificate) -> set[str]:
    """The ``subjectAltName`` of a certificate, each with its kind."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {f"{type(name).__name__}:{name.value}" for name in found}


def check_handshake(server: ssl.SSLContext, client: ssl.SSLContext, where: str) -> None:
    """Check that brokers with these contexts can connect to each other. Raises :class:`ConfigError`.

    Names of hosts are not checked. Answers to: ``SslFactory.SslEngineValidator``.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checks_names, client.check_hostname = client.check_hostname, False
    try:
        pair = (
            server.wrap_bio(to_server, to_client, server_side=True),
            client.wrap_bio(to_client, to_server, server_side=False),
        )
        done = [False, False]
        while not all(done):
            for side in (1, 0):
                try:
                    pair[side].do_handshake()
                    done[side] = True
                except ssl.SSLWantReadError:
                    pass
    except ssl.SSLError as error:
        text = getattr(error, "verify_message", "") or error.reason or str(error)
        raise ConfigError(
            f"The key store and the trust store of {where} do not fit each other: a broker could not connect to "
            f"another one with the same stores: {text}"
        ) from None
    finally:
        client.check_hostname = checks_names


def _prepare(context: ssl.SSLContext, values: ConfigValues, stores: TlsStores, where: str) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Java trusts every certificate of the trust store, also one that is not of an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _choose_versions(context, values, where)
    if stores.key is not None:
        _load_chain(context, stores.key, where)
    if stores.trust is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        context.load_verify_locations(cadata=pem(stores.trust).decode("ascii"))


def _choose_versions(context: ssl.SSLContext, values: ConfigValues, where: str) -> None:
    versions = {_VERSIONS[name] for name in values["ssl.enabled.protocols"] if name in _VERSIONS}
    suites = values["ssl.cipher.suites"]
    if suites:
        unknown = unknown_suites(suites)
        if unknown:
            raise _refused("ssl.cipher.suites", unknown[0], where, "names such as TLS_AES_256_GCM_SHA384")
        old = [name for name in suites if name not in TLS_1_3_SUITES]
        if old:
            try:
                context.set_ciphers(":".join(openssl_name(name) or "" for name in old))
            except ssl.SSLError:
                raise _refused("ssl.cipher.suites", ",".join(old), where, "at least one that OpenSSL has") from None
        else:
            versions.discard(ssl.TLSVersion.TLSv1_2)
        if len(old) == len(suites):
            versions.discard(ssl.TLSVersion.TLSv1_3)
        elif not TLS_1_3_SUITES.issubset(suites):
            log.warning("ssl.cipher.suites of %s: all suites of TLS 1.3 are enabled, not only the named ones", where)
    if not versions:
        shown = ",".join(values["ssl.enabled.protocols"])
        raise _refused("ssl.enabled.protocols", shown, where, "TLSv1.2 or TLSv1.3, with a cipher suite of it")
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _load_chain(context: ssl.SSLContext, store: KeyStore, where: str) -> None:
    """Hand key and certificates to OpenSSL, which reads them from a file: from memory, so that no disk sees the key."""
    fd = os.memfd_create("kafkalite-key", os.MFD_CLOEXEC)
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(store.key + pem(store.chain))
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    except ssl.SSLError as error:
        raise ConfigError(f"OpenSSL refuses the key or the certificate of {where}: {error.reason}") from None
    finally:
        os.close(fd)


def _load_key_store(values: ConfigValues, read: FileReader, where: str) -> KeyStore | None:
    kind, path, password = (values[f"ssl.keystore.{name}"] or None for name in ("type", "location", "password"))
    key, chain, key_password = (
        values[name] or None for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password")
    )
    kind = _kind(kind, "ssl.keystore.type", where)
    if key is None and chain is not None:
        raise ConfigError(f"SSL certificate chain of {where} is specified, but private key is not specified")
    if key is not None:
        if kind != PEM:
            raise ConfigError(
                f"SSL private key can be specified only for PEM, but key store type of {where} is {kind}."
            )
        if chain is None:
            raise ConfigError(f"SSL private key of {where} is specified, but certificate chain is not specified.")
        if path is not None:
            raise ConfigError(f"Both SSL key store location and separate private key of {where} are specified.")
    if kind == PEM and (key or path) and password is not None:
        raise ConfigError(
            f"SSL key store password of {where} cannot be specified with PEM format, only key password may be specified"
        )
    if key is not None and chain is not None:
        try:
            return read_pem_key(key.encode(), chain.encode(), key_password)
        except StoreError as error:
            raise _broken("ssl.keystore.key", "[hidden]", where, error) from None
    if path is None:
        if password is not None:
            raise ConfigError(f"SSL key store of {where} is not specified, but key store password is specified.")
        return None
    if kind != PEM and password is None:
        raise ConfigError(f"SSL key store of {where} is specified, but key store password is not specified.")
    try:
        return read_key_store(_read(path, "ssl.keystore.location", read, where), kind, password, key_password)
    except StoreError as error:
        raise _broken("ssl.keystore.location", path, where, error) from None


def _load_trust_store(values: ConfigValues, read: FileReader, where: str) -> tuple[x509.Certificate, ...] | None:
    kind, path, password, certificates = (
        values[f"ssl.truststore.{name}"] or None for name in ("type", "location", "password", "certificates")
    )
    kind = _kind(kind, "ssl.truststore.type", where)
    if certificates is not None:
        if kind != PEM:
            raise ConfigError(
                f"SSL trust store certs can be specified only for PEM, but trust store type of {where} is {kind}."
            )
        if path is not None:
            raise ConfigError(f"Both SSL trust store location and separate certificates of {where} are specified.")
    if kind == PEM and (certificates or path) and password is not None:
        raise ConfigError(f"SSL trust store password of {where} cannot be specified for PEM format.")
    if certificates is not None:
        try:
            return read_pem_certificates(certificates.encode())
        except StoreError as error:
            raise _broken("ssl.truststore.certificates", "[hidden]", where, error) from None
    if path is None:
        if password is not None:
            raise ConfigError(f"SSL trust store of {where} is not specified, but trust store password is specified.")
        return None
    try:
        return read_trust_store(_read(path, "ssl.truststore.location", read, where), kind, password)
    except StoreError as error:
        raise _broken("ssl.truststore.location", path, where, error) from None


def _kind(kind: str | None, name: str, where: str) -> str:
    known = (kind or JKS).upper()
    if known not in STORE_TYPES:
        raise _refused(name, kind or "", where, ", ".join(STORE_TYPES))
    return known


def _read(path: str, name: str, read: FileReader, where: str) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise _broken(name, path, where, error.strerror) from None


def _broken(name: str, value: str, where: str, why: object) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name} of {where}: {why}")


def _refused(name: str, value: str, where: str, allowed: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name} of {where}: allowed is {allowed}")
