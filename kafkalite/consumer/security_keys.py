"""The keys by which a ZooKeeper consumer reaches secured brokers and a secured ZooKeeper.

Answers to: ``org.apache.kafka.clients.CommonClientConfigs``, ``common.config.{SslConfigs,SaslConfigs}`` and
``org.apache.kafka.server.config.ZkConfigs``; the consumers of Kafka 0.8 to 1.1 had none of them. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue
from kafkalite.security.tls_names import JKS, STORE_TYPES, store_type_fault, suites_fault
from kafkalite.security.zookeeper_security_keys import ZOOKEEPER_SECURITY_KEYS

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_STR, _LIST, _SECRET = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD


def _identification(value: ConfigValue) -> str | None:
    return None if str(value or "").lower() in ("", "https") else "https, or nothing"


def _key(name: str, kind: ConfigType, doc: str) -> ConfigKey:
    return ConfigKey(name, kind, None, doc)


def _type_of(store: str) -> ConfigKey:
    doc = f"Type of {store}.location; JKS takes PKCS12, too, and PKCS12 takes JKS."
    return ConfigKey(f"{store}.type", _STR, JKS, doc, check=store_type_fault, allowed=", ".join(STORE_TYPES))


BROKER_SECURITY_KEYS: Final = (
    ConfigKey("security.protocol", _STR, "PLAINTEXT", "The protocol of the brokers' listeners.", choices=PROTOCOLS),
    ConfigKey("ssl.cipher.suites", _LIST, (), "Cipher suites by their standard names.", check=suites_fault),
    ConfigKey("ssl.enabled.protocols", _LIST, VERSIONS, "Versions of TLS.", choices=VERSIONS),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        _STR,
        "https",
        "Whether the host name in the broker's certificate is checked; empty: it is not.",
        check=_identification,
        allowed="https, or nothing",
    ),
    _key("ssl.key.password", _SECRET, "Password of the private key, in PEM, or in JKS if it is not the store's."),
    _key("ssl.keystore.certificate.chain", _SECRET, "Certificates in PEM, the consumer's own first, as text."),
    _key("ssl.keystore.key", _SECRET, "Private key in PEM (PKCS#8, encrypted or not), as text."),
    _key("ssl.keystore.location", _STR, "File with the private key and the certificates of the consumer."),
    _key("ssl.keystore.password", _SECRET, "Password of ssl.keystore.location; a file in PEM has none."),
    _type_of("ssl.keystore"),
    _key("ssl.truststore.certificates", _SECRET, "Trusted certificates in PEM, as text."),
    _key("ssl.truststore.location", _STR, "File with the trusted certificates; default: those of the system."),
    _key("ssl.truststore.password", _SECRET, "Password of ssl.truststore.location; a file in PEM has none."),
    _type_of("ssl.truststore"),
    ConfigKey("sasl.mechanism", _STR, None, "How the consumer logs in at brokers.", choices=MECHANISMS),
    _key("sasl.jaas.config", _SECRET, "The login module of the mechanism with username and password."),
)

SECURITY_CONFIGS: Final = ConfigDef((*BROKER_SECURITY_KEYS, *ZOOKEEPER_SECURITY_KEYS))
"""All keys: those of connections to brokers, and those of the connection to ZooKeeper, which brokers have, too."""
