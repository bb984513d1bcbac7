"""OffsetCommit 0-9: the offsets from which a group reads on. Any broker takes version 0, the coordinator later ones.

- 1: member, generation and commit timestamp
- 2: retention time instead of the commit timestamp
- 3: throttle time (KIP-124)
- 4: the client throttles itself (KIP-219)
- 5: no retention time (KIP-211)
- 6: leader epoch (KIP-320)
- 7: group.instance.id (KIP-345)
- 8: flexible (KIP-482)
- 9: the new group protocol (KIP-848), which is not served here

Answers to: ``KafkaApis.handleOffsetCommitRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import OffsetCommitRequest
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.znodes.offsets import NO_EPOCH, NO_TIMESTAMP, OffsetAndMetadata

_RETENTION = range(2, 5)
_LEADER_EPOCH = 6
_INSTANCE = 7


@serves(ApiKey.OFFSET_COMMIT, 0, 9)
async def handle(context: RequestContext, request: messages.OffsetCommitRequest) -> messages.OffsetCommitResponse:
    """Answered once the offsets are durable, with an error for each partition."""
    services = context.services
    context.check_authorized(AclOperation.READ, AclResourceType.GROUP, request.group_id)
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
    context: RequestContext, request: messages.OffsetCommitRequest
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ErrorCode]]:
    """What is to be committed, and what cannot be."""
    version, metadata = context.version, context.services.metadata
    expire = NO_TIMESTAMP
    if version in _RETENTION and request.retention_time_ms >= 0:
        expire = context.services.clock.time_ms() + request.retention_time_ms
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    readable = context.authorized(AclOperation.READ, AclResourceType.TOPIC, [topic.name for topic in request.topics])
    for topic in request.topics:
        is_readable = topic.name in readable
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if not is_readable:
                errors[tp] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
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


def _answer(
    version: int, request: messages.OffsetCommitRequest, errors: dict[TopicPartition, ErrorCode]
) -> messages.OffsetCommitResponse:
    kind = messages.OffsetCommitResponse
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
