"""How a ZooKeeper consumer reaches brokers and ZooKeeper, from its properties and the files that they name.

Answers to: ``org.apache.kafka.common.network.ChannelBuilders`` for clients. Deterministic: files are read through a
function that is handed in.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkalite.common.config import ConfigValues
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.consumer.security_keys import SECURITY_CONFIGS
from kafkalite.security.jaas import JaasConfig
from kafkalite.security.zookeeper_security import FileReader, zookeeper_security
from kafkalite.zk.session_security import OPEN, ZkSecurity

_WHERE: Final = "the ZooKeeper consumer"


@dataclass(frozen=True, slots=True)
class ConsumerSecurity:
    """``protocol``: that of the listeners of brokers which the consumer uses. ``login``: mechanism, user, password."""

    zookeeper: ZkSecurity = OPEN
    protocol: str = "PLAINTEXT"
    tls: ssl.SSLContext | None = None
    login: tuple[str, str, str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str], read: FileReader) -> ConsumerSecurity:
        """The security that ``properties``, names with dots, ask for.

        Raises :class:`ConfigError`, which names the key, and the file if any; :class:`StartupError` where the package
        for key stores is missing.
        """
        values = SECURITY_CONFIGS.defaults() | SECURITY_CONFIGS.parse(properties)
        protocol = str(values["security.protocol"])
        return cls(
            zookeeper_security(values, read),
            protocol,
            _tls(values, read) if protocol.endswith("SSL") else None,
            _login(values) if protocol.startswith("SASL") else None,
        )

    def library_settings(self) -> dict[str, Any]:
        """The settings of kafka-python's clients."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls is not None:
            settings["ssl_context"] = self.tls
        if self.login is not None:
            names = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
            settings |= dict(zip(names, self.login, strict=True))
        return settings


def _tls(values: ConfigValues, read: FileReader) -> ssl.SSLContext:
    try:
        # Here, because cryptography is an extra, and its import takes a while.
        from kafkalite.security.tls import TlsStores, client_context
    except ImportError:
        raise StartupError(
            f"security.protocol={values['security.protocol']} needs the package cryptography: "
            "pip install 'kafkalite[security]'"
        ) from None
    return client_context(values, TlsStores.load(values, read, _WHERE), _WHERE)


def _login(values: ConfigValues) -> tuple[str, str, str]:
    mechanism, text = values["sasl.mechanism"], values["sasl.jaas.config"]
    if mechanism is None or text is None:
        missing = "sasl.mechanism" if mechanism is None else "sasl.jaas.config"
        raise ConfigError(f"{missing}: missing beside security.protocol={values['security.protocol']}")
    try:
        options = JaasConfig.parse(text).options
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from None
    if not {"username", "password"} <= options.keys() or options.get("tokenauth", "").lower() == "true":
        raise ConfigError(
            "sasl.jaas.config: expected the login module of PLAIN or SCRAM with username and password; the consumer "
            "cannot log in by a delegation token"
        )
    return mechanism, options["username"], options["password"]
