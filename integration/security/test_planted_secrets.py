"""Secrets of every kind are planted, used rightly and wrongly, and then looked for where others may read.

The broker logs everything that it can (DEBUG). Looked at are all files of the cluster but its configuration and
ZooKeeper's own data, what brokers, guardian and commands say, the command lines and environments of all processes, and
the znodes.
"""

from __future__ import annotations

import base64
import json
import random
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from integration.conftest import TEST_OVERRIDES
from integration.harness.commands import command, process
from integration.harness.logins import open_socket
from integration.harness.raw import RawClient
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.security.acl_matrix import ask
from integration.security.sasl_cluster import LISTENER, PLAIN_MODULE, SaslCluster
from integration.security.secured_broker import OAUTH_MODULE, UNSECURED
from integration.security.stores import Stores, run
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.state import OVERRIDES_FILE
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.sasl_client import ScramSaslClient
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS

pytestmark = pytest.mark.kafkalite_only
SECRETS = {
    name: f"planted-{name.replace(' ', '-')}-{number}7c1"
    for number, name in enumerate(
        (
            "PLAIN password",
            "wrong PLAIN password",
            "SCRAM password",
            "wrong SCRAM password",
            "key store password",
            "next key store password",
            "wrong key store password",
            "token key",
            "password encoder",
            "ZooKeeper digest",
            "subject of a wrong JWT",
        )
    )
}
SCRAM = "SCRAM-SHA-512"
PREFIX = f"listener.name.{LISTENER.lower()}"
CLOSED = ("/config/users", "/config/brokers", "/delegation_token/tokens")
BROKER_RESOURCE = 4
WORDS = ("stored_key", "server_key", "PRIVATE KEY")


def chatty_launcher(config: Path) -> list[str]:
    """A broker whose log has the level DEBUG."""
    program = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG); "
        "from kafkalite.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-c", program, "broker", "start", "--config", str(config)]


class Client(RawClient):
    """A connection by TLS that keeps the bytes of all answers in ``heard``."""

    def __init__(self, address: str, authority: Path | None, heard: bytearray) -> None:
        host, _, port = address.rpartition(":")
        connected = open_socket(host, int(port), 10.0)
        if authority is not None:
            connected = ssl.create_default_context(cafile=authority).wrap_socket(connected, server_hostname=host)
        BlockingConnection.__init__(self, connected, "planted")
        self._heard = heard

    def receive_frame(self, *, reuse: bool = False) -> memoryview:
        frame = super().receive_frame(reuse=reuse)
        self._heard += frame
        return frame

    def authenticate(self, mechanism: str, *tokens: bytes) -> int:
        """The error of the last answer."""
        assert self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code == ErrorCode.NONE
        return [int(self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).error_code) for token in tokens][-1]

    def scram(self, user: str, password: str, *, is_token: bool = False) -> int:
        """The error of a whole exchange."""
        assert self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=SCRAM).error_code == ErrorCode.NONE
        exchange = ScramSaslClient(SCRAM_MECHANISMS[SCRAM], user, password, random.Random(), is_token=is_token)
        token, code = exchange.evaluate(None), 0
        while token is not None and not code:
            answer = self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            code = int(answer.error_code)
            token = None if code else exchange.evaluate(bytes(answer.auth_bytes))
        return code


class PlantedFixture:
    """One broker that has all the secrets, and everything that was said by it and by the commands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said: dict[str, str] = {}
        self.heard = bytearray()
        self.secrets = dict(SECRETS)
        self.stores = Stores(directory / "stores")
        self.stores.issue("broker")
        store = pkcs12(self.stores, "broker", SECRETS["key store password"])
        settings = {
            **TEST_OVERRIDES,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": SECRETS["key store password"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.stores.path("ca.pem")),
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
            f"{PREFIX}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{SECRETS["PLAIN password"]}";',
            f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
            f"{PREFIX}.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
            "delegation.token.secret.key": SECRETS["token key"],
            "password.encoder.secret": SECRETS["password encoder"],
            "zookeeper.set.acl": "true",
            "zookeeper.auth.digest": self.digest,
        }

        def make(brokers: int, overrides: Mapping[str, str], **_: object) -> LocalCluster:
            return LocalCluster(directory / "cluster", brokers, overrides=overrides, launcher=chatty_launcher)

        self.sasl = SaslCluster(make, settings, protocol="SASL_SSL").start()
        self.cluster = self.sasl.cluster

    @property
    def digest(self) -> str:
        return f"kafka:{SECRETS['ZooKeeper digest']}"

    def connect(self, *, plain: bool = False, private: bool = False) -> Client:
        """A connection to the secured listener, or to the plain one; ``private``: the answers are for the client."""
        address, authority = (
            (self.cluster.address(1), None) if plain else (self.sasl.address(), self.stores.path("ca.pem"))
        )
        return Client(address, authority, bytearray() if private else self.heard)

    def run(self, name: str, password: str, *arguments: object, code: int = 0) -> None:
        """One of our commands as alice, whose password is in a file."""
        config = self.directory / "alice.properties"
        config.write_text(
            f"security.protocol=SASL_SSL\nssl.ca.location={self.stores.path('ca.pem')}\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN_MODULE} required username="alice" password="{password}";\n'
        )
        where = ("--bootstrap-server", self.sasl.address(), "--command-config", config)
        done = command(*arguments, *where, code=code)
        self.said[name] = done.out + done.err

    def exposed(self, what: str, data: bytes) -> list[str]:
        """Which secrets are in ``data``, as they are or encoded."""
        return [
            f"{what}: {name}" for name, secret in self.secrets.items() if any(form in data for form in forms(secret))
        ]


def pkcs12(stores: Stores, name: str, password: str) -> Path:
    """The key of ``name`` in a key store with that password."""
    path = stores.path(f"{name}.p12")
    pem = stores.path(f"{name}.pem")
    run("openssl", "pkcs12", "-export", "-in", pem, "-out", path, "-name", name, "-passout", f"pass:{password}")
    return path


def forms(secret: str) -> Iterator[bytes]:
    """``secret`` and what it looks like in base64 (wherever it begins there) and in hex."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    for shift in range(3):
        # The first and the last characters depend on the neighbours.
        yield base64.b64encode(bytes(shift) + raw)[4:-4]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedFixture]:
    """Everything has been used by then."""
    fixture = PlantedFixture(tmp_path_factory.mktemp("planted"))
    try:
        use_passwords(fixture)
        use_tokens(fixture)
        use_configurations(fixture)
        use_wrong_settings(fixture)
        fixture.cluster.kill_broker(1)
        with Tree(fixture.cluster.zookeeper) as tree:
            wait_for(lambda: tree.live() == [], "the guardian has ended the session")
        fixture.cluster.start_broker(1)
        yield fixture
    finally:
        fixture.cluster.close()


def use_passwords(planted: PlantedFixture) -> None:
    added = f"{SCRAM}=[password={SECRETS['SCRAM password']}]"
    users = ("--entity-type", "users", "--entity-name", "bob")
    right, wrong = SECRETS["PLAIN password"], SECRETS["wrong PLAIN password"]
    planted.run("configs --alter", right, "configs", "--alter", *users, "--add-config", added)
    planted.run("configs --describe", right, "configs", "--describe", *users)
    planted.run("a wrong password", wrong, "topics", "--list", code=1)
    for password, code in ((right, ErrorCode.NONE), (wrong, ErrorCode.SASL_AUTHENTICATION_FAILED)):
        with planted.connect() as client:
            assert client.authenticate("PLAIN", f"\0alice\0{password}".encode()) == code
    with planted.connect() as client:
        # Where a client sends nonsense, or too much, no part of it is said to anyone.
        client.authenticate("PLAIN", f"\0alice\0{right}\0{wrong}".encode())
    wait_for(lambda: scram(planted, "SCRAM password") == ErrorCode.NONE, "the credentials are known")
    assert scram(planted, "wrong SCRAM password") == ErrorCode.SASL_AUTHENTICATION_FAILED


def scram(planted: PlantedFixture, name: str) -> int:
    with planted.connect() as client:
        return client.scram("bob", SECRETS[name])


def use_tokens(planted: PlantedFixture) -> None:
    with planted.connect(private=True) as owner:
        owner.scram("bob", SECRETS["SCRAM password"])
        made = owner.ask(ApiKey.CREATE_DELEGATION_TOKEN, 2, renewers=[], max_lifetime_ms=-1)
        assert made.error_code == ErrorCode.NONE
        planted.secrets["delegation token"] = password = base64.b64encode(made.hmac).decode()
        wait_for(lambda: token(planted, made.token_id, password) == ErrorCode.NONE, "the token is known")
        assert token(planted, made.token_id, password[:-4] + "AAA=") == ErrorCode.SASL_AUTHENTICATION_FAILED
        renewed = owner.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=made.hmac, renew_period_ms=-1)
        assert renewed.error_code == ErrorCode.NONE
    with planted.connect() as other:
        other.authenticate("PLAIN", f"\0alice\0{SECRETS['PLAIN password']}".encode())
        refused = other.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=made.hmac, renew_period_ms=-1)
        assert refused.error_code != ErrorCode.NONE
    for name, expires in (("JWT", 60), ("expired JWT", -60)):
        planted.secrets[name] = jwt = unsecured(sub="alice", exp=int(time.time()) + expires, note=name)
        with planted.connect() as client:
            client.authenticate("OAUTHBEARER", f"n,,\x01auth=Bearer {jwt}\x01\x01".encode())
    with planted.connect() as client:
        wrong = unsecured(sub=SECRETS["subject of a wrong JWT"])
        client.authenticate("OAUTHBEARER", f"n,,\x01auth=Bearer {wrong}\x01\x01".encode(), b"\x01")


def token(planted: PlantedFixture, token_id: str, password: str) -> int:
    with planted.connect() as client:
        return client.scram(token_id, password, is_token=True)


def unsecured(**claims: object) -> str:
    """A token without a signature."""
    head, body = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return (
        f"{base64.urlsafe_b64encode(head).decode().rstrip('=')}.{base64.urlsafe_b64encode(body).decode().rstrip('=')}."
    )


def use_configurations(planted: PlantedFixture) -> None:
    planted.stores.issue("next")
    store = pkcs12(planted.stores, "next", SECRETS["next key store password"])
    keys = f"{PREFIX}.ssl.keystore"
    with planted.connect(plain=True) as admin:

        def alter(password: str, key: str = f"{keys}.password") -> int:
            values = {f"{keys}.location": str(store), f"{keys}.type": "PKCS12", key: SECRETS[password]}
            changes = [{"name": name, "config_operation": 0, "value": value} for name, value in values.items()]
            broker = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configs": changes}
            (answer,) = ask(
                admin, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[broker], validate_only=False
            ).responses
            return int(answer.error_code)

        assert alter("wrong key store password") != ErrorCode.NONE
        assert alter("next key store password", "ssl.keystore.password") != ErrorCode.NONE
        assert alter("next key store password") == ErrorCode.NONE
        broker = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": None}
        for version in (1, 4):
            more = {"include_documentation": True} if version == 4 else {}
            described = ask(admin, ApiKey.DESCRIBE_CONFIGS, version, resources=[broker], include_synonyms=True, **more)
            assert len(described.results[0].configs) > 100
        found = ask(admin, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
        assert [user.user for user in found.results] == ["bob"]


def use_wrong_settings(planted: PlantedFixture) -> None:
    """A broker and a command do not start with them, and say why."""
    good = (planted.cluster.broker_dir(1) / "server.properties").read_text()
    secret = SECRETS["PLAIN password"]
    wrong = {
        "a wrong key store password": f"ssl.keystore.password={SECRETS['wrong key store password']}",
        "malformed JAAS": f'{PREFIX}.plain.sasl.jaas.config={PLAIN_MODULE} required user_alice="{secret}',
        "an unknown module": f'{PREFIX}.plain.sasl.jaas.config=org.example.Other required user_alice="{secret}";',
        "a malformed digest": f"zookeeper.auth.digest={SECRETS['ZooKeeper digest']}",
    }
    for name, line in wrong.items():
        config = planted.directory / "wrong.properties"
        config.write_text(f"{good}\n{line}\n")
        done = process("broker", "start", "--config", config, code=1)
        planted.said[name] = done.out + done.err
    config.write_text(f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_MODULE} x="{secret}"')
    done = command("topics", "--list", "--bootstrap-server", planted.sasl.address(), "--command-config", config, code=2)
    planted.said["malformed JAAS of a command"] = done.out + done.err


def test_no_log_and_no_message_has_a_secret(planted: PlantedFixture) -> None:
    said = {name: text.encode() for name, text in planted.said.items()} | {"answers": bytes(planted.heard)}
    configuration = ("server.properties", OVERRIDES_FILE)
    for path in planted.cluster.directory.rglob("*"):
        if path.is_file() and path.name not in configuration and "version-2" not in path.parts:
            said[str(path.relative_to(planted.cluster.directory))] = path.read_bytes()
    assert "DEBUG" in planted.cluster.log_file(1).read_text()
    assert {"broker-1/broker.log", "zookeeper/zookeeper.log"} <= said.keys()
    properties = (planted.cluster.broker_dir(1) / "server.properties").read_bytes()
    assert len(planted.exposed("the search finds them where they are", properties)) == 5
    token = base64.b64encode(f"\0alice\0{SECRETS['PLAIN password']}".encode())
    assert planted.exposed("also encoded", token) == ["also encoded: PLAIN password"]
    assert [line for name, data in said.items() for line in planted.exposed(name, data)] == []
    assert [(name, word) for name, data in said.items() for word in WORDS if word.encode() in data] == []


def test_no_process_shows_a_secret(planted: PlantedFixture) -> None:
    broker = psutil.Process(planted.cluster.pid(1))
    processes = [broker, *broker.children(recursive=True)]
    assert any("guardian" in " ".join(each.cmdline()) for each in processes)
    shown = {each.pid: "\0".join([*each.cmdline(), *each.environ().values()]) for each in processes}
    assert [line for pid, text in shown.items() for line in planted.exposed(str(pid), text.encode())] == []


def test_no_znode_shows_a_secret(planted: PlantedFixture) -> None:
    """A stranger can read none of those with credentials, and a broker's own view has none in clear."""
    with Tree(planted.cluster.zookeeper) as stranger, Tree(planted.cluster.zookeeper, planted.digest) as friend:
        for path in CLOSED:
            with pytest.raises(NoAuthError):
                stranger.zk.get(path)
        for each in (stranger, friend):
            znodes = dict(readable(each.zk))
            assert "/controller_epoch" in znodes
            assert [line for path, data in znodes.items() for line in planted.exposed(path, data)] == []
        assert b"stored_key" in znodes["/config/users/bob"]
        assert "/config/users/bob" not in dict(readable(stranger.zk))


def readable(zk: KazooClient, path: str = "/") -> Iterator[tuple[str, bytes]]:
    """All that ``zk`` may read, by path."""
    try:
        data, _ = zk.get(path)
        yield path, data
    except NoAuthError:
        pass
    except NoNodeError:
        return
    try:
        children = zk.get_children(path)
    except (NoAuthError, NoNodeError):
        return
    for name in children:
        yield from readable(zk, f"{path.rstrip('/')}/{name}")
