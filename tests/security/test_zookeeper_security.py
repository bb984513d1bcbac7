"""The security of the connection to ZooKeeper, from configuration keys and files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import pkcs12

from kafkalite.broker.config import BrokerConfig
from kafkalite.common.errors import ConfigError
from kafkalite.security.zookeeper_security import zookeeper_security
from kafkalite.zk.session_security import OPEN, ZkSecurity

CA = trustme.CA()
CERTIFICATE = CA.issue_cert("broker")
_KEY = serialization.load_pem_private_key(CERTIFICATE.private_key_pem.bytes(), None)
assert isinstance(_KEY, RSAPrivateKey | EllipticCurvePrivateKey)
_CERTIFICATE = x509.load_pem_x509_certificate(CERTIFICATE.cert_chain_pems[0].bytes())
FILES = {
    "key.pem": CERTIFICATE.private_key_and_cert_chain_pem.bytes(),
    "ca.pem": CA.cert_pem.bytes(),
    "ca": CA.cert_pem.bytes(),
    "empty.pem": b"",
    "key.p12": pkcs12.serialize_key_and_certificates(
        b"broker", _KEY, _CERTIFICATE, None, serialization.BestAvailableEncryption(b"hush")
    ),
    "jaas.conf": b'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="k" password="p"; };',
    "other.conf": b"Client { com.sun.security.auth.module.Krb5LoginModule required; };",
    "short.conf": b'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="k"; };',
    "broken.conf": b"Client { x };",
}
TLS = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    "zookeeper.ssl.truststore.location": "ca.pem",
    "zookeeper.ssl.keystore.location": "key.pem",
}
JAAS = "java.security.auth.login.config"


def read(path: str) -> bytes:
    try:
        return FILES[path]
    except KeyError:
        raise FileNotFoundError(2, "No such file or directory") from None


def parse(texts: dict[str, str], read: Callable[[str], bytes] = read) -> ZkSecurity:
    return zookeeper_security(BrokerConfig.parse({"zookeeper.connect": "zk", **texts}).values, read)


def test_without_settings_the_connection_is_open() -> None:
    assert parse({}) == OPEN
    # Stores without TLS are not read, as in Kafka.
    assert parse({"zookeeper.ssl.keystore.location": "missing"}) == OPEN


def test_tls_with_a_client_certificate() -> None:
    tls = parse(TLS).tls
    assert tls is not None
    assert b"PRIVATE KEY" in tls.key_store and b"CERTIFICATE" in tls.trust_store
    assert tls.protocols == ("TLSv1.2", "TLSv1.3") and tls.checks_host_names


@pytest.mark.parametrize(
    "kind", [{}, {"zookeeper.ssl.keystore.type": "pkcs12"}, {"zookeeper.ssl.keystore.type": "JKS"}]
)
def test_a_pkcs12_store_is_read_also_where_it_is_called_jks(kind: dict[str, str]) -> None:
    store = {"zookeeper.ssl.keystore.location": "key.p12", "zookeeper.ssl.keystore.password": "hush"}
    tls = parse({**TLS, **store, **kind}).tls
    assert tls is not None and b"PRIVATE KEY" in tls.key_store
    with pytest.raises(ConfigError) as caught:
        parse({**TLS, **store, "zookeeper.ssl.keystore.password": "wrong-hush"})
    assert "keystore.location: its password is wrong" in str(caught.value) and "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "protocols"),
    [
        ({"zookeeper.ssl.protocol": "TLSv1.3"}, ("TLSv1.3",)),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.2"}, ("TLSv1.2",)),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.3,TLSv1.2"}, ("TLSv1.3", "TLSv1.2")),
    ],
)
def test_versions_of_tls(texts: dict[str, str], protocols: tuple[str, ...]) -> None:
    tls = parse({**TLS, **texts}).tls
    assert tls is not None and tls.protocols == protocols


def test_suites_and_names_of_hosts() -> None:
    tls = parse(
        {
            **TLS,
            "zookeeper.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
        }
    ).tls
    assert tls is not None and tls.ciphers == "ECDHE-RSA-AES256-GCM-SHA384" and not tls.checks_host_names


def test_a_login_by_sasl_comes_from_the_jaas_file() -> None:
    assert parse({JAAS: "jaas.conf"}).sasl == ("k", "p")
    assert parse({JAAS: "jaas.conf", "zookeeper.sasl.client": "false"}).sasl is None


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({**TLS, "zookeeper.ssl.keystore.location": "missing.pem"}, "keystore.location: No such file"),
        ({**TLS, "zookeeper.ssl.keystore.location": "ca.pem"}, "keystore.location: it has no private key"),
        ({**TLS, "zookeeper.ssl.truststore.location": "empty.pem"}, "truststore.location: it has no certificate"),
        (
            {**TLS, "zookeeper.ssl.truststore.location": "ca"},
            "Missing required configuration zookeeper.ssl.truststore.type",
        ),
        ({**TLS, "zookeeper.ssl.keystore.type": "JKS"}, "keystore.location: it is neither"),
        (
            {**TLS, "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"},
            "ClientCnxnSocketNetty beside",
        ),
        ({JAAS: "missing.conf"}, "login.config: No such file"),
        ({JAAS: "jaas.conf", "zookeeper.sasl.clientconfig": "Other"}, "a file with the section Other"),
        ({JAAS: "other.conf"}, "DIGEST-MD5 only"),
        ({JAAS: "short.conf"}, "has no 'password'"),
        ({JAAS: "broken.conf"}, "malformed"),
    ],
)
def test_a_wrong_setting_is_named(texts: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(texts)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper.clientCnxnSocket", "com.example.Socket"),
        ("zookeeper.ssl.protocol", "SSLv3"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.2,TLSv9"),
        ("zookeeper.ssl.cipher.suites", "ROT13"),
        ("zookeeper.ssl.keystore.type", "BCFKS"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "LDAPS"),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig.parse({"zookeeper.connect": "zk", name: value})


@pytest.mark.parametrize(
    "identity", [{"zookeeper.auth.digest": "a:b"}, TLS, {JAAS: "jaas.conf"}], ids=["digest", "certificate", "sasl"]
)
def test_protection_needs_an_identity(identity: dict[str, str]) -> None:
    protect = {"zookeeper.connect": "zk", "zookeeper.set.acl": "true"}
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl: allowed is false, or true beside"):
        BrokerConfig.parse(protect)
    BrokerConfig.parse({**protect, **identity})


def test_a_trust_store_alone_is_no_identity() -> None:
    texts = {name: value for name, value in TLS.items() if "keystore" not in name}
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl"):
        BrokerConfig.parse({"zookeeper.connect": "zk", "zookeeper.set.acl": "true", **texts})
