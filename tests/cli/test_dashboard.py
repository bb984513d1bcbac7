"""``kafkalite dashboard``: what is refused before it listens, and how the page's file of properties is read."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kafkalite.cli.dashboard_access import broker_access, page_login
from kafkalite.cli.main import main
from kafkalite.common.errors import ConfigError
from kafkalite.embedded.security import ADMIN, ClusterSecurity


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def write(path: Path, **properties: str) -> Path:
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()))
    return path


def test_the_page_of_a_secured_cluster_is_for_its_super_user(tmp_path: Path) -> None:
    security = ClusterSecurity.create(tmp_path)
    file = security.write_page_properties()
    assert file.stat().st_mode & 0o777 == 0o600
    login = page_login(file)
    password = security.login_properties(ADMIN)["sasl.password"]
    assert login.is_user(None, basic(ADMIN, password))
    for shown in ("", basic(ADMIN, password[:-1]), basic("client", password), f"Bearer {password}"):
        assert not login.is_user(None, shown)
    assert {"localhost", "127.0.0.1", "::1"} <= set(login.names)


def test_a_page_that_no_user_could_log_in_to_is_refused(tmp_path: Path) -> None:
    key = ClusterSecurity.create(tmp_path).issue("page", "page")
    stores = {"ssl_keystore_location": str(key), "ssl_keystore_type": "PEM"}
    for properties in (stores, {**stores, "ssl_client_auth": "requested"}):
        with pytest.raises(ConfigError, match="no user could log in"):
            page_login(write(tmp_path / "page.properties", **properties))
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        page_login(write(tmp_path / "page.properties", ssl_client_auth="required"))
    with pytest.raises(ConfigError, match="Cannot read"):
        page_login(tmp_path / "missing")


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"security_protocol": "QUIC"}, "security.protocol=QUIC: it is one of PLAINTEXT"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "logs in by sasl.mechanism PLAIN"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "with a user and a password"),
        ({"security_protocol": "SSL", "ssl_ca_location": "/no/such/file"}, "cannot be read"),
    ],
)
def test_a_login_that_the_dashboard_does_not_speak_is_refused(
    tmp_path: Path, properties: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        broker_access(write(tmp_path / "client.properties", **properties))


def test_without_a_file_brokers_are_asked_in_clear() -> None:
    access = broker_access(None)
    assert (access.protocol, access.security.tls, access.security.sasl) == ("PLAINTEXT", None, None)


def test_a_login_is_made_for_each_connection(tmp_path: Path) -> None:
    security = ClusterSecurity.create(tmp_path)
    access = broker_access(security.properties_file(ADMIN))
    assert access.protocol == "SASL_SSL"
    assert access.security.tls is not None
    assert access.security.sasl is not None
    first, second = access.security.sasl(), access.security.sasl()
    assert first.evaluate(None) != second.evaluate(None), "each has a nonce of its own"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--zookeeper", "zk:1", "--listen", "8080"], 1, "expected HOST:PORT"),
        (["--zookeeper", "zk:1", "--listen", "0.0.0.0:8080"], 1, "the page has no login"),
        (["--dir", "DIR"], 1, "no cluster in"),
        (["--dir", "DIR", "--digest", "a:b"], 2, "--dir knows the security of its cluster"),
    ],
)
def test_a_dashboard_that_cannot_be_is_refused_with_one_line(
    arguments: list[str], code: int, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path) if word == "DIR" else word for word in arguments]
    assert main(["dashboard", *words]) == code
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
