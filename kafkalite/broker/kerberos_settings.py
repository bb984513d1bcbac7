"""What the configuration says of GSSAPI on one listener.

Answers to: ``org.apache.kafka.common.security.kerberos.KerberosLogin`` and the Kerberos part of
``org.apache.kafka.common.network.SaslChannelBuilder``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.common.errors import ConfigError
from kafkalite.security.gssapi_exchange import GSSAPI
from kafkalite.security.kerberos_names import KerberosName, KerberosShortNamer

KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_SERVICE: Final = "sasl.kerberos.service.name"
_RULES: Final = "sasl.kerberos.principal.to.local.rules"


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """``principal`` has its keys in the file ``keytab``; ``service`` is the first part of all brokers' principals."""

    keytab: str
    principal: str
    service: str
    rules: tuple[str, ...] = ("DEFAULT",)

    @classmethod
    def parse(cls, config: DynamicConfig, listener: str, options: Mapping[str, str]) -> KerberosSettings:
        """The settings of ``listener``, whose login module has ``options``. Raises :class:`ConfigError`."""
        jaas = config.listener_key(listener, "sasl.jaas.config", GSSAPI)
        keytab, principal = options.get("keyTab", ""), options.get("principal", "")
        if options.get("useKeyTab", "").lower() != "true" or not keytab or not principal:
            raise ConfigError(
                f"Configuration {jaas} lacks a keytab: allowed is {KERBEROS_MODULE} required useKeyTab=true "
                'storeKey=true keyTab="FILE" principal="SERVICE/HOST@REALM"; because a broker has no other keys'
            )
        try:
            has_host = bool(KerberosName.parse(principal).host)
        except ValueError:
            has_host = False
        if not has_host:
            raise ConfigError(
                f"Configuration {jaas} has the principal {principal}: allowed is SERVICE/HOST@REALM, because clients "
                "ask for a ticket of the service on the host of the broker"
            )
        service = str(config.listener_value(listener, _SERVICE, GSSAPI) or "")
        of_module = options.get("serviceName", "")
        if service and of_module and service != of_module:
            raise ConfigError(
                f"Invalid value {service} for configuration {_SERVICE}: allowed is {of_module}, the serviceName "
                f"in {jaas}"
            )
        if not service and not of_module:
            raise ConfigError(
                f"Missing configuration {_SERVICE}: allowed is the first part of the principals of all brokers, "
                "because brokers find one another by it"
            )
        rules = config.listener_value(listener, _RULES, GSSAPI)
        assert isinstance(rules, tuple)
        try:
            KerberosShortNamer(rules, "")
        except ValueError as error:
            raise ConfigError(f"Invalid value {','.join(rules)} for configuration {_RULES}: {error}") from None
        return cls(keytab.removeprefix("file://"), principal, service or of_module, rules)
