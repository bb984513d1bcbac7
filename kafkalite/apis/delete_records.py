"""DeleteRecords: the beginning of logs moved up.

Answers to: ``KafkaApis.handleDeleteRecordsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

if TYPE_CHECKING:
    from kafkalite.replication.results import DeleteRecordsResult


async def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each partition, once all live replicas have moved or time is up."""
    kind = response_class(ApiKey.DELETE_RECORDS)
    make_topic = kind.DeleteRecordsTopicResult
    version, services = context.version, context.services
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    known = {tp: offset for tp, offset in offsets.items() if services.metadata.state(tp) is not None}
    results: dict[TopicPartition, DeleteRecordsResult] = {}
    if known:
        done: Future[dict[TopicPartition, DeleteRecordsResult]] = Future()
        services.offset_queries.delete_records(request.timeout_ms, known, done.callback)
        results = await done
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            result = results.get(TopicPartition(topic.name, partition.partition_index))
            partitions.append(
                make_topic.DeleteRecordsPartitionResult(
                    version=version,
                    partition_index=partition.partition_index,
                    low_watermark=-1 if result is None else result.low_watermark,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if result is None else result.error,
                )
            )
        topics.append(make_topic(version=version, name=topic.name, partitions=partitions))
    return kind(version=version, topics=topics)
