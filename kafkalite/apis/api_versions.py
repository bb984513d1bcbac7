"""ApiVersions: what this broker serves, and who the client is (KIP-511).

Answers to: ``KafkaApis.handleApiVersionsRequest``. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import SERVED
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import encode_response, response_class

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: Any) -> bytes:
    """The same bytes for everybody, encoded once a version."""
    if context.version >= 3:
        name, software_version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(software_version)):
            raise ApiError(ErrorCode.INVALID_REQUEST, "client_software_name or client_software_version is not a name")
        context.connection.software_name = name
        context.connection.software_version = software_version
    return _encoded(context.version)


@lru_cache(maxsize=8)
def _encoded(version: int) -> bytes:
    return encode_response(ApiKey.API_VERSIONS, version, _response(version, ErrorCode.NONE, list(SERVED)))


@lru_cache(maxsize=1)
def unsupported_version_answer() -> bytes:
    """Version 0, which every client reads, with UNSUPPORTED_VERSION and the versions of ApiVersions itself."""
    response = _response(0, ErrorCode.UNSUPPORTED_VERSION, [ApiKey.API_VERSIONS])
    return encode_response(ApiKey.API_VERSIONS, 0, response)


def _response(version: int, error: ErrorCode, keys: list[ApiKey]) -> Any:
    kind = response_class(ApiKey.API_VERSIONS)
    entries = [
        kind.ApiVersion(version=version, api_key=int(key), min_version=SERVED[key].min, max_version=SERVED[key].max)
        for key in keys
    ]
    return kind(version=version, error_code=error, api_keys=entries)
