"""DescribeCluster: brokers and controller.

Answers to: ``KafkaApis.handleDescribeCluster``. Pure.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.metadata import CLUSTER_OPERATIONS
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(context: RequestContext, request: Any) -> Any:
    """The live brokers that have the listener which the client came by."""
    kind = response_class(ApiKey.DESCRIBE_CLUSTER)
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
        response.authorized_operations = set(CLUSTER_OPERATIONS)
    return response
