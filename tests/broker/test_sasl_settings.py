"""What the configuration says of SASL on a listener, and the authenticators that come of it."""

from __future__ import annotations

import logging
import random
import sys
from typing import Any, cast

import pytest

from kafkalite.broker.broker_login_settings import BrokerLogin, BrokerLoginSettings, SignedTokenLogin
from kafkalite.broker.broker_logins import BrokerLogins
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.kerberos_logins import KerberosLogin, kerberos_mechanism
from kafkalite.broker.kerberos_settings import KERBEROS_MODULE, KerberosSettings
from kafkalite.broker.sasl_keys import SIGNED_TOKENS, TOKEN_LOGINS, UNSECURED_LOGIN, UNSECURED_TOKENS
from kafkalite.broker.sasl_listeners import SaslListeners
from kafkalite.broker.sasl_settings import SaslSettings
from kafkalite.cluster.model import Endpoint
from kafkalite.common.authentication import Verdict
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.token_endpoint import ClientCredentials
from kafkalite.network.request import ConnectionInfo
from kafkalite.security.credential_cache import CredentialCache
from kafkalite.security.oauth_bearer import JwksSettings, OAuthBearerSaslServer, UnsecuredTokens
from kafkalite.security.oauth_login import RefreshSettings, UnsecuredLogin
from kafkalite.security.token_manager import TokenManager, TokenSettings
from kafkalite.testing.clock import ManualClock
from tests.network.fakes import ManualExecutor
from tests.security.test_sasl_server import ask_versions, authenticate, handshake

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonder";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
JAAS = "listener.name.client.plain.sasl.jaas.config"


CLIENT = Endpoint("CLIENT", "SASL_PLAINTEXT", "h", 2)


def start(**texts: str) -> BrokerConfig:
    return BrokerConfig.parse(
        {
            "zookeeper.connect": "zk",
            "listeners": "PLAINTEXT://h:1,CLIENT://h:2",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            JAAS: PLAIN,
            **{name: text for name, text in texts.items() if text},
        }
    )


def no_jwks(_: object) -> Any:
    raise AssertionError


def no_tokens() -> TokenManager:
    return TokenManager(TokenSettings(), cast("Any", None), lambda: 0, random.Random(1))


def test_a_setting_of_the_mechanism_precedes_that_of_the_listener_and_that_the_brokers() -> None:
    settings = SaslSettings.parse(
        start(
            **{
                "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,SCRAM-SHA-256",
                "listener.name.client.scram-sha-512.sasl.jaas.config": SCRAM,
                "connections.max.reauth.ms": "1000",
                "listener.name.client.connections.max.reauth.ms": "2000",
                "listener.name.client.scram-sha-512.connections.max.reauth.ms": "3000",
                "listener.name.other.connections.max.reauth.ms": "4000",
                "listener.name.client.sasl.server.max.receive.size": "99",
            }
        ).dynamic,
        "CLIENT",
    )
    assert settings.mechanisms == ("SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256")
    assert settings.max_reauth_ms == {"SCRAM-SHA-512": 3000, "PLAIN": 2000, "SCRAM-SHA-256": 2000}
    assert settings.max_receive_bytes == 99
    assert set(settings.jaas) == {"SCRAM-SHA-512", "PLAIN"}
    assert "wonder" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sasl.enabled.mechanisms", "SSPI", "Invalid value SSPI for configuration sasl.enabled.mechanisms of"),
        ("sasl.enabled.mechanisms", ",", "Invalid value  for configuration sasl.enabled.mechanisms of"),
        (JAAS, "wonder", f"Invalid value [hidden] for configuration {JAAS}: the JAAS configuration is malformed"),
        (JAAS, SCRAM, "Invalid login module org.apache.kafka.common.security.scram.ScramLoginModule in configuration"),
        (JAAS, " ", f"Missing configuration {JAAS}: allowed is "),
    ],
)
def test_wrong_settings_of_a_sasl_listener_stop_the_start(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(**{name: value})
    assert str(caught.value).startswith(text)
    assert "wonder" not in str(caught.value)


def test_login_modules_without_a_listener_have_no_effect_and_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    start(**{"sasl.jaas.config": PLAIN})
    assert [message.partition(":")[0] for message in caplog.messages] == ["sasl.jaas.config has no effect"]
    assert "wonder" not in caplog.text


def test_settings_of_a_listener_that_are_served_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        start(**{"listener.name.client.connections.max.reauth.ms": "2000"})
    assert caplog.messages == []


BETWEEN_BROKERS = {
    "inter.broker.listener.name": "CLIENT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    JAAS: PLAIN.replace("user_alice", 'username="broker" password="hush" user_broker="hush" user_alice'),
}


def test_brokers_log_in_by_the_login_module_of_their_listener() -> None:
    logins = BrokerLogins(start(**BETWEEN_BROKERS).dynamic, ManualExecutor(), ManualClock(), random.Random(1))
    login = logins.of(CLIENT)
    assert login is not None
    client = login()
    assert (client.mechanism, client.evaluate(None)) == ("PLAIN", b"\0broker\0hush")
    assert logins.of(Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1)) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sasl.mechanism.inter.broker.protocol", "GSSAPI", "Invalid value GSSAPI for configuration sasl.mechanism"),
        ("sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512", "Invalid value SCRAM-SHA-512 for configuration"),
        (JAAS, PLAIN, f"Configuration {JAAS} lacks username and password: allowed is"),
    ],
)
def test_brokers_that_could_not_log_in_do_not_start(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(**{**BETWEEN_BROKERS, name: value})
    assert str(caught.value).startswith(text)
    assert "hush" not in str(caught.value)


def test_a_listener_authenticates_by_its_own_users() -> None:
    listeners = SaslListeners(start().dynamic, CredentialCache(), no_tokens(), random.Random(1), no_jwks, no_jwks)
    assert listeners.security(Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1)).authenticator is None
    security = listeners.security(Endpoint("CLIENT", "SASL_PLAINTEXT", "h", 2))
    assert (security.protocol, security.max_receive_bytes) == ("SASL_PLAINTEXT", 524288)
    assert security.authenticator is not None
    info = ConnectionInfo(1, "peer", "CLIENT")
    client = security.authenticator(info)
    software = b"\x05java\x063.9.1\0"
    assert client.receive(ask_versions(3, software), 0).verdict is Verdict.CONTINUE
    assert (info.software_name, info.software_version) == ("java", "3.9.1")
    client.receive(handshake(), 0)
    assert client.receive(authenticate(b"\0alice\0wonder"), 0).verdict is Verdict.COMPLETE
    assert client.principal == KafkaPrincipal.user("alice")


OAUTH = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    JAAS: "",
    "listener.name.client.oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
    'OAuthBearerLoginModule required unsecuredValidatorAllowableClockSkewMs="7";',
}
HANDLER = "listener.name.client.oauthbearer.sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"


def test_tokens_without_a_signature_are_taken_only_if_the_configuration_names_their_class() -> None:
    for texts in (OAUTH, {**OAUTH, URL: "https://idp/jwks"}, {**OAUTH, HANDLER: SIGNED_TOKENS[0]}):
        with pytest.raises(ConfigError, match=rf"^Missing configuration {HANDLER}: allowed is "):
            start(**texts)
    settings = SaslSettings.parse(start(**{**OAUTH, HANDLER: UNSECURED_TOKENS}).dynamic, "CLIENT")
    assert settings.oauth == UnsecuredTokens(clock_skew_ms=7)


def test_signed_tokens_are_validated_as_the_listener_says() -> None:
    texts = {
        **OAUTH,
        HANDLER: SIGNED_TOKENS[1],
        URL: "https://idp/jwks",
        "listener.name.client.oauthbearer.sasl.oauthbearer.expected.audience": "kafka,other",
        "listener.name.client.sasl.oauthbearer.expected.issuer": "idp",
        "sasl.oauthbearer.sub.claim.name": "user",
    }
    settings = SaslSettings.parse(start(**texts).dynamic, "CLIENT")
    assert settings.oauth == JwksSettings("https://idp/jwks", ("kafka", "other"), "idp", "user")


TOKENS_BETWEEN_BROKERS = {
    **OAUTH,
    HANDLER: UNSECURED_TOKENS,
    "inter.broker.listener.name": "CLIENT",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OAUTH_JAAS = "listener.name.client.oauthbearer.sasl.jaas.config"
LOGIN = "listener.name.client.oauthbearer.sasl.login.callback.handler.class"
ENDPOINT = "listener.name.client.oauthbearer.sasl.oauthbearer.token.endpoint.url"


def broker_login(**texts: str) -> BrokerLogin:
    dynamic = start(**{**TOKENS_BETWEEN_BROKERS, **texts}).dynamic
    return BrokerLoginSettings(dynamic, "CLIENT", SaslSettings.parse(dynamic, "CLIENT")).parse()


def test_brokers_log_in_by_unsecured_tokens_if_their_login_module_says_so() -> None:
    login = broker_login(**{OAUTH_JAAS: f'{MODULE} unsecuredLoginStringClaim_sub="broker";'})
    assert login == UnsecuredLogin({"sub": "broker"})
    logins = BrokerLogins(
        start(**{**TOKENS_BETWEEN_BROKERS, OAUTH_JAAS: f'{MODULE} unsecuredLoginStringClaim_sub="broker";'}).dynamic,
        ManualExecutor(),
        ManualClock(),
        random.Random(1),
    )
    made = logins.of(CLIENT)
    assert made is not None
    server = OAuthBearerSaslServer(UnsecuredTokens().validate)
    assert server.evaluate(made().evaluate(None) or b"", ManualClock().time_ms()) == b""
    assert server.authorization_id == "broker"


def test_brokers_log_in_by_tokens_of_a_token_endpoint() -> None:
    login = broker_login(
        **{
            OAUTH_JAAS: f'{MODULE} clientId="broker" clientSecret="hush" scope="kafka" extension_trace="7";',
            LOGIN: TOKEN_LOGINS[1],
            ENDPOINT: "https://idp/token",
            "sasl.login.read.timeout.ms": "5000",
            "listener.name.client.sasl.login.refresh.window.factor": "0.6",
        }
    )
    assert login == SignedTokenLogin(
        ClientCredentials("https://idp/token", "broker", "hush", "kafka", {"trace": "7"}, timeout_ms=5000),
        RefreshSettings(window_factor=0.6),
    )
    assert "hush" not in repr(login)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, f"Missing configuration {LOGIN}: allowed is {TOKEN_LOGINS[0]} beside sasl.oauthbearer.token"),
        ({LOGIN: TOKEN_LOGINS[0]}, f"Missing configuration {ENDPOINT}: allowed is "),
        (
            {LOGIN: TOKEN_LOGINS[0], ENDPOINT: "https://idp", OAUTH_JAAS: f'{MODULE} clientId="hush";'},
            f"Configuration {OAUTH_JAAS} lacks clientSecret: allowed is ",
        ),
        (
            {
                LOGIN: TOKEN_LOGINS[0],
                ENDPOINT: "https://idp",
                OAUTH_JAAS: f'{MODULE} clientId="a" clientSecret="hush" ssl.truststore.location="x";',
            },
            f"Invalid value [hidden] for configuration {OAUTH_JAAS}: allowed are no options ssl.",
        ),
        (
            {LOGIN: TOKEN_LOGINS[0], ENDPOINT: "file:/t", OAUTH_JAAS: f'{MODULE} extension_auth="hush";'},
            f"Invalid value [hidden] for configuration {OAUTH_JAAS}: the extension auth ",
        ),
        ({LOGIN: UNSECURED_LOGIN}, f"Invalid value [hidden] for configuration {OAUTH_JAAS}: the option unsecuredLogin"),
        (
            {OAUTH_JAAS: f'{MODULE} unsecuredLoginStringClaim_sub="b" unsecuredLoginNumberClaim_exp="hush";'},
            f"Invalid value [hidden] for configuration {OAUTH_JAAS}: the claim exp is calculated",
        ),
    ],
)
def test_brokers_without_a_token_do_not_start(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker_login(**texts)
    assert str(caught.value).startswith(message)
    assert "hush" not in str(caught.value)


GSSAPI_JAAS = "listener.name.client.gssapi.sasl.jaas.config"
KEYTAB = f'{KERBEROS_MODULE} required useKeyTab=true storeKey=true keyTab="/etc/k.keytab" principal="kafka/h@R"'
KERBEROS = {
    "sasl.enabled.mechanisms": "GSSAPI",
    JAAS: "",
    GSSAPI_JAAS: f"{KEYTAB};",
    "sasl.kerberos.service.name": "kafka",
    "inter.broker.listener.name": "CLIENT",
}


def test_a_keytab_serves_clients_and_logs_the_broker_in() -> None:
    rules = {"listener.name.client.sasl.kerberos.principal.to.local.rules": "RULE:[1:$1]/L, DEFAULT"}
    dynamic = start(**KERBEROS, **rules).dynamic
    settings = SaslSettings.parse(dynamic, "CLIENT")
    expected = KerberosSettings("/etc/k.keytab", "kafka/h@R", "kafka", ("RULE:[1:$1]/L", "DEFAULT"))
    assert settings.kerberos == expected
    # Kafka's default mechanism between brokers is GSSAPI.
    assert BrokerLoginSettings(dynamic, "CLIENT", settings).parse() == expected


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            GSSAPI_JAAS,
            " ",
            f"Configuration {GSSAPI_JAAS} lacks a keytab: allowed is {KERBEROS_MODULE} required useKeyT",
        ),
        (
            GSSAPI_JAAS,
            f"{KERBEROS_MODULE} required useTicketCache=true;",
            f"Configuration {GSSAPI_JAAS} lacks a keytab",
        ),
        (
            GSSAPI_JAAS,
            SCRAM,
            f"Invalid login module {SCRAM.split(maxsplit=1)[0]} in configuration {GSSAPI_JAAS}: allowed is ",
        ),
        (
            GSSAPI_JAAS,
            f"{KEYTAB};".replace("kafka/h@R", "kafka@R"),
            f"Configuration {GSSAPI_JAAS} has the principal kafka@R: allowed is SERVICE/HOST@REALM",
        ),
        ("sasl.kerberos.service.name", "", "Missing configuration sasl.kerberos.service.name: allowed is"),
        (
            GSSAPI_JAAS,
            f'{KEYTAB} serviceName="other";',
            "Invalid value kafka for configuration sasl.kerberos.service.name: allowed is other, the serviceName in",
        ),
        (
            "sasl.kerberos.principal.to.local.rules",
            "DEFAULT/L",
            "Invalid value DEFAULT/L for configuration sasl.kerberos.principal.to.local.rules: Invalid rule",
        ),
    ],
)
def test_a_broker_without_a_keytab_does_not_start(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(**{**KERBEROS, name: value})
    assert str(caught.value).startswith(text)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "kafkalite.broker.kerberos", raising=False)
    line = r"^SASL mechanism GSSAPI: the package gssapi is missing; install kafkalite\[gssapi\]$"
    settings = KerberosSettings("/etc/k.keytab", "kafka/h@R", "kafka")
    for make in (kerberos_mechanism, KerberosLogin):
        with pytest.raises(StartupError, match=line):
            make(settings)
    listeners = SaslListeners(
        start(**KERBEROS).dynamic, CredentialCache(), no_tokens(), random.Random(1), no_jwks, kerberos_mechanism
    )
    with pytest.raises(StartupError, match=line):
        listeners.security(CLIENT)
