"""What ``docker/monitoring`` ships, as a real Prometheus judges it beside a live cluster."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES, launcher
from integration.harness.wait import wait_for
from integration.monitoring.prometheus import MISSING, MONITORING, REQUIRED, Prometheus
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

DASHBOARD = MONITORING / "grafana" / "dashboards" / "kafkalite.json"
TOPIC, GROUP = "orders", "billing"
BEHIND = 12_000
"""Records; the rule says 10,000."""
# Series, with the labels by which they are grouped or chosen, that dashboards and rules of others read: those of
# strimzi-kafka-operator (examples/metrics) and of kafka_exporter, without those of Kubernetes and of the JVM.
OF_OTHERS = [
    "count(kafka_server_replicamanager_leadercount)",
    "sum(kafka_server_replicamanager_partitioncount)",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "sum(kafka_cluster_partition_atminisr) by (topic, partition)",
    "sum(kafka_cluster_partition_underminisr) by (topic, partition)",
    'kafka_cluster_partition_replicascount{topic="orders"}',
    "sum(kafka_controller_kafkacontroller_activecontrollercount)",
    "sum(kafka_controller_kafkacontroller_offlinepartitionscount)",
    "sum(kafka_controller_controllerstats_uncleanleaderelections_total)",
    "kafka_controller_controllerstats_leaderelectionrateandtimems_count",
    "sum(rate(kafka_server_replicamanager_isrshrinks_total[10s]))",
    "sum(rate(kafka_server_replicamanager_isrexpands_total[10s]))",
    *(
        f'sum(rate(kafka_server_brokertopicmetrics_{each}_total{{topic="orders"}}[10s])) by (topic)'
        for each in ("bytesin", "bytesout", "messagesin", "totalproducerequests", "totalfetchrequests")
    ),
    *(
        f"sum(rate(kafka_server_brokertopicmetrics_{each}_total[10s]))"
        for each in ("failedproducerequests", "failedfetchrequests")
    ),
    'sum(rate(kafka_network_requestmetrics_requests_total{request="Produce"}[10s])) by (version)',
    'kafka_network_requestmetrics_totaltimems{request="FetchConsumer", quantile="0.99"}',
    "kafka_network_socketserver_networkprocessoravgidle_percent * 100",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent * 100",
    "irate(kafka_server_kafkaserver_linux_disk_write_bytes[10s])",
    "irate(kafka_server_kafkaserver_linux_disk_read_bytes[10s])",
    "sum(kafka_server_socket_server_metrics_connection_count) by (listener)",
    "sum(kafka_server_socket_server_metrics_connection_creation_rate) by (listener)",
    'kafka_log_log_size{topic="orders", partition="0"}',
    "kafka_log_logmanager_offlinelogdirectorycount",
    "process_open_fds",
    "sum(delta(kafka_topic_partition_current_offset{topic!~'__.*'}[10s])) by (topic)",
    "sum(kafka_consumergroup_lag) by (consumergroup, topic)",
    "sum(delta(kafka_consumergroup_current_offset[10s])) by (consumergroup, topic)",
    "sum by (topic) (kafka_topic_partitions)",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partition_replicas",
    "kafka_brokers",
]
# Of Kafka's page "Monitoring", by the labels of the JMX exporter, what no dashboard above reads.
OF_KAFKA = [
    *(
        f'sum(rate(kafka_server_brokertopicmetrics_{each}_total{{topic="orders"}}[10s])) by (topic)'
        for each in (
            "producemessageconversions",
            "fetchmessageconversions",
            "reassignmentbytesin",
            "reassignmentbytesout",
        )
    ),
    *(
        f"sum(rate(kafka_server_brokertopicmetrics_{each}_total[10s]))"
        for each in (
            *("nokeycompactedtopicrecords", "invalidmagicnumberrecords"),
            *("invalidmessagecrcrecords", "invalidoffsetorsequencerecords"),
        )
    ),
    'kafka_network_requestmetrics_messageconversionstimems{request="Produce", quantile="0.99"}',
    'kafka_network_requestmetrics_temporarymemorybytes{request="Fetch", quantile="0.99"}',
    'rate(kafka_server_delayedfetchmetrics_expires_total{fetcherType="follower"}[10s])',
    'rate(kafka_server_delayedfetchmetrics_expires_total{fetcherType="consumer"}[10s])',
    "kafka_server_leaderreplication_byte_rate + kafka_server_followerreplication_byte_rate",
    "kafka_server_alterlogdirsreplication_byte_rate",
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
    "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
    "kafka_server_transaction_coordinator_metrics_partition_load_time_avg",
    "sum(rate(kafka_server_socket_server_metrics_incoming_byte_total[10s])) by (listener)",
    "sum(rate(kafka_server_socket_server_metrics_outgoing_byte_total[10s])) by (listener)",
    "sum(rate(kafka_server_socket_server_metrics_request_total[10s])) by (listener)",
    "sum(rate(kafka_server_socket_server_metrics_response_total[10s])) by (listener)",
    "kafka_network_socketserver_expiredconnectionskilledcount",
    "kafka_controller_kafkacontroller_controllerstate",
    "kafka_controller_kafkacontroller_replicasineligibletodeletecount",
    'kafka_controller_controllerchannelmanager_requestrateandqueuetimems{broker_id="1", quantile="0.99"}',
]
UP = 'up{job="kafkalite"}'
LONGEST = 120.0
"""Seconds until an alert fires: those of a busy machine."""
PAUSE = 0.5


@pytest.fixture(scope="module", autouse=True)
def has_prometheus() -> None:
    """Skip or fail where Prometheus is missing."""
    if AGAINST_KAFKA:
        pytest.skip("Kafka has no metrics.listener")
    if MISSING and REQUIRED:
        pytest.fail(f"KAFKALITE_PROMETHEUS=required, but {MISSING}", pytrace=False)
    if MISSING:
        pytest.skip(MISSING)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with pages, of which a follower that is silent for two seconds leaves the ISRs."""
    overrides = {**TEST_OVERRIDES, "replica.lag.time.max.ms": "2000"}
    directory = tmp_path_factory.mktemp("monitored")
    with closing(LocalCluster(directory, overrides=overrides, launcher=launcher(), metrics=True)) as started:
        started.start()
        yield started


@pytest.fixture(scope="module")
def prometheus(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes the brokers of ``cluster``."""
    targets = [instance(cluster, broker_id) for broker_id in cluster.broker_ids]
    with Prometheus(tmp_path_factory.mktemp("prometheus"), targets) as server:
        yield server


def instance(cluster: LocalCluster, broker_id: int) -> str:
    """The label of a broker's series."""
    return urlsplit(cluster.metrics(broker_id) or "").netloc


def promtool(*words: str | Path, folder: Path = MONITORING) -> str:
    """Run promtool, which must succeed."""
    done = subprocess.run(["promtool", *map(str, words)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dashboard_expressions() -> list[str]:
    """Those of all panels, with Grafana's variables replaced."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for variable, value in (("$__rate_interval", "10s"), ("$topic", ".+"), ("$group", ".+")):
        found = [each.replace(variable, value) for each in found]
    assert found and not any("$" in each for each in found)
    return found


def without_data(prometheus: Prometheus, expressions: list[str]) -> list[str]:
    """The expressions that give no number."""
    return [
        each
        for each in expressions
        if not any(math.isfinite(float(sample["value"][1])) for sample in prometheus.query(each))
    ]


def test_promtool_accepts_the_configuration_and_the_rules() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "rules.yml")


def test_each_rule_fires_for_what_it_is_for(tmp_path: Path) -> None:
    for file in (MONITORING / "rules.yml", Path(__file__).parent / "rules_test.yml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    promtool("test", "rules", "rules_test.yml", folder=tmp_path)


def test_every_expression_returns_data_and_a_slow_group_is_reported(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    Confluent().create_topic(cluster.bootstrap, TOPIC, 3, 3, {"min.insync.replicas": "2"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    rules = prometheus.expressions()
    # A rule compares; the series that it reads must be there also while nothing is wrong.
    series = sorted({name for each in rules for name in re.findall(r"\b(?:kafka_\w+|process_\w+)", each)})
    assert series

    def all_show() -> bool:
        producer.produce(TOPIC, bytes(100))
        producer.poll(0)
        if consumer.consume(100, 0.1):
            consumer.commit(asynchronous=False)
        return not silent()

    def silent() -> list[str]:
        return without_data(prometheus, [*dashboard_expressions(), *series, *OF_OTHERS, *OF_KAFKA, UP])

    try:
        wait_for(all_show, "every expression returns data", timeout=LONGEST, interval=PAUSE)
    except AssertionError:
        raise AssertionError(f"no data: {silent()}") from None
    alerts = ("KafkaBrokerDown", "KafkaUnderReplicatedPartitions", "KafkaConsumerGroupLag", "KafkaOfflinePartitions")
    assert [prometheus.firing(alert) for alert in alerts] == [[], [], [], []]

    for _ in range(BEHIND):
        producer.produce(TOPIC, b"x")
        producer.poll(0)
    assert producer.flush(60) == 0
    wait_for(
        lambda: (
            [(each["consumergroup"], each["topic"]) for each in prometheus.firing("KafkaConsumerGroupLag")]
            == [(GROUP, TOPIC)]
        ),
        "the group's lag is reported",
        timeout=LONGEST,
        interval=PAUSE,
    )
    ends = [
        TopicPartition(TOPIC, each, consumer.get_watermark_offsets(TopicPartition(TOPIC, each))[1]) for each in range(3)
    ]
    consumer.commit(offsets=ends, asynchronous=False)
    wait_for(lambda: not prometheus.firing("KafkaConsumerGroupLag"), "the alert ends", timeout=LONGEST, interval=PAUSE)
    consumer.close()


@pytest.mark.full
def test_a_lost_isr_member_and_a_killed_broker_are_reported(cluster: LocalCluster, prometheus: Prometheus) -> None:
    topic = "payments"
    Confluent().create_topic(cluster.bootstrap, topic, 6, 3, {"min.insync.replicas": "3"})
    victim = cluster.broker_ids[-1]
    others = {instance(cluster, each) for each in cluster.broker_ids if each != victim}

    def reporters(alert: str) -> set[str]:
        return {each["instance"] for each in prometheus.firing(alert)}

    wait_for(lambda: not reporters("KafkaUnderReplicatedPartitions"), "all replicas are in sync", LONGEST, PAUSE)
    # The broker keeps its session, and so its leaderships, but follows the other leaders no more.
    cluster.pause_broker(victim)
    try:
        wait_for(
            lambda: (
                others <= reporters("KafkaUnderReplicatedPartitions")
                and others <= reporters("KafkaUnderMinIsrPartitions")
            ),
            "the leaders report the lost replicas",
            LONGEST,
            PAUSE,
        )
    finally:
        cluster.resume_broker(victim)
    wait_for(
        lambda: not reporters("KafkaUnderReplicatedPartitions") and not reporters("KafkaBrokerDown"),
        "the follower is back",
        LONGEST,
        PAUSE,
    )
    cluster.kill_broker(victim)
    wait_for(
        lambda: (
            reporters("KafkaBrokerDown") == {instance(cluster, victim)}
            and reporters("KafkaUnderReplicatedPartitions") == others
        ),
        "the killed broker is reported",
        LONGEST,
        PAUSE,
    )
    assert not prometheus.firing("KafkaOfflinePartitions")
    wait_for(lambda: not prometheus.firing("KafkaNoActiveController"), "there is a controller", LONGEST, PAUSE)
