"""LeaveGroup: members go, or are removed.

Answers to: ``KafkaApis.handleLeaveGroupRequest`` and ``org.apache.kafka.common.requests.LeaveGroupResponse``.
Reactor shell.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.values import LeavingMember
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_FIRST_WITH_MANY_MEMBERS: Final = 3


async def handle(context: RequestContext, request: Any) -> Any:
    """From version 3 on many may leave, each with an answer of its own."""
    version = context.version
    kind = response_class(ApiKey.LEAVE_GROUP)
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
