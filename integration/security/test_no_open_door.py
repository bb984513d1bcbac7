"""A secured broker tells a stranger its versions and mechanisms, and nothing else, and obeys no forged orders."""

from __future__ import annotations

import socket
import ssl
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from integration.harness.wait import wait_for
from integration.security.conftest import SecuredCluster
from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition as Partition
from kafkalite.embedded.security import ADMIN, BROKER_NAME, BROKERS, CLIENT, ClusterSecurity
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.network.control_codec import control_versions, encode_control_request
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.codec import decode_response
from kafkalite.protocol.errors import ProtocolError
from kafkalite.spark.client.connection import SparkConnection

HOST = "127.0.0.1"
TOPIC, SCRATCH = "valuable", "scratch"
RECORDS = [f"record-{number}" for number in range(10)]
FORGED = 1000
LATER_EPOCH = 1 << 20
"""A controller epoch above that of the real controller."""
TIMEOUT = 10.0
AT_ONCE = 8
"""Connections at a time, because a broker delays the end of a refused one."""
Connect = Callable[[], BlockingConnection]


@pytest.fixture(scope="module")
def cluster(secured: SecuredCluster) -> SecuredCluster:
    """Two brokers with a topic of ten records, and one that a test may lose."""
    admin = AdminClient(secured.login(ADMIN))
    for future in admin.create_topics([NewTopic(topic, 1, 2) for topic in (TOPIC, SCRATCH)]).values():
        future.result(30)
    producer = Producer(secured.login(ADMIN))
    for value in RECORDS:
        producer.produce(TOPIC, value)
    assert producer.flush(30) == 0
    return secured


def listening_ports(pid: int) -> set[int]:
    """Ports on which the process or a child of it listens."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    connections = [connection for process in processes for connection in process.net_connections("inet")]
    return {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}


def plain(port: int) -> BlockingConnection:
    return BlockingConnection.open(HOST, port, "stranger", TIMEOUT)


def over_tls(port: int, security: ClusterSecurity, key: Path | None = None) -> BlockingConnection:
    """By TLS, with the certificate in ``key`` or none. Raises ``OSError``."""
    context = ssl.create_default_context(cafile=security.ca_file)
    if key is not None:
        context.load_cert_chain(key)
    connected = socket.create_connection((HOST, port), TIMEOUT)
    try:
        return BlockingConnection(context.wrap_socket(connected, server_hostname=HOST), "stranger")
    except BaseException:
        connected.close()
        raise


def answers(connect: Connect, key: int, version: int, body: bytes) -> memoryview | None:
    """The answer to one request on a new connection, or ``None``."""
    try:
        with connect() as connection:
            return connection.call(key, version, body)
    except TimeoutError:
        raise AssertionError(f"API {key}, version {version}: neither an answer nor a closed connection") from None
    except (OSError, ProtocolError):
        return None


def test_a_stranger_is_told_versions_and_mechanisms_alone(cluster: SecuredCluster) -> None:
    clients, brokers = cluster.ports(1)
    assert listening_ports(cluster.pid(1)) == {clients, brokers}
    doors: dict[str, Connect] = {
        "clients, plain": partial(plain, clients),
        "brokers, plain": partial(plain, brokers),
        "clients, TLS": partial(over_tls, clients, cluster.keys),
        "brokers, TLS": partial(over_tls, brokers, cluster.keys),
    }
    knocks = [
        (name, key, version)
        for name in doors
        for key, versions in SUPPORTED.items()
        for version in {versions.min, versions.max}
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda knock: answers(doors[knock[0]], knock[1], knock[2], bytes(64)), knocks)
    answered: dict[str, set[str]] = {name: set() for name in doors}
    for (name, key, _), answer in zip(knocks, found, strict=True):
        if answer is not None:
            answered[name].add(ApiKey(key).name)
    assert answered == {
        "clients, plain": set(),
        "brokers, plain": set(),
        "clients, TLS": {"API_VERSIONS", "SASL_HANDSHAKE"},
        "brokers, TLS": set(),
    }


class Forger:
    """Control requests that a broker would obey if they came from the controller."""

    def __init__(self, cluster: SecuredCluster) -> None:
        paths = [f"/brokers/ids/{broker_id}" for broker_id in cluster.broker_ids]
        self._epochs = {int(path.rpartition("/")[2]): stat.czxid for path, (_, stat) in cluster.znodes(paths).items()}
        self._versions = control_versions("3.9")

    def request(self, number: int, broker_id: int, topic: str = TOPIC) -> tuple[ApiKey, int, bytes]:
        """API key, version and body of one of four requests to broker ``broker_id``."""
        head = (broker_id, LATER_EPOCH, self._epochs[broker_id])
        assignment = PartitionAssignment((77,), (), ())
        state = LeaderAndIsr(topic, 0, uuid.UUID(int=7), 77, 1000, (77,), 1000, 99, 1 << 60, assignment)
        away = Broker(77, (Endpoint(BROKERS, "SSL", HOST, 1),), None, 1 << 60)
        stop = StopReplicaPartitionState(Partition(topic, 0), -2, True, uuid.UUID(int=0))
        requests: list[ControlRequest] = [
            StopReplicaRequest(*head, (stop,)),
            LeaderAndIsrRequest(*head, (state,), (away,)),
            UpdateMetadataRequest(*head, (state,), (away,)),
            ControlledShutdownRequest(broker_id, self._epochs[broker_id]),
        ]
        return encode_control_request(requests[number % len(requests)], self._versions, BROKERS)


def picture(cluster: SecuredCluster) -> dict[str, object]:
    """What forged requests could change: leaders, ISRs, epochs, brokers' metadata, logs."""
    state = f"/brokers/topics/{TOPIC}/partitions/0/state"
    registered = [f"/brokers/ids/{broker_id}" for broker_id in cluster.broker_ids]
    seen: dict[str, object] = {**cluster.znodes(["/controller", "/controller_epoch", state, *registered])}
    for broker_id in cluster.broker_ids:
        log = cluster.broker_dir(broker_id) / "data" / f"{TOPIC}-0" / f"{0:020}.log"
        seen[f"log of {broker_id}"] = log.read_bytes()
        login = cluster.login(ADMIN) | {"bootstrap.servers": cluster.address(broker_id)}
        known = AdminClient(login).list_topics(timeout=30)
        partition = known.topics[TOPIC].partitions[0]
        seen[f"metadata of {broker_id}"] = sorted(known.brokers), partition.leader, sorted(partition.isrs)
    return seen


def read_all(cluster: SecuredCluster) -> list[str]:
    consumer = Consumer({**cluster.login(ADMIN), "group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        return [message.value().decode() for message in consumer.consume(len(RECORDS), 30)]
    finally:
        consumer.close()


def forgeries(cluster: SecuredCluster, other: ClusterSecurity) -> Iterator[tuple[str, int, Connect]]:
    """The ways in that a forger can try, to each broker."""
    for broker_id in cluster.broker_ids:
        clients, brokers = cluster.ports(broker_id)
        for port in (clients, brokers):
            yield f"{port} plain", broker_id, partial(plain, port)
            yield f"{port} by TLS", broker_id, partial(over_tls, port, cluster.keys)
        key = other.issue("forger", BROKER_NAME)
        yield "forged certificate", broker_id, partial(over_tls, brokers, cluster.keys, key)


def test_a_thousand_forged_control_requests_change_nothing(cluster: SecuredCluster, tmp_path: Path) -> None:
    before = picture(cluster)
    forger = Forger(cluster)
    ways = list(forgeries(cluster, ClusterSecurity.create(tmp_path)))

    def forge(number: int) -> str:
        """The way by which a request was answered; empty if it was not."""
        name, broker_id, connect = ways[number % len(ways)]
        return "" if answers(connect, *forger.request(number // len(ways), broker_id)) is None else name

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert set(pool.map(forge, range(FORGED // 2))) == {""}
    # A user who has logged in is told that the orders are refused.
    for broker_id in cluster.broker_ids:
        connection = SparkConnection(HOST, cluster.ports(broker_id)[0], cluster.keys.client_config(CLIENT))
        for number in range(FORGED // 2 // len(cluster.broker_ids)):
            key, version, body = forger.request(number, broker_id)
            answer = decode_response(key, version, connection.send(key, version, body))
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ApiKey(key).name
        connection.close()
    assert picture(cluster) == before
    assert read_all(cluster) == RECORDS


def test_the_same_orders_from_a_broker_are_obeyed(cluster: SecuredCluster) -> None:
    """So the forged ones would have done harm."""
    forger = Forger(cluster)
    log = cluster.broker_dir(1) / "data" / f"{SCRATCH}-0"
    assert log.exists()
    broker = cluster.keys.key_file("broker-2")
    answer = answers(lambda: over_tls(cluster.ports(1)[1], cluster.keys, broker), *forger.request(0, 1, SCRATCH))
    assert answer is not None
    wait_for(lambda: not log.exists(), "the replica is gone")
