"""The classes of Apache Kafka that the course, its companions and the labs name as sources.

:data:`CLASSES` is the list of them; ``tests/test_sources.py`` compares it with the texts, and
``integration/test_kafka_sources.py`` looks the classes and members up in Kafka's jars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ONLY = "source"
"""Classes of Kafka Streams, whose jar no test needs: looked up in Kafka's source, version 3.9."""
RECORDS = "org.apache.kafka.common.metadata"
"""Package of the records of KRaft, which the texts name without it."""

CLASSES: dict[str, dict[str, tuple[str, ...]]] = {
    "kafka-3.9.1": {
        "kafka.cluster.Partition": ("appendRecordsToLeader", "effectiveMinIsr", "maybeShrinkIsr"),
        "kafka.controller.Election": (),
        "kafka.controller.KafkaController": ("elect", "initializeControllerContext", "onBrokerFailure"),
        "kafka.controller.PartitionLeaderElectionAlgorithms": ("offlinePartitionLeaderElection",),
        "kafka.controller.PartitionStateMachine": (),
        "kafka.controller.ReplicaStateMachine": (),
        "kafka.coordinator.group.GroupCoordinator": (),
        "kafka.coordinator.group.GroupMetadataManager": ("loadGroupsAndOffsets",),
        "kafka.coordinator.transaction.TransactionCoordinator": (),
        "kafka.log.LogCleaner": (),
        "kafka.log.UnifiedLog": (
            "analyzeAndValidateRecords",
            "appendAsLeader",
            "deleteOldSegments",
            "deleteRetentionMsBreachedSegments",
            "maybeIncrementLogStartOffset",
        ),
        "kafka.security.authorizer.AclAuthorizer": ("authorizeAction",),
        "kafka.server.AbstractFetcherThread": (),
        "kafka.server.AlterPartitionManager": (),
        "kafka.server.ReplicaManager": ("becomeLeaderOrFollower",),
        "kafka.server.ZkAlterPartitionManager": (),
        "kafka.zk.AdminZkClient": ("createTopicWithAssignment",),
        "kafka.zk.BrokerIdZNode": (),
        "kafka.zk.ControllerZNode": (),
        "kafka.zk.ExtendedAclStore": (),
        "kafka.zk.KafkaZkClient": (
            "conditionalUpdatePath",
            "registerBroker",
            "registerControllerAndIncrementControllerEpoch",
            "retryRequestsUntilConnected",
        ),
        "kafka.zk.ResourceZNode": (),
        "kafka.zk.TopicPartitionStateZNode": ("decode",),
        "kafka.zk.ZkAclChangeStore": (),
        "kafka.zk.ZkData": ("sensitivePath",),
        "org.apache.kafka.clients.consumer.internals.AbstractCoordinator": (),
        "org.apache.kafka.clients.consumer.internals.FetchCollector": ("handleInitializeErrors",),
        "org.apache.kafka.clients.producer.internals.BuiltInPartitioner": ("partitionForKey",),
        "org.apache.kafka.common.metadata.AccessControlEntryRecord": (),
        "org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord": (),
        "org.apache.kafka.common.metadata.ConfigRecord": (),
        "org.apache.kafka.common.metadata.PartitionChangeRecord": (),
        "org.apache.kafka.common.metadata.PartitionRecord": (),
        "org.apache.kafka.common.metadata.ProducerIdsRecord": (),
        "org.apache.kafka.common.metadata.RegisterBrokerRecord": (),
        "org.apache.kafka.common.metadata.TopicRecord": (),
        "org.apache.kafka.common.metadata.UserScramCredentialRecord": (),
        "org.apache.kafka.common.record.DefaultRecordBatch": ("ensureValid",),
        "org.apache.kafka.common.replica.RackAwareReplicaSelector": (),
        "org.apache.kafka.controller.ReplicationControlManager": ("createTopics",),
        "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache": (),
        "org.apache.kafka.storage.internals.log.LogFileUtils": (),
        "org.apache.kafka.storage.internals.log.LogSegment": ("recover",),
        "org.apache.kafka.storage.internals.log.LogSegments": ("floorSegment",),
        "org.apache.kafka.storage.internals.log.LogValidator": (),
        "org.apache.kafka.storage.internals.log.OffsetIndex": (),
        "org.apache.kafka.storage.internals.log.ProducerStateEntry": ("NUM_BATCHES_TO_RETAIN",),
        "org.apache.kafka.storage.internals.log.TimeIndex": (),
    },
    "kafka-mirror-3.9.1": {
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": (),
        "org.apache.kafka.connect.mirror.MirrorCheckpointTask": (),
    },
    "kafka-0.8.2.2": {
        "kafka.consumer.ZookeeperConsumerConnector": (),
    },
    SOURCE_ONLY: {
        "org.apache.kafka.streams.kstream.KTable": (),
        "org.apache.kafka.streams.kstream.internals.KStreamWindowAggregate": (),
    },
}
"""Release (a name of ``integration.harness.peers``, or :data:`SOURCE_ONLY`) → class → its members that are named."""

_CLASS = re.compile(r"\b((?:org\.apache\.)?kafka\.(?:[a-z][a-z0-9]*\.)*[A-Z]\w+)((?:\.\w+)?)")
_MEMBERS = re.compile(r"`?\s*(?:\(|,\s)(?=`\w+`)((?:`\w+`(?:,\s|\sand\s)?)+)")
_RECORD = re.compile(r"\b([A-Z][A-Za-z]+Record)\b")


def texts() -> dict[str, str]:
    """The pages of the course, of the uses and beside them, and the texts of the labs."""
    docs = ROOT / "docs"
    files = [*(docs / "course").glob("*.md"), *(docs / "use-cases").glob("*.md")]
    files += [docs / name for name in ("cap.md", "data-centres.md", "glossary.md", "learn.md")]
    files += (ROOT / "kafkalite" / "learn" / "labs").glob("*/lab.md")
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in sorted(files)}


def named(text: str) -> Iterator[tuple[str, str]]:
    """The classes of Kafka that ``text`` names, each with a member, or with ``""``.

    A member follows its class: ```kafka.log.Log.append```, ```kafka.log.Log` (`append`)`` or
    ```kafka.log.Log`, `append```.
    """
    for found in _CLASS.finditer(text):
        name, member = found[1], found[2].removeprefix(".")
        yield name, member
        more = _MEMBERS.match(text, found.end())
        if more:
            for each in re.findall(r"`(\w+)`", more[1]):
                yield name, each
    for record in _RECORD.findall(text):
        yield f"{RECORDS}.{record}", ""


def named_in_texts() -> dict[str, set[str]]:
    """Class → members that the texts name."""
    found: dict[str, set[str]] = {}
    for text in texts().values():
        for name, member in named(text):
            found.setdefault(name, set()).update({member} - {""})
    return found
