"""TLS of a broker's listeners: what their settings make, what is refused with one line, and what may change."""

from __future__ import annotations

import logging
import ssl
import sys
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.tls_listeners import METRICS, TlsListeners
from kafkalite.cluster.model import Endpoint
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal
from kafkalite.log.file_system import FileSystem

MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:SSL,EXTERNAL:SSL"
INTERNAL = Endpoint("INTERNAL", "SSL", "h", 2)
EXTERNAL = Endpoint("EXTERNAL", "SSL", "h", 3)
SASL = Endpoint("EXTERNAL", "SASL_SSL", "h", 3)
AUTHORITY = trustme.CA(key_type=trustme.KeyType.ECDSA)


class TlsListenersFixture:
    """A broker with two listeners of TLS, and the files of its stores."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._time = 1_700_000_000_000
        self.write("ca.pem", AUTHORITY.cert_pem.bytes())
        self.issue("broker.pem")

    def write(self, name: str, data: bytes) -> None:
        """A file that is newer than all before it."""
        path = self._directory / name
        path.write_bytes(data)
        self._time += 1000
        FileSystem().set_modified_ms(str(path), self._time)

    def issue(self, name: str, *hosts: str, unit: str = "brokers", authority: trustme.CA = AUTHORITY) -> bytes:
        issued = authority.issue_cert(
            *(hosts or ("broker", "localhost")),
            organization_name="o",
            organization_unit_name=unit,
            key_type=trustme.KeyType.ECDSA,
        )
        self.write(name, issued.private_key_and_cert_chain_pem.bytes())
        return issued.cert_chain_pems[0].bytes()

    def file(self, name: str) -> str:
        return str(self._directory / name)

    def config(self, **more: str) -> BrokerConfig:
        """server.properties; two underscores stand for a dot."""
        return BrokerConfig.parse(
            {
                "zookeeper.connect": "zk",
                "listeners": "PLAINTEXT://h:1,INTERNAL://h:2,EXTERNAL://h:3",
                "listener.security.protocol.map": MAP,
                "inter.broker.listener.name": "INTERNAL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.file("broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.file("ca.pem"),
                **{name.replace("__", "."): value for name, value in more.items()},
            }
        )

    def listeners(self, **more: str) -> TlsListeners:
        return listeners(self.config(**more))


def listeners(config: BrokerConfig) -> TlsListeners:
    found = TlsListeners(config.dynamic, FileSystem(), config.listening.between_brokers)
    found.load(config.listening.bound)
    return found


@pytest.fixture
def fixture(tmp_path: Path) -> TlsListenersFixture:
    return TlsListenersFixture(tmp_path)


def context(found: TlsListeners, endpoint: Endpoint) -> ssl.SSLContext:
    get = found.context(endpoint)
    assert get is not None
    return get()


def certificate(found: TlsListeners, endpoint: Endpoint) -> bytes:
    """The certificate, in PEM, that a client sees on a listener now."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context(found, endpoint).wrap_bio(to_server, to_client, server_side=True)
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    client = anyone.wrap_bio(to_client, to_server)
    for _ in range(2):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True) or b"").encode()


def test_only_listeners_of_tls_have_a_context(fixture: TlsListenersFixture) -> None:
    found = fixture.listeners()
    assert found.context(Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1)) is None
    assert context(found, INTERNAL) is not context(found, EXTERNAL)
    assert context(found, INTERNAL) is context(found, INTERNAL)


def test_brokers_check_the_names_of_each_other_unless_told_otherwise(fixture: TlsListenersFixture) -> None:
    for algorithm, checked in (("https", True), ("HTTPS", True), ("", False)):
        client = fixture.listeners(ssl__endpoint__identification__algorithm=algorithm).client("INTERNAL").tls
        assert client is not None
        assert client.check_hostname is checked
        assert client.verify_mode is ssl.CERT_REQUIRED


def test_a_cluster_without_tls_between_brokers_connects_in_plain_text(fixture: TlsListenersFixture) -> None:
    config = fixture.config(inter__broker__listener__name="PLAINTEXT")
    found = TlsListeners(config.dynamic, FileSystem(), config.listening.between_brokers)
    found.load(config.listening.bound)
    assert found.client("PLAINTEXT").tls is None


def test_a_listener_for_control_requests_is_encrypted_by_itself(fixture: TlsListenersFixture) -> None:
    found = fixture.listeners(inter__broker__listener__name="PLAINTEXT", control__plane__listener__name="INTERNAL")
    assert found.client("PLAINTEXT").tls is None
    assert found.client("INTERNAL").tls is not None


def test_a_prefix_wins_over_the_general_key(fixture: TlsListenersFixture) -> None:
    found = fixture.listeners(
        ssl__client__auth="requested",
        listener__name__external__ssl__client__auth="required",
        listener__name__external__ssl__enabled__protocols="TLSv1.2",
    )
    assert context(found, INTERNAL).verify_mode is ssl.CERT_OPTIONAL
    assert context(found, INTERNAL).maximum_version is ssl.TLSVersion.TLSv1_3
    assert context(found, EXTERNAL).verify_mode is ssl.CERT_REQUIRED
    assert context(found, EXTERNAL).maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ({}, ssl.CERT_NONE),
        ({"ssl__client__auth": "required"}, ssl.CERT_NONE),
        ({"listener__name__external__ssl__client__auth": "required"}, ssl.CERT_REQUIRED),
    ],
)
def test_a_general_client_auth_is_not_for_sasl(
    settings: dict[str, str], mode: ssl.VerifyMode, fixture: TlsListenersFixture
) -> None:
    found = TlsListeners(fixture.config(**settings).dynamic, FileSystem(), ("INTERNAL",))
    assert context(found, SASL).verify_mode is mode


@pytest.mark.parametrize(
    ("suites", "low", "high"),
    [
        ("", "TLSv1_2", "TLSv1_3"),
        ("TLS_AES_256_GCM_SHA384", "TLSv1_3", "TLSv1_3"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1_2", "TLSv1_2"),
        ("TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1_2", "TLSv1_3"),
    ],
)
def test_cipher_suites_narrow_the_versions(suites: str, low: str, high: str, fixture: TlsListenersFixture) -> None:
    found = context(fixture.listeners(ssl__cipher__suites=suites), INTERNAL)
    assert (found.minimum_version.name, found.maximum_version.name) == (low, high)
    if low == high == "TLSv1_2":
        old = {cipher["name"] for cipher in found.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
        assert old == {"ECDHE-ECDSA-AES128-GCM-SHA256"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl__keystore__location": "/none.pem"}, "/none.pem for configuration ssl.keystore.location of listener"),
        ({"ssl__truststore__location": "/none.pem"}, "/none.pem for configuration ssl.truststore.location of listener"),
        ({"ssl__keystore__location": ""}, "Missing required configuration ssl.keystore.location of listener INTERNAL"),
        ({"ssl__keystore__type": "JKS"}, "SSL key store of listener INTERNAL is specified, but key store password"),
        ({"ssl__keystore__password": "hush"}, "only key password may be specified"),
        (
            {"ssl__truststore__password": "hush"},
            "trust store password of listener INTERNAL cannot be specified for",
        ),
        ({"ssl__keystore__key": "x"}, "private key of listener INTERNAL is specified, but certificate chain is not"),
        ({"ssl__keystore__certificate__chain": "x"}, "is specified, but private key is not specified"),
        (
            {"ssl__keystore__key": "x", "ssl__keystore__certificate__chain": "x"},
            "Both SSL key store location and separate private key",
        ),
        (
            {
                "ssl__keystore__key": "x",
                "ssl__keystore__certificate__chain": "x",
                "ssl__keystore__location": "",
            },
            "Invalid value [hidden] for configuration ssl.keystore.key of listener INTERNAL: it has no private key",
        ),
        (
            {"ssl__truststore__certificates": "x", "ssl__truststore__location": ""},
            "Invalid value [hidden] for configuration ssl.truststore.certificates of listener INTERNAL",
        ),
        (
            {"ssl__keystore__type": "PKCS12", "ssl__keystore__password": "hush"},
            "for configuration ssl.keystore.location of listener INTERNAL: it is neither PKCS12 nor JKS",
        ),
    ],
)
def test_stores_that_cannot_be_used_stop_the_start_with_one_line(
    settings: dict[str, str], message: str, fixture: TlsListenersFixture
) -> None:
    with pytest.raises(ConfigError) as caught:
        fixture.listeners(**settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_brokers_that_could_not_trust_each_other_do_not_start(fixture: TlsListenersFixture) -> None:
    fixture.issue("broker.pem", authority=trustme.CA())
    with pytest.raises(ConfigError, match="a broker could not connect to another one with the same stores"):
        fixture.listeners()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.client.auth", "maybe"),
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv9"),
        ("ssl.protocol", "SSLv3"),
        ("ssl.cipher.suites", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("ssl.keystore.type", "BKS"),
        ("ssl.endpoint.identification.algorithm", "ldaps"),
        ("ssl.principal.mapping.rules", "RULE:("),
        ("listener.name.x.ssl.truststore.type", "BKS"),
    ],
)
def test_wrong_values_are_refused_with_their_key(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value .* for configuration {name}: allowed is "):
        BrokerConfig.parse({"zookeeper.connect": "zk", name: value})


def test_the_subject_of_a_certificate_is_the_principal(fixture: TlsListenersFixture) -> None:
    der = ssl.PEM_cert_to_DER_cert(fixture.issue("client.pem", unit="alice").decode())
    principal = fixture.listeners().principals(INTERNAL)
    assert principal is not None
    assert principal(None) == ANONYMOUS
    assert principal(der) == KafkaPrincipal.user("OU=alice,O=o")
    mapped = fixture.listeners(listener__name__internal__ssl__principal__mapping__rules="RULE:^OU=(.*),O=o$/$1/U")
    principal = mapped.principals(INTERNAL)
    assert principal is not None
    assert principal(der) == KafkaPrincipal.user("ALICE")
    other = ssl.PEM_cert_to_DER_cert(fixture.issue("client.pem", unit="a,O=o2").decode())
    assert principal(other).name == "A\\,O\\=O2"
    with pytest.raises(ValueError, match="distinguished name"):
        principal(b"no certificate")
    assert fixture.listeners().principals(SASL) is None


def test_settings_of_tls_have_an_effect(fixture: TlsListenersFixture, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        fixture.config(
            listener__name__external__ssl__client__auth="required", listener__name__external__ssl__protocol="TLS"
        )
    assert caplog.messages == []


PREFIX = "listener.name.external."


def test_a_store_is_replaced_by_another_file_and_by_a_newer_one(fixture: TlsListenersFixture) -> None:
    config = fixture.config()
    found = listeners(config)
    first = certificate(found, EXTERNAL)
    expected = fixture.issue("second.pem")
    change = {f"{PREFIX}ssl.keystore.location": fixture.file("second.pem")}
    config.dynamic.check_change(change, per_broker=True)
    assert certificate(found, EXTERNAL) == first
    config.dynamic.update_broker(change)
    assert certificate(found, EXTERNAL) == expected
    assert certificate(found, INTERNAL) == first

    newer = fixture.issue("second.pem")
    assert certificate(found, EXTERNAL) == expected
    config.dynamic.update_broker(change)
    assert certificate(found, EXTERNAL) == newer

    config.dynamic.update_broker({})
    assert certificate(found, EXTERNAL) == first


def test_brokers_connect_with_the_new_certificate(fixture: TlsListenersFixture) -> None:
    config = fixture.config()
    found = listeners(config)
    before = found.client("INTERNAL").tls
    fixture.issue("broker.pem")
    config.dynamic.update_broker({})
    assert found.client("INTERNAL").tls is not before


@pytest.mark.parametrize(
    ("hosts", "unit", "allowed", "message"),
    [
        (("broker", "localhost", "more"), "brokers", {}, None),
        (("broker",), "brokers", {}, "SubjectAltNames do not match: existing="),
        (("broker", "localhost"), "others", {}, "DistinguishedName does not match: existing={DN=OU=brokers,O=o"),
        (("broker",), "brokers", {"ssl__allow__san__changes": "true"}, None),
        (("broker", "localhost"), "others", {"ssl__allow__dn__changes": "true"}, None),
    ],
)
def test_a_certificate_of_another_subject_or_with_fewer_names_is_refused(
    hosts: tuple[str, ...],
    unit: str,
    allowed: dict[str, str],
    message: str | None,
    fixture: TlsListenersFixture,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = fixture.config(**allowed)
    found = listeners(config)
    first = certificate(found, EXTERNAL)
    new = fixture.issue("second.pem", *hosts, unit=unit)
    change = {f"{PREFIX}ssl.keystore.location": fixture.file("second.pem")}
    if message is None:
        config.dynamic.check_change(change, per_broker=True)
        config.dynamic.update_broker(change)
        assert certificate(found, EXTERNAL) == new
        return
    with pytest.raises(ConfigError) as caught:
        config.dynamic.check_change(change, per_broker=True)
    assert message in str(caught.value)
    # Written into ZooKeeper nevertheless.
    with caplog.at_level(logging.ERROR):
        config.dynamic.update_broker(change)
    assert message in caplog.text
    assert certificate(found, EXTERNAL) == first


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.client.auth", "required"),
        ("ssl.enabled.protocols", "TLSv1.3"),
        ("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
    ],
)
def test_other_settings_of_an_open_listener_stay(name: str, value: str, fixture: TlsListenersFixture) -> None:
    config = fixture.config()
    listeners(config)
    with pytest.raises(ConfigError, match=f"existing listener EXTERNAL, restart broker .*: {name}"):
        config.dynamic.check_change({PREFIX + name: value}, per_broker=True)


def test_a_password_is_kept_encrypted_and_opens_the_new_store(
    fixture: TlsListenersFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """The key of a new file has another password, which a client sets together with the file's name."""
    config = fixture.config(password__encoder__secret="hush")
    found = listeners(config)
    pem = fixture.issue("second.pem")
    key = serialization.load_pem_private_key(Path(fixture.file("second.pem")).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"another-password")
    form = serialization.PrivateFormat.PKCS8
    fixture.write("second.pem", key.private_bytes(serialization.Encoding.PEM, form, encryption) + pem)
    name = f"{PREFIX}ssl.key.password"
    change = {name: "another-password", f"{PREFIX}ssl.keystore.location": fixture.file("second.pem")}
    config.dynamic.check(change, per_broker=True)
    config.dynamic.check_change(change, per_broker=True)
    with pytest.raises(ConfigError, match="is wrong, or the password for it"):
        config.dynamic.check_change({**change, name: "a-guess"}, per_broker=True)
    stored = config.dynamic.concealed(change)
    assert "another-password" not in str(stored)
    config.dynamic.update_broker(stored)
    assert certificate(found, EXTERNAL) == pem
    assert [synonym.value for synonym in config.dynamic.synonyms(name)] == [None]
    # Encrypted by another secret: ignored, and said.
    other = fixture.config(password__encoder__secret="other")
    with caplog.at_level(logging.ERROR):
        other.dynamic.update_broker(stored)
    assert f"Ignored the password {name} in ZooKeeper: it was not encrypted by password.encoder.secret" in caplog.text
    assert other.dynamic.text(name) is None


def test_without_a_secret_no_password_is_kept(fixture: TlsListenersFixture) -> None:
    with pytest.raises(ConfigError, match=r"no password\.encoder\.secret is configured"):
        fixture.config().dynamic.check({f"{PREFIX}ssl.key.password": "x"}, per_broker=True)
    with pytest.raises(ConfigError, match=r"Cannot keep the password .*sasl\.jaas\.config in ZooKeeper; set"):
        fixture.config(password__encoder__secret="hush").dynamic.check(
            {f"{PREFIX}plain.sasl.jaas.config": "x"}, per_broker=True
        )


def test_the_stores_of_a_new_listener_are_checked_before_it_opens(fixture: TlsListenersFixture) -> None:
    config = fixture.config(listeners="PLAINTEXT://h:1,INTERNAL://h:2")
    found = listeners(config)
    change = {"listeners": "PLAINTEXT://h:1,INTERNAL://h:2,EXTERNAL://h:3"}
    config.dynamic.check_change(change, per_broker=True)
    wrong = {**change, f"{PREFIX}ssl.keystore.location": fixture.file("gone.pem")}
    with pytest.raises(ConfigError, match=r"gone\.pem for configuration ssl\.keystore\.location of listener EXTERNAL"):
        config.dynamic.check_change(wrong, per_broker=True)
    # The same change without the listener is not refused, because nothing uses the store yet.
    config.dynamic.check_change({name: wrong[name] for name in wrong.keys() - change.keys()}, per_broker=True)
    config.dynamic.update_broker(change)
    assert certificate(found, EXTERNAL)


def test_a_listener_that_was_closed_may_come_back_with_other_settings(fixture: TlsListenersFixture) -> None:
    config = fixture.config()
    found = listeners(config)
    config.dynamic.update_broker({"listeners": "PLAINTEXT://h:1,INTERNAL://h:2"})
    back = {f"{PREFIX}ssl.client.auth": "required"}
    config.dynamic.check_change(back, per_broker=True)
    config.dynamic.update_broker(back)
    assert context(found, EXTERNAL).verify_mode is ssl.CERT_REQUIRED


# trap: kafkalite/broker/tls_listeners.py: The page of the metrics is no listener of `listeners`, so that a change of
# those takes its certificate away: METRICS stays.
def test_the_page_of_the_metrics_keeps_its_context_when_listeners_change(fixture: TlsListenersFixture) -> None:
    config = fixture.config()
    found = listeners(config)
    page = found.context(Endpoint(METRICS, "SASL_SSL", "h", 9))
    assert page is not None
    config.dynamic.update_broker({"listeners": "PLAINTEXT://h:1,INTERNAL://h:2"})
    assert page().verify_mode is ssl.CERT_NONE


def test_a_missing_package_ends_the_start_with_one_line(
    fixture: TlsListenersFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tls", "password_encoder"):
        monkeypatch.setitem(sys.modules, f"kafkalite.security.{name}", None)
    with pytest.raises(StartupError, match=r"listener INTERNAL .* pip install 'kafkalite\[security\]'"):
        fixture.listeners()
    with pytest.raises(ConfigError, match=r"password\.encoder\.secret .* pip install 'kafkalite\[security\]'"):
        fixture.config(password__encoder__secret="hush")


def test_a_file_that_is_gone_leaves_the_listener_as_it_is(
    fixture: TlsListenersFixture, caplog: pytest.LogCaptureFixture
) -> None:
    config = fixture.config()
    found = listeners(config)
    first = certificate(found, EXTERNAL)
    Path(fixture.file("broker.pem")).unlink()
    with caplog.at_level(logging.ERROR):
        config.dynamic.update_broker({})
    assert "ssl.keystore.location of listener EXTERNAL" in caplog.text
    assert certificate(found, EXTERNAL) == first
