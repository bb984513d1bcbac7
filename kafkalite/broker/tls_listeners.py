"""TLS of a broker's listeners and of its own connections, as ``ssl.*`` and ``listener.name.NAME.ssl.*`` say.

Answers to: ``org.apache.kafka.common.network.SslChannelBuilder`` and
``org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder`` for certificates. Deterministic.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.listeners import Listening
from kafkalite.broker.tls_keys import TLS_CONFIGS
from kafkalite.cluster.model import Endpoint
from kafkalite.common.config import ConfigValue, Update
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal
from kafkalite.log.file_system import FileSystem
from kafkalite.network.endpoint_security import PLAINTEXT_CLIENT, ClientSecurity
from kafkalite.security.distinguished_names import rfc2253_name, subject_of
from kafkalite.security.principal_mapping import SslPrincipalMapper

if TYPE_CHECKING:
    from kafkalite.security.tls import ListenerTls

log = logging.getLogger(__name__)

TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")
METRICS: Final = "METRICS"
"""``metrics.listener`` as a listener: its settings may stand under ``listener.name.metrics.``."""
_RECONFIGURABLE: Final = frozenset(key.name for key in TLS_CONFIGS.keys.values() if key.update is Update.PER_LISTENER)
"""The keys of a listener that may change while it is open: those of its stores."""


@dataclass(frozen=True, slots=True)
class _Made:
    """TLS of one listener, and what it was made of."""

    tls: ListenerTls
    protocol: str
    settings: Mapping[str, ConfigValue]
    times: Mapping[str, int]


class TlsListeners:
    """The contexts of all listeners that use TLS. Brokers connect to each other on those of ``between_brokers``.

    A change of the stores of a listener, by their keys or by a client that sets the name of a newer file again, makes a
    new context for the next connections.
    """

    def __init__(self, dynamic: DynamicConfig, fs: FileSystem, between_brokers: Collection[str]) -> None:
        self._dynamic = dynamic
        self._fs = fs
        self._between_brokers = between_brokers
        self._listeners: dict[str, _Made] = {}
        dynamic.on_update(self._check, self._refresh)

    def load(self, endpoints: Iterable[Endpoint]) -> None:
        """Read the stores of all listeners. Raises :class:`ConfigError` and :class:`StartupError`."""
        for endpoint in endpoints:
            self.context(endpoint)

    def context(self, endpoint: Endpoint) -> Callable[[], ssl.SSLContext] | None:
        """Gives the present context of a listener; ``None`` if its connections are not encrypted.

        Raises :class:`ConfigError` and :class:`StartupError`.
        """
        if endpoint.security_protocol not in TLS_PROTOCOLS:
            return None
        name = endpoint.listener
        if name not in self._listeners:
            values = self._dynamic.of_listener(name)
            self._listeners[name] = self._make(name, endpoint.security_protocol, values)
        return lambda: self._listeners[name].tls.server

    def principals(self, endpoint: Endpoint) -> Callable[[bytes | None], KafkaPrincipal] | None:
        """Makes principals of certificates; ``None`` if the listener's protocol has clients authenticate otherwise."""
        if endpoint.security_protocol != "SSL":
            return None
        mapper = SslPrincipalMapper(str(self._dynamic.of_listener(endpoint.listener)["ssl.principal.mapping.rules"]))

        def principal(certificate: bytes | None) -> KafkaPrincipal:
            if certificate is None:
                return ANONYMOUS
            return KafkaPrincipal.user(mapper.name(rfc2253_name(subject_of(certificate))))

        return principal

    def client(self, listener: str) -> ClientSecurity:
        """The security of this broker's connections to ``listener`` of other brokers, now: that of its own."""
        made = self._listeners.get(listener)
        return PLAINTEXT_CLIENT if made is None else ClientSecurity(made.tls.client)

    def _check(self, proposed: Callable[[str], Mapping[str, ConfigValue]]) -> None:
        """Check a change that a client asks for. Answers to: ``DynamicListenerConfig.validateReconfiguration``."""
        for name in self._listeners:
            self._successor(name, proposed(name))
        try:
            bound = Listening.parse(proposed("")).bound
        except ConfigError:
            return  # What is wrong with the listeners themselves is said by another check.
        for endpoint in bound:
            name, protocol = endpoint.listener, endpoint.security_protocol
            if protocol in TLS_PROTOCOLS and name not in self._listeners:
                try:
                    self._make(name, protocol, proposed(name))
                except StartupError as error:
                    raise ConfigError(str(error)) from None

    def _refresh(self) -> None:
        """Replace what has changed; what cannot be used is logged, and the old context stays."""
        self._forget_closed()
        for name in self._listeners:
            try:
                made = self._successor(name, self._dynamic.of_listener(name))
            except (ConfigError, StartupError) as error:
                log.error("TLS of listener %s stays as it was: %s", name, error)
                continue
            if made is not None:
                self._listeners[name] = made
                log.info("TLS of listener %s: new connections use the present stores", name)

    def _forget_closed(self) -> None:
        """Forget the listeners that are closed now, because one of the same name may have other settings later."""
        try:
            present = {each.listener for each in Listening.parse(self._dynamic.values).bound}
        except ConfigError:
            return  # They stay as they are.
        for name in self._listeners.keys() - present - {METRICS}:
            del self._listeners[name]

    def _successor(self, name: str, values: Mapping[str, ConfigValue]) -> _Made | None:
        """What is to replace a listener's TLS; ``None`` if nothing has changed. Raises :class:`ConfigError`."""
        old = self._listeners[name]
        settings, times = _settings(values), self._times(values)
        if settings == old.settings and times == old.times:
            return None
        fixed = sorted(
            key for key, value in settings.items() if old.settings[key] != value and key not in _RECONFIGURABLE
        )
        if fixed:
            raise ConfigError(
                f"Configs cannot be updated dynamically for existing listener {name}, restart broker or create a new "
                f"listener for update: {', '.join(fixed)}"
            )
        made = self._make(name, old.protocol, values)
        old.tls.check_successor(made.tls, values)
        return made

    def _make(self, name: str, protocol: str, values: Mapping[str, ConfigValue]) -> _Made:
        try:
            # Here, because cryptography is an extra, and its import takes a while.
            from kafkalite.security.tls import ListenerTls
        except ImportError:
            raise StartupError(
                f"listener {name} has the protocol {protocol}, which needs the package cryptography: "
                "pip install 'kafkalite[security]'"
            ) from None
        prefixed = f"listener.name.{name.lower()}.ssl.client.auth"
        # Clients of a SASL_SSL listener authenticate by SASL: the general key is not for them (KIP-684).
        asks = protocol == "SSL" or self._dynamic.text(prefixed) is not None
        client_auth = str(values["ssl.client.auth"]) if asks else "none"
        # The times first: a file that is written meanwhile is read again at the next occasion.
        times = self._times(values)
        tls = ListenerTls(
            values, self._fs.read_file, f"listener {name}", client_auth, between_brokers=name in self._between_brokers
        )
        return _Made(tls, protocol, _settings(values), times)

    def _times(self, values: Mapping[str, ConfigValue]) -> dict[str, int]:
        """When the files of the stores were written; 0: there is none."""
        found = {}
        for key in ("ssl.keystore.location", "ssl.truststore.location"):
            path = values[key]
            if path:
                try:
                    found[str(path)] = self._fs.modified_ms(str(path))
                except OSError:
                    found[str(path)] = 0
        return found


def _settings(values: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    return {key: values[key] for key in TLS_CONFIGS.keys}
