"""FindCoordinator: which broker coordinates a group or a transactional id.

Answers to: ``KafkaApis.handleFindCoordinatorRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class
from kafkalite.zk.zk_client import ZkError

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_WITH_MANY_KEYS: Final = 4
_Place = tuple[ErrorCode, str | None, int, str, int]


async def handle(context: RequestContext, request: Any) -> Any:
    """Id, host and port on the listener that the client came by; each key is answered for itself."""
    kind = response_class(ApiKey.FIND_COORDINATOR)
    version = context.version
    key_type = request.key_type if version >= 1 else _GROUP
    if version < _FIRST_WITH_MANY_KEYS:
        return kind(version=version, **_fields(await _locate(context, key_type, request.key)))
    keys = list(request.coordinator_keys)
    places = await gather([_locate(context, key_type, key) for key in keys])
    return kind(
        version=version,
        coordinators=[
            kind.Coordinator(version=version, key=key, **_fields(place))
            for key, place in zip(keys, places, strict=True)
        ],
    )


async def _locate(context: RequestContext, key_type: int, key: str) -> _Place:
    services = context.services
    try:
        if key_type == _GROUP:
            broker_id = await services.groups.find(key)
        elif key_type == _TRANSACTION:
            broker_id = await services.transactions.find(key)
        else:
            return _nowhere(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type received: {key_type}")
    except ApiError as error:
        return _nowhere(error.code, error.message or None)
    except ZkError as error:
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"ZooKeeper did not answer: {error}")
    broker = services.metadata.broker(broker_id) if broker_id is not None else None
    endpoint = broker.endpoint(context.connection.listener) if broker is not None else None
    if broker is None or endpoint is None:
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return ErrorCode.NONE, None, broker.id, endpoint.host, endpoint.port


def _nowhere(error: ErrorCode, message: str | None) -> _Place:
    return error, message, -1, "", -1


def _fields(place: _Place) -> dict[str, Any]:
    error, message, node_id, host, port = place
    return {"error_code": error, "error_message": message, "node_id": node_id, "host": host, "port": port}
