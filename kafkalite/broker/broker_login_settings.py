"""What the configuration says of how this broker logs in to others by SASL.

Answers to: ``org.apache.kafka.common.security.authenticator.LoginManager``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.kerberos_settings import KerberosSettings
from kafkalite.broker.sasl_keys import TOKEN_LOGINS, UNSECURED_LOGIN
from kafkalite.broker.sasl_settings import LOGIN_MODULES, SaslSettings
from kafkalite.common.config import ConfigValue
from kafkalite.common.errors import ConfigError
from kafkalite.common.token_endpoint import ClientCredentials
from kafkalite.security.gssapi_exchange import GSSAPI
from kafkalite.security.oauth_bearer import OAUTHBEARER
from kafkalite.security.oauth_login import RefreshSettings, UnsecuredLogin, parse_extensions

MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_HANDLER: Final = "sasl.login.callback.handler.class"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user and a password, for PLAIN and SCRAM."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignedTokenLogin:
    """Tokens of a token endpoint, for OAUTHBEARER."""

    credentials: ClientCredentials
    refresh: RefreshSettings


BrokerLogin = PasswordLogin | UnsecuredLogin | SignedTokenLogin | KerberosSettings


class BrokerLoginSettings:
    """How this broker logs in to others on one ``listener``, whose ``settings`` the other brokers have, too."""

    def __init__(self, config: DynamicConfig, listener: str, settings: SaslSettings) -> None:
        self._config = config
        self._listener = listener
        self._settings = settings
        self.mechanism = str(config.values[MECHANISM])
        """The name of the mechanism."""

    def parse(self) -> BrokerLogin:
        """Raises :class:`ConfigError`, whose text has no secret."""
        mechanism, settings = self.mechanism, self._settings
        if mechanism not in settings.mechanisms:
            raise ConfigError(
                f"Invalid value {mechanism} for configuration {MECHANISM}: allowed are the mechanisms of listener "
                f"{self._listener}, because brokers connect to it ({', '.join(settings.mechanisms)})"
            )
        if mechanism == GSSAPI:
            assert settings.kerberos is not None, "the settings name a keytab"
            return settings.kerberos
        return self._token() if mechanism == OAUTHBEARER else self._password()

    def _password(self) -> PasswordLogin:
        options = self._options()
        if not {"username", "password"} <= options.keys():
            raise ConfigError(
                f"Configuration {self._key('sasl.jaas.config')} lacks username and password: allowed is "
                f'{LOGIN_MODULES[self.mechanism]} required username="NAME" password="PASSWORD"; because brokers log in '
                "to one another by it"
            )
        return PasswordLogin(options["username"], options["password"])

    def _token(self) -> UnsecuredLogin | SignedTokenLogin:
        options = self._options()
        handler, url = self._value(_HANDLER), str(self._value(_URL) or "")
        jaas = self._key("sasl.jaas.config")
        if handler in TOKEN_LOGINS:
            if not url:
                raise ConfigError(f"Missing configuration {self._key(_URL)}: allowed is an https, http or file URL")
            return SignedTokenLogin(self._credentials(url, options), self._refresh())
        try:
            if handler == UNSECURED_LOGIN or any(name.startswith("unsecuredLogin") for name in options):
                return UnsecuredLogin.parse(options)
        except ValueError as error:
            raise ConfigError(f"Invalid value [hidden] for configuration {jaas}: {error}") from None
        raise ConfigError(
            f"Missing configuration {self._key(_HANDLER)}: allowed is {TOKEN_LOGINS[0]} beside {_URL}, or, for "
            f'development only, the option unsecuredLoginStringClaim_sub="NAME" in {jaas}; because brokers log in to '
            "one another by OAUTHBEARER"
        )

    def _credentials(self, url: str, options: dict[str, str]) -> ClientCredentials:
        jaas = self._key("sasl.jaas.config")
        if any(name.startswith("ssl.") for name in options):
            raise ConfigError(
                f"Invalid value [hidden] for configuration {jaas}: allowed are no options ssl.…, because the token "
                "endpoint is trusted by the authorities of the system (environment variable SSL_CERT_FILE)"
            )
        missing = [name for name in ("clientId", "clientSecret") if not options.get(name, "").strip()]
        if missing and not url.startswith("file:"):
            raise ConfigError(
                f"Configuration {jaas} lacks {' and '.join(missing)}: allowed is {LOGIN_MODULES[OAUTHBEARER]} required "
                'clientId="NAME" clientSecret="SECRET" scope="SCOPE"; because brokers log in to one another by it'
            )
        try:
            extensions = parse_extensions(options, "extension_")
        except ValueError as error:
            raise ConfigError(f"Invalid value [hidden] for configuration {jaas}: {error}") from None
        # Kafka has a time for the connection and one for the answer; urllib has one for each wait.
        times = [self._integer(f"sasl.login.{each}.timeout.ms") for each in ("connect", "read")]
        return ClientCredentials(
            url,
            options.get("clientId", "").strip(),
            options.get("clientSecret", "").strip(),
            options.get("scope", "").strip(),
            extensions,
            str(self._value("sasl.oauthbearer.sub.claim.name")),
            max(times) or 10_000,
            self._integer("sasl.login.retry.backoff.ms"),
            self._integer("sasl.login.retry.backoff.max.ms"),
        )

    def _refresh(self) -> RefreshSettings:
        factor, jitter = (
            self._value("sasl.login.refresh.window.factor"),
            self._value("sasl.login.refresh.window.jitter"),
        )
        assert isinstance(factor, float)
        assert isinstance(jitter, float)
        return RefreshSettings(
            factor,
            jitter,
            self._integer("sasl.login.refresh.min.period.seconds"),
            self._integer("sasl.login.refresh.buffer.seconds"),
        )

    def _options(self) -> dict[str, str]:
        jaas = self._settings.jaas.get(self.mechanism)
        return {} if jaas is None else jaas.options

    def _key(self, name: str) -> str:
        return self._config.listener_key(self._listener, name, self.mechanism)

    def _value(self, name: str) -> ConfigValue:
        return self._config.listener_value(self._listener, name, self.mechanism)

    def _integer(self, name: str) -> int:
        value = self._value(name)
        return value if isinstance(value, int) else 0
