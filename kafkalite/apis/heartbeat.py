"""Heartbeat: a member lives.

Answers to: ``KafkaApis.handleHeartbeatRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.coordinator.group.values import HeartbeatRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """REBALANCE_IN_PROGRESS is how a member learns that it is to join again."""
    error = await context.services.groups.heartbeat(
        HeartbeatRequest(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
    )
    return response_class(ApiKey.HEARTBEAT)(version=context.version, error_code=error)
