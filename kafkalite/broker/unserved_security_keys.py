"""Keys of security and of quotas that Kafka 3.9 serves and kafkalite does not: which values of them stop the start.

Answers to: ``org.apache.kafka.common.config.{SslConfigs,SaslConfigs}``,
``org.apache.kafka.common.config.internals.BrokerSecurityConfigs`` and ``org.apache.kafka.server.config.QuotaConfigs``.
Pure.

A value that asks for security which kafkalite does not serve is refused, because a broker that ignored it would be open
although its configuration says that it is not. Kafka's default and an empty value ask for nothing. A key that only says
how a feature works (the type of a store, a pause between two attempts) is accepted, and the start warns that it has no
effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, Update

_BOOL, _STR, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_CLASS, _SECRET = ConfigType.CLASS, ConfigType.PASSWORD
_BROKER = Update.PER_BROKER

_DOC_OF_A_DETAIL: Final = (
    "Known to Kafka; without effect, because kafkalite does not serve the feature that it belongs to."
)

_ENGINE: Final = "TLS is OpenSSL's, which takes no Java classes: remove this setting"
_SASL: Final = "kafkalite cannot load login classes of Java: remove this setting"
_PRINCIPALS: Final = "kafkalite cannot load Java's principal builders: remove this setting"
_PROVIDERS: Final = "kafkalite cannot load Java's security providers: remove this setting"
_REVOCATION: Final = "kafkalite does not ask whether certificates of ZooKeeper were revoked: remove this setting"
_QUOTAS: Final = "kafkalite cannot load Java's quota callbacks: remove this setting"


def nothing_but(default: ConfigValue, reason: str, *harmless: ConfigValue) -> Callable[[ConfigValue], str | None]:
    """A :attr:`ConfigKey.check` that allows ``default``, ``harmless`` and empty values, and else names ``reason``."""

    def check(value: ConfigValue) -> str | None:
        if value in (default, None, "", (), *harmless):
            return None
        return f"{_shown(default)}, because {reason}"

    return check


def _shown(default: ConfigValue) -> str:
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, tuple):
        return ",".join(default) or "nothing"
    return "nothing" if default in (None, "") else str(default)


def _asks(
    name: str,
    kind: ConfigType,
    default: ConfigValue,
    reason: str,
    update: Update = Update.READ_ONLY,
    *,
    harmless: tuple[ConfigValue, ...] = (),
    choices: tuple[str, ...] = (),
) -> ConfigKey:
    """A key whose value, if it is another than ``default``, asks for security that kafkalite does not serve."""
    doc = f"Allowed is {_shown(default)}, because {reason}."
    check = nothing_but(default, reason, *harmless)
    allowed = ", ".join(_shown(value) for value in (default, *harmless))
    return ConfigKey(name, kind, default, doc, choices=choices, update=update, check=check, allowed=allowed)


def _detail(
    name: str, kind: ConfigType, default: ConfigValue, update: Update = Update.READ_ONLY, *, low: float | None = None
) -> ConfigKey:
    """A key that says how a feature works, and does not ask for it."""
    return ConfigKey(name, kind, default, _DOC_OF_A_DETAIL, minimum=low, update=update)


_TLS_KEYS: Final = (
    _asks("ssl.engine.factory.class", _CLASS, None, _ENGINE, _BROKER),
    _asks("ssl.provider", _STR, None, _ENGINE, _BROKER),
    _asks("ssl.trustmanager.algorithm", _STR, "PKIX", _ENGINE, _BROKER),
    _detail("ssl.keymanager.algorithm", _STR, "SunX509", _BROKER),
    _detail("ssl.secure.random.implementation", _STR, None, _BROKER),
)
_SASL_KEYS: Final = (
    _asks("sasl.client.callback.handler.class", _CLASS, None, _SASL),
    _asks("sasl.login.class", _CLASS, None, _SASL),
    _detail("sasl.kerberos.kinit.cmd", _STR, "/usr/bin/kinit", _BROKER),
    _detail("sasl.kerberos.min.time.before.relogin", _LONG, 60000, _BROKER),
    _detail("sasl.kerberos.ticket.renew.jitter", _DOUBLE, 0.05, _BROKER),
    _detail("sasl.kerberos.ticket.renew.window.factor", _DOUBLE, 0.8, _BROKER),
    _detail("sasl.mechanism.controller.protocol", _STR, "GSSAPI"),
    _detail("sasl.oauthbearer.scope.claim.name", _STR, "scope"),
)
_PRINCIPAL_KEYS: Final = (
    _asks(
        "principal.builder.class",
        _CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        _PRINCIPALS,
        _BROKER,
    ),
    _asks("security.providers", _STR, None, _PROVIDERS),
)
_QUOTA_KEYS: Final = (_asks("client.quota.callback.class", _CLASS, None, _QUOTAS),)
_ZOOKEEPER_KEYS: Final = (
    _asks("zookeeper.ssl.crl.enable", _BOOL, False, _REVOCATION),
    _asks("zookeeper.ssl.ocsp.enable", _BOOL, False, _REVOCATION),
)

UNSERVED_SECURITY_CONFIGS: Final = ConfigDef(
    (
        *_TLS_KEYS,
        *_SASL_KEYS,
        *_PRINCIPAL_KEYS,
        *_QUOTA_KEYS,
        *_ZOOKEEPER_KEYS,
    )
)
"""Kafka's own keys. A key with a ``check`` stops the start if its value asks for security; the others are details."""
