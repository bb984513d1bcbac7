"""WriteTxnMarkers: the coordinator tells the leaders how transactions ended, and they write it into their logs.

Answers to: ``KafkaApis.handleWriteTxnMarkersRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class
from kafkalite.record.control import encode_marker
from kafkalite.replication.results import ProduceResult


async def handle(context: RequestContext, request: Any) -> Any:
    """Answered once every replica that counts has every marker, or time is up.

    A marker of an older coordinator, or of an older epoch of the producer, is refused by the log.
    """
    services = context.services
    now_ms = services.clock.time_ms()
    entries: list[tuple[TopicPartition, memoryview]] = []
    for marker in request.markers:
        data = encode_marker(
            marker.producer_id,
            marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        entries += [
            # Bytes of its own for each: the leader fills in offset and epoch where they stand.
            (TopicPartition(topic.name, partition), memoryview(bytearray(data)))
            for topic in marker.topics
            for partition in topic.partition_indexes
        ]
    results: list[ProduceResult] = []
    if entries:
        done: Future[list[ProduceResult]] = Future()
        timeout_ms = services.config["request.timeout.ms"]
        services.replicas.append_records(timeout_ms, -1, entries, done.callback, from_client=False)
        results = await done
    return _answer(context.version, request, results)


def _answer(version: int, request: Any, results: list[ProduceResult]) -> Any:
    kind = response_class(ApiKey.WRITE_TXN_MARKERS)
    make_marker = kind.WritableTxnMarkerResult
    make_topic = make_marker.WritableTxnMarkerTopicResult
    make_partition = make_topic.WritableTxnMarkerPartitionResult
    rest = iter(results)
    return kind(
        version=version,
        markers=[
            make_marker(
                version=version,
                producer_id=marker.producer_id,
                topics=[
                    make_topic(
                        version=version,
                        name=topic.name,
                        partitions=[
                            make_partition(version=version, partition_index=partition, error_code=next(rest).error)
                            for partition in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ],
    )
