"""Figures of a cluster's topics, brokers and consumer groups, as far as the Kafka protocol has them.

Answers to: ``kafka.server.KafkaServer``'s and ``ReplicaManager``'s metrics, as far as a client can see them.
Blocking shell around client libraries.

They stand under the host ``<cluster id>``: ``topic.<name>`` with the counter ``records`` (the sum of its log end
offsets: its rate is the records in per second) and the gauges ``partitions`` and ``under_replicated_partitions``;
``broker.<id>`` with the gauge ``log_bytes``; ``group.<name>`` with the gauge ``lag``, the records that the group has
yet to read of partitions with a committed offset.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka.admin import TopicMetadata

log = logging.getLogger(__name__)

TIMEOUT = 5.0
"""Seconds for the cluster to answer."""

# A short wait, because a dead broker does not answer.
_TIMES: Mapping[str, object] = {"request_timeout_ms": 5000}
# librdkafka's names of settings → kafka-python's.
_PYTHON_NAMES: Mapping[str, str] = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


class Figures(NamedTuple):
    """In the order of a sample's fields."""

    host: str
    process: str
    group: str | None
    counters: Mapping[str, float]
    gauges: Mapping[str, float]


class ClusterFigures:
    """Requests with librdkafka's ``settings``, for the topics whose names match ``topics``. Figures without an answer
    are left out of a round, and logged."""

    def __init__(self, settings: Mapping[str, str], topics: re.Pattern[str]) -> None:
        from confluent_kafka.admin import AdminClient

        self._settings = settings
        self._wanted = topics
        self._admin = AdminClient({**settings, "log_level": 0})
        self._log_dirs: Any = None

    def figures(self) -> Iterator[Figures]:
        """The figures of one round."""
        from confluent_kafka import KafkaException
        from kafka.errors import KafkaError

        try:
            metadata = self._admin.list_topics(timeout=TIMEOUT)
            host = str(metadata.cluster_id)
            topics = {name: topic for name, topic in metadata.topics.items() if self._wanted.search(name)}
            ends = self._ends(topics)
            yield from self._topics(host, topics, ends)
            yield from self._groups(host, ends)
            yield from self._brokers(host, sorted(metadata.brokers))
        except (KafkaException, KafkaError) as error:
            log.warning("the cluster's figures are not complete: %s", error)

    def _ends(self, topics: Mapping[str, TopicMetadata]) -> dict[tuple[str, int], int]:
        """The end of each partition whose leader answers."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        wanted = {
            TopicPartition(topic, number): OffsetSpec.latest()
            for topic, described in topics.items()
            for number, partition in described.partitions.items()
            if partition.leader >= 0
        }
        if not wanted:
            return {}
        ends = {}
        for one, future in self._admin.list_offsets(wanted, request_timeout=TIMEOUT).items():
            try:
                ends[one.topic, one.partition] = future.result().offset
            except KafkaException as error:
                log.warning("%s-%d does not tell its end: %s", one.topic, one.partition, error)
        return ends

    def _topics(
        self, host: str, topics: Mapping[str, TopicMetadata], ends: Mapping[tuple[str, int], int]
    ) -> Iterator[Figures]:
        for topic, described in topics.items():
            partitions = described.partitions
            behind = sum(len(partition.isrs) < len(partition.replicas) for partition in partitions.values())
            gauges = {"partitions": len(partitions), "under_replicated_partitions": behind}
            known = [ends[topic, number] for number in partitions if (topic, number) in ends]
            # A sum over some partitions only would look like a counter that restarted.
            counters = {"records": sum(known)} if len(known) == len(partitions) else {}
            yield Figures(host, f"topic.{topic}", "topics", counters, gauges)

    def _groups(self, host: str, ends: Mapping[tuple[str, int], int]) -> Iterator[Figures]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        listed = self._admin.list_consumer_groups(request_timeout=TIMEOUT).result()
        for name in sorted(group.group_id for group in listed.valid):
            asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
            committed = asked[name].result().topic_partitions or []
            lags = [
                max(0, ends[one.topic, one.partition] - one.offset)
                for one in committed
                if one.offset >= 0 and (one.topic, one.partition) in ends
            ]
            if lags:
                yield Figures(host, f"group.{name}", "groups", {}, {"lag": sum(lags)})

    def _brokers(self, host: str, brokers: list[int]) -> Iterator[Figures]:
        if self._log_dirs is None:
            self._log_dirs = self._log_dirs_client()
        for described in self._log_dirs.describe_log_dirs(None, brokers):
            size = sum(
                partition["partition_size"]
                for directory in described["log_dirs"]
                for topic in directory["topics"]
                for partition in topic["partitions"]
            )
            yield Figures(host, f"broker.{described['broker']}", "brokers", {}, {"log_bytes": size})

    def _log_dirs_client(self) -> Any:
        """DescribeLogDirs by kafka-python, because librdkafka lacks this request."""
        from kafka.admin import KafkaAdminClient

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        security = {_PYTHON_NAMES[name]: value for name, value in self._settings.items() if name in _PYTHON_NAMES}
        servers = self._settings["bootstrap.servers"].split(",")
        return KafkaAdminClient(bootstrap_servers=servers, client_id="kafkalite-metrics", **security, **_TIMES)
