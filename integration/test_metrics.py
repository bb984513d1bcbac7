"""Metrics of a live cluster against what the test counted itself."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from integration.conftest import TEST_OVERRIDES, launcher
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.raw import RawClient, ask_partition
from integration.harness.wait import wait_for
from integration.harness.wire import PRODUCE, leaders
from integration.test_clients_confluent import Confluent
from kafkalite.common import types
from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import decode_frames
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.state import read_state
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.protocol.produce import ProduceRequest, decode_produce_response, encode_produce
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, encode_batch
from kafkalite.zk.znodes.brokers import broker_path, decode_broker

RECORDS = 5000
SIZE = 1000
COMMITS = "kafka_server_group_coordinator_metrics_offset_commit_count"
REBALANCES = "kafka_server_group_coordinator_metrics_group_completed_rebalance_count"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with pages."""
    directory = tmp_path_factory.mktemp("metrics")
    with closing(LocalCluster(directory, overrides=TEST_OVERRIDES, launcher=launcher(), metrics=True)) as started:
        started.start()
        yield started


def scrape(cluster: LocalCluster, broker_id: int) -> dict[tuple[str, ...], float]:
    """``(name, label=value, …)`` → value, of one broker."""
    address = cluster.metrics(broker_id)
    assert address is not None
    with urllib.request.urlopen(address, timeout=30) as response:
        text = response.read().decode()
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(cluster: LocalCluster, *key: str) -> float:
    """The sum of a series over the live brokers."""
    return sum(scrape(cluster, each).get(key, 0.0) for each in cluster.broker_ids if cluster.is_alive(each))


def test_records_and_bytes_are_those_that_were_sent_and_read(cluster: LocalCluster) -> None:
    topic = fresh_topic("counted")
    Confluent().create_topic(cluster.bootstrap, topic, 3, 3, {})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(RECORDS):
        producer.produce(topic, bytes(SIZE))
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    rebalances = total(cluster, REBALANCES)
    consumer.subscribe([topic])
    read = 0

    def read_on() -> bool:
        nonlocal read
        read += sum(not message.error() for message in consumer.consume(1000, 0.5))
        return read >= RECORDS

    wait_for(read_on, "all records are read", timeout=60)
    consumer.close()

    assert total(cluster, REBALANCES) - rebalances == 1
    assert total(cluster, "kafka_server_kafkaserver_brokerstate") == 3 * len(cluster.broker_ids)
    assert total(cluster, "kafkalite_session_guardian_running") == len(cluster.broker_ids)
    label = f"topic={topic}"
    meters = "kafka_server_brokertopicmetrics_"
    assert total(cluster, f"{meters}messagesin_total", label) == RECORDS
    # Batches have headers, and each record a few bytes of its own.
    size = total(cluster, f"{meters}bytesin_total", label)
    assert RECORDS * SIZE < size < RECORDS * (SIZE + 30)
    # The consumer may have been sent records that it threw away, because it asked for them twice.
    assert total(cluster, f"{meters}bytesout_total", label) >= size
    wait_for(lambda: total(cluster, f"{meters}replicationbytesin_total", label) == 2 * size, "followers have all")
    assert total(cluster, f"{meters}replicationbytesout_total", label) >= 2 * size
    assert total(cluster, "kafka_server_brokertopicmetrics_messagesin_total") >= RECORDS

    ends = [("kafka_log_log_logendoffset", f"partition={each}", label) for each in range(3)]
    assert sum(total(cluster, *end) for end in ends) == 3 * RECORDS
    offsets = [("kafka_topic_partition_current_offset", f"partition={each}", label) for each in range(3)]
    # Each of these comes from one broker, the leader.
    assert sum(total(cluster, *offset) for offset in offsets) == RECORDS
    assert total(cluster, "kafka_topic_partitions", label) == 3


def test_the_lag_of_a_group_comes_from_its_coordinator_alone(cluster: LocalCluster) -> None:
    topic, group = fresh_topic("lagging"), fresh_topic("readers")
    Confluent().create_topic(cluster.bootstrap, topic, 3, 3, {})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for partition, count in enumerate((10, 20, 30)):
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    before = {name: total(cluster, name) for name in (COMMITS, REBALANCES)}
    consumer.commit(offsets=[TopicPartition(topic, 0, 10), TopicPartition(topic, 1, 5)], asynchronous=False)
    assert {name: total(cluster, name) - value for name, value in before.items()} == {COMMITS: 2, REBALANCES: 0}

    def shown() -> dict[tuple[str, ...], list[float]]:
        """The group's series, with the value of each broker that shows it."""
        found: dict[tuple[str, ...], list[float]] = {}
        for broker_id in cluster.broker_ids:
            for key, value in scrape(cluster, broker_id).items():
                if f"consumergroup={group}" in key:
                    name, *labels = (each for each in key if not each.startswith(("consumergroup=", "topic=")))
                    found.setdefault((name.removeprefix("kafka_consumergroup_"), *labels), []).append(value)
        return found

    expected: dict[tuple[str, ...], list[float]] = {
        ("members",): [0],
        ("current_offset", "partition=0"): [10],
        ("current_offset", "partition=1"): [5],
        ("current_offset", "partition=2"): [-1],
        ("current_offset_sum",): [15],
        ("lag", "partition=0"): [0],
        ("lag", "partition=1"): [15],
        ("lag", "partition=2"): [-1],
        ("lag_sum",): [15],
    }
    wait_for(lambda: shown() == expected, "each series of the group is shown once", interval=0.5)
    # What other partitions' leaders append is seen by the coordinator, whichever broker it is.
    for partition in range(3):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(60) == 0
    wait_for(lambda: shown()["lag_sum",] == [17], "the group falls behind", interval=0.5)
    consumer.close()
    assert total(cluster, "kafka_brokers") == 3


def test_requests_are_those_that_were_made(cluster: LocalCluster) -> None:
    """Other tests create topics on the same cluster, too: the counts are at least those of this one."""
    key = ("kafka_network_requestmetrics_requests_total", "request=CreateTopics", "version=7")
    before = total(cluster, *key)
    for _ in range(3):
        Confluent().create_topic(cluster.bootstrap, fresh_topic("made"), 1, 1, {})
    after = {
        sample: value
        for broker_id in cluster.broker_ids
        for sample, value in scrape(cluster, broker_id).items()
        if sample[:2] == ("kafka_network_requestmetrics_requests_total", "request=CreateTopics")
    }
    assert sum(after.values()) >= 3, after
    assert total(cluster, *key) >= before
    assert total(cluster, "kafka_network_requestmetrics_totaltimems_count", "request=CreateTopics") >= 3


@pytest.mark.full
def test_a_killed_broker_is_seen_in_the_others(cluster: LocalCluster) -> None:
    topic = fresh_topic("wounded")
    Confluent().create_topic(cluster.bootstrap, topic, 6, 3, {"min.insync.replicas": "2"})
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    under = "kafka_server_replicamanager_underreplicatedpartitions"
    wait_for(lambda: total(cluster, active) == 1 and total(cluster, under) == 0, "the cluster is whole")
    victim = cluster.broker_ids[-1]
    cluster.kill_broker(victim)
    labels = [(f"partition={each}", f"topic={topic}") for each in range(6)]
    # Each of the six partitions lost one replica and is led by one of the two others.
    wait_for(
        lambda: [total(cluster, "kafka_cluster_partition_underreplicated", *each) for each in labels] == [1] * 6,
        "all partitions are under-replicated",
    )
    assert [total(cluster, "kafka_cluster_partition_atminisr", *each) for each in labels] == [1] * 6
    assert total(cluster, active) == 1
    wait_for(lambda: total(cluster, "kafka_controller_kafkacontroller_activebrokercount") == 2, "two brokers are left")
    cluster.start_broker(victim)
    wait_for(lambda: total(cluster, under) == 0, "the broker is back in all ISRs")
    # Counted by the leaders that took it back, which did not restart.
    assert total(cluster, "kafka_server_replicamanager_isrexpands_total") >= 6
    # The return of the broker. Its death is another event only if it was not the controller.
    assert total(cluster, "kafka_controller_controllerstats_leaderelectionrateandtimems_count") >= 1
    assert total(cluster, "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count") > 0


@pytest.mark.full
def test_conversions_refusals_and_expired_fetches_are_those_that_were_made(cluster: LocalCluster) -> None:
    """Each of them by a request of its own, beside followers only: what they do is in none of these counts."""
    topic, compacted = fresh_topic("odd"), fresh_topic("compacted")
    Confluent().create_topic(cluster.bootstrap, topic, 1, 3, {})
    Confluent().create_topic(cluster.bootstrap, compacted, 1, 3, {"cleanup.policy": "compact"})
    meters, requests = "kafka_server_brokertopicmetrics_", "kafka_network_requestmetrics_"
    label, traffic = f"topic={topic}", "kafka_server_socket_server_metrics_"

    def counts() -> dict[str, float]:
        keys = {
            "produced old": (f"{meters}producemessageconversions_total", label),
            "fetched old": (f"{meters}fetchmessageconversions_total", label),
            "wrong CRC": (f"{meters}invalidmessagecrcrecords_total", label),
            "no key": (f"{meters}nokeycompactedtopicrecords_total", f"topic={compacted}"),
            "wrong CRC anywhere": (f"{meters}invalidmessagecrcrecords_total",),
            "wrong magic anywhere": (f"{meters}invalidmagicnumberrecords_total",),
            "wrong offsets anywhere": (f"{meters}invalidoffsetorsequencerecords_total",),
            "produces that converted": (f"{requests}messageconversionstimems_count", "request=Produce"),
            "fetches that converted": (f"{requests}temporarymemorybytes_count", "request=Fetch"),
            "expired": ("kafka_server_delayedfetchmetrics_expires_total", "fetcherType=consumer"),
            "expired sessions": ("kafka_network_socketserver_expiredconnectionskilledcount",),
        }
        return {name: total(cluster, *key) for name, key in keys.items()}

    def client_of(name: str) -> RawClient:
        with RawClient(cluster.address(1)) as client:
            return RawClient(cluster.address(wait_for(lambda: leaders(client, name).get(0, 0), "a leader")))

    before = counts()
    records = [Record(number, 1_700_000_000_000, b"k", b"%d" % number) for number in range(7)]
    with client_of(topic) as client:
        old = memoryview(encode_message_set(records, 1))
        request = ProduceRequest(None, -1, 10000, [(types.TopicPartition(topic, 0), old)])
        body = b"".join(encode_produce(2, request))
        (answer,) = decode_produce_response(2, client.call(PRODUCE, 2, body))
        assert answer.error == ErrorCode.NONE
        damaged = bytearray(encode_batch(records))
        damaged[-1] ^= 1
        assert client.produce(topic, bytes(damaged)).error == ErrorCode.CORRUPT_MESSAGE
        assert client.produce(topic, encode_batch(records)).error == ErrorCode.NONE
        # The records of the old producer and of the new one, which the broker keeps in one format.
        wait_for(lambda: client.fetch([ask_partition(topic, 0)]).partitions[0].high_watermark == 14, "all is committed")
        for version in (2, 3, 11):
            (found,) = client.fetch([ask_partition(topic, 0)], version=version).partitions
            assert found.records, version
        for _ in range(3):
            (found,) = client.fetch([ask_partition(topic, 14)], max_wait_ms=20, min_bytes=1).partitions
            assert not found.records
        (found,) = client.fetch([ask_partition(topic, 14)]).partitions
        assert not found.records
    with client_of(compacted) as client:
        keyless = [record._replace(key=None) for record in records[:3]]
        assert client.produce(compacted, encode_batch(keyless)).error == ErrorCode.INVALID_RECORD
    after = counts()
    assert {name: value - before[name] for name, value in after.items()} == {
        "produced old": 7,
        "fetched old": 28,
        "wrong CRC": 1,
        "no key": 3,
        "wrong CRC anywhere": 1,
        "wrong magic anywhere": 0,
        "wrong offsets anywhere": 0,
        "produces that converted": 1,
        "fetches that converted": 2,
        "expired": 3,
        "expired sessions": 0,
    }

    # A listener's requests are those of all its APIs. Fewer are answered, because some wait, and because clients close
    # connections before they have the answer.
    listener = "listener=PLAINTEXT"
    for broker_id in cluster.broker_ids:
        was = scrape(cluster, broker_id)
        with RawClient(cluster.address(broker_id)) as client:
            for _ in range(20):
                client.leads(topic, broker_id)
        page = scrape(cluster, broker_id)
        came, answered = (page[f"{traffic}{name}_total", listener] for name in ("response", "request"))
        assert came >= was[f"{traffic}response_total", listener] + 20
        assert came >= answered >= was[f"{traffic}request_total", listener] + 20
        assert page[f"{traffic}incoming_byte_total", listener] > 20 * came > 0
        assert page[f"{traffic}outgoing_byte_total", listener] > 8 * answered > 0


def test_a_state_partition_that_is_claimed_for_a_producer_is_a_load(cluster: LocalCluster) -> None:
    name = "kafka_server_transaction_coordinator_metrics_partition_load_time_"
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": fresh_topic("loading")})
    producer.init_transactions(60)
    found = [scrape(cluster, broker_id) for broker_id in cluster.broker_ids]
    longest = max(page[(f"{name}max",)] for page in found)
    assert 0 < longest < 30_000
    assert all(page[(f"{name}avg",)] <= page[(f"{name}max",)] for page in found)


@pytest.mark.full
def test_a_scrape_of_ten_thousand_partitions_takes_two_seconds_and_holds_no_client_up(tmp_path: Path) -> None:
    with closing(LocalCluster(tmp_path, 1, overrides=TEST_OVERRIDES, launcher=launcher(), metrics=True)) as single:
        single.start()
        for number in range(10):
            topic = ("--topic", f"many-{number}", "--partitions", 1000, "--replication-factor", 1)
            command("topics", "--bootstrap-server", single.bootstrap, "--create", *topic)
        leaders = "kafka_server_replicamanager_leadercount"
        wait_for(lambda: total(single, leaders) == 10_000, "the broker leads all partitions", interval=1.0)
        seconds, held = [], []
        # The best of ten: the machine does other work, which can only make a scrape slower.
        for _ in range(10):
            before = time.monotonic()
            address = single.metrics(1)
            assert address is not None
            with urllib.request.urlopen(address, timeout=60) as response:
                text = response.read().decode()
            seconds.append(time.monotonic() - before)
            [found] = re.findall(r"^kafkalite_scrape_longest_hold_seconds (\S+)$", text, re.MULTILINE)
            held.append(float(found))
            assert text.count("\nkafka_log_log_size{") == 10_000
        assert min(seconds) <= 2.0, seconds
        assert min(held) <= 0.020, held


def test_the_page_is_found_by_cluster_json_and_nothing_is_beside_it(cluster: LocalCluster) -> None:
    state = read_state(cluster.directory)
    assert state is not None, json.dumps(state)
    address = state["brokers"][0]["metrics"]
    assert address == cluster.metrics(1)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address.replace("/metrics", "/"), timeout=30)


def test_the_page_of_a_registered_broker_refuses_no_reader(cluster: LocalCluster) -> None:
    starting = cluster.broker_ids[-1]
    cluster.stop_broker(starting)
    cluster.start_broker(starting, wait=False)
    with ZnodeReader(cluster.zookeeper) as reader:
        # Without a pause, because the reader is to come as early as the registration of the broker lets it.
        while (data := reader.get(broker_path(starting))) is None:
            assert cluster.is_alive(starting)
    with urllib.request.urlopen(decode_broker(starting, data).events, timeout=30) as response:
        assert decode_frames(response.read()).broker == starting
    cluster.wait_ready()
