"""DescribeClientQuotas 0-1: quotas of users, clients and addresses that match a filter (KIP-546).

- 1: flexible (KIP-482)

Answers to: ``KafkaApis.handleDescribeClientQuotasRequest`` and ``ZkAdminManager.describeClientQuotas``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from kafkalite.apis.context import RequestContext
from kafkalite.apis.quota_entities import CLIENT_ID, IP, TYPES, USER, entity_at, keys_of
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.znodes.config import CLIENTS, IPS, USERS


class MatchType(IntEnum):
    """Which names of a type match."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@serves(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1)
async def handle(
    context: RequestContext, request: messages.DescribeClientQuotasRequest
) -> messages.DescribeClientQuotasResponse:
    """The entities that have quotas and match every component; a strict filter wants no other type in an entity."""
    if not context.may(AclOperation.DESCRIBE_CONFIGS):
        return _answer(context, None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        components = _components(request)
    except ApiError as error:
        return _answer(context, None, error.code, error.message)
    wants_ip, wants_client = IP in components, USER in components or CLIENT_ID in components
    kinds = (IPS,) if wants_ip else (USERS, CLIENTS) if wants_client else (USERS, CLIENTS, IPS)
    entries = []
    for kind in kinds:
        for name, overrides in (await context.services.config_store.entities(kind)).items():
            entity = entity_at(kind, name)
            quotas = {key: float(text) for key, text in overrides.items() if key in keys_of(kind) and _is_number(text)}
            if quotas and _matches(components, request.strict, entity):
                entries.append(_entry(context.version, entity, quotas))
    return _answer(context, entries, ErrorCode.NONE, "")


def _answer(
    context: RequestContext,
    entries: list[messages.DescribeClientQuotasResponse.EntryData] | None,
    code: ErrorCode,
    message: str | None = None,
) -> messages.DescribeClientQuotasResponse:
    """An answer with an error has no entries; one without has an empty message, as in Kafka."""
    return messages.DescribeClientQuotasResponse(
        version=context.version, throttle_time_ms=0, error_code=code, error_message=message, entries=entries
    )


def _components(
    request: messages.DescribeClientQuotasRequest,
) -> dict[str, messages.DescribeClientQuotasRequest.ComponentData]:
    components: dict[str, messages.DescribeClientQuotasRequest.ComponentData] = {}
    for component in request.components:
        entity_type = component.entity_type
        if entity_type == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if entity_type not in TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type}' not supported")
        if entity_type in components:
            noun = "client" if entity_type == CLIENT_ID else entity_type
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate {noun} filter component entity type")
        if component.match_type not in MatchType._value2member_map_:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected match type: {component.match_type}")
        components[entity_type] = component
    if IP in components and len(components) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return components


def _matches(
    components: Mapping[str, messages.DescribeClientQuotasRequest.ComponentData],
    strict: bool,
    entity: Mapping[str, str | None],
) -> bool:
    if strict and set(entity) - set(components):
        return False
    for entity_type, component in components.items():
        if entity_type not in entity:
            return False
        name = entity[entity_type]
        if component.match_type == MatchType.EXACT and name != component.match:
            return False
        if component.match_type == MatchType.DEFAULT and name is not None:
            return False
    return True


def _entry(
    version: int, entity: Mapping[str, str | None], quotas: Mapping[str, float]
) -> messages.DescribeClientQuotasResponse.EntryData:
    kind = messages.DescribeClientQuotasResponse.EntryData
    return kind(
        version=version,
        entity=[
            kind.EntityData(version=version, entity_type=entity_type, entity_name=name)
            for entity_type, name in entity.items()
        ],
        values=[kind.ValueData(version=version, key=key, value=value) for key, value in quotas.items()],
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
