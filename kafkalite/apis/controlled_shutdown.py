"""ControlledShutdown 0-3: a broker that is about to stop asks the controller to move its leaderships away.

- 1: a header with a client id
- 2: the broker epoch (KIP-380)
- 3: flexible (KIP-482)

Answers to: ``KafkaApis.handleControlledShutdownRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.cluster.control import ControlledShutdownRequest
from kafkalite.common.acls import AclOperation
from kafkalite.network.control_codec import controlled_shutdown_response
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.CONTROLLED_SHUTDOWN, 0, 3)
async def handle(
    context: RequestContext, request: messages.ControlledShutdownRequest
) -> messages.ControlledShutdownResponse:
    """The partitions that the broker still leads."""
    context.authorize_cluster(AclOperation.CLUSTER_ACTION)
    wanted = ControlledShutdownRequest(request.broker_id, request.broker_epoch)
    answer = await context.services.control.carry_out(wanted, context.connection)
    return controlled_shutdown_response(answer, context.version)
