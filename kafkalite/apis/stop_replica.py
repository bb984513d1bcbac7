"""StopReplica 0-4: the controller stops replicas of this broker, and deletes their logs.

- 1: the broker epoch (KIP-380); partitions by topic
- 2: flexible (KIP-482)
- 3: leader epoch and deletion of each partition (KIP-570)
- 4: whether the controller is one of KRaft (KIP-866)

Answers to: ``KafkaApis.handleStopReplicaRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.network.control_codec import read_stop_replica, stop_replica_response
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.STOP_REPLICA, 0, 4)
async def handle(context: RequestContext, request: messages.StopReplicaRequest) -> messages.StopReplicaResponse:
    """An error for each partition, or for the request where the fences refuse it."""
    context.authorize_cluster(AclOperation.CLUSTER_ACTION)
    control = context.services.control
    wanted = read_stop_replica(request, context.version)
    return stop_replica_response(wanted, await control.carry_out(wanted, context.connection), context.version)
