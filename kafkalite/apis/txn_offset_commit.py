"""TxnOffsetCommit 0-4: offsets that take effect if and when the transaction does (KIP-98).

- 1: the client throttles itself (KIP-219)
- 2: leader epoch (KIP-320)
- 3: member, generation, group.instance.id (KIP-447); flexible (KIP-482)
- 4: TRANSACTION_ABORTABLE (KIP-890)

Answers to: ``KafkaApis.handleTxnOffsetCommitRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import TxnOffsetCommitRequest
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer

_LOADING_FROM: Final = 2
_EPOCH_FROM: Final = 2
_MEMBER_FROM: Final = 3


@serves(ApiKey.TXN_OFFSET_COMMIT, 0, 4)
async def handle(context: RequestContext, request: messages.TxnOffsetCommitRequest) -> messages.TxnOffsetCommitResponse:
    """Answered once the offsets are durable, although they are invisible before the commit."""
    version, metadata = context.version, context.services.metadata
    context.check_authorized(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.check_authorized(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    readable = context.authorized(AclOperation.READ, AclResourceType.TOPIC, [topic.name for topic in request.topics])
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if topic.name not in readable:
                errors[tp] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            if metadata.state(tp) is None:
                errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            leader_epoch = partition.committed_leader_epoch if version >= _EPOCH_FROM else -1
            offsets[tp] = OffsetAndMetadata(
                partition.committed_offset, leader_epoch, partition.committed_metadata or ""
            )
    if offsets:
        errors.update(await context.services.groups.offsets.txn_commit(_request(version, request, offsets)))
    return _answer(version, request, errors)


def _request(
    version: int, request: messages.TxnOffsetCommitRequest, offsets: dict[TopicPartition, OffsetAndMetadata]
) -> TxnOffsetCommitRequest:
    producer = TxnProducer(request.transactional_id, request.producer_id, request.producer_epoch)
    if version < _MEMBER_FROM:
        return TxnOffsetCommitRequest(request.group_id, producer, offsets)
    return TxnOffsetCommitRequest(
        request.group_id,
        producer,
        offsets,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )


def _answer(
    version: int, request: messages.TxnOffsetCommitRequest, errors: dict[TopicPartition, ErrorCode]
) -> messages.TxnOffsetCommitResponse:
    kind = messages.TxnOffsetCommitResponse
    make_topic = kind.TxnOffsetCommitResponseTopic
    make = make_topic.TxnOffsetCommitResponsePartition

    def error_of(tp: TopicPartition) -> ErrorCode:
        error = errors[tp]
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
            # Clients of that time do not know it here.
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    return kind(
        version=version,
        topics=[
            make_topic(
                version=version,
                name=topic.name,
                partitions=[
                    make(
                        version=version,
                        partition_index=partition.partition_index,
                        error_code=error_of(TopicPartition(topic.name, partition.partition_index)),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
