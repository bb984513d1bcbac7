"""What the configuration says of SASL on one listener.

Answers to: ``org.apache.kafka.common.network.{ChannelBuilders,SaslChannelBuilder}`` and
``org.apache.kafka.common.security.JaasContext``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.kerberos_settings import KERBEROS_MODULE, KerberosSettings
from kafkalite.broker.sasl_keys import SIGNED_TOKENS, UNSECURED_TOKENS
from kafkalite.common.config import ConfigValue
from kafkalite.common.errors import ConfigError
from kafkalite.security.gssapi_exchange import GSSAPI
from kafkalite.security.jaas import JaasConfig
from kafkalite.security.oauth_bearer import OAUTHBEARER, JwksSettings, UnsecuredTokens
from kafkalite.security.plain import PLAIN
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS

LOGIN_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: KERBEROS_MODULE,
}
"""The mechanisms that are served, each with its login module."""
_HANDLER: Final = "sasl.server.callback.handler.class"
_JAAS: Final = "sasl.jaas.config"


def is_sasl(protocol: str) -> bool:
    """Whether clients authenticate by SASL under this security protocol."""
    return protocol.startswith("SASL_")


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The settings of one listener. ``jaas`` has no entry for a mechanism without ``sasl.jaas.config``."""

    mechanisms: tuple[str, ...]
    jaas: Mapping[str, JaasConfig] = field(repr=False)
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int
    oauth: UnsecuredTokens | JwksSettings | None = None
    """How tokens of OAUTHBEARER are validated; ``None`` if it is not among the mechanisms."""
    kerberos: KerberosSettings | None = None
    """The keys of this broker; ``None`` if GSSAPI is not among the mechanisms."""

    @classmethod
    def parse(cls, config: DynamicConfig, listener: str) -> SaslSettings:
        """The settings of ``listener``. Raises :class:`ConfigError`, whose text has no secret."""
        mechanisms = config.listener_value(listener, "sasl.enabled.mechanisms")
        assert isinstance(mechanisms, tuple)
        strange = [each for each in mechanisms if each not in LOGIN_MODULES]
        if strange or not mechanisms:
            raise ConfigError(
                f"Invalid value {','.join(mechanisms)} for configuration sasl.enabled.mechanisms of listener "
                f"{listener}: allowed are {', '.join(LOGIN_MODULES)}"
            )
        jaas = {}
        for mechanism in mechanisms:
            found = cls.jaas_of(config, listener, mechanism)
            if found is not None:
                jaas[mechanism] = found
        return cls(
            mechanisms,
            jaas,
            {each: _integer(config.listener_value(listener, "connections.max.reauth.ms", each)) for each in mechanisms},
            _integer(config.listener_value(listener, "sasl.server.max.receive.size")),
            cls._oauth(config, listener, jaas) if OAUTHBEARER in mechanisms else None,
            KerberosSettings.parse(config, listener, jaas[GSSAPI].options if GSSAPI in jaas else {})
            if GSSAPI in mechanisms
            else None,
        )

    @staticmethod
    def _oauth(config: DynamicConfig, listener: str, jaas: Mapping[str, JaasConfig]) -> UnsecuredTokens | JwksSettings:
        def value(name: str) -> ConfigValue:
            return config.listener_value(listener, name, OAUTHBEARER)

        handler = value(_HANDLER)
        if handler == UNSECURED_TOKENS:
            try:
                return UnsecuredTokens.parse(jaas[OAUTHBEARER].options if OAUTHBEARER in jaas else {})
            except ValueError:
                name = config.listener_key(listener, _JAAS, OAUTHBEARER)
                raise ConfigError(
                    f"Invalid value [hidden] for configuration {name}: an option unsecuredValidator… is no number"
                ) from None
        url = value("sasl.oauthbearer.jwks.endpoint.url")
        if handler not in SIGNED_TOKENS or not url:
            raise ConfigError(
                f"Missing configuration {config.listener_key(listener, _HANDLER, OAUTHBEARER)}: allowed is "
                f"{SIGNED_TOKENS[0]} beside sasl.oauthbearer.jwks.endpoint.url, or, for development only, "
                f"{UNSECURED_TOKENS}, by which any client can make any token"
            )
        audiences = value("sasl.oauthbearer.expected.audience")
        return JwksSettings(
            str(url),
            audiences if isinstance(audiences, tuple) else (),
            str(value("sasl.oauthbearer.expected.issuer") or ""),
            str(value("sasl.oauthbearer.sub.claim.name")),
            _integer(value("sasl.oauthbearer.clock.skew.seconds")),
            _integer(value("sasl.oauthbearer.jwks.endpoint.refresh.ms")),
            _integer(value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")),
            _integer(value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")),
        )

    @staticmethod
    def jaas_of(config: DynamicConfig, listener: str, mechanism: str) -> JaasConfig | None:
        """The login module of a mechanism at ``listener``, which PLAIN must have. Raises :class:`ConfigError`."""
        name = config.listener_key(listener, _JAAS, mechanism)
        text = (config.text(name) or "").strip()
        if not text:
            if mechanism == PLAIN:
                raise ConfigError(
                    f"Missing configuration {name}: allowed is {LOGIN_MODULES[PLAIN]} required "
                    'user_NAME="PASSWORD" …; because PLAIN takes its users from there'
                )
            return None
        try:
            jaas = JaasConfig.parse(text)
        except ValueError as error:
            raise ConfigError(f"Invalid value [hidden] for configuration {name}: {error}") from None
        if jaas.module != LOGIN_MODULES[mechanism]:
            raise ConfigError(
                f"Invalid login module {jaas.module} in configuration {name}: allowed is {LOGIN_MODULES[mechanism]}"
            )
        return jaas


def _integer(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value
