"""DeleteRecords 0-2: logs begin at a later offset (KIP-107).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)

Answers to: ``KafkaApis.handleDeleteRecordsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kafkalite.replication.results import DeleteRecordsResult


@serves(ApiKey.DELETE_RECORDS, 0, 2)
async def handle(context: RequestContext, request: messages.DeleteRecordsRequest) -> messages.DeleteRecordsResponse:
    """One answer for each partition, once all live replicas have moved or time is up."""
    kind = messages.DeleteRecordsResponse
    make_topic = kind.DeleteRecordsTopicResult
    version, services = context.version, context.services
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    deletable = context.authorized(AclOperation.DELETE, AclResourceType.TOPIC, [topic.name for topic in request.topics])
    known = {
        tp: offset
        for tp, offset in offsets.items()
        if tp.topic in deletable and services.metadata.state(tp) is not None
    }
    results: dict[TopicPartition, DeleteRecordsResult] = {}
    if known:
        done: Future[dict[TopicPartition, DeleteRecordsResult]] = Future()
        services.offset_queries.delete_records(request.timeout_ms, known, done.callback)
        results = await done
    topics = []
    for topic in request.topics:
        absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name not in deletable:
            absent = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = []
        for partition in topic.partitions:
            result = results.get(TopicPartition(topic.name, partition.partition_index))
            partitions.append(
                make_topic.DeleteRecordsPartitionResult(
                    version=version,
                    partition_index=partition.partition_index,
                    low_watermark=-1 if result is None else result.low_watermark,
                    error_code=absent if result is None else result.error,
                )
            )
        topics.append(make_topic(version=version, name=topic.name, partitions=partitions))
    return kind(version=version, topics=topics)
