"""SyncGroup: the leader's assignment of a generation, and each member's part of it.

Answers to: ``KafkaApis.handleSyncGroupRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.values import SyncAnswer, SyncRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_FIRST_WITH_PROTOCOL: Final = 5


async def handle(context: RequestContext, request: Any) -> Any:
    """Answered when the assignment is durable."""
    version = context.version
    if version >= _FIRST_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        answer = SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    else:
        answer = await context.services.groups.sync(
            SyncRequest(
                group=request.group_id,
                member_id=request.member_id,
                generation=request.generation_id,
                assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
                instance_id=request.group_instance_id,
                protocol_type=request.protocol_type if version >= _FIRST_WITH_PROTOCOL else None,
                protocol=request.protocol_name if version >= _FIRST_WITH_PROTOCOL else None,
            )
        )
    return response_class(ApiKey.SYNC_GROUP)(
        version=version,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
