"""How the connection to ZooKeeper is secured, from the keys ``zookeeper.*`` and the files that they name.

Answers to: ``kafka.server.KafkaServer.zkClientConfigFromKafkaConfig`` and
``org.apache.kafka.common.security.JaasUtils``. Deterministic: files are read through a function that is handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from kafkalite.common.config import ConfigValues
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.security.jaas import JaasConfig
from kafkalite.security.tls_names import JKS, PEM, PKCS12, openssl_name
from kafkalite.security.zookeeper_security_keys import NIO
from kafkalite.zk.session_security import PROTOCOLS, ZkSecurity, ZkTls, tls_context

FileReader = Callable[[str], bytes]
"""Reads a file. Raises ``OSError``."""
_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_ENDINGS: Final = {".jks": JKS, ".p12": PKCS12, ".pfx": PKCS12, ".pem": PEM}


def zookeeper_security(values: ConfigValues, read: FileReader) -> ZkSecurity:
    """The security that ``values`` ask for.

    Raises :class:`ConfigError`, which names the key, and the file if any; :class:`StartupError` where the package for
    key stores is missing.
    """
    digest = str(values["zookeeper.auth.digest"] or "")
    try:
        tls = _tls(values, read)
    except ImportError as error:
        raise StartupError(f"zookeeper.ssl.client.enable=true: {error}") from None
    return ZkSecurity(tls, digest, _sasl(values, read))


def check_identity(values: ConfigValues) -> None:
    """With ``zookeeper.set.acl`` a broker must have an identity. Raises :class:`ConfigError`."""
    with_certificate = values["zookeeper.ssl.client.enable"] and values["zookeeper.ssl.keystore.location"]
    with_sasl = values["zookeeper.sasl.client"] and values["java.security.auth.login.config"]
    if values["zookeeper.set.acl"] and not (values["zookeeper.auth.digest"] or with_certificate or with_sasl):
        raise ConfigError(
            "Invalid value true for configuration zookeeper.set.acl: allowed is false, or true beside "
            "zookeeper.auth.digest=user:password, java.security.auth.login.config or zookeeper.ssl.keystore.location, "
            "because ZooKeeper must know who may write the znodes"
        )


def _tls(values: ConfigValues, read: FileReader) -> ZkTls | None:
    if not values["zookeeper.ssl.client.enable"]:
        return None
    if values["zookeeper.clientCnxnSocket"] == NIO:
        raise ConfigError(
            f"Invalid value {NIO} for configuration zookeeper.clientCnxnSocket: allowed is "
            "org.apache.zookeeper.ClientCnxnSocketNetty beside zookeeper.ssl.client.enable=true"
        )
    suites = [openssl_name(name) for name in values["zookeeper.ssl.cipher.suites"] or ()]
    tls = ZkTls(
        _key_store(values, read),
        _trust_store(values, read),
        tuple(values["zookeeper.ssl.enabled.protocols"] or _from(str(values["zookeeper.ssl.protocol"]))),
        ":".join(name for name in suites if name),
        str(values["zookeeper.ssl.endpoint.identification.algorithm"] or "").upper() == "HTTPS",
    )
    try:
        tls_context(tls)
    except OSError as error:
        why = getattr(error, "reason", None) or error
        raise ConfigError(f"OpenSSL refuses a setting of zookeeper.ssl.*: {why}") from None
    return tls


def _from(protocol: str) -> tuple[str, ...]:
    """``protocol`` and the newer ones, because servers of ZooKeeper 3.9 take TLS 1.3 alone unless told otherwise."""
    return PROTOCOLS[PROTOCOLS.index(protocol) :]


def _key_store(values: ConfigValues, read: FileReader) -> bytes:
    name, path = "zookeeper.ssl.keystore", values["zookeeper.ssl.keystore.location"]
    if not path:
        return b""
    from kafkalite.security.key_stores import StoreError, pem, read_key_store

    data, kind, password = _store(values, read, name, path)
    try:
        store = read_key_store(data, kind, password, password)
    except StoreError as error:
        raise ConfigError(f"Invalid value {path} for configuration {name}.location: {error}") from None
    return store.key + pem(store.chain)


def _trust_store(values: ConfigValues, read: FileReader) -> bytes:
    name, path = "zookeeper.ssl.truststore", values["zookeeper.ssl.truststore.location"]
    if not path:
        return b""
    from kafkalite.security.key_stores import StoreError, pem, read_trust_store

    data, kind, password = _store(values, read, name, path)
    try:
        return pem(read_trust_store(data, kind, password))
    except StoreError as error:
        raise ConfigError(f"Invalid value {path} for configuration {name}.location: {error}") from None


def _store(values: ConfigValues, read: FileReader, name: str, path: str) -> tuple[bytes, str, str | None]:
    """Content, type and password of a store."""
    kind = str(values[f"{name}.type"] or _ENDINGS.get(PurePath(path).suffix.lower(), "")).upper()
    if not kind:
        raise ConfigError(
            f"Missing required configuration {name}.type: the ending of {path} is none of {', '.join(_ENDINGS)}"
        )
    return _file(path, f"{name}.location", read), kind, values[f"{name}.password"] or None


def _sasl(values: ConfigValues, read: FileReader) -> tuple[str, str] | None:
    name, path = "java.security.auth.login.config", values["java.security.auth.login.config"]
    if not path or not values["zookeeper.sasl.client"]:
        return None
    section = str(values["zookeeper.sasl.clientconfig"])
    try:
        module = JaasConfig.of_section(_file(path, name, read).decode("utf-8"), section)
    except ValueError as error:
        raise ConfigError(f"Invalid value {path} for configuration {name}: section {section}: {error}") from None
    if module is None:
        raise ConfigError(
            f"Invalid value {path} for configuration {name}: allowed is a file with the section {section} "
            "(zookeeper.sasl.clientconfig), or zookeeper.sasl.client=false beside it"
        )
    if module.module != _MODULE:
        raise ConfigError(
            f"Invalid value {path} for configuration {name}: section {section}: the login module must be {_MODULE}, "
            "because kafkalite logs in at ZooKeeper by DIGEST-MD5 only"
        )
    try:
        return module.options["username"], module.options["password"]
    except KeyError as missing:
        raise ConfigError(
            f"Invalid value {path} for configuration {name}: section {section} has no {missing}"
        ) from None


def _file(path: str, name: str, read: FileReader) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise ConfigError(f"Invalid value {path} for configuration {name}: {error.strerror}") from None
