"""``kafkalite cluster start --secure``: what its users can do, the other commands, and its next start."""

from __future__ import annotations

import base64
import json
import re
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from integration.harness.commands import Outcome, command, process
from integration.harness.logins import grant
from integration.harness.wait import wait_for
from integration.monitoring.prometheus import MISSING, REQUIRED, Prometheus
from kafkalite.embedded.security import ADMIN, CLIENT, ClusterSecurity
from kafkalite.embedded.state import broker_process, read_brokers, read_state, stop_cluster

pytestmark = pytest.mark.kafkalite_only
TOPIC, GROUP = "orders", "kitchen"
QUICK = {"group.initial.rebalance.delay.ms": "0", "zookeeper.session.timeout.ms": "12000"}


class Secured:
    """A cluster that commands start and stop, as a user does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def command(self, action: str, *flags: str, code: int = 0) -> Outcome:
        return process("cluster", action, "--dir", self.directory, *flags, code=code)

    def start(self, *flags: str) -> Outcome:
        overrides = [word for name, value in QUICK.items() for word in ("--override", f"{name}={value}")]
        return self.command("start", "--brokers", "2", "--detach", *overrides, *flags)

    @property
    def state(self) -> dict[str, Any]:
        """``cluster.json``."""
        state = read_state(self.directory)
        assert state is not None
        return state

    def properties(self, user: str) -> Path:
        return self.directory / "security" / f"{user}.properties"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Two brokers, and a topic that the user ``client`` may write and read."""
    cluster = Secured(tmp_path_factory.mktemp("secured") / "cluster")
    try:
        said = cluster.start("--secure", "--dashboard", "--allow-changes")
        assert "the dashboard asks for the user admin" in said.out
        (cluster.directory / "dashboard.txt").write_text(said.lines[-1].removeprefix("dashboard at "))
        assert "client properties of the users admin and client" in said.out
        yield cluster
    finally:
        stop_cluster(cluster.directory)


def topics(cluster: Secured, *arguments: object, user: str = ADMIN, code: int | None = 0) -> Outcome:
    where = ("--bootstrap-server", cluster.state["bootstrap"], "--command-config", cluster.properties(user))
    return process("topics", *where, *arguments, code=code or 0)


def send(login: dict[str, str], value: str) -> KafkaError | None:
    """The error of one record."""
    errors: list[KafkaError | None] = []
    producer = Producer({**login, "log_level": 0, "message.timeout.ms": 50_000})
    producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors[0]


def read(login: dict[str, str], count: int) -> list[str]:
    """The first records, read as a member of the group."""
    consumer = Consumer({**login, "log_level": 0, "group.id": GROUP, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False})  # fmt: skip
    try:
        consumer.subscribe([TOPIC])
        found = []
        for message in consumer.consume(count, 60):
            if message.error():
                raise KafkaException(message.error())
            found.append(message.value().decode())
        return found
    finally:
        consumer.close()


def test_an_ordinary_user_may_do_what_is_granted(secured: Secured) -> None:
    """The commands find the users' properties in files, programs in cluster.json."""
    admin, client = secured.state[ADMIN], secured.state[CLIENT]
    topics(secured, "--create", "--topic", TOPIC, "--partitions", 1, "--replication-factor", 2)
    assert topics(secured, "--list").lines == [TOPIC]
    assert topics(secured, "--list", user=CLIENT).lines == []
    refused = send(client, "too early")
    assert refused is not None
    assert refused.name() == "TOPIC_AUTHORIZATION_FAILED"
    where = ("--bootstrap-server", secured.state["bootstrap"], "--command-config", secured.properties(CLIENT))
    for entity, code in (
        (("--topic", TOPIC), "TOPIC_AUTHORIZATION_FAILED: Topic authorization failed."),
        (("--broker", 1), "CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed."),
        (("--broker-defaults",), "CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed."),
    ):
        told = command("configs", "--describe", *entity, "--all", *where, code=1)
        assert (told.out, told.err) == ("", f"kafkalite configs: {code}\n")
    grant(admin, CLIENT, (ResourceType.TOPIC, TOPIC, AclOperation.ALL), (ResourceType.GROUP, GROUP, AclOperation.READ))
    wait_for(lambda: send(client, "one coffee") is None, "the record is accepted")
    assert topics(secured, "--list", user=CLIENT).lines == [TOPIC]
    assert read(client, 1) == ["one coffee"]
    # Partitions that are read without a group need no rule for one.
    where = ("--bootstrap-server", secured.state["bootstrap"], "--consumer.config", secured.properties(CLIENT))
    said = process("consume", *where, "--topic", TOPIC, "--partition", 0, "--offset", "earliest", "--max-messages", 1)
    assert said.lines[0] == "one coffee"


class DashboardPage:
    """The page of the cluster's dashboard, over TLS, as its user sees it without a browser."""

    def __init__(self, cluster: Secured) -> None:
        self.address = (cluster.directory / "dashboard.txt").read_text()
        self.origin = self.address.rstrip("/")
        self._tls = ssl.create_default_context(cafile=cluster.directory / "security" / "ca.pem")
        login = f"{ADMIN}:{cluster.state[ADMIN]['sasl.password']}"
        self.login = f"Basic {base64.b64encode(login.encode()).decode()}"

    def open(self, path: str = "", login: str | None = None, body: object = None, **headers: str) -> HTTPResponse:
        given = {"Authorization": self.login if login is None else login, **headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {k: v for k, v in given.items() if v})
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=60, context=self._tls)
        return answer

    def read(self, path: str = "") -> str:
        with self.open(path) as answer:
            return answer.read().decode()

    def values(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The values that the page shows, once ``until`` holds for them."""
        found: dict[str, Any] = {}
        with self.open("changes") as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    found |= json.loads(line.removeprefix(b"data: "))
                    if until(found):
                        return found
        raise AssertionError("the dashboard ended the stream")


def test_the_dashboard_shows_and_changes_the_cluster_to_its_user_over_tls(secured: Secured) -> None:
    """Created here: the topic; read by TLS and SASL: ZooKeeper's tree, offsets of brokers, and their events."""
    page = DashboardPage(secured)
    assert page.address.startswith("https://127.0.0.1:")
    for login in ("", "Basic " + base64.b64encode(b"admin:wrong").decode()):
        with pytest.raises(urllib.error.HTTPError) as refused:
            page.open(login=login)
        assert refused.value.code == 401
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(page.address, timeout=60)
    with pytest.raises(OSError):
        urllib.request.urlopen(page.address.replace("https", "http"), timeout=60)
    found = re.search(r'name="kafkalite-token" content="([\w-]{43})"', page.read())
    assert found is not None
    fields = {"topic": "shown", "partitions": 1, "replicas": 2}
    asked = {"action": "create-topic", "fields": fields, "run": True}
    headers = {"Origin": page.origin, "X-Kafkalite-Token": found[1]}
    with page.open("actions", body=asked, **headers) as answer:
        outcome = json.loads(answer.read())
    assert (outcome["code"], outcome["output"]) == (0, "Created topic shown.\n")
    assert "--command-config" in outcome["command"]
    assert secured.state[ADMIN]["sasl.password"] not in outcome["command"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        page.open("actions", body=asked, **{**headers, "Origin": "https://attacker.example"})
    assert refused.value.code == 403
    shown = page.values(
        lambda values: (
            len((values.get("log/shown/0") or {"replicas": ()})["replicas"]) == 2
            and bool((values.get("timeline/newest") or {"events": ()})["events"])
        )
    )
    assert {shown[f"broker/{number}"]["endpoints"][0]["protocol"] for number in (1, 2)} == {"SASL_SSL"}
    assert {event["broker"] for event in shown["timeline/newest"]["events"]} == {1, 2}
    users = [value for key, value in shown.items() if key.startswith("znode/config/users/")]
    assert users
    assert all(value["data"] is None for value in users), "credentials are not shown"
    with page.open("actions", body={"action": "delete-topic", "fields": fields, "run": True}, **headers) as answer:
        assert json.loads(answer.read())["code"] == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sasl.password": "wrong"}, "_AUTHENTICATION"),
        ({"sasl.username": "nobody"}, "_AUTHENTICATION"),
        ({"ssl.ca.location": "OTHER"}, "_SSL"),
        ({"security.protocol": "PLAINTEXT"}, "_ALL_BROKERS_DOWN"),
    ],
)
def test_clients_with_wrong_properties_are_kept_out(
    secured: Secured, tmp_path: Path, changes: dict[str, str], named: str
) -> None:
    if "ssl.ca.location" in changes:
        changes = {"ssl.ca.location": str(ClusterSecurity.create(tmp_path).ca_file)}
    errors: list[str] = []
    login = {**secured.state[CLIENT], **changes, "log_level": 0, "error_cb": lambda error: errors.append(error.name())}
    client = AdminClient(login)

    def reported() -> bool:
        with pytest.raises(KafkaException):
            client.list_topics(timeout=0.5)
        client.poll(0)
        return named in errors

    wait_for(reported, f"{named} is reported")


def metrics(cluster: Secured, user: str = "", password: str = "") -> tuple[int, str]:
    """Status and text of the first broker's page."""
    address = str(cluster.state["brokers"][0]["metrics"])
    assert address.startswith("https://")
    request = urllib.request.Request(address)
    if user:
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    trust = ssl.create_default_context(cafile=cluster.state[ADMIN]["ssl.ca.location"])
    try:
        with urllib.request.urlopen(request, timeout=30, context=trust) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_metrics_need_tls_a_login_and_a_permission(secured: Secured, tmp_path: Path) -> None:
    admin, client = secured.state[ADMIN], secured.state[CLIENT]
    with pytest.raises(OSError):
        urllib.request.urlopen(secured.state["brokers"][0]["metrics"].replace("https", "http"), timeout=30).read()
    assert metrics(secured)[0] == 401
    assert metrics(secured, ADMIN, "wrong")[0] == 401
    assert metrics(secured, "nobody", admin["sasl.password"])[0] == 401
    status, said = metrics(secured, CLIENT, client["sasl.password"])
    assert (status, said) == (403, "User:client needs the operation Describe on the cluster.\n")
    status, page = metrics(secured, ADMIN, admin["sasl.password"])
    assert status == 200
    assert "\nkafka_server_replicamanager_leadercount " in page
    grant(admin, CLIENT, (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE))
    wait_for(lambda: metrics(secured, CLIENT, client["sasl.password"])[0] == 200, "the user may read the metrics")

    if MISSING:
        assert not REQUIRED, MISSING
        return
    login = {"username": CLIENT, "password": client["sasl.password"]}
    tls, basic = json.dumps({"ca_file": client["ssl.ca.location"]}), json.dumps(login)
    more = f"    scheme: https\n    tls_config: {tls}\n    basic_auth: {basic}\n"
    targets = [urlsplit(broker["metrics"]).netloc for broker in secured.state["brokers"]]
    with Prometheus(tmp_path, targets, more) as prometheus:
        wait_for(
            lambda: [each["value"][1] for each in prometheus.query("up")] == ["1", "1"],
            "Prometheus reads both brokers",
            timeout=60,
            interval=0.5,
        )


@pytest.mark.full
def test_doctor_events_and_trace_log_in_with_the_users_files(secured: Secured) -> None:
    topic = "examined"
    topics(secured, "--create", "--topic", topic, "--partitions", 1, "--replication-factor", 2)
    brokers = ("--bootstrap-server", secured.state["bootstrap"])
    admin = ("--command-config", secured.properties(ADMIN))
    zookeeper = ("--zookeeper", secured.state["zookeeper"])
    tls = ("--zk-tls-config-file", secured.properties("zookeeper"))

    def healthy(*where: object) -> bool:
        found = command("doctor", *where, *admin, *tls, "--interval", "1", "--json", code=None).json
        assert found["brokers"] == [1, 2]
        # The other tests' topics, and the stalls of a busy machine.
        kinds = {each["check"] for each in found["findings"]}
        return found["partitions"] > 0 and not kinds & {"not-examined", "broker-silent", "no-broker"}

    for where in (brokers, zookeeper):
        wait_for(lambda: healthy(*where), "the doctor reads all of the cluster", timeout=60)  # noqa: B023
    # A user that may not read the configurations is told so, and is given no cause to restart a broker.
    found = command("doctor", *brokers, "--command-config", secured.properties(CLIENT), "--json", code=None).json
    kinds = {each["check"] for each in found["findings"]}
    assert "not-examined" in kinds and "no-controller" not in kinds

    for flags in ((*brokers, *admin), (*zookeeper, *tls, *admin)):
        events = process("events", *flags, "--json").lines
        assert {json.loads(line)["broker"] for line in events} == {1, 2}
    wrong = Producer({**secured.state[CLIENT], "sasl.password": "wrong", "log_level": 0, "error_cb": lambda _: None})

    def told() -> bool:
        wrong.poll(0)
        lines = process("events", *brokers, *admin, "--kind", "authentication").lines
        return any("failed to authenticate on" in line for line in lines)

    wait_for(told, "the refused login is told")
    refused = process("events", *zookeeper, *tls, code=1).err
    assert "HTTP Error 401" in refused or "certificate verify failed" in refused
    refused = process("events", *brokers, "--command-config", secured.properties(CLIENT), code=1).err
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused
    story = process("trace", "produce", *brokers, *admin, "--topic", topic, "--json").json
    assert {step["kind"] for step in story["steps"]} >= {"appended", "acknowledged", "high-watermark"}


def test_the_other_commands_know_the_cluster(secured: Secured) -> None:
    status = secured.command("status", "--json").json
    assert [broker["status"] for broker in status["brokers"]] == ["running", "running"]
    assert status["controller"] in (1, 2)
    said = secured.command("start", "--secure", "--detach", code=1).err
    assert "are running: kafkalite cluster stop" in said
    victim = read_brokers(secured.directory)[0]
    broker_process(victim).kill()
    assert f"broker {victim.id}" in next(line for line in secured.command("status", code=1).lines if "stopped" in line)


def test_zookeeper_can_be_looked_at_with_the_clusters_certificate(secured: Secured) -> None:
    properties = secured.properties("zookeeper")
    where = ("--zookeeper", secured.state["zookeeper"], "--zk-tls-config-file", properties)
    assert " 0 faults" in process("zk", "verify", *where).out
    stored = process("zk", "tree", "--json", "--path", "/config/users", *where).json
    assert [znode["path"] for znode in stored] == ["/config/users", "/config/users/admin", "/config/users/client"]


@pytest.mark.full
def test_a_later_start_keeps_users_data_acls_and_overrides(secured: Secured) -> None:
    """Also without the flag."""
    before = secured.state
    secured.command("stop")
    assert secured.command("status", code=1).lines
    secured.command("start", "--brokers", "2", "--detach", "--override", "log.retention.hours=24")
    after = secured.state
    for broker in read_brokers(secured.directory):
        properties = (Path(broker.dir) / "server.properties").read_text().splitlines()
        assert {f"{name}={value}" for name, value in QUICK.items()} | {"log.retention.hours=24"} <= set(properties)
    assert [after[user] for user in (ADMIN, CLIENT)] == [before[user] for user in (ADMIN, CLIENT)]
    assert read(after[CLIENT], 1) == ["one coffee"]


def test_secrets_are_in_private_files_alone(secured: Secured) -> None:
    """After all of the above no password, no key and no part of a credential is in a log, and other users of the
    machine can read none."""
    login = secured.state
    secrets = [login[user]["sasl.password"] for user in (ADMIN, CLIENT)] + ["PRIVATE KEY", "stored_key"]
    exposed = []
    for path in secured.directory.rglob("*"):
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets):
            way = [path, *(each for each in path.parents if secured.directory in each.parents)]
            if all(stat.S_IMODE(each.stat().st_mode) & 0o077 for each in way):
                exposed.append(path)
    assert exposed == []
    logs = [path.read_text() for path in secured.directory.glob("broker-*/broker.log")]
    assert len(logs) == 2
    assert not [secret for secret in secrets for log in logs if secret in log]
