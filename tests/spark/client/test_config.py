"""The options ``kafka.*``."""

from __future__ import annotations

import pytest

from kafkalite.common.token_endpoint import ClientCredentials
from kafkalite.spark.client.config import ClientConfig, ClientConfigError, SaslConfig

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required\n username="us\\"er" password=\'p;=w\';'


def config(**options: str) -> ClientConfig:
    given = {"bootstrap.servers": "a:1"} | {name.replace("_", "."): value for name, value in options.items()}
    return ClientConfig.from_kafka(given)


def test_servers() -> None:
    assert config(bootstrap_servers="a:1, PLAINTEXT://b:22,[::1]:9092").bootstrap_servers == (
        ("a", 1),
        ("b", 22),
        ("::1", 9092),
    )


def test_kafkas_names_and_defaults() -> None:
    found = ClientConfig.from_kafka(
        {
            "bootstrap.servers": "a:1",
            "fetch.max.wait.ms": "7",
            "isolation.level": "read_committed",
            "check.crcs": "false",
        },
        request_timeout_ms="5",
        fetch_max_wait_ms="9",
    )
    assert (found.fetch_max_wait_ms, found.request_timeout_ms) == (7, 5)
    assert found.read_committed
    assert not found.check_crcs
    assert not found.tls
    assert found.sasl is None


def test_sasl() -> None:
    found = config(security_protocol="sasl_ssl", sasl_mechanism="scram-sha-256", sasl_jaas_config=JAAS)
    assert found.sasl == SaslConfig("SCRAM-SHA-256", 'us"er', "p;=w")
    assert found.tls


KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    ("jaas", "more", "expected"),
    [
        (
            f'{KERBEROS} useKeyTab=true keyTab="/k" principal="alice@R";',
            {"sasl_kerberos_service_name": "kafka"},
            SaslConfig("GSSAPI", service="kafka", keytab="/k", principal="alice@R"),
        ),
        (f'{KERBEROS} useTicketCache=true serviceName="kafka";', {}, SaslConfig("GSSAPI", service="kafka")),
    ],
)
def test_kerberos(jaas: str, more: dict[str, str], expected: SaslConfig) -> None:
    assert config(security_protocol="SASL_SSL", sasl_jaas_config=jaas, **more).sasl == expected


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_tokens_of_a_token_endpoint() -> None:
    asked = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    url = {"sasl_oauthbearer_token_endpoint_url": "https://idp/token"}
    jaas = f'{OAUTH} clientId="a" clientSecret="planted" scope="s";'
    found = config(**asked, **url, sasl_jaas_config=jaas).sasl
    assert found == SaslConfig("OAUTHBEARER", tokens=ClientCredentials("https://idp/token", "a", "planted", "s"))
    assert "planted" not in repr(found)
    file = {"sasl_oauthbearer_token_endpoint_url": "file:/token"}
    of_file = config(**asked, **file, sasl_jaas_config=f"{OAUTH};").sasl
    assert of_file == SaslConfig("OAUTHBEARER", tokens=ClientCredentials("file:/token"))
    for more, module in ((url, f'{OAUTH} clientId="a";'), ({}, jaas)):
        with pytest.raises(ClientConfigError, match="OAUTHBEARER needs kafka"):
            config(**asked, **more, sasl_jaas_config=module)


def test_sasl_settings_without_sasl_are_not_looked_at() -> None:
    assert config(sasl_mechanism="GSSAPI").sasl is None


def test_ssl() -> None:
    found = config(security_protocol="SSL", ssl_truststore_location="/x.pem", ssl_endpoint_identification_algorithm="")
    assert found.ssl.truststore_location == "/x.pem"
    assert not found.ssl.check_hostname
    assert config().ssl.check_hostname


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bootstrap_servers": ""}, "No resolvable bootstrap urls given in kafka.bootstrap.servers"),
        ({"bootstrap_servers": "a"}, "Invalid url in kafka.bootstrap.servers: a "),
        ({"bootstrap_servers": "a:b"}, "Invalid url"),
        ({"bootstrap_servers": "a:70000"}, "Invalid url"),
        ({"security_protocol": "TLS"}, "Invalid value TLS for kafka.security.protocol: it must be one of PLAINTEXT"),
        ({"isolation_level": "none"}, "Invalid value none for kafka.isolation.level"),
        ({"fetch_max_wait_ms": "soon"}, "Invalid value soon for kafka.fetch.max.wait.ms: not a number"),
        ({"fetch_max_bytes": "0"}, "kafka.fetch.max.bytes: it must be at least 1"),
        ({"security_protocol": "SASL_SSL"}, "kafka.sasl.jaas.config is missing or malformed"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "sasl.jaas.config is missing or malformed",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "a required username=x;"},
            "names no username or no password",
        ),
    ],
)
def test_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ClientConfigError, match=message):
        config(**options)
