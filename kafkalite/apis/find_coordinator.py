"""FindCoordinator 0-6: which broker coordinates a group or a transactional id.

- 1: key type (KIP-98), throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: flexible (KIP-482)
- 4: many keys (KIP-699)
- 5: TRANSACTION_ABORTABLE (KIP-890)
- 6: share groups (KIP-932), which are not served here

Answers to: ``KafkaApis.handleFindCoordinatorRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Final, TypedDict

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.zk_client import ZkError

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_WITH_MANY_KEYS: Final = 4
_Place = tuple[ErrorCode, str | None, int, str, int]


class _Fields(TypedDict):
    """The fields that the answer to one key has in all versions."""

    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int


@serves(ApiKey.FIND_COORDINATOR, 0, 6)
async def handle(context: RequestContext, request: messages.FindCoordinatorRequest) -> messages.FindCoordinatorResponse:
    """Id, host and port on the listener that the client came by; each key is answered for itself."""
    kind = messages.FindCoordinatorResponse
    version = context.version
    key_type = request.key_type if version >= 1 else _GROUP
    if version < _FIRST_WITH_MANY_KEYS:
        return kind(version=version, **_fields(await _locate(context, key_type, request.key)))
    keys = list(request.coordinator_keys)
    places = await gather([_locate(context, key_type, key) for key in keys])
    return kind(
        version=version,
        coordinators=[
            kind.Coordinator(version=version, key=key, **_fields(_as_one_of_many(place)))
            for key, place in zip(keys, places, strict=True)
        ],
    )


async def _locate(context: RequestContext, key_type: int, key: str) -> _Place:
    services = context.services
    try:
        if key_type == _GROUP:
            if not context.authorize(AclOperation.DESCRIBE, AclResourceType.GROUP, key):
                return _nowhere(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
            broker_id = await services.groups.find(key)
        elif key_type == _TRANSACTION:
            if not context.authorize(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, key):
                return _nowhere(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "Transactional Id authorization failed.",
                )
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


def _as_one_of_many(place: _Place) -> _Place:
    """``place`` as the versions with many keys have it: Kafka tells of a refusal without a message."""
    denied = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return (place[0], "", *place[2:]) if place[0] in denied else place


def _fields(place: _Place) -> _Fields:
    error, message, node_id, host, port = place
    return {"error_code": error, "error_message": message, "node_id": node_id, "host": host, "port": port}
