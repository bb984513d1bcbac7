"""DescribeProducers: who writes to a partition, and which of its transactions hold the last stable offset back.

Answers to: ``KafkaApis.handleDescribeProducersRequest`` and ``ReplicaManager.activeProducerState``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.log.producer_entry import ProducerEntry
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


def handle(context: RequestContext, request: Any) -> Any:
    """Any replica answers, of its own log."""
    kind = response_class(ApiKey.DESCRIBE_PRODUCERS)
    make_topic = kind.TopicResponse
    version = context.version
    return kind(
        version=version,
        topics=[
            make_topic(
                version=version,
                name=topic.name,
                partitions=[
                    _partition(context, make_topic.PartitionResponse, TopicPartition(topic.name, index))
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ],
    )


def _partition(context: RequestContext, make: Any, tp: TopicPartition) -> Any:
    error, producers = ErrorCode.NONE, []
    try:
        producers = _producers(context, make.ProducerState, tp)
    except ApiError as refused:
        error = refused.code
    return make(
        version=context.version,
        partition_index=tp.partition,
        error_code=error,
        error_message=None,
        active_producers=producers,
    )


def _producers(context: RequestContext, make: Any, tp: TopicPartition) -> list[Any]:
    if context.services.metadata.state(tp) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = context.services.replicas.partitions.get(tp)
    if partition is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition.check_local()
    log: Any = partition.log
    entries: Iterable[ProducerEntry] = log.producer_state.entries.values()
    return [
        make(
            version=context.version,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for entry in entries
    ]
