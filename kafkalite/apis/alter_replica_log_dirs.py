"""AlterReplicaLogDirs: replicas moved between the log directories of this broker.

Answers to: ``KafkaApis.handleAlterReplicaLogDirsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each partition, once its move has begun."""
    kind = response_class(ApiKey.ALTER_REPLICA_LOG_DIRS)
    make_topic = kind.AlterReplicaLogDirTopicResult
    version = context.version
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    outcomes = await context.services.replicas.alter_log_dirs(wanted)
    topics: dict[str, list[Any]] = {}
    for tp, error in outcomes.items():
        topics.setdefault(tp.topic, []).append(
            make_topic.AlterReplicaLogDirPartitionResult(
                version=version, partition_index=tp.partition, error_code=error
            )
        )
    return kind(
        version=version,
        throttle_time_ms=0,
        results=[
            make_topic(version=version, topic_name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )
