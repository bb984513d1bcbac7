"""The exchanges by which this broker logs in to others, on each of its SASL listeners.

Answers to: ``org.apache.kafka.common.security.authenticator.LoginManager``. Deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.broker_login_settings import MECHANISM, BrokerLogin, BrokerLoginSettings, SignedTokenLogin
from kafkalite.broker.kerberos_logins import KerberosLogin
from kafkalite.broker.kerberos_settings import KerberosSettings
from kafkalite.broker.sasl_settings import SaslSettings, is_sasl
from kafkalite.broker.token_login import TokenLogin
from kafkalite.cluster.model import Endpoint
from kafkalite.common.authentication import SaslClient
from kafkalite.common.clock import Clock
from kafkalite.common.one_at_a_time import OneAtATime
from kafkalite.common.tasks import Executor, spawn
from kafkalite.security.gssapi_exchange import GSSAPI
from kafkalite.security.oauth_login import OAuthBearerSaslClient, UnsecuredLogin
from kafkalite.security.plain import PLAIN
from kafkalite.security.sasl_client import PlainSaslClient, ScramSaslClient
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS


class BrokerLogins:
    """Knows one login for each listener. ``secrets`` must be unpredictable."""

    def __init__(self, config: DynamicConfig, executor: Executor, clock: Clock, secrets: random.Random) -> None:
        self._config = config
        self._executor = executor
        # A login may wait for a KDC that does not answer.
        self._kerberos = OneAtATime(executor)
        self._clock = clock
        self._secrets = secrets
        self._tokens: dict[str, tuple[SignedTokenLogin, TokenLogin]] = {}

    async def start(self, endpoints: Iterable[Endpoint]) -> None:
        """Fetch the first tokens and tickets for the listeners of ``endpoints``, to which other brokers connect.

        Raises :class:`kafkalite.common.errors.ConfigError` and :class:`kafkalite.common.errors.StartupError`.
        """
        for endpoint in endpoints:
            if is_sasl(endpoint.security_protocol):
                _, login = self._settings(endpoint)
                if isinstance(login, SignedTokenLogin):
                    await self._token_login(endpoint.listener, login).start()
                elif isinstance(login, KerberosSettings):
                    await self._kerberos.run(KerberosLogin(login).start)

    def close(self) -> None:
        """Fetch no more tokens."""
        for _, kept in self._tokens.values():
            kept.close()

    def of(self, endpoint: Endpoint) -> Callable[[], SaslClient] | None:
        """Makes this broker's logins at another one at ``endpoint``; ``None`` if the listener there asks for none.

        Raises :class:`kafkalite.common.errors.ConfigError` if the settings of the listener are wrong.
        """
        if not is_sasl(endpoint.security_protocol):
            return None
        name, login = self._settings(endpoint)
        if isinstance(login, SignedTokenLogin):
            return self._kept(endpoint.listener, login).client
        if isinstance(login, UnsecuredLogin):
            return partial(self._unsecured, login)
        if isinstance(login, KerberosSettings):
            return partial(KerberosLogin(login).client, endpoint.host)
        if name == PLAIN:
            return partial(PlainSaslClient, login.user, login.password)
        return partial(ScramSaslClient, SCRAM_MECHANISMS[name], login.user, login.password, self._secrets)

    def executor(self, endpoint: Endpoint) -> Executor | None:
        """What makes the steps of exchanges at ``endpoint``; ``None`` if they do not block."""
        is_kerberos = is_sasl(endpoint.security_protocol) and self._config.values[MECHANISM] == GSSAPI
        return self._kerberos if is_kerberos else None

    def _settings(self, endpoint: Endpoint) -> tuple[str, BrokerLogin]:
        settings = BrokerLoginSettings(
            self._config, endpoint.listener, SaslSettings.parse(self._config, endpoint.listener)
        )
        return settings.mechanism, settings.parse()

    def _unsecured(self, login: UnsecuredLogin) -> OAuthBearerSaslClient:
        return OAuthBearerSaslClient(lambda: login.token(self._clock.time_ms()), login.extensions)

    def _kept(self, listener: str, login: SignedTokenLogin) -> TokenLogin:
        """The tokens for ``login``; fetched from now on if the configuration has changed since the start."""
        found = self._tokens.get(listener)
        if found is not None and found[0] == login:
            return found[1]
        made = self._token_login(listener, login)
        spawn(made.start(), "the first token after a change of the login")
        return made

    def _token_login(self, listener: str, login: SignedTokenLogin) -> TokenLogin:
        if listener in self._tokens:
            self._tokens[listener][1].close()
        made = TokenLogin(login.credentials, login.refresh, self._executor, self._clock, self._secrets)
        self._tokens[listener] = login, made
        return made
