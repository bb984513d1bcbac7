"""Where the logs of replicas start and end, asked of brokers that the test plays."""

from __future__ import annotations

import json
from typing import cast

import pytest

from kafkalite.common.tasks import Future, deferred
from kafkalite.dashboard.live_state import DELAY, LiveState
from kafkalite.dashboard.log_offsets import AT_ONCE, INTERVAL, LogOffsets
from kafkalite.dashboard.tree_mirror import MirroredZnode, Tree
from kafkalite.network.client import BrokerConnection, ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_response
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.zk_client import ZnodeStat

START, END, HIGH_WATERMARK = 3, 90, 80


class PlayedBroker:
    """Answers ListOffsets for partition 0 of ``t`` as the replica that it is."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.connected = host, port, False

    async def connect(self, _timeout: float) -> None:
        if self.host == "dead":
            raise ConnectionLost(self.host)
        self.connected = True

    def close(self) -> None:
        self.connected = False

    def send(self, api_key: int, version: int, body: bytes, _timeout: float) -> Future[memoryview]:
        assert api_key == ApiKey.LIST_OFFSETS
        request = cast("messages.ListOffsetsRequest", decode_request(api_key, version, memoryview(body)))
        (topic,) = request.topics
        (partition,) = topic.partitions
        offset = START if partition.timestamp == -2 else END if request.replica_id == -2 else HIGH_WATERMARK
        kind = messages.ListOffsetsResponse.ListOffsetsTopicResponse
        entry = kind.ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, timestamp=-1, offset=offset, leader_epoch=0
        )
        answer = messages.ListOffsetsResponse(throttle_time_ms=0, topics=[kind(name="t", partitions=[entry])])
        future: Future[memoryview] = Future()
        future.callback(memoryview(encode_response(ApiKey.LIST_OFFSETS, version, answer)))
        return future


class Cluster:
    """Brokers 1 and 2 with one partition, which 1 leads."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = LiveState(self.clock)
        self.tree = Tree()
        self.connections: list[PlayedBroker] = []
        self.hosts = {1: "one", 2: "two"}
        self.write("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2]}}')
        state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
        self.write("/brokers/topics/t/partitions/0/state", state)
        for broker_id in self.hosts:
            self.register(broker_id)
        deferred(LogOffsets(self.state, self.connect, self.clock).run())

    def write(self, path: str, data: bytes) -> None:
        self.tree.set(path, MirroredZnode(data, ZnodeStat(1, 1, 0)))
        self.state.znode_changed(path, self.tree)
        self.clock.advance(DELAY)

    def register(self, broker_id: int) -> None:
        endpoint = f"PLAINTEXT://{self.hosts[broker_id]}:9092"
        value = {"version": 5, "endpoints": [endpoint], "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}}
        self.write(f"/brokers/ids/{broker_id}", json.dumps(value).encode())

    def connect(self, host: str, port: int) -> BrokerConnection:
        self.connections.append(PlayedBroker(host, port))
        return cast("BrokerConnection", self.connections[-1])

    def log(self) -> object:
        self.clock.advance(INTERVAL)
        return json.loads(self.state.message()).get("log/t/0")


REPLICA = {"start": START, "end": END}


def test_each_replica_tells_its_log_and_the_leader_its_high_watermark() -> None:
    cluster = Cluster()
    cluster.state.subscribe(lambda _: None)
    expected = {"replicas": {"1": REPLICA, "2": REPLICA}, "high_watermark": HIGH_WATERMARK, "request": "ListOffsets v7"}
    assert cluster.log() == expected
    assert cluster.log() == expected
    assert len(cluster.connections) == 2, "connections are kept from round to round"


def test_many_partitions_are_asked_for_in_small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    count = 2 * AT_ONCE + 1

    def send(_self: PlayedBroker, api_key: int, version: int, body: bytes, _timeout: float) -> Future[memoryview]:
        assert api_key == ApiKey.LIST_OFFSETS
        request = cast("messages.ListOffsetsRequest", decode_request(api_key, version, memoryview(body)))
        numbers = [partition.partition_index for topic in request.topics for partition in topic.partitions]
        asked.append(len(numbers))
        kind = messages.ListOffsetsResponse.ListOffsetsTopicResponse
        entries = [
            kind.ListOffsetsPartitionResponse(
                partition_index=number, error_code=0, timestamp=-1, offset=number, leader_epoch=0
            )
            for number in numbers
        ]
        answer = messages.ListOffsetsResponse(throttle_time_ms=0, topics=[kind(name="t", partitions=entries)])
        future: Future[memoryview] = Future()
        future.callback(memoryview(encode_response(ApiKey.LIST_OFFSETS, version, answer)))
        return future

    monkeypatch.setattr(PlayedBroker, "send", send)
    cluster = Cluster()
    cluster.write(
        "/brokers/topics/t", json.dumps({"version": 1, "partitions": {n: [1] for n in range(count)}}).encode()
    )
    cluster.state.subscribe(lambda _: None)
    cluster.clock.advance(INTERVAL)
    values = json.loads(cluster.state.message())
    assert [values[f"log/t/{n}"]["replicas"]["1"] for n in range(count)] == [
        {"start": n, "end": n} for n in range(count)
    ]
    assert max(asked) == AT_ONCE and sum(asked) == 2 * count + 1, (
        "starts, ends, and the one partition that has a leader"
    )


def test_no_broker_is_asked_while_no_page_is_open() -> None:
    cluster = Cluster()
    assert cluster.log() is None
    assert cluster.connections == []


def test_a_broker_that_does_not_answer_leaves_out_its_replicas_alone() -> None:
    cluster = Cluster()
    cluster.state.subscribe(lambda _: None)
    cluster.hosts[2] = "dead"
    cluster.register(2)
    assert cluster.log() == {"replicas": {"1": REPLICA}, "high_watermark": HIGH_WATERMARK, "request": "ListOffsets v7"}
    cluster.hosts[1] = "dead"
    cluster.register(1)
    assert cluster.log() is None
    cluster.hosts[1] = "one"
    cluster.register(1)
    assert cluster.log() is not None
