"""DescribeCluster 0-1: brokers and controller (KIP-700).

- 0: flexible (KIP-482)
- 1: endpoint type (KIP-919)

Answers to: ``KafkaApis.handleDescribeCluster``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.metadata import cluster_operations
from kafkalite.apis.registry import serves
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@serves(ApiKey.DESCRIBE_CLUSTER, 0, 1)
def handle(context: RequestContext, request: messages.DescribeClusterRequest) -> messages.DescribeClusterResponse:
    """The live brokers that have the listener which the client came by."""
    kind = messages.DescribeClusterResponse
    version, services = context.version, context.services
    if version >= 1 and request.endpoint_type != _BROKERS:
        if request.endpoint_type == _CONTROLLERS:
            raise ApiError(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            )
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    brokers = []
    for broker in services.metadata.brokers.values():
        endpoint = broker.endpoint(context.connection.listener)
        if endpoint is not None:
            brokers.append(
                kind.DescribeClusterBroker(
                    version=version, broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    controller = services.metadata.controller_id
    response = kind(
        version=version,
        error_code=ErrorCode.NONE,
        error_message=None,
        cluster_id=services.cluster_id,
        controller_id=controller if services.metadata.alive(controller) else -1,
        brokers=brokers,
    )
    if version >= 1:
        response.endpoint_type = _BROKERS
    if request.include_cluster_authorized_operations:
        response.authorized_operations = cluster_operations(context)
    return response
