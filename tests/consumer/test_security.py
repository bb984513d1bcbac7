"""The security of a ZooKeeper consumer, from properties."""

from __future__ import annotations

import pytest
import trustme

from kafkalite.common.errors import ConfigError
from kafkalite.consumer.config import ConsumerConfig
from kafkalite.consumer.security import ConsumerSecurity
from kafkalite.zk.session_security import OPEN, ZkSecurity

CA = trustme.CA()
FILES = {
    "ca.pem": CA.cert_pem.bytes(),
    "jaas.conf": b'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="k" password="p"; };',
}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hidden-word";'
SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": LOGIN}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}


def read(path: str) -> bytes:
    try:
        return FILES[path]
    except KeyError:
        raise FileNotFoundError(2, "No such file or directory") from None


def test_without_properties_all_is_open() -> None:
    found = ConsumerSecurity.of({}, read)
    assert (found.zookeeper, found.library_settings()) == (OPEN, {"security_protocol": "PLAINTEXT"})


def test_a_login_is_that_of_the_library() -> None:
    assert ConsumerSecurity.of(SCRAM, read).library_settings() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "hidden-word",
    }


@pytest.mark.parametrize("algorithm", ["https", ""])
def test_tls_checks_certificates_and_names(algorithm: str) -> None:
    properties = {"security.protocol": "SSL", **TRUST, "ssl.endpoint.identification.algorithm": algorithm}
    tls = ConsumerSecurity.of(properties, read).tls
    assert tls is not None
    assert [each["subject"] for each in tls.get_ca_certs()]
    assert tls.check_hostname is (algorithm == "https")


def test_zookeeper_has_the_keys_of_brokers() -> None:
    digest = {"zookeeper.auth.digest": "u:p", "java.security.auth.login.config": "jaas.conf"}
    assert ConsumerSecurity.of(digest, read).zookeeper == ZkSecurity(None, "u:p", ("k", "p"))


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({**SCRAM, "sasl.jaas.config": "x"}, "sasl.jaas.config: the JAAS configuration is malformed"),
        ({**SCRAM, "sasl.jaas.config": 'm required username="a";'}, "with username and password"),
        ({**SCRAM, "sasl.jaas.config": LOGIN.replace(";", ' tokenauth="true";')}, "delegation token"),
        ({"security.protocol": "SASL_SSL", **TRUST}, "sasl.mechanism: missing"),
        ({"security.protocol": "SASL_SSL", **TRUST, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config: missing"),
        ({"security.protocol": "SSL", **TRUST, "ssl.truststore.location": "gone"}, "gone .*ssl.truststore.location"),
        ({"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": "gone.pem"}, "gone.pem"),
    ],
)
def test_what_is_wrong_or_missing_is_named(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ConsumerSecurity.of(properties, read)


def test_passwords_are_not_shown() -> None:
    config = ConsumerConfig("zk:1", "g", security=SCRAM)
    assert "hidden-word" not in f"{config!r} {ConsumerSecurity.of(SCRAM, read)!r}"


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location: not a security setting"):
        ConsumerConfig("zk:1", "g", security={"ssl.ca.location": "ca.pem"})
