"""SyncGroup 0-5: the leader's assignment of a generation, and each member's part of it.

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: group.instance.id (KIP-345)
- 4: flexible (KIP-482)
- 5: protocol type and name (KIP-559)

Answers to: ``KafkaApis.handleSyncGroupRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.values import SyncAnswer, SyncRequest
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_FIRST_WITH_PROTOCOL: Final = 5


@serves(ApiKey.SYNC_GROUP, 0, 5)
async def handle(context: RequestContext, request: messages.SyncGroupRequest) -> messages.SyncGroupResponse:
    """Answered when the assignment is durable."""
    version = context.version
    if version >= _FIRST_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        answer = SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        answer = SyncAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
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
    return messages.SyncGroupResponse(
        version=version,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
