"""LeaveGroup 0-5: members leave a group, or are removed.

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: many members, group.instance.id (KIP-345)
- 4: flexible (KIP-482)
- 5: reason (KIP-800)

Answers to: ``KafkaApis.handleLeaveGroupRequest`` and ``org.apache.kafka.common.requests.LeaveGroupResponse``.
Reactor shell.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.values import LeavingMember
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_FIRST_WITH_MANY_MEMBERS: Final = 3


@serves(ApiKey.LEAVE_GROUP, 0, 5)
async def handle(context: RequestContext, request: messages.LeaveGroupRequest) -> messages.LeaveGroupResponse:
    """From version 3 on many may leave, each with an answer of its own."""
    version = context.version
    kind = messages.LeaveGroupResponse
    context.check_authorized(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if version < _FIRST_WITH_MANY_MEMBERS:
        answer = await context.services.groups.leave(request.group_id, [LeavingMember(request.member_id)])
        error = answer.error
        if error is ErrorCode.NONE:
            error = answer.members[0][1]
        return kind(version=version, error_code=error)
    answer = await context.services.groups.leave(
        request.group_id,
        [LeavingMember(each.member_id, each.group_instance_id, each.reason or "") for each in request.members],
    )
    return kind(
        version=version,
        error_code=answer.error,
        members=[
            kind.MemberResponse(
                version=version,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=error,
            )
            for member, error in answer.members
        ],
    )
