"""AddPartitionsToTxn 0-5: a producer names partitions of its transaction, or a leader verifies them (KIP-98).

- 1: the client throttles itself (KIP-219)
- 2: PRODUCER_FENCED (KIP-588)
- 3: flexible (KIP-482)
- 4: brokers verify; many transactions (KIP-890)
- 5: TRANSACTION_ABORTABLE (KIP-890)

Answers to: ``KafkaApis.handleAddPartitionsToTxnRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.apis.transaction_errors import error_for_version
from kafkalite.cluster.model import INTERNAL_TOPICS
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_BATCHED_FROM: Final = 4
_ABORTABLE_FROM: Final = 5
_Errors = dict[TopicPartition, ErrorCode]


@serves(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5)
async def handle(
    context: RequestContext, request: messages.AddPartitionsToTxnRequest
) -> messages.AddPartitionsToTxnResponse:
    """One transaction up to version 3; several from version 4 on, each to be added to or only to be verified."""
    kind = messages.AddPartitionsToTxnResponse
    version = context.version
    if version < _BATCHED_FROM:
        errors = _denied(context, request) or await _one(
            context,
            request.v3_and_below_transactional_id,
            ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            request.v3_and_below_topics,
            verify_only=False,
        )
        results = _by_topic(version, request.v3_and_below_topics, errors)
        return kind(version=version, results_by_topic_v3_and_below=results)
    # Only brokers send these versions.
    context.authorize_cluster(AclOperation.CLUSTER_ACTION)
    transactions = request.transactions
    outcomes = await gather(
        _one(
            context,
            each.transactional_id,
            ProducerIdAndEpoch(each.producer_id, each.producer_epoch),
            each.topics,
            verify_only=each.verify_only,
        )
        for each in transactions
    )
    make = kind.AddPartitionsToTxnResult
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        results_by_transaction=[
            make(
                version=version,
                transactional_id=each.transactional_id,
                topic_results=_by_topic(version, each.topics, errors),
            )
            for each, errors in zip(transactions, outcomes, strict=True)
        ],
    )


def _denied(context: RequestContext, request: messages.AddPartitionsToTxnRequest) -> _Errors:
    """The error of each partition where the client may not do all that it asks for; empty if it may."""
    if context.services.authorizer is None:
        return {}
    partitions = [
        TopicPartition(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions
    ]
    name = request.v3_and_below_transactional_id
    if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = [tp.topic for tp in partitions if tp.topic not in INTERNAL_TOPICS]
    writable = context.authorized(AclOperation.WRITE, AclResourceType.TOPIC, topics)
    if all(tp.topic in writable for tp in partitions):
        return {}
    known = context.services.metadata
    return {
        tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if tp.topic not in writable
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known.state(tp) is None
        else ErrorCode.OPERATION_NOT_ATTEMPTED
        for tp in partitions
    }


async def _one(
    context: RequestContext,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    topics: list[messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic],
    *,
    verify_only: bool,
) -> _Errors:
    partitions = [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]
    coordinator, metadata = context.services.transactions, context.services.metadata
    unknown = {tp for tp in partitions if metadata.state(tp) is None}
    if unknown:
        # All or nothing: a transaction that knew only some of its partitions would be no use to the producer.
        return {
            tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if tp in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED
            for tp in partitions
        }
    try:
        if not verify_only:
            await coordinator.add_partitions(transactional_id, producer, partitions)
            return dict.fromkeys(partitions, ErrorCode.NONE)
        verified = await coordinator.verify_partitions(transactional_id, producer, partitions)
    except ApiError as error:
        return dict.fromkeys(partitions, error_for_version(error, context.version).code)
    if context.version < _ABORTABLE_FROM:
        verified = {
            tp: ErrorCode.INVALID_TXN_STATE if error is ErrorCode.TRANSACTION_ABORTABLE else error
            for tp, error in verified.items()
        }
    return verified


def _by_topic(
    version: int, topics: list[messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic], errors: _Errors
) -> list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    kind = messages.AddPartitionsToTxnResponse
    if version < _BATCHED_FROM:
        make = kind.AddPartitionsToTxnTopicResult
    else:
        make = kind.AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult
    make_partition = make.AddPartitionsToTxnPartitionResult
    return [
        make(
            version=version,
            name=topic.name,
            results_by_partition=[
                make_partition(
                    version=version,
                    partition_index=partition,
                    partition_error_code=errors[TopicPartition(topic.name, partition)],
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
