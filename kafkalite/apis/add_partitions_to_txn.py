"""AddPartitionsToTxn: a producer says where its transaction will write, or a leader asks whether it did.

Answers to: ``KafkaApis.handleAddPartitionsToTxnRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.transaction_errors import as_told
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_BATCHED_FROM: Final = 4
_ABORTABLE_FROM: Final = 5
_Errors = dict[TopicPartition, ErrorCode]


async def handle(context: RequestContext, request: Any) -> Any:
    """One transaction up to version 3; several from version 4 on, each to be added to or only to be verified."""
    kind = response_class(ApiKey.ADD_PARTITIONS_TO_TXN)
    version = context.version
    if version < _BATCHED_FROM:
        errors = await _one(
            context,
            request.v3_and_below_transactional_id,
            ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            request.v3_and_below_topics,
            verify_only=False,
        )
        results = _by_topic(kind, version, request.v3_and_below_topics, errors)
        return kind(version=version, results_by_topic_v3_and_below=results)
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
                topic_results=_by_topic(kind, version, each.topics, errors),
            )
            for each, errors in zip(transactions, outcomes, strict=True)
        ],
    )


async def _one(
    context: RequestContext, transactional_id: str, producer: ProducerIdAndEpoch, topics: Any, *, verify_only: bool
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
        return dict.fromkeys(partitions, as_told(error, context.version).code)
    if context.version < _ABORTABLE_FROM:
        verified = {
            tp: ErrorCode.INVALID_TXN_STATE if error is ErrorCode.TRANSACTION_ABORTABLE else error
            for tp, error in verified.items()
        }
    return verified


def _by_topic(kind: Any, version: int, topics: Any, errors: _Errors) -> list[Any]:
    make = kind.AddPartitionsToTxnTopicResult if version < _BATCHED_FROM else None
    make = make or kind.AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult
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
