"""What secures one broker: TLS and SASL of its listeners and own connections, delegation tokens, the authorizer.

Answers to: the parts of ``kafka.server.KafkaServer.startup`` that make ``CredentialProvider``, ``Authorizer`` and
``DelegationTokenManager``. Deterministic.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import replace

from kafkalite.broker.authorizers import make_authorizer
from kafkalite.broker.broker_logins import BrokerLogins
from kafkalite.broker.client_entities import ClientEntities
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.edges import Edges
from kafkalite.broker.jwks import jwks_validator
from kafkalite.broker.kerberos_logins import kerberos_mechanism
from kafkalite.broker.sasl_listeners import SaslListeners
from kafkalite.broker.sasl_settings import SaslSettings
from kafkalite.broker.settings import token_settings
from kafkalite.broker.startup import StartSteps
from kafkalite.broker.tls_listeners import METRICS, TlsListeners
from kafkalite.broker.token_keeper import TokenKeeper
from kafkalite.cluster.model import Endpoint
from kafkalite.common.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kafkalite.common.errors import ConfigError
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.metrics.page_security import PageSecurity
from kafkalite.network.endpoint_security import ClientSecurity, ListenerSecurity
from kafkalite.security.credential_cache import CredentialCache
from kafkalite.security.password_logins import ScramPasswords, any_of
from kafkalite.security.plain import PLAIN, PasswordCheck, PlainUsers
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS
from kafkalite.security.token_manager import TokenManager
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.znodes.config import USERS


class BrokerSecurity:
    """Makes the security of listeners and connections, and knows whom they admit.

    ``is_controller`` says whether this broker is the controller, which removes tokens that have ended. The SCRAM
    credentials are those of the users in ``entities``.

    Raises :class:`kafkalite.common.errors.StartupError` if ``authorizer.class.name`` cannot be made.
    """

    def __init__(
        self,
        config: BrokerConfig,
        edges: Edges,
        stores: Stores,
        entities: ClientEntities,
        is_controller: Callable[[], bool],
    ) -> None:
        self.authorizer = make_authorizer(config, stores.client, edges.clock, edges.rng)
        """What decides on requests; ``None``: every client may do everything."""
        self.tokens = TokenManager(token_settings(config.values), stores.tokens, edges.clock.time_ms, edges.secrets)
        """Makes and changes delegation tokens for clients."""
        self._token_keeper = TokenKeeper(
            self.tokens,
            stores.tokens,
            edges.clock,
            config.values["delegation.token.expiry.check.interval.ms"],
            is_controller,
        )
        self._tls = TlsListeners(config.dynamic, edges.fs, config.listening.between_brokers)
        self._config = config
        self._credentials = credentials = CredentialCache()
        entities.follow(USERS, credentials.user_changed)
        self._sasl = SaslListeners(
            config.dynamic,
            credentials,
            self.tokens,
            edges.secrets,
            lambda settings: jwks_validator(settings, edges.executor, edges.clock),
            kerberos_mechanism,
        )
        self._logins = BrokerLogins(config.dynamic, edges.executor, edges.clock, edges.secrets)
        self._listening = config.listening

    async def start(self, steps: StartSteps, endpoints: Iterable[Endpoint]) -> None:
        """Read tokens and ACLs from ZooKeeper, and the stores of the listeners of ``endpoints``.

        Raises :class:`kafkalite.common.errors.StartupError` and :class:`kafkalite.common.errors.ConfigError`.
        """
        await steps.run("reading the delegation tokens", self._token_keeper.start)
        if self.authorizer is not None:
            await steps.run("reading the ACLs", self.authorizer.start)
        self._tls.load(endpoints)
        brokers = (self._listening.inter_broker, self._listening.control_plane)
        await self._logins.start(each for each in self._listening.bound if each.listener in brokers)

    def close(self) -> None:
        """Follow no more changes in ZooKeeper, and fetch no more tokens."""
        self._logins.close()
        self._token_keeper.close()
        if self.authorizer is not None:
            self.authorizer.close()

    def of_listener(self, endpoint: Endpoint) -> ListenerSecurity:
        """What the listener of ``endpoint`` asks of its clients. Raises ``ConfigError`` and ``StartupError``."""
        return replace(
            self._sasl.security(endpoint), tls=self._tls.context(endpoint), principal=self._tls.principals(endpoint)
        )

    def of_metrics(self, host: str, port: int, on_reactor: Callable[[Callable[[], bool]], bool]) -> PageSecurity:
        """What ``metrics.listener=https://host:port`` asks of its readers.

        ``on_reactor`` calls on the reactor from another thread. Raises ``ConfigError`` and ``StartupError``.
        """
        endpoint = Endpoint(METRICS, "SASL_SSL", host, port)
        tls = self._tls.context(endpoint)
        principals = self._tls.principals(replace(endpoint, security_protocol="SSL"))
        assert tls is not None
        assert principals is not None
        checks = self._password_checks()
        if not checks and tls().verify_mode != ssl.CERT_REQUIRED:
            raise ConfigError(
                "metrics.listener: no client could log in: set listener.name.metrics.sasl.enabled.mechanisms to "
                f"{', '.join((PLAIN, *SCRAM_MECHANISMS))}, or listener.name.metrics.ssl.client.auth=required"
            )

        def is_allowed(principal: KafkaPrincipal, host: str) -> bool:
            authorizer = self.authorizer
            return authorizer is None or on_reactor(
                lambda: authorizer.authorize(
                    principal, host, AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME
                )
            )

        delay_ms = self._config.values["connection.failed.authentication.delay.ms"]
        return PageSecurity(tls, principals, any_of(checks), is_allowed, delay_ms / 1000)

    def _password_checks(self) -> list[PasswordCheck]:
        config = self._config.dynamic
        mechanisms = config.listener_value(METRICS, "sasl.enabled.mechanisms")
        assert isinstance(mechanisms, tuple)
        checks: list[PasswordCheck] = []
        if PLAIN in mechanisms:
            jaas = SaslSettings.jaas_of(config, METRICS, PLAIN)
            assert jaas is not None, "PLAIN has a login module"
            checks.append(PlainUsers(jaas.options).check)
        scram = [each for each in mechanisms if each in SCRAM_MECHANISMS]
        if scram:
            checks.append(ScramPasswords(scram, self._credentials.find).check)
        return checks

    def of_connections(self, endpoint: Endpoint) -> Callable[[], ClientSecurity]:
        """How each connection of this broker to another one at ``endpoint`` is secured. Raises ``ConfigError``."""
        login = self._logins.of(endpoint)
        executor = self._logins.executor(endpoint)
        return lambda: replace(self._tls.client(endpoint.listener), sasl=login, executor=executor)
