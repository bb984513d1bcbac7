"""JoinGroup 0-9: become a member, and wait for the next generation.

- 1: rebalance timeout (KIP-62)
- 2: throttle time (KIP-124)
- 3: the client throttles itself (KIP-219)
- 4: a new member joins again with the id that it was given (KIP-394)
- 5: group.instance.id (KIP-345)
- 6: flexible (KIP-482)
- 7: protocol type in the answer (KIP-559)
- 8: reason (KIP-800)
- 9: the leader may skip the assignment (KIP-814)

Answers to: ``KafkaApis.handleJoinGroupRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.values import JoinRequest
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_THAT_TAKES_AN_ID_AND_COMES_BACK: Final = 4
_FIRST_WITH_PROTOCOL_TYPE: Final = 7
_FIRST_THAT_CAN_SKIP_ASSIGNMENT: Final = 9


@serves(ApiKey.JOIN_GROUP, 0, 9)
async def handle(context: RequestContext, request: messages.JoinGroupRequest) -> messages.JoinGroupResponse:
    """Versions that lack a field mean what Kafka takes them to mean."""
    version = context.version
    kind = messages.JoinGroupResponse
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return kind(
            version=version,
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            generation_id=-1,
            protocol_name="" if version < _FIRST_WITH_PROTOCOL_TYPE else None,
            leader="",
            member_id="",
            members=[],
        )
    has_timeout = version >= _FIRST_WITH_REBALANCE_TIMEOUT
    answer = await context.services.groups.join(
        JoinRequest(
            group=request.group_id,
            member_id=request.member_id,
            client_id=context.client_id or "",
            client_host=client_host(context.connection.peer),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
            instance_id=request.group_instance_id,
            require_known_member_id=version >= _FIRST_THAT_TAKES_AN_ID_AND_COMES_BACK,
            can_skip_assignment=version >= _FIRST_THAT_CAN_SKIP_ASSIGNMENT,
            reason=request.reason or "",
        )
    )
    protocol = answer.protocol
    if protocol is None and version < _FIRST_WITH_PROTOCOL_TYPE:
        protocol = ""
    return kind(
        version=version,
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            kind.JoinGroupResponseMember(
                version=version,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )


def client_host(peer: str) -> str:
    """Where a connection comes from as Kafka's tools show it: the address after a slash, without the port."""
    return f"/{peer.rpartition(':')[0] or peer}"
