"""Records of idempotent producers are in the log once, after any failure of brokers or producers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import compare_logs, create_topic, states, wait_in_sync, wait_led_by_others
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.raw import RawClient, ask_partition, batch
from integration.harness.wait import wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import read_znodes
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import iter_records

NONE = ErrorCode.NONE
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
BATCHES_KEPT = 5
BLOCK = 1000
CONSOLE = "kafka.tools.ConsoleProducer"
DUMP = "kafka.tools.DumpLogSegments"

Producer = tuple[int, int]


def made(producer: Producer, sequence: int, count: int = 1) -> bytes:
    """A batch with the current timestamp, because the timestamp decides when its producer expires."""
    return batch(count, producer=producer, sequence=sequence, timestamp=int(time.time() * 1000))


def send(client: RawClient, topic: str, producer: Producer, sequence: int, count: int = 1) -> tuple[ErrorCode, int]:
    """Send a batch; returns error and first offset of the answer."""
    answer = client.produce(topic, made(producer, sequence, count))
    return ErrorCode(answer.error), answer.base_offset


def send_leader(cluster: LocalCluster, topic: str, producer: Producer, sequence: int) -> tuple[ErrorCode, int]:
    """Send a batch to the partition's leader, once it is known."""

    def sent() -> tuple[ErrorCode, int]:
        leader = states(cluster, topic, 1)[0]["leader"]
        if leader < 0:
            raise LookupError("nobody leads")
        with RawClient(cluster.address(leader)) as client:
            answer = send(client, topic, producer, sequence)
        if answer[0] in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise LookupError(str(answer))
        return answer

    return wait_for(sent, f"{topic} takes a batch", 30)


def sequences(client: RawClient, topic: str) -> list[int]:
    """Sequence numbers of all records in the log, in order."""
    (answer,) = client.fetch([ask_partition(topic, 0)]).partitions
    records = memoryview(answer.records)  # type: ignore[arg-type]
    return [r.sequence for at, header in iter_headers(records) for r in iter_records(records, header, at)]


@pytest.fixture(scope="module")
def topic(shared_cluster: LocalCluster) -> str:
    """One topic, whose partition 0 the first broker leads; each test has its own producer."""
    name = fresh_topic("idempotent")
    create_topic(shared_cluster, name, 1)
    return name


@pytest.fixture
def client(shared_cluster: LocalCluster, topic: str) -> Iterator[RawClient]:
    """A connection to the leader of the topic's partition 0."""
    with RawClient(shared_cluster.address(states(shared_cluster, topic, 1)[0]["leader"])) as connection:
        yield connection


def test_the_last_five_batches_are_recognised(client: RawClient, topic: str) -> None:
    """A repeated batch is answered with the offset that it has, and is not appended; an older one is out of order."""
    producer = client.init_producer_id()
    first = [send(client, topic, producer, 3 * n, 3) for n in range(7)]
    assert [error for error, _ in first] == [NONE] * 7
    end = client.list_offset(topic, -1)[2]
    again = [send(client, topic, producer, 3 * n, 3) for n in range(7)]
    assert again[-BATCHES_KEPT:] == first[-BATCHES_KEPT:]
    # As in Kafka, older duplicates get the error of a gap.
    assert [error for error, _ in again[:-BATCHES_KEPT]] == [GAP] * 2
    assert client.list_offset(topic, -1)[2] == end


def test_gaps_and_other_cuts_are_refused(client: RawClient, topic: str) -> None:
    """Only the next sequence is accepted; a batch with part of a repeated one is no duplicate."""
    producer = client.init_producer_id()
    assert send(client, topic, producer, 0, 4)[0] is NONE
    for sequence, count in ((5, 1), (1000, 1), (2, 2), (0, 3), (3, 4)):
        assert send(client, topic, producer, sequence, count) == (GAP, -1), sequence
    assert send(client, topic, producer, 4)[0] is NONE


def test_a_later_epoch_fences_the_earlier(client: RawClient, topic: str) -> None:
    """Its sequences begin at 0."""
    identity, epoch = client.init_producer_id()
    assert send(client, topic, (identity, epoch), 0)[0] is NONE
    assert send(client, topic, (identity, epoch + 1), 1)[0] is GAP
    assert send(client, topic, (identity, epoch + 1), 0)[0] is NONE
    assert send(client, topic, (identity, epoch), 1)[0] is FENCED
    # A batch of the old epoch is fenced, though its sequence is one of the new epoch, too.
    assert send(client, topic, (identity, epoch), 0)[0] is FENCED
    assert send(client, topic, (identity, epoch + 1), 1)[0] is NONE


def test_sequences_wrap_around(client: RawClient, topic: str) -> None:
    """2^31 - 1 is followed by 0, also within a batch."""
    producer = client.init_producer_id()
    last = (1 << 31) - 1
    # An unknown producer may begin with any sequence.
    assert send(client, topic, producer, last - 1, 1)[0] is NONE
    across = send(client, topic, producer, last, 3)
    assert across[0] is NONE
    assert send(client, topic, producer, last, 3) == across
    assert send(client, topic, producer, 2)[0] is NONE


def test_the_java_producer_is_idempotent(shared_cluster: LocalCluster) -> None:
    """Kafka's own producer (idempotent by default, five requests in flight), and the producer state in its records."""
    name = fresh_topic("java-idempotent")
    create_topic(shared_cluster, name, 1)
    lines = "".join(f"value {n}\n" for n in range(500))
    run_tool(KAFKA_3_9, CONSOLE, "--bootstrap-server", shared_cluster.bootstrap, "--topic", name, stdin=lines)
    with RawClient(shared_cluster.address(states(shared_cluster, name, 1)[0]["leader"])) as client:
        assert sequences(client, name) == list(range(500))


def test_blocks_of_ids_are_shared_without_overlap(shared_cluster: LocalCluster) -> None:
    """Brokers claim blocks of a thousand by ``/latest_producer_id_block``; no id is given twice."""
    path = "/latest_producer_id_block"
    given: dict[int, list[int]] = {}
    for broker_id in shared_cluster.broker_ids:
        with RawClient(shared_cluster.address(broker_id)) as wire:
            given[broker_id] = [wire.init_producer_id()[0] for _ in range(1100 if broker_id == 1 else 50)]
    everything = [identity for identities in given.values() for identity in identities]
    assert len(set(everything)) == len(everything)
    owners: dict[int, int] = {}
    for broker_id, identities in given.items():
        for identity in identities:
            assert owners.setdefault(identity // BLOCK, broker_id) == broker_id, "a block has one owner"
    latest = json.loads(read_znodes(shared_cluster.zookeeper, [path])[path])
    # The znode has numbers as JSON strings, as in Kafka.
    assert int(latest["block_end"]) - int(latest["block_start"]) == BLOCK - 1
    assert max(everything) <= int(latest["block_end"])
    assert latest["broker"] in given


# trap: kafkalite/log/producer_state.py: A change of leaders loses the sequence numbers of a producer.
@pytest.mark.full
@pytest.mark.kafkalite_only
def test_state_outlives_restarts_leaders_and_truncation(make_cluster: ClusterFactory) -> None:
    """Every next leader recognises duplicates, after a clean stop, after ``kill -9`` and after truncation."""
    cluster = make_cluster(3, {"replica.lag.time.max.ms": "60000", "zookeeper.session.timeout.ms": "60000"})
    name = "kept"
    create_topic(cluster, name, 1)
    with RawClient(cluster.address(1)) as client:
        producer = client.init_producer_id()
        first = [send(client, name, producer, n) for n in range(8)]
    assert [offset for _, offset in first] == list(range(8))

    def repeated() -> None:
        for sequence in range(8 - BATCHES_KEPT, 8):
            assert send_leader(cluster, name, producer, sequence) == first[sequence]
        assert send_leader(cluster, name, producer, 9)[0] is GAP

    repeated()
    # A controlled shutdown makes a new leader; then all brokers are killed, so that the state comes from snapshots and
    # logs.
    cluster.stop_broker(1)
    wait_led_by_others(cluster, name, 1, 1)
    repeated()
    snapshots = sorted((cluster.broker_dir(1) / "data" / f"{name}-0").glob("*.snapshot"))
    assert_snapshot(snapshots[-1], producer, 7, 7)
    for broker_id in (2, 3):
        cluster.kill_broker(broker_id)
    for broker_id in cluster.broker_ids:
        cluster.start_broker(broker_id, wait=False)
    cluster.wait_ready()
    wait_in_sync(cluster, name, 1)
    repeated()

    # Batches that a leader accepted without its followers are new to the next leader.
    leader = states(cluster, name, 1)[0]["leader"]
    others = [broker_id for broker_id in cluster.broker_ids if broker_id != leader]
    for broker_id in others:
        cluster.pause_broker(broker_id)
    with RawClient(cluster.address(leader)) as client:
        # Several batches, because the first may answer a fetch that waited when its follower was stopped.
        for sequence in range(8, 14):
            assert client.produce(name, made(producer, sequence), acks=1).error == 0
    cluster.kill_broker(leader)
    for broker_id in others:
        cluster.resume_broker(broker_id)
    wait_led_by_others(cluster, name, 1, leader)
    # The new leader continues with other batches under the same sequences, not with the old leader's.
    next_leader = wait_for(lambda: states(cluster, name, 1)[0]["leader"], "a leader")
    with RawClient(cluster.address(next_leader)) as client:
        wait_for(lambda: client.leads(name, next_leader), "it knows that it leads")
        # OFFSET_NOT_AVAILABLE until the high watermark has reached the new leader epoch (KIP-207).
        wait_for(lambda: client.list_offset(name, -1)[0] == NONE, "the new leader tells its end")
        kept = client.list_offset(name, -1)[2]
    assert 8 <= kept < 14
    assert send_leader(cluster, name, producer, 13)[0] is GAP
    after = [send_leader(cluster, name, producer, sequence) for sequence in range(kept, kept + 3)]
    assert after == [(NONE, offset) for offset in range(kept, kept + 3)]
    cluster.start_broker(leader)
    wait_in_sync(cluster, name, 1)
    compare_logs(cluster, name, 1)
    # The truncated broker leads again, and has forgotten the truncated batches.
    for broker_id in others:
        cluster.stop_broker(broker_id)
    wait_for(lambda: states(cluster, name, 1)[0]["leader"] == leader, "the one that was cut leads")
    assert [send_leader(cluster, name, producer, sequence) for sequence in range(kept, kept + 3)] == after
    assert send_leader(cluster, name, producer, kept + 4)[0] is GAP
    assert send_leader(cluster, name, producer, kept + 3) == (NONE, kept + 3)
    with RawClient(cluster.address(leader)) as client:
        assert sequences(client, name) == list(range(kept + 4))


def assert_snapshot(path: Path, producer: Producer, last_sequence: int, last_offset: int) -> None:
    """Check that Kafka's tool and kafkalite's print the same for a snapshot, with the producer's state."""
    said = run_tool(KAFKA_3_9, DUMP, "--files", str(path)).lines()
    assert said == command("dump-log", "--files", path).lines
    (line,) = [line for line in said if line.startswith("producerId:")]
    for words in (
        f"producerId: {producer[0]} producerEpoch: {producer[1]} ",
        f"lastSequence: {last_sequence} lastOffset: {last_offset} ",
    ):
        assert words in line


def test_silent_producers_are_forgotten(make_cluster: ClusterFactory) -> None:
    """After ``producer.id.expiration.ms`` a producer is unknown and may begin with any sequence."""
    cluster = make_cluster(1, {"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "200"})
    create_topic(cluster, "silent", 1)
    with RawClient(cluster.address(1)) as client:
        producer = client.init_producer_id()
        first = send(client, "silent", producer, 0)
        assert first[0] is NONE
        assert send(client, "silent", producer, 5)[0] is GAP

        def forgotten() -> bool:
            return send(client, "silent", producer, 5)[0] is NONE

        wait_for(forgotten, "the producer is forgotten", 60)
        assert send(client, "silent", producer, 6)[0] is NONE
