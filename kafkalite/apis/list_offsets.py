"""ListOffsets: where a log begins, ends, or has a timestamp.

Answers to: ``KafkaApis.handleListOffsetRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class
from kafkalite.replication.results import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    OffsetResult,
)

DEBUGGING_REPLICA: Final = -2
"""Replica id of a tool that asks any replica, not only the leader."""
_SPECIAL_FROM: Final = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""The negative timestamps that mean something, and the first version in which they do."""
_NEVER: Final = 1 << 15


async def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each partition; one that is asked for twice gets INVALID_REQUEST."""
    kind = response_class(ApiKey.LIST_OFFSETS)
    make_topic = kind.ListOffsetsTopicResponse
    make = make_topic.ListOffsetsPartitionResponse
    version = context.version
    asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if version == 0:
                partitions.append(_oldest(context, request, tp, partition, make))
                continue
            if asked[tp] > 1:
                result = OffsetResult(ErrorCode.INVALID_REQUEST)
            else:
                result = await _find(context, request, tp, partition)
            answer = make(version=version, partition_index=tp.partition, error_code=result.error)
            answer.timestamp, answer.offset = result.timestamp, result.offset
            answer.leader_epoch = result.leader_epoch
            partitions.append(answer)
        topics.append(make_topic(version=version, name=topic.name, partitions=partitions))
    return kind(version=version, topics=topics)


def _oldest(context: RequestContext, request: Any, tp: TopicPartition, partition: Any, make: Any) -> Any:
    """Version 0: up to so many offsets at which segments start; ``KafkaApis.handleListOffsetRequestV0``."""
    error, offsets = ErrorCode.NONE, []
    try:
        if context.services.metadata.state(tp) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        offsets = context.services.offset_queries.offsets_before(
            tp,
            partition.timestamp,
            partition.max_num_offsets,
            request.replica_id < 0 and request.replica_id != DEBUGGING_REPLICA,
            request.replica_id == DEBUGGING_REPLICA,
        )
    except ApiError as refused:
        error = refused.code
    return make(version=0, partition_index=tp.partition, error_code=error, old_style_offsets=offsets)


async def _find(context: RequestContext, request: Any, tp: TopicPartition, partition: Any) -> OffsetResult:
    version, timestamp = context.version, partition.timestamp
    if timestamp < 0 and version < _SPECIAL_FROM.get(timestamp, _NEVER):
        return OffsetResult(ErrorCode.UNSUPPORTED_VERSION)
    if context.services.metadata.state(tp) is None:
        return OffsetResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    isolation = None if request.replica_id >= 0 else request.isolation_level if version >= 2 else READ_UNCOMMITTED
    try:
        result = context.services.offset_queries.list_offset(
            tp,
            timestamp,
            isolation,
            partition.current_leader_epoch if version >= 4 else -1,
            request.replica_id == DEBUGGING_REPLICA,
        )
    except ApiError as error:
        return OffsetResult(error.code)
    return result
