"""Keys of TLS, ``ssl.*``, and of the passwords of stores: Kafka's names, types, defaults and limits.

``listener.name.NAME.`` before a key sets it for one listener.

Answers to: ``org.apache.kafka.common.config.SslConfigs`` and ``org.apache.kafka.security.PasswordEncoderConfigs``.
Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, Update
from kafkalite.security.principal_mapping import SslPrincipalMapper
from kafkalite.security.tls_names import JKS, STORE_TYPES, store_type_fault, suites_fault

_BOOL, _STR, _LIST, _SECRET = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD
_INT = ConfigType.INT
_READ_ONLY, _BROKER, _LISTENER = Update.READ_ONLY, Update.PER_BROKER, Update.PER_LISTENER
_SERVED_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_VERSIONS: Final = ("TLS", "TLSv1", "TLSv1.1", *_SERVED_VERSIONS)
_KEY_FACTORIES: Final = tuple(f"PBKDF2WithHmacSHA{bits}" for bits in (512, 384, 256, 1))


def _versions(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if all(name in _VERSIONS for name in value) and any(name in _SERVED_VERSIONS for name in value):
        return None
    return f"at least one of {', '.join(_SERVED_VERSIONS)}; older versions are ignored"


def _rules(value: ConfigValue) -> str | None:
    assert isinstance(value, str)
    try:
        SslPrincipalMapper(value)
    except ValueError as error:
        return f"a list of RULE:pattern/replacement/[LU] and DEFAULT: {error}"
    return None


def _identification(value: ConfigValue) -> str | None:
    return None if str(value or "").lower() in ("", "https") else "https, or nothing"


def _key(
    name: str, kind: ConfigType, default: ConfigValue, doc: str, update: Update = _LISTENER, allowed: str = ""
) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, update=update, allowed=allowed)


TLS_KEYS: Final = (
    _key(
        "ssl.allow.dn.changes",
        _BOOL,
        False,
        "Whether a new certificate may have another subject than the one that it replaces while the broker runs.",
        _READ_ONLY,
    ),
    _key(
        "ssl.allow.san.changes",
        _BOOL,
        False,
        "Whether a new certificate may lack names that the one has which it replaces while the broker runs.",
        _READ_ONLY,
    ),
    ConfigKey(
        "ssl.cipher.suites",
        _LIST,
        (),
        "Cipher suites by their standard names; default: OpenSSL's. Suites of TLS 1.3 are enabled all or none.",
        update=_BROKER,
        check=suites_fault,
    ),
    ConfigKey(
        "ssl.client.auth",
        _STR,
        "none",
        "Whether clients must show a certificate. A SASL_SSL listener obeys only the key with its own prefix.",
        choices=("required", "requested", "none"),
        update=_BROKER,
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        _LIST,
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS. Versions before TLSv1.2 are ignored.",
        update=_BROKER,
        check=_versions,
        allowed=", ".join(_SERVED_VERSIONS),
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        _STR,
        "https",
        "Whether a broker that connects to another one checks the host name in its certificate; empty: it does not.",
        update=_BROKER,
        check=_identification,
        allowed="https, or nothing",
    ),
    _key("ssl.key.password", _SECRET, None, "Password of the private key, in PEM, or in JKS if it is not the store's."),
    _key("ssl.keystore.certificate.chain", _SECRET, None, "Certificates in PEM, the broker's own first, as text."),
    _key("ssl.keystore.key", _SECRET, None, "Private key in PEM (PKCS#8, encrypted or not), as text."),
    _key("ssl.keystore.location", _STR, None, "File with the private key and the certificates of the broker."),
    _key("ssl.keystore.password", _SECRET, None, "Password of ssl.keystore.location; a file in PEM has none."),
    ConfigKey(
        "ssl.keystore.type",
        _STR,
        JKS,
        "Type of ssl.keystore.location; JKS takes PKCS12, too, and PKCS12 takes JKS.",
        update=_LISTENER,
        check=store_type_fault,
        allowed=", ".join(STORE_TYPES),
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        _STR,
        "DEFAULT",
        "Rules that make the name of a principal of the subject of a client's certificate.",
        check=_rules,
        allowed="RULE:pattern/replacement/[LU],…,DEFAULT",
    ),
    ConfigKey(
        "ssl.protocol",
        _STR,
        "TLSv1.3",
        "Accepted for compatibility; ssl.enabled.protocols says which versions are served.",
        choices=_VERSIONS,
        update=_BROKER,
    ),
    _key("ssl.truststore.certificates", _SECRET, None, "Trusted certificates in PEM, as text."),
    _key(
        "ssl.truststore.location",
        _STR,
        None,
        "File with the trusted certificates; default: those that the system trusts.",
    ),
    _key("ssl.truststore.password", _SECRET, None, "Password of ssl.truststore.location; a file in PEM has none."),
    ConfigKey(
        "ssl.truststore.type",
        _STR,
        JKS,
        "Type of ssl.truststore.location; JKS takes PKCS12, too, and PKCS12 takes JKS.",
        update=_LISTENER,
        check=store_type_fault,
        allowed=", ".join(STORE_TYPES),
    ),
)
"""The keys of TLS that kafkalite acts on."""

TLS_CONFIGS: Final = ConfigDef(TLS_KEYS)

PASSWORD_KEYS: Final = (
    ConfigKey(
        "password.encoder.secret",
        _SECRET,
        None,
        "Secret that encrypts the passwords of stores which are set while brokers run; without it, none can be.",
    ),
    ConfigKey(
        "password.encoder.old.secret",
        _SECRET,
        None,
        "The former password.encoder.secret. At the start, passwords in ZooKeeper that it decrypts are encrypted by "
        "the new one.",
    ),
    ConfigKey(
        "password.encoder.cipher.algorithm",
        _STR,
        "AES/CBC/PKCS5Padding",
        "How new passwords are encrypted.",
        choices=("AES/CBC/PKCS5Padding",),
    ),
    ConfigKey(
        "password.encoder.iterations", _INT, 4096, "How often the secret is hashed for a new password.", minimum=1024
    ),
    ConfigKey(
        "password.encoder.key.length",
        _INT,
        128,
        "Bits of the key for new passwords.",
        check=lambda value: None if value in (128, 192, 256) else "128, 192 or 256",
        allowed="128, 192, 256",
    ),
    ConfigKey(
        "password.encoder.keyfactory.algorithm",
        _STR,
        None,
        "How a key is made of the secret for new passwords; default: PBKDF2WithHmacSHA512.",
        check=lambda value: None if value in (None, *_KEY_FACTORIES) else ", ".join(_KEY_FACTORIES),
        allowed=", ".join(_KEY_FACTORIES),
    ),
)
"""The keys by which passwords are kept in ZooKeeper."""
