"""ElectLeaders, by the controller: preferred, or unclean (KIP-460).

Answers to: ``KafkaApis.handleElectLeaders``. Reactor shell.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


async def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each partition; where all were asked for, those that need no election are left out."""
    version, services = context.version, context.services
    election = request.election_type if version >= 1 else _PREFERRED
    if election not in (_PREFERRED, _UNCLEAN):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election}")
    partitions = None
    if request.topic_partitions is not None:
        partitions = [
            TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
        ]
    outcomes = await services.controller.elect_leaders("preferred" if election == _PREFERRED else "unclean", partitions)
    kind = response_class(ApiKey.ELECT_LEADERS)
    make_topic = kind.ReplicaElectionResult
    topics: dict[str, list[Any]] = {}
    for tp, (code, message) in outcomes.items():
        if partitions is None and code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        topics.setdefault(tp.topic, []).append(
            make_topic.PartitionResult(
                version=version, partition_id=tp.partition, error_code=code, error_message=message or None
            )
        )
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        replica_election_results=[
            make_topic(version=version, topic=topic, partition_result=results) for topic, results in topics.items()
        ],
    )
