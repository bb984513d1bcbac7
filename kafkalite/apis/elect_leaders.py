"""ElectLeaders 0-2, by the controller: preferred (KIP-183), or unclean.

- 1: election type (KIP-460)
- 2: flexible (KIP-482)

Answers to: ``KafkaApis.handleElectLeaders``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


@serves(ApiKey.ELECT_LEADERS, 0, 2)
async def handle(context: RequestContext, request: messages.ElectLeadersRequest) -> messages.ElectLeadersResponse:
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
    if not context.may(AclOperation.ALTER):
        denied = dict.fromkeys(partitions or (), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""))
        return _answer(version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, partitions, denied)
    outcomes = await services.controller.elect_leaders("preferred" if election == _PREFERRED else "unclean", partitions)
    return _answer(version, ErrorCode.NONE, partitions, outcomes)


def _answer(
    version: int,
    error: ErrorCode,
    partitions: list[TopicPartition] | None,
    outcomes: Mapping[TopicPartition, tuple[ErrorCode, str]],
) -> messages.ElectLeadersResponse:
    kind = messages.ElectLeadersResponse
    make_topic = kind.ReplicaElectionResult
    topics = by_topic(
        (
            tp,
            make_topic.PartitionResult(
                version=version, partition_id=tp.partition, error_code=code, error_message=message or None
            ),
        )
        for tp, (code, message) in outcomes.items()
        if partitions is not None or code is not ErrorCode.ELECTION_NOT_NEEDED
    )
    return kind(
        version=version,
        error_code=error,
        replica_election_results=[
            make_topic(version=version, topic=topic, partition_result=results) for topic, results in topics.items()
        ],
    )
