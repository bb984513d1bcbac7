"""AlterReplicaLogDirs 0-2: replicas move between the log directories of this broker (KIP-113).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)

Answers to: ``KafkaApis.handleAlterReplicaLogDirsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2)
async def handle(
    context: RequestContext, request: messages.AlterReplicaLogDirsRequest
) -> messages.AlterReplicaLogDirsResponse:
    """One answer for each partition, once its move has begun."""
    kind = messages.AlterReplicaLogDirsResponse
    make_topic = kind.AlterReplicaLogDirTopicResult
    version = context.version
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    if context.may(AclOperation.ALTER):
        outcomes = await context.services.replicas.alter_log_dirs(wanted)
    else:
        outcomes = dict.fromkeys(wanted, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = by_topic(
        (
            tp,
            make_topic.AlterReplicaLogDirPartitionResult(
                version=version, partition_index=tp.partition, error_code=error
            ),
        )
        for tp, error in outcomes.items()
    )
    return kind(
        version=version,
        throttle_time_ms=0,
        results=[
            make_topic(version=version, topic_name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )
