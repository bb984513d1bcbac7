"""ListGroups 0-5: the groups of one broker.

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: flexible (KIP-482)
- 4: filter by state (KIP-518)
- 5: filter by type (KIP-848)

Answers to: ``KafkaApis.handleListGroupsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.LIST_GROUPS, 0, 5)
async def handle(context: RequestContext, request: messages.ListGroupsRequest) -> messages.ListGroupsResponse:
    """Filtered by state (version 4 on) and type (version 5 on)."""
    version = context.version
    kind = messages.ListGroupsResponse
    found = await context.services.groups.admin.list_groups(request.states_filter or (), request.types_filter or ())
    if not context.may(AclOperation.DESCRIBE, log_denied=False):
        names = [group.group for group in found]
        visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.GROUP, names, log_denied=False)
        found = [group for group in found if group.group in visible]
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
