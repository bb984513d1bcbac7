"""A local cluster's own CA, keys and users: what is made once, is private, and fits together."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
import sys
import threading
from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.embedded.certificates import CertificateAuthority
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ADMIN, BROKER_NAME, CLIENT, ClusterSecurity
from kafkalite.embedded.state import BrokerAddress, write_state
from kafkalite.security.scram_credentials import SCRAM_SHA_512, ScramCredential


@pytest.fixture
def security(tmp_path: Path) -> ClusterSecurity:
    return ClusterSecurity.create(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> tuple[ssl.SSLError | None, str]:
    """The client's error, and the name in the certificate that the server got from it."""
    ends = socket.socketpair()
    for end in ends:
        end.settimeout(10)
    names: list[str] = []

    def serve() -> None:
        try:
            with server.wrap_socket(ends[0], server_side=True) as connection:
                names.append(common_name(connection))
                connection.sendall(b"x")
        except OSError:
            ends[0].close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ends[1], server_hostname=host) as connection:
            connection.recv(1)
        return None, names[0]
    except ssl.SSLError as error:
        return error, ""
    finally:
        ends[1].close()
        thread.join()


def common_name(connection: ssl.SSLSocket) -> str:
    return str((connection.getpeercert() or {}).get("subject", ""))


def context(kind: int, security: ClusterSecurity, key: Path | None) -> ssl.SSLContext:
    made = ssl.SSLContext(kind)
    made.load_verify_locations(security.ca_file)
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    if key is not None:
        made.load_cert_chain(key)
    if kind == ssl.PROTOCOL_TLS_SERVER:
        made.verify_mode = ssl.CERT_REQUIRED
    return made


@pytest.mark.parametrize(
    ("host", "complaint"),
    [("localhost", ""), ("127.0.0.1", ""), ("other.example", "Hostname mismatch")],
)
def test_brokers_know_each_other_by_their_certificates(security: ClusterSecurity, host: str, complaint: str) -> None:
    keys = [Path(security.broker_properties(broker_id)["ssl.keystore.location"]) for broker_id in (1, 2)]
    server = context(ssl.PROTOCOL_TLS_SERVER, security, keys[0])
    error, name = handshake(server, context(ssl.PROTOCOL_TLS_CLIENT, security, keys[1]), host)
    assert complaint in str(error)
    assert name == ("" if complaint else f"((('commonName', '{BROKER_NAME}'),),)")


def test_the_certificate_of_another_cluster_is_not_trusted(security: ClusterSecurity, tmp_path: Path) -> None:
    other = ClusterSecurity.create(tmp_path / "other")
    server = context(ssl.PROTOCOL_TLS_SERVER, security, security.issue("broker-1", BROKER_NAME))
    stranger = context(ssl.PROTOCOL_TLS_CLIENT, other, other.issue("broker-1", BROKER_NAME))
    error, _ = handshake(server, stranger, "localhost")
    assert "self-signed certificate in certificate chain" in str(error)


def test_files_with_secrets_are_the_owners_alone(security: ClusterSecurity, tmp_path: Path) -> None:
    security.broker_properties(1)
    security.zookeeper_properties()
    write_state(tmp_path, "z:1", [BrokerAddress(1, "h", 9, 7, "d")], security.logins())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    secret = {
        path.name for path in files if any(word in path.read_text() for word in ("PRIVATE KEY", *passwords(security)))
    }
    assert secret == {
        *("admin.properties", "broker-1.pem", "ca-key.pem", "client.properties", "cluster.json", "users.json"),
        *("zookeeper-client.pem", "zookeeper.pem"),
    }
    assert {path.name: oct(mode(path)) for path in files if path.name in secret and mode(path) != 0o600} == {}
    assert mode(security.folder) == 0o700


def passwords(security: ClusterSecurity) -> list[str]:
    return [login["sasl.password"] for login in security.logins().values()]


def test_the_next_start_finds_the_same_keys_and_passwords(security: ClusterSecurity, tmp_path: Path) -> None:
    key = security.issue("broker-1", BROKER_NAME)
    before = security.ca_file.read_bytes(), key.read_bytes(), security.logins()
    for again in (ClusterSecurity.create(tmp_path), ClusterSecurity.find(tmp_path)):
        assert again is not None
        assert again.issue("broker-1", BROKER_NAME) == key
        assert (again.ca_file.read_bytes(), key.read_bytes(), again.logins()) == before
    assert len(set(passwords(security))) == 2
    assert ClusterSecurity.find(tmp_path / "elsewhere") is None


def test_an_interrupted_start_leaves_no_half_made_security(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The users' file is the last one, so that the next start makes all of it."""
    with monkeypatch.context() as patch:
        patch.setattr(CertificateAuthority, "create", lambda _: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            ClusterSecurity.create(tmp_path)
    assert ClusterSecurity.find(tmp_path) is None
    assert ClusterSecurity.create(tmp_path).issue("broker-1", BROKER_NAME).exists()


def test_the_credentials_in_zookeeper_are_those_of_the_passwords(security: ClusterSecurity) -> None:
    stored = security.credentials()
    assert set(stored) == {ADMIN, CLIENT}
    for user, password in zip(stored, passwords(security), strict=True):
        assert password not in json.dumps(stored)
        credential = ScramCredential.parse(stored[user]["SCRAM-SHA-512"])
        assert credential == ScramCredential.from_password(
            SCRAM_SHA_512, password, credential.salt, credential.iterations
        )
    assert security.credentials() != stored, "salts are new each time"


def test_properties_of_users(security: ClusterSecurity, tmp_path: Path) -> None:
    """``cluster.json`` has the properties with the brokers' addresses, the users' files without."""
    write_state(tmp_path, "z:1", [BrokerAddress(n, "h", 9 + n, 7, "d") for n in (1, 2)], security.logins())
    state = json.loads((tmp_path / "cluster.json").read_text())
    for user in (ADMIN, CLIENT):
        assert state[user] == {
            "bootstrap.servers": "h:10,h:11",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "security" / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": security.logins()[user]["sasl.password"],
        }
        lines = security.properties_file(user).read_text().splitlines()
        assert dict(line.split("=", 1) for line in lines) == security.logins()[user]
        client = security.client_config(user)
        assert client.tls
        assert client.sasl is not None
        assert (client.sasl.username, client.sasl.password) == (user, state[user]["sasl.password"])


def test_server_properties_of_a_secured_broker(security: ClusterSecurity, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 2, port_base=19092, zookeeper="zk:2181", security=security)
    lines = cluster._write_properties(2).read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    clients, brokers = found["listeners"].split(",")
    assert clients == "CLIENTS://127.0.0.1:19093"
    assert brokers.startswith("BROKERS://127.0.0.1:")
    assert found["listener.security.protocol.map"] == "CLIENTS:SASL_SSL,BROKERS:SSL"
    assert "PLAINTEXT" not in "".join(lines)
    assert found["super.users"] == "User:admin;User:CN=broker"
    assert cluster._write_properties(2).read_text().splitlines() == lines, "the ports stay"


def test_without_cryptography_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafkalite.embedded.certificates")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(StartupError, match=r"needs the package cryptography: pip install 'kafkalite\[testing]'"):
        ClusterSecurity.create(tmp_path)
    assert ClusterSecurity.find(tmp_path) is None


def test_a_file_is_private_from_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = set()
    replace = Path.replace

    def replaced(path: Path, target: Path) -> Path:
        modes.add(mode(path))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replaced)
    previous = os.umask(0)
    try:
        ClusterSecurity.create(tmp_path)
    finally:
        os.umask(previous)
    assert modes == {0o600}
