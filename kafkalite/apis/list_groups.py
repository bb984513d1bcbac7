"""ListGroups: the groups of one broker.

Answers to: ``KafkaApis.handleListGroupsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Filtered by state (version 4 on) and type (version 5 on)."""
    version = context.version
    kind = response_class(ApiKey.LIST_GROUPS)
    found = await context.services.groups.admin.list_groups(request.states_filter or (), request.types_filter or ())
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        groups=[
            kind.ListedGroup(
                version=version,
                group_id=group.group,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for group in found
        ],
    )
