"""DescribeLogDirs: replicas and sizes by directory.

Answers to: ``KafkaApis.handleDescribeLogDirsRequest``. Pure.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


def handle(context: RequestContext, request: Any) -> Any:
    """Every log directory, with the replicas asked for (all of them where none are named)."""
    kind = response_class(ApiKey.DESCRIBE_LOG_DIRS)
    make_topic = kind.DescribeLogDirsResult.DescribeLogDirsTopic
    version = context.version
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions]
    results = []
    for described in context.services.offset_queries.describe_log_dirs(wanted):
        topics: dict[str, list[Any]] = {}
        for replica in described.replicas:
            topics.setdefault(replica.topic_partition.topic, []).append(
                make_topic.DescribeLogDirsPartition(
                    version=version,
                    partition_index=replica.topic_partition.partition,
                    partition_size=replica.size,
                    offset_lag=replica.offset_lag,
                    is_future_key=replica.is_future,
                )
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
