"""UpdateFeatures 0-1 (KIP-584): no feature of this cluster has versions, so each update is refused for its own reason.

- 0: flexible (KIP-482)
- 1: validate only, upgrade type (KIP-778)

Answers to: ``kafka.controller.KafkaController.updateFeatures``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_UPGRADE_TYPE_FROM: Final = 1


@serves(ApiKey.UPDATE_FEATURES, 0, 1)
def handle(context: RequestContext, request: messages.UpdateFeaturesRequest) -> messages.UpdateFeaturesResponse:
    """An error for each feature. Raises :class:`ApiError` NOT_CONTROLLER on every broker but the controller."""
    services, version = context.services, context.version
    if not context.may(AclOperation.ALTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    if not services.controller.is_active:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
    kind = messages.UpdateFeaturesResponse
    errors = {update.feature: _refusal(version, update) for update in request.feature_updates}
    return kind(
        version=version,
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            kind.UpdatableFeatureResult(
                version=version, feature=feature, error_code=ErrorCode.INVALID_REQUEST, error_message=message
            )
            for feature, message in errors.items()
        ],
    )


def _refusal(version: int, update: messages.UpdateFeaturesRequest.FeatureUpdateKey) -> str:
    if version >= _UPGRADE_TYPE_FROM:
        upgrade_type = update.upgrade_type
    else:
        upgrade_type = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    level = update.max_version_level
    if not update.feature:
        return "Feature name can not be empty."
    if upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if upgrade_type != _UPGRADE:
        return "Can not delete non-existing finalized feature."
    return f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
