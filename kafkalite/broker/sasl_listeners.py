"""SASL of a broker's listeners, as ``sasl.*`` and ``listener.name.NAME.sasl.*`` say.

Answers to: ``org.apache.kafka.common.network.ChannelBuilders.serverChannelBuilder``. Deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.apis.api_versions import answer_before_authentication
from kafkalite.broker.kerberos_settings import KerberosSettings
from kafkalite.broker.sasl_settings import SaslSettings, is_sasl
from kafkalite.cluster.model import Endpoint
from kafkalite.network.endpoint_security import ListenerSecurity
from kafkalite.network.request import ConnectionInfo
from kafkalite.security.credential_cache import CredentialCache
from kafkalite.security.gssapi_exchange import GSSAPI
from kafkalite.security.oauth_bearer import (
    OAUTHBEARER,
    JwksSettings,
    OAuthBearerSaslServer,
    TokenValidator,
    UnsecuredTokens,
)
from kafkalite.security.plain import PLAIN, PlainSaslServer, PlainUsers
from kafkalite.security.sasl_mechanism import MechanismFactory
from kafkalite.security.sasl_server import SaslListener, SaslServerAuthenticator
from kafkalite.security.scram import ScramSaslServer, ScramUsers
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS
from kafkalite.security.token_manager import TokenManager


class SaslListeners:
    """The authenticators of all listeners that use SASL.

    ``credentials`` and ``tokens`` know the users of SCRAM, the configuration those of PLAIN; ``jwks`` makes what
    validates signed tokens, ``kerberos`` makes the server's side of GSSAPI. ``secrets`` must be unpredictable.
    """

    def __init__(
        self,
        config: DynamicConfig,
        credentials: CredentialCache,
        tokens: TokenManager,
        secrets: random.Random,
        jwks: Callable[[JwksSettings], TokenValidator],
        kerberos: Callable[[KerberosSettings], MechanismFactory],
    ) -> None:
        self._config = config
        self._credentials = credentials
        self._tokens = tokens
        self._secrets = secrets
        self._jwks = jwks
        self._kerberos = kerberos
        self._decoys = secrets.randbytes(32)

    def security(self, endpoint: Endpoint) -> ListenerSecurity:
        """The security of a listener, without its TLS.

        Raises :class:`kafkalite.common.errors.ConfigError` if the settings of the listener are wrong.
        """
        protocol = endpoint.security_protocol
        if not is_sasl(protocol):
            return ListenerSecurity(protocol)
        settings = SaslSettings.parse(self._config, endpoint.listener)
        listener = SaslListener(
            {name: self._mechanism(name, settings) for name in settings.mechanisms},
            settings.max_reauth_ms,
            blocking=frozenset((GSSAPI,)),
            # Clients of Kafka 0.9 begin with a token.
            bare=GSSAPI if GSSAPI in settings.mechanisms else "",
        )

        def authenticator(connection: ConnectionInfo) -> SaslServerAuthenticator:
            return SaslServerAuthenticator(listener, partial(answer_before_authentication, connection))

        return ListenerSecurity(protocol, authenticator, settings.max_receive_bytes)

    def _mechanism(self, name: str, settings: SaslSettings) -> MechanismFactory:
        if name == PLAIN:
            return partial(PlainSaslServer, PlainUsers(settings.jaas[PLAIN].options).check)
        if name == OAUTHBEARER:
            oauth = settings.oauth
            assert oauth is not None, "the settings name a validator"
            validate = oauth.validate if isinstance(oauth, UnsecuredTokens) else self._jwks(oauth)
            return partial(OAuthBearerSaslServer, validate)
        if name == GSSAPI:
            assert settings.kerberos is not None, "the settings name a keytab"
            return self._kerberos(settings.kerberos)
        users = ScramUsers(partial(self._credentials.find, name), partial(self._tokens.credential, name), self._decoys)
        return partial(ScramSaslServer, SCRAM_MECHANISMS[name], users, self._secrets)
