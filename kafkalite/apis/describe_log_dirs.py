"""DescribeLogDirs 0-4: replicas and sizes by directory (KIP-113).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)
- 3: an error of the whole (KIP-784)
- 4: size of the directory (KIP-827)

Answers to: ``KafkaApis.handleDescribeLogDirsRequest``. Pure.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.DESCRIBE_LOG_DIRS, 0, 4)
def handle(context: RequestContext, request: messages.DescribeLogDirsRequest) -> messages.DescribeLogDirsResponse:
    """Every log directory, with the replicas asked for (all of them where none are named)."""
    kind = messages.DescribeLogDirsResponse
    make_topic = kind.DescribeLogDirsResult.DescribeLogDirsTopic
    version = context.version
    if not context.may(AclOperation.DESCRIBE):
        return kind(version=version, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions]
    results = []
    for described in context.services.offset_queries.describe_log_dirs(wanted):
        topics = by_topic(
            (
                replica.topic_partition,
                make_topic.DescribeLogDirsPartition(
                    version=version,
                    partition_index=replica.topic_partition.partition,
                    partition_size=replica.size,
                    offset_lag=replica.offset_lag,
                    is_future_key=replica.is_future,
                ),
            )
            for replica in described.replicas
        )
        results.append(
            kind.DescribeLogDirsResult(
                version=version,
                error_code=described.error,
                log_dir=described.log_dir,
                topics=[
                    make_topic(version=version, name=name, partitions=partitions) for name, partitions in topics.items()
                ],
                total_bytes=described.total_bytes,
                usable_bytes=described.usable_bytes,
            )
        )
    return kind(version=version, error_code=ErrorCode.NONE, results=results)
