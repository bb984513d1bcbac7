"""WriteTxnMarkers 0-1: the coordinator tells the leaders how transactions ended (KIP-98); they append markers.

- 1: flexible (KIP-482)

Answers to: ``KafkaApis.handleWriteTxnMarkersRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.record.records import encode_marker
from kafkalite.replication.results import ProduceResult


@serves(ApiKey.WRITE_TXN_MARKERS, 0, 1)
async def handle(context: RequestContext, request: messages.WriteTxnMarkersRequest) -> messages.WriteTxnMarkersResponse:
    """Answered once every replica that counts has every marker, or time is up.

    A marker of an older coordinator, or of an older epoch of the producer, is refused by the log.
    """
    services = context.services
    if not context.may(AclOperation.ALTER, log_denied=False):
        context.authorize_cluster(AclOperation.CLUSTER_ACTION)
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
        timeout_ms = services.api_config.request_timeout_ms
        services.replicas.append_records(timeout_ms, -1, entries, done.callback, from_client=False)
        results = await done
    return _answer(context.version, request, results)


def _answer(
    version: int, request: messages.WriteTxnMarkersRequest, results: list[ProduceResult]
) -> messages.WriteTxnMarkersResponse:
    kind = messages.WriteTxnMarkersResponse
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
