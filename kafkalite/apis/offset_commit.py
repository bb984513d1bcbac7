"""OffsetCommit: where a group goes on reading. Version 0 is taken by any broker, later ones by the coordinator.

Answers to: ``KafkaApis.handleOffsetCommitRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import OffsetCommitRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class
from kafkalite.zk.znodes.offsets import NO_EPOCH, NO_TIMESTAMP, OffsetAndMetadata

_RETENTION = range(2, 5)
_LEADER_EPOCH = 6
_INSTANCE = 7


async def handle(context: RequestContext, request: Any) -> Any:
    """Answered once the offsets are durable, with an error for each partition."""
    services = context.services
    offsets, errors = _offsets(context, request)
    if offsets and context.version == 0:
        # as Kafka 0.8.1 had it: the plain number in ZooKeeper, without any group behind it
        errors |= await services.offsets.commit(request.group_id, offsets, None)
    elif offsets:
        errors |= await services.groups.offsets.commit(
            OffsetCommitRequest(
                request.group_id,
                offsets,
                member_id=request.member_id,
                generation=request.generation_id_or_member_epoch,
                instance_id=request.group_instance_id if context.version >= _INSTANCE else None,
            )
        )
    return _answer(context.version, request, errors)


def _offsets(
    context: RequestContext, request: Any
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ErrorCode]]:
    """What is to be committed, and what cannot be."""
    version, metadata = context.version, context.services.metadata
    expire = NO_TIMESTAMP
    if version in _RETENTION and request.retention_time_ms >= 0:
        expire = context.services.clock.time_ms() + request.retention_time_ms
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if metadata.state(tp) is None:
                errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            offsets[tp] = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch if version >= _LEADER_EPOCH else NO_EPOCH,
                partition.committed_metadata or "",
                partition.commit_timestamp if version == 1 else NO_TIMESTAMP,
                expire,
            )
    return offsets, errors


def _answer(version: int, request: Any, errors: dict[TopicPartition, ErrorCode]) -> Any:
    kind = response_class(ApiKey.OFFSET_COMMIT)
    make_topic = kind.OffsetCommitResponseTopic
    make = make_topic.OffsetCommitResponsePartition
    topics = [
        make_topic(
            version=version,
            name=topic.name,
            partitions=[
                make(
                    version=version,
                    partition_index=partition.partition_index,
                    error_code=errors[TopicPartition(topic.name, partition.partition_index)],
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return kind(version=version, throttle_time_ms=0, topics=topics)
