"""DeleteGroups 0-2: groups without members, and the offsets that they have committed (KIP-229).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)

Answers to: ``KafkaApis.handleDeleteGroupsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.DELETE_GROUPS, 0, 2)
async def handle(context: RequestContext, request: messages.DeleteGroupsRequest) -> messages.DeleteGroupsResponse:
    """Each group is answered for itself."""
    version = context.version
    kind = messages.DeleteGroupsResponse
    deletable = context.authorized(AclOperation.DELETE, AclResourceType.GROUP, dict.fromkeys(request.groups_names))
    wanted = [group for group in request.groups_names if group in deletable]
    outcome = dict(await context.services.groups.admin.delete(wanted))
    denied = [group for group in request.groups_names if group not in deletable]
    outcome.update(dict.fromkeys(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return kind(
        version=version,
        results=[
            kind.DeletableGroupResult(version=version, group_id=group, error_code=error)
            for group, error in outcome.items()
        ],
    )
