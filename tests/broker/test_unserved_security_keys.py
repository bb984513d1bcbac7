"""Settings of security: values that ask for what is not served stop the start, other values do not."""

from __future__ import annotations

import logging

import pytest

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.config_keys import KNOWN_CONFIGS
from kafkalite.broker.unserved_security_keys import UNSERVED_SECURITY_CONFIGS
from kafkalite.common.config import ConfigType
from kafkalite.common.errors import ConfigError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
REFUSED = [
    ("authorizer.class.name", "kafka.security.auth.SimpleAclAuthorizer"),
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("super.users", "admin"),
    ("super.users", "User:admin;Group"),
    ("authorizer.zookeeper.url", "elsewhere:2181"),
    ("principal.builder.class", "com.example.Principals"),
    ("security.providers", "com.example.Provider"),
    ("sasl.server.callback.handler.class", "com.example.Handler"),
    ("sasl.client.callback.handler.class", "com.example.Handler"),
    ("sasl.login.callback.handler.class", "com.example.Handler"),
    ("sasl.login.class", "com.example.Login"),
    ("ssl.engine.factory.class", "com.example.Engine"),
    ("ssl.provider", "com.example.Provider"),
    ("ssl.trustmanager.algorithm", "com.example.Trust"),
    ("client.quota.callback.class", "com.example.Quotas"),
    ("zookeeper.ssl.crl.enable", "true"),
    ("zookeeper.ssl.ocsp.enable", "TRUE"),
    ("zookeeper.set.acl", "true"),
    ("listener.name.internal.ssl.provider", "com.example.Provider"),
    ("listener.name.internal.oauthbearer.sasl.server.callback.handler.class", "com.example.Handler"),
    ("listener.name.internal.principal.builder.class", "com.example.Principals"),
]
ASKS_FOR_NOTHING = [
    ("authorizer.class.name", ""),
    ("super.users", ""),
    ("principal.builder.class", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    ("sasl.enabled.mechanisms", "GSSAPI"),
    ("sasl.enabled.mechanisms", ""),
    ("sasl.mechanism.inter.broker.protocol", "GSSAPI"),
    ("sasl.jaas.config", ""),
    ("connections.max.reauth.ms", "0"),
    ("ssl.client.auth", "none"),
    ("ssl.keystore.location", ""),
    ("ssl.keystore.type", "JKS"),
    ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
    ("password.encoder.secret", ""),
    ("security.inter.broker.protocol", "PLAINTEXT"),
    ("zookeeper.ssl.client.enable", "false"),
    ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO"),
    ("zookeeper.set.acl", "false"),
    ("listener.name.internal.ssl.client.auth", "none"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CLIENT:SASL_SSL"),
]
DETAILS = [
    ("sasl.kerberos.kinit.cmd", "/bin/kinit"),
    ("ssl.secure.random.implementation", "SHA1PRNG"),
    ("listener.name.internal.sasl.kerberos.min.time.before.relogin", "5"),
    ("listener.name.internal.ssl.keymanager.algorithm", "PKIX"),
]


def start(name: str, value: str) -> BrokerConfig:
    return BrokerConfig.parse({"zookeeper.connect": "localhost:2181", name: value})


def is_secret(name: str) -> bool:
    key = DynamicConfig(KNOWN_CONFIGS, {}).key(name)
    return key is not None and key.type is ConfigType.PASSWORD


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_setting_that_asks_for_security_stops_the_start_with_one_line(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(name, value)
    message = str(caught.value)
    shown = "[hidden]" if is_secret(name) else value
    assert message.startswith(f"Invalid value {shown} for configuration {name}: allowed is ")
    assert ", because " in message
    assert "\n" not in message
    assert not is_secret(name) or value not in message


@pytest.mark.parametrize("name", ["kafka.security.authorizer.AclAuthorizer", "house.rules:Authorizer"])
def test_an_authorizer_is_accepted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = BrokerConfig.parse(
            {"zookeeper.connect": "localhost:2181", "authorizer.class.name": name, "super.users": "User:ANONYMOUS"}
        )
    assert config.values["authorizer.class.name"] == name
    assert not any("ClusterAction" in message for message in caplog.messages)


_KEY_STORE = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "broker.pem"}


@pytest.mark.parametrize(
    ("texts", "is_warned"),
    [
        ({}, True),
        ({"super.users": "User:admin"}, True),
        ({"super.users": "User:admin;User:ANONYMOUS"}, False),
        ({"allow.everyone.if.no.acl.found": "true"}, False),
        ({"listeners": "SSL://:9093", "security.inter.broker.protocol": "SSL", **_KEY_STORE}, True),
        (
            {
                "listeners": "SSL://:9093",
                "security.inter.broker.protocol": "SSL",
                "listener.name.ssl.ssl.client.auth": "required",
                **_KEY_STORE,
            },
            False,
        ),
    ],
)
def test_brokers_that_are_anonymous_to_each_other_are_warned_of(
    texts: dict[str, str], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With the ACLs of a new cluster they could not follow each other, and no producer would ever be answered."""
    with caplog.at_level(logging.WARNING):
        BrokerConfig.parse(
            {
                "zookeeper.connect": "localhost:2181",
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                **texts,
            }
        )
    assert any("replicate nothing" in message for message in caplog.messages) is is_warned


@pytest.mark.parametrize(
    ("name", "value"), [("super.users", "User:admin"), ("allow.everyone.if.no.acl.found", "false")]
)
def test_settings_of_an_authorizer_are_warned_of_without_one(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {"zookeeper.connect": "localhost:2181", name: value}
    with caplog.at_level(logging.WARNING):
        BrokerConfig.parse({**texts, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})
        assert not any("no effect" in message for message in caplog.messages)
        caplog.clear()
        BrokerConfig.parse(texts)
    assert caplog.messages == [
        f"{name}: no effect without authorizer.class.name=kafka.security.authorizer.AclAuthorizer"
    ]


@pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found", "authorizer.class.name"])
def test_settings_of_an_authorizer_change_by_a_restart_only(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}; it is read-only"):
        start("num.partitions", "1").dynamic.check({name: ""}, per_broker=True)


@pytest.mark.parametrize(("name", "value"), ASKS_FOR_NOTHING)
def test_a_setting_that_asks_for_nothing_is_accepted(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        start(name, value)
    assert caplog.messages == []


@pytest.mark.parametrize(("name", "value"), DETAILS)
def test_a_detail_of_security_is_accepted_with_a_warning(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        start(name, value)
    (message,) = caplog.messages
    assert message.startswith("These settings of security, quotas and single listeners have no effect")
    assert message.endswith(f": {name}")


def test_every_key_that_asks_for_security_is_in_the_table_of_refused_values() -> None:
    asking = {key.name for key in UNSERVED_SECURITY_CONFIGS.keys.values() if key.check}
    assert asking - {name for name, _ in REFUSED} == set()


@pytest.mark.parametrize(
    "name",
    ["ssl.client.auht", "sasl.enabled.mechanism", "zookeeper.ssl.enable", "quota.producer.default"],
)
def test_a_misspelled_key_of_security_is_warned_of(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        start(name, "x")
    assert caplog.messages == [f"Unknown configuration {name}; it has no effect"]


def test_a_wrong_value_for_a_single_listener_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"configuration listener\.name\.internal\.ssl\.client\.auth: .*one of"):
        start("listener.name.internal.ssl.client.auth", "maybe")


DYNAMIC = [
    ("ssl.provider", "com.example.Provider"),
    ("principal.builder.class", "com.example.Principals"),
    ("listener.name.internal.ssl.engine.factory.class", "com.example.Engine"),
]


@pytest.mark.parametrize(("name", "value"), DYNAMIC)
def test_a_change_that_asks_for_security_is_refused_and_in_zookeeper_it_is_ignored_with_an_error(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    dynamic = start("num.partitions", "1").dynamic
    with pytest.raises(ConfigError) as caught:
        dynamic.check({name: value}, per_broker=True)
    assert f"for configuration {name}: allowed is " in str(caught.value)
    with caplog.at_level(logging.ERROR):
        assert dynamic.update_broker({name: value, "message.max.bytes": "1234"}) == {"message.max.bytes"}
    (record,) = caplog.records
    assert record.getMessage() == f"Ignored a dynamic configuration of brokers: {caught.value}"
    assert record.exc_info is None
    assert SCRAM not in caplog.text
    assert name not in dynamic.names() or name in KNOWN_CONFIGS


def test_a_change_that_asks_for_nothing_is_accepted() -> None:
    dynamic = start("num.partitions", "1").dynamic
    dynamic.check({"ssl.client.auth": "none", "listener.name.l.ssl.keystore.type": "PKCS12"}, per_broker=True)
