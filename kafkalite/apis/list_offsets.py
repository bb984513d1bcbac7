"""ListOffsets 0-9: where a log begins, ends, or has a timestamp.

- 1: one offset with its timestamp (KIP-79)
- 2: isolation level (KIP-98), throttle time (KIP-124)
- 3: the client throttles itself (KIP-219)
- 4: current leader epoch (KIP-320)
- 5: OFFSET_NOT_AVAILABLE (KIP-207)
- 6: flexible (KIP-482)
- 7: offset of the largest timestamp (KIP-734)
- 8: earliest local offset (KIP-405)
- 9: latest tiered offset (KIP-1005)

Answers to: ``KafkaApis.handleListOffsetRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
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


@serves(ApiKey.LIST_OFFSETS, 0, 9)
async def handle(context: RequestContext, request: messages.ListOffsetsRequest) -> messages.ListOffsetsResponse:
    """One answer for each partition; one that is asked for twice gets INVALID_REQUEST."""
    kind = messages.ListOffsetsResponse
    make_topic = kind.ListOffsetsTopicResponse
    make = make_topic.ListOffsetsPartitionResponse
    version = context.version
    asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, [topic.name for topic in request.topics])
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if topic.name not in visible:
                partitions.append(
                    make(
                        version=version,
                        partition_index=tp.partition,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    )
                )
                continue
            if version == 0:
                partitions.append(_oldest(context, request.replica_id, tp, partition))
                continue
            if asked[tp] > 1:
                result = OffsetResult(ErrorCode.INVALID_REQUEST)
            else:
                result = _find(context, request, tp, partition)
            answer = make(version=version, partition_index=tp.partition, error_code=result.error)
            answer.timestamp, answer.offset = result.timestamp, result.offset
            answer.leader_epoch = result.leader_epoch
            partitions.append(answer)
        topics.append(make_topic(version=version, name=topic.name, partitions=partitions))
    return kind(version=version, topics=topics)


def _oldest(
    context: RequestContext,
    replica_id: int,
    tp: TopicPartition,
    partition: messages.ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
) -> messages.ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse:
    """Version 0: up to so many offsets at which segments start; ``KafkaApis.handleListOffsetRequestV0``."""
    error, offsets = ErrorCode.NONE, []
    try:
        if context.services.metadata.state(tp) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        offsets = context.services.offset_queries.offsets_before(
            tp,
            partition.timestamp,
            partition.max_num_offsets,
            replica_id < 0 and replica_id != DEBUGGING_REPLICA,
            replica_id == DEBUGGING_REPLICA,
        )
    except ApiError as refused:
        error = refused.code
    return messages.ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
        version=0, partition_index=tp.partition, error_code=error, old_style_offsets=offsets
    )


def _find(
    context: RequestContext,
    request: messages.ListOffsetsRequest,
    tp: TopicPartition,
    partition: messages.ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
) -> OffsetResult:
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
