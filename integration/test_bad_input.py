"""Bad input gets the right error or a closed connection, leaks no memory, and does not disturb other clients.

`make test` sends few pieces, KAFKALITE_SOAK=1 a million. KAFKALITE_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import time
from typing import Any

import psutil
import pytest

from integration.conftest import SOAK, ClusterFactory
from integration.faults.cluster import wait_in_sync
from integration.faults.frames import INT32_MAX, MAX_BATCH, Target
from integration.faults.producers import LoadProducer
from integration.faults.readers import LiveReader, Verifier, judge
from integration.faults.thrower import start_thrower
from integration.faults.worker import Record
from integration.harness.clients import fresh_topic
from integration.harness.garbage import batch, fetch_body, produce_body
from integration.harness.wait import wait_for
from integration.harness.wire import API_VERSIONS, FETCH, METADATA, PRODUCE, Cursor, Wire, leaders, string
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol.frames import request_header

PIECES = 1_000_000 if SOAK else 60_000
GROWTH = 64 * 1024 * 1024
MAX_GAP = 30.0
CORRUPT_MESSAGE, UNKNOWN_TOPIC, NOT_LEADER, MESSAGE_TOO_LARGE, UNSUPPORTED_VERSION = 2, 3, 6, 10, 35
INVALID_REQUIRED_ACKS, OFFSET_OUT_OF_RANGE, INVALID_RECORD = 21, 1, 87


def produce_error(wire: Wire, body: bytes, version: int = 7) -> int:
    """The error code of one partition's answer."""
    cursor = Cursor(wire.call(PRODUCE, version, body))
    assert cursor.take("i") == 1
    cursor.text()
    _, _, error = cursor.take("iih")
    return int(error)


def fetch_error(wire: Wire, body: bytes) -> int:
    """The error code of one partition's answer."""
    cursor = Cursor(wire.call(FETCH, 4, body))
    cursor.take("ii")
    cursor.text()
    _, _, error = cursor.take("iih")
    return int(error)


def test_a_request_with_one_defect_is_answered_with_its_error(shared_cluster: LocalCluster) -> None:
    """The connection stays open."""
    topic = fresh_topic("bad")
    Confluent().create_topic(shared_cluster.bootstrap, topic, 1, 3, {"max.message.bytes": "2000"})
    wait_in_sync(shared_cluster, topic, 1, 3)
    with Wire(shared_cluster.address(1)) as wire:
        leader = wait_for(lambda: leaders(wire, topic).get(0, -1) > 0 and leaders(wire, topic)[0], "a leader")
    follower = next(broker_id for broker_id in shared_cluster.broker_ids if broker_id != leader)
    good = batch([b"value"])
    flipped = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
    with Wire(shared_cluster.address(leader)) as wire:
        assert produce_error(wire, produce_body(topic, 0, good)) == 0
        assert produce_error(wire, produce_body(topic, 0, batch([b"value"], crc=12345))) == CORRUPT_MESSAGE
        assert produce_error(wire, produce_body(topic, 0, flipped)) == CORRUPT_MESSAGE
        assert produce_error(wire, produce_body(topic, 0, batch([bytes(3000)]))) == MESSAGE_TOO_LARGE
        assert produce_error(wire, produce_body(topic, 7, good)) == UNKNOWN_TOPIC
        assert produce_error(wire, produce_body("no-" + topic, 0, good)) == UNKNOWN_TOPIC
        assert produce_error(wire, produce_body(topic, 0, good, acks=5)) == INVALID_REQUIRED_ACKS
        assert produce_error(wire, produce_body(topic, 0, good[:-4])) in (CORRUPT_MESSAGE, INVALID_RECORD)
        assert fetch_error(wire, fetch_body(topic, 0, 99)) == OFFSET_OUT_OF_RANGE
        assert fetch_error(wire, fetch_body(topic, 9, 0)) == UNKNOWN_TOPIC
        assert Cursor(wire.call(API_VERSIONS, 99, b"")).take("h") == UNSUPPORTED_VERSION
        assert produce_error(wire, produce_body(topic, 0, good)) == 0
    with Wire(shared_cluster.address(follower)) as wire:
        assert produce_error(wire, produce_body(topic, 0, good)) == NOT_LEADER
    for api_key, version in ((9999, 0), (3, 99), (-1, 0)):
        with Wire(shared_cluster.address(leader)) as wire, pytest.raises(OSError):
            wire.call(api_key, version, b"")
    with Wire(shared_cluster.address(leader)) as wire, pytest.raises(OSError):
        wire.socket.sendall(struct.pack(">i", 1 << 30))
        wire.receive_frame()


def flood(cluster: LocalCluster, seed: int, pieces: int, topics: tuple[str, str]) -> list[dict[str, Any]]:
    """Send ``pieces`` to every broker at once, a tenth of them control requests; returns the result of each sender."""
    throwers = []
    for broker_id in cluster.broker_ids:
        with Wire(cluster.address(broker_id)) as wire:
            plain, compacted = (leaders(wire, topic) for topic in topics)
        led, followed = partitions_of(plain, broker_id)
        target = Target(*topics, led, followed, partitions_of(compacted, broker_id)[0])
        throwers.append(start_thrower(cluster.address(broker_id), seed + broker_id, pieces * 9 // 30, target))
        throwers.append(start_thrower(cluster.address(broker_id), seed - broker_id, pieces // 30, topics[0]))
    return [json.loads(thrower.communicate()[0]) for thrower in throwers]


def partitions_of(found: dict[int, int], broker_id: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Partitions that a broker leads, and the other partitions."""
    led = tuple(partition for partition, leader in found.items() if leader == broker_id)
    return led, tuple(partition for partition in found if partition not in led)


@pytest.mark.soak
@pytest.mark.kafkalite_only
def test_brokers_survive_a_flood_of_bad_input(make_cluster: ClusterFactory) -> None:
    """Each piece gets its error or a closed connection; brokers grow little, and serve a valid client throughout."""
    seed = int(os.environ.get("KAFKALITE_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"KAFKALITE_SEED={seed}", flush=True)
    cluster = make_cluster(3, {"auto.leader.rebalance.enable": "false"})
    healthy, plain, compacted = fresh_topic("healthy"), fresh_topic("plain"), fresh_topic("compacted")
    small = {"segment.bytes": "1048576", "retention.bytes": "2097152", "max.message.bytes": str(MAX_BATCH)}
    for name, config in ((healthy, {}), (plain, small), (compacted, {**small, "cleanup.policy": "compact"})):
        Confluent().create_topic(cluster.bootstrap, name, 6, 3, config)
        wait_in_sync(cluster, name, 6, 3)
    record = Record(1, 6)
    producer = LoadProducer(0, record, cluster.bootstrap, healthy, 6, 200)
    verifier = Verifier(record, cluster.bootstrap, healthy, 6, "live reader")
    reader = LiveReader(verifier)
    producer.start()
    reader.start()
    wait_for(lambda: producer.acknowledged > 400, "the healthy producer is served")
    # A warm-up, so that memory which a broker needs once does not count.
    warm = flood(cluster, seed + 100, 3000, (plain, compacted))
    before = {broker_id: rss(cluster, broker_id) for broker_id in cluster.broker_ids}
    record.begin_gap()
    acknowledged, started = producer.acknowledged, time.monotonic()
    outcomes = flood(cluster, seed, PIECES, (plain, compacted))
    took = time.monotonic() - started
    growth = {broker_id: rss(cluster, broker_id) - before[broker_id] for broker_id in cluster.broker_ids}
    sent, answered, closed = (sum(outcome[name] for outcome in outcomes) for name in ("sent", "answered", "closed"))
    print(
        f"{sent} pieces in {took:.0f} s: {answered} answered, {closed} connections closed; memory grew by "
        f"{[f'{size / 1e6:.0f} MB' for size in growth.values()]}; healthy client: "
        f"{producer.acknowledged - acknowledged} records, longest gap {record.longest_gap:.2f} s",
        flush=True,
    )
    wrong = [line for outcome in (*warm, *outcomes) for line in outcome["wrong"]]
    assert not wrong, "\n".join(line[:400] for line in wrong)
    assert sent >= PIECES * 0.98
    assert all(cluster.is_alive(broker_id) for broker_id in cluster.broker_ids)
    wait_for(lambda: producer.acknowledged > acknowledged + 200, "the healthy producer is served still")
    producer.stop()
    assert producer.failures == []
    assert record.longest_gap < MAX_GAP
    reader.stop()
    verifier.close()
    assert judge(record, cluster.bootstrap, healthy, 6) == []
    assert max(growth.values()) < GROWTH, growth
    assert complaints(cluster) == []


@pytest.mark.kafkalite_only
def test_clients_that_disconnect_or_never_read_cost_no_memory(shared_cluster: LocalCluster) -> None:
    """Waiting fetches end with their connection; no answers are made for a client that does not read."""
    topic = fresh_topic("weeks")
    Confluent().create_topic(shared_cluster.bootstrap, topic, 100, 1, {})
    wait_in_sync(shared_cluster, topic, 100, 1)
    host, _, port = shared_cluster.address(1).rpartition(":")
    with Wire(shared_cluster.address(1)) as wire:
        led = next(partition for partition, leader in leaders(wire, topic).items() if leader == 1)
    weeks = request_bytes(FETCH, 4, struct.pack(">iiiibi", -1, INT32_MAX, 1000, 1 << 20, 0, 1) + string(topic))
    weeks += struct.pack(">iiqi", 1, led, 0, 1 << 20)
    weeks = struct.pack(">i", len(weeks)) + weeks
    everything = request_bytes(METADATA, 1, struct.pack(">i", -1))
    everything = struct.pack(">i", len(everything)) + everything
    before = rss(shared_cluster, 1)
    for _ in range(200):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(weeks * 100)
            with contextlib.suppress(TimeoutError):
                connection.settimeout(0.02)
                assert connection.recv(1) == b"", "it waits"
    deaf = [socket.create_connection((host, int(port)), timeout=30) for _ in range(10)]
    for connection in deaf:
        connection.setblocking(False)
    for _ in range(200):
        for connection in deaf:
            with contextlib.suppress(BlockingIOError):
                connection.send(everything * 500)
        time.sleep(0.01)
    growth = rss(shared_cluster, 1) - before
    for connection in deaf:
        connection.close()
    print(f"memory grew by {growth / 1e6:.0f} MB", flush=True)
    assert growth < GROWTH / 2
    with Wire(shared_cluster.address(1)) as wire:
        assert leaders(wire, topic)


def request_bytes(api_key: int, version: int, body: bytes) -> bytes:
    """A request without its length."""
    return request_header(api_key, version, 1, "weeks") + body


def complaints(cluster: LocalCluster) -> list[str]:
    """Lines in the brokers' logs about failures of the broker itself."""
    return [
        f"broker {broker_id}: {line}"
        for broker_id in cluster.broker_ids
        for line in cluster.log_file(broker_id).read_text().splitlines()
        if "Traceback" in line or " ERROR " in line
    ]


def rss(cluster: LocalCluster, broker_id: int) -> int:
    """Resident memory of a broker."""
    return int(psutil.Process(cluster.pid(broker_id)).memory_info().rss)
