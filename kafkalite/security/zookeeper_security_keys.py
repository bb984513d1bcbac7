"""Keys that say how a connection to ZooKeeper is secured: Kafka's names, types, defaults and limits.

Answers to: ``org.apache.kafka.server.config.ZkConfigs``; where Kafka's JVM takes the property
``java.security.auth.login.config``, a key of that name stands in ``server.properties``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue
from kafkalite.security.tls_names import STORE_TYPES, store_type_fault, suites_fault
from kafkalite.zk.session_security import PROTOCOLS

_BOOL, _STR, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LIST, _SECRET = ConfigType.LIST, ConfigType.PASSWORD
NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
NIO: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"


def _versions(value: ConfigValue) -> str | None:
    names = value if isinstance(value, tuple) else (value,)
    if all(name is None or name in PROTOCOLS for name in names):
        return None
    return ", ".join(PROTOCOLS)


def _store_type(value: ConfigValue) -> str | None:
    return store_type_fault(value) if value else None


def _identification(value: ConfigValue) -> str | None:
    return None if str(value or "").upper() in ("", "HTTPS") else "HTTPS, or nothing"


def _socket(value: ConfigValue) -> str | None:
    return None if value in (None, "", NETTY, NIO) else f"{NETTY}, {NIO}"


_TYPE_OF_STORE: Final = "JKS, PKCS12 or PEM; default: what the ending of the file says (.jks, .p12, .pfx, .pem)."

ZOOKEEPER_SECURITY_KEYS: Final = (
    ConfigKey(
        "zookeeper.auth.digest",
        _SECRET,
        None,
        "user:password for ZooKeeper's digest scheme, which sends the password as it is.",
        is_own=True,
    ),
    ConfigKey(
        "java.security.auth.login.config",
        _STR,
        None,
        "File in JAAS's syntax. Its section Client has the user and the password of the SASL login at ZooKeeper, by "
        "DIGEST-MD5.",
        is_own=True,
    ),
    ConfigKey(
        "zookeeper.sasl.client",
        _BOOL,
        True,
        "Whether to log in at ZooKeeper by SASL, where the JAAS file has the section for it.",
        is_own=True,
    ),
    ConfigKey(
        "zookeeper.sasl.clientconfig",
        _STR,
        "Client",
        "Name of the section of the JAAS file for the login at ZooKeeper.",
        is_own=True,
    ),
    ConfigKey(
        "zookeeper.clientCnxnSocket",
        _STR,
        None,
        "Accepted for compatibility: Kafka needs the Netty class for TLS to ZooKeeper.",
        check=_socket,
        allowed=f"{NETTY}, {NIO}",
    ),
    ConfigKey("zookeeper.ssl.client.enable", _BOOL, False, "Whether to reach ZooKeeper by TLS."),
    ConfigKey(
        "zookeeper.ssl.cipher.suites",
        _LIST,
        None,
        "Cipher suites of TLS 1.2, by the names of Java; default: those of OpenSSL.",
        check=suites_fault,
        allowed="names of cipher suites",
    ),
    ConfigKey(
        "zookeeper.ssl.enabled.protocols",
        _LIST,
        None,
        "Versions of TLS; default: that of zookeeper.ssl.protocol and newer ones.",
        check=_versions,
        allowed=", ".join(PROTOCOLS),
    ),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        _STR,
        "HTTPS",
        "HTTPS: the certificate must have the name of the host in zookeeper.connect; nothing: any name will do.",
        check=_identification,
        allowed="HTTPS, or nothing",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.location",
        _STR,
        None,
        "File with the private key and the certificates that ZooKeeper asks for.",
    ),
    ConfigKey("zookeeper.ssl.keystore.password", _SECRET, None, "Password of the key store and of its key."),
    ConfigKey(
        "zookeeper.ssl.keystore.type",
        _STR,
        None,
        f"Type of the key store: {_TYPE_OF_STORE}",
        check=_store_type,
        allowed=", ".join(STORE_TYPES),
    ),
    ConfigKey(
        "zookeeper.ssl.protocol",
        _STR,
        "TLSv1.2",
        "Least version of TLS, unless zookeeper.ssl.enabled.protocols names some; Kafka uses this version alone.",
        check=_versions,
        allowed=", ".join(PROTOCOLS),
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.location",
        _STR,
        None,
        "File with the certificates that ZooKeeper's servers are trusted by; default: the authorities of the system.",
    ),
    ConfigKey("zookeeper.ssl.truststore.password", _SECRET, None, "Password of the trust store."),
    ConfigKey(
        "zookeeper.ssl.truststore.type",
        _STR,
        None,
        f"Type of the trust store: {_TYPE_OF_STORE}",
        check=_store_type,
        allowed=", ".join(STORE_TYPES),
    ),
)
"""How a connection to ZooKeeper is secured. Commands take a file with these keys."""

ZOOKEEPER_SECURITY_CONFIGS: Final = ConfigDef(ZOOKEEPER_SECURITY_KEYS)
