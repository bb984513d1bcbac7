"""Keys of SASL and of delegation tokens that kafkalite serves; ``unserved_security_keys.py`` refuses the others.

Answers to: ``org.apache.kafka.common.config.SaslConfigs`` and
``org.apache.kafka.common.config.internals.BrokerSecurityConfigs``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, Update

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
SIGNED_TOKENS: Final = (
    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's class that validates signed tokens, and its name before Kafka 3.4."""
UNSECURED_TOKENS: Final = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
"""Kafka's class that takes tokens without a signature."""

TOKEN_LOGINS: Final = (
    f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
    f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
)
"""Kafka's class that fetches tokens from a token endpoint, and its name before Kafka 3.4."""
UNSECURED_LOGIN: Final = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
"""Kafka's class that makes tokens without a signature."""


def _login(value: ConfigValue) -> str | None:
    if value in (None, "", *TOKEN_LOGINS, UNSECURED_LOGIN):
        return None
    return f"{TOKEN_LOGINS[0]} or {UNSECURED_LOGIN}, because kafkalite cannot load Java classes"


def _handler(value: ConfigValue) -> str | None:
    if value in (None, "", *SIGNED_TOKENS, UNSECURED_TOKENS):
        return None
    return f"{SIGNED_TOKENS[0]} or {UNSECURED_TOKENS}, because kafkalite cannot load Java classes"


SASL_CONFIGS: Final = ConfigDef(
    (
        ConfigKey(
            "sasl.enabled.mechanisms",
            ConfigType.LIST,
            ("GSSAPI",),
            "Mechanisms of the SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.",
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.jaas.config",
            ConfigType.PASSWORD,
            None,
            "Login module and options of one mechanism of one listener, "
            "as listener.name.NAME.MECHANISM.sasl.jaas.config; without that prefix it has no effect.",
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.mechanism.inter.broker.protocol",
            ConfigType.STRING,
            "GSSAPI",
            "Mechanism by which brokers log in to one another if their listener is one of SASL: one of "
            "sasl.enabled.mechanisms. The broker's own login is in its sasl.jaas.config.",
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "connections.max.reauth.ms",
            ConfigType.LONG,
            0,
            "Longest session of a client that authenticated by SASL: without another authentication its connection is "
            "closed; 0: no limit. Also listener.name.NAME.MECHANISM.connections.max.reauth.ms.",
        ),
        ConfigKey(
            "connection.failed.authentication.delay.ms",
            ConfigType.INT,
            100,
            "How long the answer to a failed authentication waits.",
            minimum=0,
        ),
        ConfigKey(
            "sasl.server.callback.handler.class",
            ConfigType.CLASS,
            None,
            "What validates tokens of OAUTHBEARER, as "
            "listener.name.NAME.oauthbearer.sasl.server.callback.handler.class.",
            check=_handler,
            allowed=", ".join((SIGNED_TOKENS[0], UNSECURED_TOKENS)),
        ),
        ConfigKey(
            "sasl.oauthbearer.jwks.endpoint.url",
            ConfigType.STRING,
            None,
            "Where the public keys are by which tokens of OAUTHBEARER are checked: https, http or file.",
        ),
        ConfigKey(
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            ConfigType.LONG,
            3600000,
            "How often these keys are fetched.",
            minimum=1,
        ),
        ConfigKey(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            ConfigType.LONG,
            100,
            "Pause after a failed fetch; it doubles with each further one.",
            minimum=1,
        ),
        ConfigKey(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            ConfigType.LONG,
            10000,
            "Longest pause after a failed fetch.",
            minimum=1,
        ),
        ConfigKey(
            "sasl.oauthbearer.expected.audience",
            ConfigType.LIST,
            None,
            "A token must be for one of these; unset: for any.",
        ),
        ConfigKey(
            "sasl.oauthbearer.expected.issuer",
            ConfigType.STRING,
            None,
            "A token must be of this issuer; unset: of any.",
        ),
        ConfigKey(
            "sasl.oauthbearer.sub.claim.name",
            ConfigType.STRING,
            "sub",
            "The claim of a token that names the user.",
        ),
        ConfigKey(
            "sasl.oauthbearer.clock.skew.seconds",
            ConfigType.INT,
            30,
            "How far the clocks of this broker and of the issuer may differ.",
            minimum=0,
        ),
        ConfigKey(
            "sasl.kerberos.service.name",
            ConfigType.STRING,
            None,
            "The first part of the Kerberos principals of all brokers, for GSSAPI.",
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.kerberos.principal.to.local.rules",
            ConfigType.LIST,
            ("DEFAULT",),
            "Rules that make the name of a user from a Kerberos principal: "
            "DEFAULT or RULE:[n:format](pattern)s/from/to/g/L; the first that gives a name counts.",
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.login.callback.handler.class",
            ConfigType.CLASS,
            None,
            "Where brokers have their tokens from if they log in to one another by OAUTHBEARER, as "
            "listener.name.NAME.oauthbearer.sasl.login.callback.handler.class.",
            check=_login,
            allowed=", ".join((TOKEN_LOGINS[0], UNSECURED_LOGIN)),
        ),
        ConfigKey(
            "sasl.oauthbearer.token.endpoint.url",
            ConfigType.STRING,
            None,
            "Token endpoint (https, http; client credentials grant), or file with a token, for the logins of brokers. "
            "clientId, clientSecret and scope are those of sasl.jaas.config.",
        ),
        ConfigKey(
            "sasl.login.connect.timeout.ms",
            ConfigType.INT,
            None,
            "How long a fetch of a token waits for the endpoint; the longer one of this and "
            "sasl.login.read.timeout.ms; unset: 10 s.",
        ),
        ConfigKey(
            "sasl.login.read.timeout.ms",
            ConfigType.INT,
            None,
            "See sasl.login.connect.timeout.ms.",
        ),
        ConfigKey(
            "sasl.login.retry.backoff.ms",
            ConfigType.LONG,
            100,
            "Pause after a failed fetch of the first token; it doubles with each further one.",
            minimum=1,
        ),
        ConfigKey(
            "sasl.login.retry.backoff.max.ms",
            ConfigType.LONG,
            10000,
            "How long the start of the broker tries to fetch its first token.",
            minimum=1,
        ),
        ConfigKey(
            "sasl.login.refresh.window.factor",
            ConfigType.DOUBLE,
            0.8,
            "After this part of its life a token is replaced.",
            minimum=0.5,
            maximum=1.0,
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.login.refresh.window.jitter",
            ConfigType.DOUBLE,
            0.05,
            "Random part of its life that is added to it.",
            minimum=0.0,
            maximum=0.25,
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.login.refresh.min.period.seconds",
            ConfigType.SHORT,
            60,
            "Least time until a token is replaced, unless it ends sooner.",
            minimum=0,
            maximum=900,
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "sasl.login.refresh.buffer.seconds",
            ConfigType.SHORT,
            300,
            "Least time before its end at which a token is replaced, unless its life is shorter.",
            minimum=0,
            maximum=3600,
            update=Update.PER_BROKER,
        ),
        ConfigKey(
            "delegation.token.secret.key",
            ConfigType.PASSWORD,
            None,
            "Secret from which delegation tokens are made, the same for all brokers; without it there are no tokens.",
        ),
        ConfigKey(
            "delegation.token.master.key",
            ConfigType.PASSWORD,
            None,
            "Older name of delegation.token.secret.key; read if that is not set.",
        ),
        ConfigKey(
            "delegation.token.max.lifetime.ms",
            ConfigType.LONG,
            604800000,
            "How long a delegation token can be renewed.",
            minimum=1,
        ),
        ConfigKey(
            "delegation.token.expiry.time.ms",
            ConfigType.LONG,
            86400000,
            "How long a delegation token lives if it is not renewed.",
            minimum=1,
        ),
        ConfigKey(
            "delegation.token.expiry.check.interval.ms",
            ConfigType.LONG,
            3600000,
            "How often the controller removes delegation tokens that have expired.",
            minimum=1,
        ),
        ConfigKey(
            "sasl.server.max.receive.size",
            ConfigType.INT,
            524288,
            "Greatest size in bytes of a request of a client that has not authenticated yet.",
        ),
    )
)
