"""Heartbeat 0-4: a member tells the coordinator that it is alive.

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: group.instance.id (KIP-345)
- 4: flexible (KIP-482)

Answers to: ``KafkaApis.handleHeartbeatRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.coordinator.group.values import HeartbeatRequest
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.HEARTBEAT, 0, 4)
async def handle(context: RequestContext, request: messages.HeartbeatRequest) -> messages.HeartbeatResponse:
    """REBALANCE_IN_PROGRESS is how a member learns that it is to join again."""
    context.check_authorized(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    error = await context.services.groups.heartbeat(
        HeartbeatRequest(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
    )
    return messages.HeartbeatResponse(version=context.version, error_code=error)
