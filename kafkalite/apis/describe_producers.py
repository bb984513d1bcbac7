"""DescribeProducers 0-0: producers of a partition, and which of them have a transaction open (KIP-664).

- 0: flexible (KIP-482)

Answers to: ``KafkaApis.handleDescribeProducersRequest`` and ``ReplicaManager.activeProducerState``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.cluster.model import is_valid_topic
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.log.producer_entry import ProducerEntry
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
def handle(context: RequestContext, request: messages.DescribeProducersRequest) -> messages.DescribeProducersResponse:
    """Any replica answers, of its own log."""
    kind = messages.DescribeProducersResponse
    names = [topic.name for topic in request.topics if is_valid_topic(topic.name)]
    readable = context.authorized(AclOperation.READ, AclResourceType.TOPIC, names)
    make_topic = kind.TopicResponse
    version = context.version
    return kind(
        version=version,
        topics=[
            make_topic(
                version=version,
                name=topic.name,
                partitions=[
                    _partition(context, TopicPartition(topic.name, index), topic.name in readable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ],
    )


def _partition(
    context: RequestContext, tp: TopicPartition, readable: bool
) -> messages.DescribeProducersResponse.TopicResponse.PartitionResponse:
    make = messages.DescribeProducersResponse.TopicResponse.PartitionResponse
    error, message = ErrorCode.NONE, None
    producers: Iterable[ProducerEntry] = ()
    if readable:
        try:
            producers = _producers(context, tp)
        except ApiError as refused:
            error = refused.code
    else:
        error, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
    return make(
        version=context.version,
        partition_index=tp.partition,
        error_code=error,
        error_message=message,
        active_producers=[
            make.ProducerState(
                version=context.version,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in producers
        ],
    )


def _producers(context: RequestContext, tp: TopicPartition) -> Iterable[ProducerEntry]:
    if context.services.metadata.state(tp) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = context.services.replicas.partitions.get(tp)
    if partition is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition.check_local()
    return partition.log.producer_state.entries.values()
